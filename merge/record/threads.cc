#include "merge/record/threads.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sys/stat.h>

#include "backend_ftrace/base/held_files.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/analyze/vmm/vmms.h"
#include "merge/model/kernel_threads.h"
#include "merge/record/vm_names.h"

namespace trapline::record {
namespace {

std::string name_of(pid_t pid, pid_t tid) {
  return std::string(
      trimmed(read_text(fmt::format("/proc/{}/task/{}/comm", pid, tid)).value_or("")));
}

}  // namespace

std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  for (const std::string& name : names_in(folder))
    if (const auto number = parse_number(name)) numbers.push_back(static_cast<pid_t>(*number));
  return numbers;
}

std::vector<pid_t> tasks_of(pid_t pid) { return numbers_in(fmt::format("/proc/{}/task", pid)); }

std::vector<pid_t> kernel_threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  for (const pid_t tid : numbers_in("/proc")) {
    if (process_in_name(name_of(tid, tid)) == ThreadId{pid}) threads.push_back(tid);
  }
  return threads;
}

bool TracedThreads::add_process(pid_t pid, std::size_t& left_out) {
  bool changed = false;
  for (const pid_t tid : tasks_of(pid)) {
    if (threads_.size() >= kMostThreads && !threads_.contains(tid)) {
      if (!names_.contains(tid)) ++left_out;
      continue;
    }
    Thread thread{pid, name_of(pid, tid)};
    if (thread.name.empty()) continue;  // the thread ended in between
    Thread& kept = threads_[tid];
    if (kept == thread) continue;
    kept = std::move(thread);
    changed = true;
  }
  return changed;
}

void TracedThreads::add_descendants(pid_t pid, std::set<pid_t>& found, unsigned depth) const {
  if (depth == 0 || !found.insert(pid).second) return;
  for (const pid_t tid : tasks_of(pid)) {
    const auto children = read_text(fmt::format("/proc/{}/task/{}/children", pid, tid));
    for (const std::string_view word : split(children.value_or(""), ' '))
      if (const auto child = parse_number(word))
        add_descendants(static_cast<pid_t>(*child), found, depth - 1);
  }
}

bool TracedThreads::is_monitor(pid_t pid) const {
  for (const pid_t tid : tasks_of(pid)) {
    const std::string name = name_of(pid, tid);
    if (vcpu_of_name(name) != kNoVcpu || (tid == pid && is_vmm_process(name))) return true;
  }
  return false;
}

bool TracedThreads::update() {
  std::set<pid_t> processes;
  if (root_ != 0) {
    add_descendants(root_, processes, 16);
  } else {
    // Which files processes have open takes long to read, so it is read once.
    if (!std::exchange(looked_, true))
      for (const SessionVm& vm : running_vms()) processes.insert(vm.pid);
    for (const pid_t pid : numbers_in("/proc")) {
      const auto known = threads_.find(pid);
      if ((known != threads_.end() && known->second.pid == pid) || is_monitor(pid)) {
        processes.insert(pid);
      }
    }
  }
  bool changed = false;
  std::size_t left_out = 0;
  for (const pid_t pid : processes) changed |= add_process(pid, left_out);
  left_out_ = std::max(left_out_, left_out);
  return changed;
}

void TracedThreads::add_names(std::string_view saved_cmdlines) {
  std::size_t left_out = 0;
  while (!saved_cmdlines.empty()) {
    const auto line = take_line(saved_cmdlines);
    const auto blank = line.find(' ');
    const auto tid = parse_number(line.substr(0, blank));
    if (!tid || blank == std::string_view::npos || line.substr(blank + 1) == "<...>") continue;
    const auto thread = static_cast<pid_t>(*tid);
    const auto known = names_.find(thread);
    if (known != names_.end()) {
      known->second = line.substr(blank + 1);
    } else if (names_.size() < kMostThreads) {
      names_.emplace(thread, line.substr(blank + 1));
    } else if (!threads_.contains(thread)) {
      ++left_out;
    }
  }
  left_out_ = std::max(left_out_, left_out);
}

std::string TracedThreads::warning() const {
  if (left_out_ == 0) return {};
  return fmt::format(
      "the names of at least {} threads are missing: at most {} of virtual machines and {} others "
      "are kept",
      left_out_, kMostThreads, kMostThreads);
}

void TracedThreads::add_missing(const TracedThreads& older) {
  threads_.insert(older.threads_.begin(), older.threads_.end());
  names_.insert(older.names_.begin(), older.names_.end());
  left_out_ = std::max(left_out_, older.left_out_);
}

std::optional<RunCounts::Count> RunCounts::parse(std::string_view text) {
  const auto words = split(trimmed(text), ' ');
  if (words.size() != 3) return std::nullopt;
  const auto ns = parse_number(words[0]), turns = parse_number(words[2]);
  if (!ns || !turns) return std::nullopt;
  return Count{*ns, *turns};
}

RunCounts::Counts RunCounts::read(const std::map<pid_t, Thread>& threads) {
  Counts counts;
  for (const auto& [tid, thread] : threads) {
    const auto text = read_text(fmt::format("/proc/{}/task/{}/schedstat", thread.pid, tid));
    if (const auto count = text ? parse(*text) : std::nullopt) counts[{thread.pid, tid}] = *count;
  }
  return counts;
}

void RunCounts::add_to(std::vector<SessionThread>& threads, bool knows_all) const {
  for (SessionThread& thread : threads) {
    const auto found = before_.find({thread.pid, thread.tid});
    const auto after = after_.find({thread.pid, thread.tid});
    if (after == after_.end() || (found == before_.end() && !knows_all)) continue;
    const Count before = found == before_.end() ? Count() : found->second;
    if (after->second.ns < before.ns) continue;  // another thread has the id by now
    thread.ran_ns = {before.ns, after->second.ns};
    thread.turns = {before.turns, after->second.turns};
  }
}

std::optional<bool> is_alive(ThreadId thread) {
  constexpr ino_t kFirstNamespace = 0xeffffffc;  // PROC_PID_INIT_INO
  static const bool can_know = [] {
    struct stat status {};
    return ::stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == kFirstNamespace;
  }();
  if (!can_know) return std::nullopt;
  return ::access(fmt::format("/proc/{}", tid_of(thread)).c_str(), F_OK) == 0;
}

std::vector<SessionThread> TracedThreads::in_session() const {
  std::vector<SessionThread> list;
  for (const auto& [tid, thread] : threads_) list.push_back({tid, thread.pid, thread.name});
  return list;
}

std::string TracedThreads::cmdlines() const {
  std::string text;
  for (const auto& [tid, thread] : threads_) text += fmt::format("{} {}\n", tid, thread.name);
  for (const auto& [tid, name] : names_) {
    if (!threads_.contains(tid)) text += fmt::format("{} {}\n", tid, name);
  }
  return text;
}

}  // namespace trapline::record
