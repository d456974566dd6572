// The files that pages are written to while a session is recorded: raw/trace.dat with the head of
// trace.dat, and the pages of each CPU in a region of it (merge/source/trace_dat/unfinished.h);
// where the file system cannot close holes, or a region is full, raw/cpuN.
//
// Guarantees: what was written stays where it is; the bytes of a CPU are in order, without a hole;
// after a write that failed nothing more of that CPU is there than whole pages.
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
  // Makes them in the session's raw/, with the head of trace.dat, and writes start.json: `facts`,
  // with the bytes of the head and the regions. Regions of at most so many bytes, for tests: else
  // as large as the file system allows. The session outlives the files.
  [[nodiscard]] static Result<PageFiles> open(const Folder& session, std::string_view head,
                                              trace_dat::StartFacts facts,
                                              std::uint64_t largest_region = ~std::uint64_t{0});

  [[nodiscard]] const trace_dat::Regions& regions() const { return regions_; }
  [[nodiscard]] std::size_t cpus() const { return cpus_.size(); }
  [[nodiscard]] std::size_t page_size() const { return page_size_; }

  // Where a CPU's next bytes go, and how many of them.
  struct Place {
    int fd = -1;
    std::uint64_t offset = 0, room = 0;
  };
  [[nodiscard]] Result<Place> place(unsigned cpu);
  void wrote(unsigned cpu, std::uint64_t bytes) { cpus_[cpu].written += bytes; }
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override;
  // So many bytes that were to be written are not.
  void not_written(unsigned cpu, std::uint64_t bytes);
  // Bytes of a CPU that were written; false where there are fewer.
  [[nodiscard]] bool read(unsigned cpu, std::uint64_t from, std::span<std::byte> into) const;
  [[nodiscard]] std::uint64_t written(unsigned cpu) const { return cpus_[cpu].written; }
  [[nodiscard]] std::uint64_t written() const;            // by all
  [[nodiscard]] std::string path_of(unsigned cpu) const;  // of the file that is written now

  [[nodiscard]] std::vector<std::uint64_t> sizes() const;  // written, of each CPU
  [[nodiscard]] std::vector<int> files() const;            // that data was written to
  // Bytes of a CPU that could not be written, and those that keep_only() took away.
  [[nodiscard]] std::uint64_t unwritten(unsigned cpu) const { return cpus_[cpu].unwritten; }
  [[nodiscard]] std::uint64_t dropped(unsigned cpu) const { return cpus_[cpu].dropped; }
  // Takes away what a CPU has beyond this, and beyond its last whole page; how much that was.
  std::uint64_t cut(unsigned cpu, std::uint64_t size = ~std::uint64_t{0});
  // Takes away what is beyond these sizes, which are on the disk; bytes.
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
