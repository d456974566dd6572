// trapline top: what the virtual machines of this host are doing now.
#pragma once

#include <functional>
#include <string>

#include "merge/live/batch.h"
#include "merge/record/recorder.h"

namespace trapline::live {

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
  std::uint64_t count = 0;  // intervals of --batch and --prometheus; 0: until it ends
  std::uint64_t save_ns = 60'000'000'000;  // of the last that the screen's w saves
  std::size_t ring_bytes = 8u << 20;
  // A line for the user.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// Until the user or a signal ends it, or there is nothing more. Nothing of it stays in tracefs.
[[nodiscard]] Result<void> run_top(const TopOptions& options);

}  // namespace trapline::live
