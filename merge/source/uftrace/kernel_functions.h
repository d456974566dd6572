// kernel-cpu<N>.dat of a uftrace data directory (uftrace record -k): the kernel's function graph.
//
// Each file is one CPU's ftrace ring buffer, page after page as the kernel gave them (RingPage).
// kernel_header says what is in them, in text:
//     PAGE_SIZE: 4096
//     LONG_SIZE: 8
//     ENDIAN: LE
//     TRACEFS: events/ftrace/funcgraph_entry/format: 446       446 bytes of that file follow
// Of the events funcgraph_entry and funcgraph_exit are read (fields common_pid, func, depth),
// others are passed over. Times are of the directory's clock, uftrace sets it. Nothing of it is
// trusted: a page that cannot be true ends its file and counts as damaged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "merge/model/loss_counts.h"
#include "merge/source/file.h"
#include "merge/source/trace_dat/ring_page.h"

namespace trapline {

struct KernelCall {
  std::uint64_t time = 0;
  std::uint32_t tid = 0;
  std::int32_t cpu = 0;
  std::uint32_t depth = 0;  // of the kernel's functions, from 0
  std::uint64_t function = 0;
  bool entry = false;
};

// Where the fields lie in an event's record.
struct KernelFormat {
  struct Event {
    std::uint16_t id = 0;
    std::uint32_t func = 0, depth = 0;
  };
  std::uint32_t page_size = 4096, long_size = 8;
  std::uint32_t pid = 4;
  Event entry, exit;
  // Nothing where it describes no function graph of a little-endian machine.
  [[nodiscard]] static std::optional<KernelFormat> parse(std::string_view header);
};

class KernelCallReader {
 public:
  // The files of the directory, in the order of their names; none without kernel_header.
  [[nodiscard]] static Result<std::vector<KernelCallReader>> open_all(const std::string& directory);

  [[nodiscard]] Result<std::optional<KernelCall>> next();
  [[nodiscard]] bool damaged() const { return damaged_; }
  // Events that the kernel lost since this was asked last; and gaps of which it gave no number.
  [[nodiscard]] LossCounts take_losses();
  [[nodiscard]] std::uint64_t size() const { return file_.size(); }

 private:
  KernelCallReader(File file, std::int32_t cpu, KernelFormat format)
      : file_(std::move(file)), cpu_(cpu), format_(format), buffer_(format.page_size) {}
  [[nodiscard]] std::optional<KernelCall> decode(const kernel_events::RecordedEvent& event) const;

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
