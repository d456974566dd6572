// What the page reader does not know goes through libtracecmd, in a child process: it pushes
// records where a source is pulled, and it crashes on damaged files. The child writes records into
// a pipe; its crash is an error of this source.
#pragma once

#include <vector>

#include "backend_ftrace/base/child.h"
#include "merge/source/trace_dat/trace_dat_source.h"

namespace trapline::trace_dat {

class FallbackSource final : public TraceDatSource {
 public:
  [[nodiscard]] static Result<std::unique_ptr<TraceDatSource>> open(TraceFile recording);

  [[nodiscard]] Read next(Event& event) override;
  // A pipe does not tell: 0 until the end.
  [[nodiscard]] double progress() const override { return ended_ ? 1 : 0; }
  [[nodiscard]] std::string reader() const override { return "libtracecmd, slower"; }

 private:
  FallbackSource(TraceFile recording, Capabilities capabilities, Child child)
      : TraceDatSource(std::move(recording), capabilities), child_(std::move(child)) {}
  bool read_next();
  bool fill(std::byte* into, std::size_t size);
  void finish();

  struct Pending {
    std::uint64_t time = 0;
    std::int64_t missed = 0;
    std::uint32_t cpu = 0;
    std::uint32_t stream = 0;
    std::vector<std::byte> data;
  };

  Child child_;  // writes the records
  std::vector<std::byte> buffer_;
  std::size_t buffer_at_ = 0;
  Pending pending_;
  bool has_pending_ = false;
  bool ended_ = false;
  std::vector<std::uint64_t> last_time_;  // by stream
};

}  // namespace trapline::trace_dat
