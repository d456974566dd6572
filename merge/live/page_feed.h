// Where the pages of a live view come from: an ftrace instance, a session that is being written.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/model/event.h"
#include "merge/record/instance.h"
#include "merge/record/page_reader.h"
#include "merge/record/recorder.h"
#include "merge/source/trace_dat/layout.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::live {

class PageFeed {
 public:
  virtual ~PageFeed() = default;

  // Sub-buffers, formats and clock of what is recorded; without data.
  [[nodiscard]] virtual const trace_dat::Layout& layout() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::size_t cpus() const = 0;
  [[nodiscard]] virtual std::size_t page_size() const = 0;

  // Before the pages of a round. False: no page comes any more after those of this round.
  [[nodiscard]] virtual Result<bool> begin_round() = 0;
  // The next page of a CPU, in the kernel's order, filled up with zeros; false when there is none
  // now.
  [[nodiscard]] virtual Result<bool> next(std::size_t cpu, std::span<std::byte> page) = 0;
  // How much later than its time an event may come, at most.
  [[nodiscard]] virtual std::uint64_t latency_ns() const = 0;
  // Descriptors that are readable when many pages are ready; may be none.
  [[nodiscard]] virtual std::vector<int> polled() const { return {}; }

  // Now and then: whose threads these are.
  virtual void look_at_threads(std::span<const ThreadId>) {}
  // The process of each thread that is known.
  [[nodiscard]] virtual std::map<ThreadId, ThreadId> threads() const { return {}; }
  [[nodiscard]] virtual std::map<ThreadId, std::string> vm_names() const { return {}; }
  [[nodiscard]] virtual std::string comm(ThreadId) const { return {}; }  // empty: not known

  // What a session of these pages begins with: the head of its trace.dat.
  [[nodiscard]] virtual Result<std::string> head() const = 0;
  [[nodiscard]] virtual trace_dat::StartFacts start_facts() const = 0;
  [[nodiscard]] virtual std::string cmdlines() const = 0;  // "TID COMM\n" each
  // A line for the user when it has ended; may be empty.
  [[nodiscard]] virtual std::string last_words() const { return {}; }
};

// The threads of this machine by their numbers, as /proc has them; asked once each.
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

// Pages of an ftrace instance: one of our own, or one that somebody else has set up.

// Guarantees: an instance of our own is gone when this object is, and after a SIGKILL with the next
// start; of somebody else's nothing is changed, but the pages that are read here are gone for it.
class InstanceFeed final : public PageFeed {
 public:
  // Recording as `options` say (clock, buffer_kb, events). Instances of dead recorders go first.
  [[nodiscard]] static Result<std::unique_ptr<InstanceFeed>> create(
      const record::RecordOptions& options);
  // Errors (kUsage): there is none of that name.
  [[nodiscard]] static Result<std::unique_ptr<InstanceFeed>> attach(const std::string& name);
  ~InstanceFeed() override;
  InstanceFeed(const InstanceFeed&) = delete;
  InstanceFeed& operator=(const InstanceFeed&) = delete;

  [[nodiscard]] const trace_dat::Layout& layout() const override { return layout_; }
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::size_t cpus() const override { return reader_->cpus(); }
  [[nodiscard]] std::size_t page_size() const override { return reader_->page_size(); }
  [[nodiscard]] Result<bool> begin_round() override { return true; }
  [[nodiscard]] Result<bool> next(std::size_t cpu, std::span<std::byte> page) override {
    return reader_->read_page(static_cast<unsigned>(cpu), page);
  }
  [[nodiscard]] std::uint64_t latency_ns() const override { return 0; }
  [[nodiscard]] std::vector<int> polled() const override;
  void look_at_threads(std::span<const ThreadId> threads) override { threads_.look_at(threads); }
  [[nodiscard]] std::map<ThreadId, ThreadId> threads() const override { return threads_.threads(); }
  [[nodiscard]] std::map<ThreadId, std::string> vm_names() const override {
    return threads_.vm_names();
  }
  [[nodiscard]] std::string comm(ThreadId thread) const override { return threads_.comm(thread); }
  [[nodiscard]] Result<std::string> head() const override;
  [[nodiscard]] trace_dat::StartFacts start_facts() const override;
  [[nodiscard]] std::string cmdlines() const override { return threads_.cmdlines(); }

 private:
  InstanceFeed() = default;
  [[nodiscard]] Result<void> open();
  [[nodiscard]] std::string text_of(const std::string& file) const;

  std::optional<record::Instance> instance_;  // the reader holds it open: it goes before it
  std::string name_;
  std::vector<record::EventName> events_;
  trace_dat::Layout layout_;
  std::optional<record::PageReader> reader_;
  HostThreads threads_;
};

// Pages of a session that `trapline record` is writing (merge/source/trace_dat/unfinished.h).

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
