// The files that pages are written to while a session is recorded: raw/trace.dat has the head of
// trace.dat, and a region with the pages of each CPU (merge/source/trace_dat/unfinished.h). If the
// file system cannot close holes, or if a region is full, pages go to raw/cpuN.
//
// Guarantees: written bytes are not moved; the bytes of a CPU are in order and without holes; after
// a failed write, the CPU's file contains only whole pages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "merge/record/page_sink.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::record {

class PageFiles final : public PageSink {
 public:
  // Makes the files in the session's raw/, with the head of trace.dat, and writes start.json:
  // `facts` with the size of the head and the regions. `largest_region` is in bytes, for tests; by
  // default a region is as large as the file system allows. The session must outlive this object.
  [[nodiscard]] static Result<PageFiles> open(const Folder& session, std::string_view head,
                                              trace_dat::StartFacts facts,
                                              std::uint64_t largest_region = ~std::uint64_t{0});

  [[nodiscard]] const trace_dat::Regions& regions() const { return regions_; }
  [[nodiscard]] std::size_t page_size() const { return page_size_; }

  // The place for a CPU's next bytes: a file, an offset, and how many bytes fit there.
  struct Place {
    int fd = -1;
    std::uint64_t offset = 0, room = 0;
  };
  [[nodiscard]] Result<Place> place(unsigned cpu);
  void wrote(unsigned cpu, std::uint64_t bytes) { cpus_[cpu].written += bytes; }
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override;
  // Counts bytes that could not be written, and removes what was written of an unfinished page.
  void not_written(unsigned cpu, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t written(unsigned cpu) const { return cpus_[cpu].written; }
  [[nodiscard]] std::uint64_t written() const;            // by all CPUs
  [[nodiscard]] std::string path_of(unsigned cpu) const;  // of the file that is being written

  [[nodiscard]] std::vector<std::uint64_t> sizes() const;  // bytes written, by CPU
  [[nodiscard]] std::vector<int> files() const;            // files with data
  // Return a CPU's bytes that could not be written, and those that keep_only() removed.
  [[nodiscard]] std::uint64_t unwritten(unsigned cpu) const { return cpus_[cpu].unwritten; }
  [[nodiscard]] std::uint64_t dropped(unsigned cpu) const { return cpus_[cpu].dropped; }
  // Removes a CPU's bytes beyond `size` and beyond its last whole page. Returns how many.
  std::uint64_t cut(unsigned cpu, std::uint64_t size = ~std::uint64_t{0});
  // Removes each CPU's bytes beyond `durable`, the sizes by CPU that are on the disk. Returns how
  // many bytes it removed.
  std::uint64_t keep_only(const std::vector<std::uint64_t>& durable);
  void close();

 private:
  struct Cpu {
    std::uint64_t written = 0, unwritten = 0, dropped = 0;
    UniqueFd file;  // raw/cpuN, once it is needed
  };
  PageFiles(const Folder* session, UniqueFd stream, std::size_t page_size)
      : session_(session), stream_(std::move(stream)), page_size_(page_size) {}

  const Folder* session_;
  UniqueFd stream_;
  std::size_t page_size_;
  trace_dat::Regions regions_;
  std::vector<Cpu> cpus_;
};

}  // namespace trapline::record
