// What the page reader does not know goes through libtracecmd, in a worker: it pushes records where
// a source is pulled, and it crashes on damaged files. The worker gets the open file and sends
// records; its crash is an error of this source.
#pragma once

#include <vector>

#include "backend_ftrace/base/worker.h"
#include "merge/source/trace_dat/trace_dat_source.h"

namespace trapline::trace_dat {

class FallbackSource final : public TraceDatSource {
 public:
  [[nodiscard]] static Result<std::unique_ptr<TraceDatSource>> open(TraceFile recording);

  [[nodiscard]] Read next(Event& event) override;
  // A worker does not tell: 0 until the end.
  [[nodiscard]] double progress() const override { return ended_ ? 1 : 0; }
  [[nodiscard]] std::string reader() const override { return "libtracecmd, slower"; }

 private:
  FallbackSource(TraceFile recording, Capabilities capabilities, Worker worker)
      : TraceDatSource(std::move(recording), capabilities), worker_(std::move(worker)) {}
  bool read_next();
  bool fail_with(Error error);

  struct Pending {
    std::uint64_t time = 0;
    std::int64_t missed = 0;
    std::uint32_t cpu = 0;
    std::uint32_t stream = 0;
    std::string_view data;  // in message_
  };

  Worker worker_;
  Worker::Message message_;
  MessageReader rows_{{}};  // what is left of message_
  Pending pending_;
  bool has_pending_ = false;
  bool ended_ = false;
  std::vector<std::uint64_t> last_time_;  // by stream
};

}  // namespace trapline::trace_dat
