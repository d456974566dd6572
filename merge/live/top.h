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
#include "merge/live/batch.h"
#include "merge/live/engine.h"
#include "merge/live/frame.h"
#include "merge/live/live_source.h"
#include "merge/record/recorder.h"

namespace trapline::live {

// Notices that no VM exit comes: once, when two intervals have gone by without one.
class NoExitNotice {
 public:
  // A frame is seen later than it ends: of a growing session by up to 2.5 s.
  static constexpr std::uint64_t kShortest = 2'600'000'000;  // ns

  NoExitNotice(std::uint64_t interval_ns, std::uint64_t now)
      : wait_ns_(std::max(saturated_sum(interval_ns, interval_ns), kShortest)), since_(now) {}

  // True where the frame has the first exits since is_due() told that none came.
  bool add(const Frame& frame, std::uint64_t now) {
    const bool exits = !frame.cells.empty() ||
                       std::ranges::any_of(
                           frame.vcpus, [](const VcpuUse& vcpu) { return vcpu.totals.exits != 0; });
    if (!exits) return false;
    since_ = now;
    return std::exchange(waits_, false);
  }
  // True once.
  [[nodiscard]] bool is_due(std::uint64_t now) {
    if (told_ || now - since_ < wait_ns_) return false;
    return told_ = waits_ = true;
  }

 private:
  std::uint64_t wait_ns_, since_;
  bool told_ = false, waits_ = false;
};

struct TopOptions {
  // No path: an ftrace instance, our own or `instance`. A session that is being written is read as
  // it grows; anything else is a recording that is shown as if it came now.
  InputOptions input;
  std::string instance;
  record::RecordOptions record;  // what an instance of our own records
  EngineOptions engine;
  BatchOptions batch;  // and what the screen begins with
  bool to_batch = false;
  bool colours = true;      // on the screen, where it has some
  std::string prometheus;   // the file, or empty: none
  std::string listen;       // where /metrics is served, or empty: nowhere
  std::uint64_t count = 0;  // intervals of --batch and --prometheus; 0: until it ends
  std::uint64_t save_ns = 60'000'000'000;  // of the last that the screen's w saves
  std::size_t ring_bytes = 8u << 20;
  // A line for the user.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// Until the user or a signal ends it, or there is nothing more. Nothing of it stays in tracefs.
[[nodiscard]] Result<void> run_top(const TopOptions& options);

// What `trapline top` looks at, opened and moved on: an instance, an open session, a recording.
class Watch {
 public:
  // Borrows the options.
  [[nodiscard]] static Result<std::unique_ptr<Watch>> open(const TopOptions& options,
                                                           Engine::OnFrame on_frame);

  // Takes what is there; of a recording, what lies before `until`. True: there may be more at once.
  [[nodiscard]] Result<bool> step(Timestamp until);
  // Nothing comes any more; the last frame was handed out.
  [[nodiscard]] bool has_ended() const { return ended_; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  // Nothing for a recording.
  [[nodiscard]] LiveSource* live() { return live_; }
  // Descriptors to wait for, beside a tick.
  [[nodiscard]] std::vector<int> polled() const;

 private:
  Watch() = default;
  void learn();
  std::unique_ptr<Engine> engine_;
  LiveSource* live_ = nullptr;  // the engine's
  bool ended_ = false;
};

}  // namespace trapline::live
