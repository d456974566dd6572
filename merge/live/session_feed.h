// Pages of a session that `trapline record` is writing (merge/source/trace_dat/unfinished.h).
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/live/page_feed.h"

namespace trapline::live {

// Reads the files as they grow; once the recorder has finished the session, the rest is in its
// trace.dat. Writes nothing. The folder is held open: its recorder renames it at the end where it
// is NAME.new (merge/session/session_folder.h).
class SessionFeed final : public PageFeed {
 public:
  // True if somebody records into this folder now.
  [[nodiscard]] static bool is_open(const std::string& folder);
  [[nodiscard]] static Result<std::unique_ptr<SessionFeed>> open(const std::string& folder);

  [[nodiscard]] const trace_dat::Layout& layout() const override { return layout_; }
  [[nodiscard]] std::string name() const override { return folder_; }
  [[nodiscard]] std::size_t cpus() const override { return start_.cpus; }
  [[nodiscard]] std::size_t page_size() const override { return start_.page_size; }
  [[nodiscard]] Result<bool> begin_round() override;
  [[nodiscard]] Result<bool> next(std::size_t cpu, std::span<std::byte> page) override;
  // Pages are on disk a second after their events, some more where the machine is busy.
  [[nodiscard]] std::uint64_t latency_ns() const override { return 2'500'000'000; }
  void look_at_threads(std::span<const ThreadId> threads) override;
  [[nodiscard]] std::map<ThreadId, ThreadId> threads() const override { return threads_; }
  [[nodiscard]] std::map<ThreadId, std::string> vm_names() const override { return vm_names_; }
  [[nodiscard]] std::string comm(ThreadId thread) const override;
  [[nodiscard]] Result<std::string> head() const override { return head_; }
  [[nodiscard]] trace_dat::StartFacts start_facts() const override { return start_; }
  [[nodiscard]] std::string cmdlines() const override { return cmdlines_; }
  [[nodiscard]] std::string last_words() const override;

 private:
  // Where the pages are: in raw/, on their way, or in trace.dat.
  enum class Place { kRaw, kMoving, kTrace, kNowhere };
  [[nodiscard]] Place place() const;
  [[nodiscard]] Result<void> find_in_trace();
  // The next page of a CPU, from where it was streamed to; false where none is written yet.
  [[nodiscard]] Result<bool> read_streamed(std::size_t cpu, std::span<std::byte> page);

  // A path to the folder, whatever its name is by now.
  [[nodiscard]] std::string here() const { return fmt::format("/proc/self/fd/{}", session_->fd()); }

  std::string folder_;  // as the user named it
  std::optional<Folder> session_;
  trace_dat::StartFacts start_;
  trace_dat::Layout layout_;
  std::string head_, cmdlines_;
  std::map<ThreadId, std::string> comms_, vm_names_;
  std::map<ThreadId, ThreadId> threads_;
  struct Cpu {
    UniqueFd raw;             // raw/cpuN
    std::uint64_t taken = 0;  // bytes
    trace_dat::Extent area;   // in trace.dat
  };
  std::vector<Cpu> cpus_;
  UniqueFd stream_, trace_;
  Place now_ = Place::kRaw;
  bool killed_ = false;
};

}  // namespace trapline::live
