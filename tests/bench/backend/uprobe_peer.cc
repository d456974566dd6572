#include "tests/bench/backend/uprobe_peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "backend_ftrace/base/unique_fd.h"

#if defined(__x86_64__)
// The probe is the function's first instruction: the arguments are still in their registers.
asm(R"(
  .text
  .globl trapline_probe_1, trapline_probe_5
trapline_probe_1:
  nop
  ret
trapline_probe_5:
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
  ret
)");
#else
extern "C" void trapline_probe_1(std::uint64_t, std::uint32_t, std::uint32_t) {}
extern "C" void trapline_probe_5(std::uint64_t, std::uint32_t, std::uint32_t) {}
#endif

namespace trapline::bench {
namespace {

// Where the address is in this program's file.
std::uint64_t file_offset(std::uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, offset = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 &&
        address >= begin && address < end)
      return address - begin + offset;
  }
  return 0;
}

// Appended, never truncated: that would remove everybody's probes.
bool command(const std::string& line) {
  const UniqueFd file(::open("/sys/kernel/tracing/uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC));
  return file && ::write(file.get(), line.data(), line.size()) == std::ssize(line);
}

}  // namespace

Uprobe::Uprobe(const test::Instance& instance,
               void (*function)(std::uint64_t, std::uint32_t, std::uint32_t))
    : instance_(instance), name_(fmt::format("trapline_bench_{}/probe", ::getpid())) {
#if defined(__x86_64__)
  char path[4096] = {};
  if (::readlink("/proc/self/exe", path, sizeof path - 1) <= 0) return;
  std::uint64_t address = 0;
  std::memcpy(&address, &function, sizeof address);
  on_ = command(fmt::format("p:{} {}:{:#x} addr=%di:x64 value=%si:x32 size=%dx:u32\n", name_, path,
                            file_offset(address))) &&
        instance.set("events/" + name_ + "/enable", "1");
#else
  (void)function;
#endif
}

Uprobe::~Uprobe() {
  instance_.set("events/" + name_ + "/enable", "0");
  (void)command("-:" + name_ + "\n");
}

}  // namespace trapline::bench
