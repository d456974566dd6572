// Reads kernel-cpu<N>.dat of a uftrace data directory (uftrace record -k): the kernel's function
// graph.
//
// Each file is one CPU's ftrace ring buffer, page after page as the kernel gave them (RingPage).
// kernel_header says what is in them, in text:
//     PAGE_SIZE: 4096
//     LONG_SIZE: 8
//     ENDIAN: LE
//     TRACEFS: events/ftrace/funcgraph_entry/format: 446       446 bytes of that file follow
// Only the events funcgraph_entry and funcgraph_exit are read (fields common_pid, func, depth).
// Times are on the directory's clock, to which uftrace sets ftrace's. The files are not trusted: a
// page that cannot be true counts as a loss.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "merge/model/loss_counts.h"
#include "merge/source/file.h"
#include "merge/source/kernel_events/formats.h"
#include "merge/source/trace_dat/ring_page.h"

namespace trapline {

// A call or a return of a kernel's function, or a switch of a task, from a file of one CPU. Times
// are on the directory's clock.
struct CpuItem {
  std::uint64_t time = 0;
  std::uint32_t tid = 0;
  std::int32_t cpu = 0;  // from the file's name
  bool entry = false;    // a call; of a switch: the task leaves its CPU
  bool is_switch = false, preempted = false;
  std::uint32_t depth = 0;  // among the kernel's functions, from 0
  std::uint64_t function = 0;
};

// Returns the non-empty files of the directory whose names are `before`, a CPU's number and ".dat"
// (perf-cpu12.dat), in the order of their names, each with its CPU.
[[nodiscard]] Result<std::vector<std::pair<File, std::int32_t>>> open_cpu_files(
    const std::string& directory, std::string_view before);

// Reads the switches of one perf-cpuN.dat. A copy shares the open file and goes on from the same
// switch.
//
// Records are as in perf_event_open(2): u32 type, u16 misc, u16 size, then the fields. Only SWITCH
// (type 14, 24 bytes: u32 pid, u32 tid, u64 time; misc 0x2000 out, 0x4000 pre-empted) is read.
// Reading ends at bytes that are not a record, which count as damaged.
class SwitchReader {
 public:
  // Opens the perf-cpuN.dat files of the directory that are not empty, in the order of their names.
  [[nodiscard]] static Result<std::vector<SwitchReader>> open_all(const std::string& directory);

  [[nodiscard]] Result<std::optional<CpuItem>> next();
  // Returns whether the file ended in bytes that are not a record.
  [[nodiscard]] bool damaged() const { return damaged_; }
  [[nodiscard]] static LossCounts take_losses() { return {}; }
  [[nodiscard]] std::uint64_t size() const { return file_.size(); }

 private:
  SwitchReader(File file, std::int32_t cpu) : file_(std::move(file)), cpu_(cpu) {}
  // Returns the `size` bytes at at_; nullptr if the file ends before.
  [[nodiscard]] Result<const std::byte*> peek(std::size_t size);

  File file_;
  std::int32_t cpu_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_start_ = 0, at_ = 0, last_ = 0;
  bool damaged_ = false;
};

// Returns the CPU that each task ran on before its first switch. Tasks whose first switch puts them
// on a CPU are left out.
[[nodiscard]] Result<std::map<std::uint32_t, std::int32_t>> first_cpus(
    std::vector<SwitchReader> readers);

struct KernelFormat {
  std::uint32_t page_size = 4096, long_size = 8;
  std::shared_ptr<const kernel_events::Formats> formats;  // of funcgraph_entry and funcgraph_exit
  // Parses the text of kernel_header, the file `path`; nullopt without a function graph of a
  // little-endian machine. Error: there is no worker.
  [[nodiscard]] static Result<std::optional<KernelFormat>> parse(const std::string& path,
                                                                 std::string_view header);
};

class KernelCallReader {
 public:
  // Opens the files of the directory in the order of their names; returns none without
  // kernel_header.
  [[nodiscard]] static Result<std::vector<KernelCallReader>> open_all(const std::string& directory);

  [[nodiscard]] Result<std::optional<CpuItem>> next();
  [[nodiscard]] bool damaged() const { return damaged_; }
  // Returns the events that the kernel lost since the last call, and the gaps for which it gave no
  // number.
  [[nodiscard]] LossCounts take_losses();
  [[nodiscard]] std::uint64_t size() const { return file_.size(); }

 private:
  KernelCallReader(File file, std::int32_t cpu, KernelFormat format)
      : file_(std::move(file)), cpu_(cpu), format_(std::move(format)), buffer_(format_.page_size) {}
  [[nodiscard]] std::optional<CpuItem> decode(const kernel_events::RecordedEvent& recorded) const;

  File file_;
  std::int32_t cpu_;
  KernelFormat format_;
  std::vector<std::byte> buffer_;
  trace_dat::RingPage page_;
  bool in_page_ = false;
  std::uint64_t next_page_ = 0, last_ = 0;
  bool damaged_ = false;
  LossCounts losses_;
};

}  // namespace trapline
