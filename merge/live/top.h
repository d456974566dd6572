// trapline top: what the virtual machines of this host are doing now.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/saturated_sum.h"
#include "merge/live/engine.h"
#include "merge/live/frame_report.h"
#include "merge/record/recorder.h"

namespace trapline::live {

// Detects that no VM exit comes: reports once when two intervals have passed without one.
class NoExitNotice {
 public:
  // The shortest wait: a frame of a growing session is seen up to 2.5 s after it ends.
  static constexpr std::uint64_t kShortest = 2'600'000'000;  // ns

  NoExitNotice(std::uint64_t interval_ns, std::uint64_t now)
      : wait_ns_(std::max(saturated_sum(interval_ns, interval_ns), kShortest)), since_(now) {}

  // Returns true if the frame has the first exits after is_due() reported that none came.
  bool add(const Frame& frame, std::uint64_t now) {
    const bool exits = !frame.cells.empty() || std::ranges::any_of(frame.vcpus, [](auto& vcpu) {
      return vcpu.totals.exits != 0;
    });
    if (!exits) return false;
    since_ = now;
    return std::exchange(waits_, false);
  }
  // Returns true once, when no exit has come for long enough.
  [[nodiscard]] bool is_due(std::uint64_t now) {
    if (told_ || now - since_ < wait_ns_) return false;
    return told_ = waits_ = true;
  }

 private:
  std::uint64_t wait_ns_, since_;
  bool told_ = false, waits_ = false;
};

struct TopOptions {
  // Without a path: an ftrace instance, our own or `instance`. A session that is being written is
  // read as it grows; any other recording is shown as if it came now.
  InputOptions input;
  std::string instance;
  record::RecordOptions record;  // what our own instance records
  EngineOptions engine;
  bool to_batch = false;
  bool colours = true;      // on the screen, if it supports them
  std::string prometheus;   // path of the file; empty: none
  std::string listen;       // address that serves /metrics; empty: none
  std::uint64_t count = 0;  // number of intervals of --batch and --prometheus; 0: until the end
  std::uint64_t save_ns = 60'000'000'000;  // length of the last part that the screen's key w saves
  std::size_t ring_bytes = 8u << 20;
  // Prints a line for the user.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// Runs top until the user or a signal ends it, or nothing more comes. Leaves nothing in tracefs.
[[nodiscard]] Result<void> run_top(const TopOptions& options);

}  // namespace trapline::live
