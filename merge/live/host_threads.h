// The threads of this machine by their numbers, as /proc has them; asked once each.
#pragma once

#include <map>
#include <span>
#include <string>

#include "merge/model/event.h"

namespace trapline::live {

class HostThreads {
 public:
  static constexpr std::size_t kMost = 20'000;

  // Looks up the processes of these, and the names of virtual machines.
  void look_at(std::span<const ThreadId> threads);
  [[nodiscard]] const std::map<ThreadId, ThreadId>& threads() const { return threads_; }
  [[nodiscard]] const std::map<ThreadId, std::string>& vm_names() const { return vm_names_; }
  // Asked of /proc where it is not known; empty for a thread that has ended.
  [[nodiscard]] const std::string& comm(ThreadId thread) const;
  // "TID COMM\n" of all that were asked for.
  [[nodiscard]] std::string cmdlines() const;

 private:
  std::map<ThreadId, ThreadId> threads_;
  std::map<ThreadId, std::string> vm_names_;
  mutable std::map<ThreadId, std::string> comms_;
};

}  // namespace trapline::live
