// What `trapline top` looks at, opened and moved on: an instance, an open session, a recording.
#pragma once

#include <memory>
#include <vector>

#include "merge/live/engine.h"
#include "merge/live/live_source.h"
#include "merge/live/top.h"

namespace trapline::live {

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
