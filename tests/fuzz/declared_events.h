// Declarations for targets that read recordings of QEMU's events: every type that an argument may
// have, and the events that requests and devices are known by.
#pragma once

#include <string>
#include <string_view>

#include "backend_ftrace/tracetool/declarations.h"

namespace trapline::fuzz {

inline constexpr std::string_view kDeclarations =
    "memory_region_ops_read(int cpu_index, void *mr, uint64_t addr, uint64_t value, unsigned size, "
    "const char *name) \"cpu %d mr %p addr 0x%\"PRIx64\" value 0x%\"PRIx64\" size %u name '%s'\"\n"
    "memory_region_ops_write(int cpu_index, void *mr, uint64_t addr, uint64_t value, unsigned "
    "size, const char *name) \"cpu %d mr %p addr 0x%\"PRIx64\" value 0x%\"PRIx64\" size %u name "
    "'%s'\"\n"
    "virtio_blk_handle_read(void *vdev, void *req, uint64_t sector, size_t nsectors) \"vdev %p req "
    "%p sector %\"PRIu64\" nsectors %zu\"\n"
    "virtio_blk_req_complete(void *vdev, void *req, int status) \"vdev %p req %p status %d\"\n"
    "virtio_queue_notify(void *vdev, int n, void *vq) \"vdev %p n %d vq %p\"\n"
    "virtio_notify(void *vdev, void *vq) \"vdev %p vq %p\"\n"
    "numbers(char a, short b, long c, uint8_t d, int64_t e, bool f) \"%c %hd %ld %02x%02x %d\"\n"
    "texts(const char *a, const char *b, int w) \"%s,%-8s|%*d\"\n"
    "nothing(void) \"\"\n";

[[nodiscard]] inline const tracetool::Declarations* declared_events() {
  static const tracetool::Declarations declared{std::string(kDeclarations)};
  return &declared;
}

}  // namespace trapline::fuzz
