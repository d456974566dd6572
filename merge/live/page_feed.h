// The sources of a live view's pages: an ftrace instance, or a session that is being written.
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

  // Returns page size, formats and clock of the recording; without data.
  [[nodiscard]] virtual const trace_dat::Layout& layout() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::size_t cpus() const = 0;
  [[nodiscard]] virtual std::size_t page_size() const = 0;

  // Call it before the pages of a round. False: no page comes after those of this round.
  [[nodiscard]] virtual Result<bool> begin_round() = 0;
  // Reads the next page of a CPU, in the kernel's order, padded with zeros; false if there is none
  // now.
  [[nodiscard]] virtual Result<bool> next(std::size_t cpu, std::span<std::byte> page) = 0;
  // Returns how much later than its time an event may come, at most.
  [[nodiscard]] virtual std::uint64_t latency_ns() const = 0;
  // Returns descriptors that are readable when many pages are ready; may be none.
  [[nodiscard]] virtual std::vector<int> polled() const { return {}; }

  // Called from time to time: looks up the processes of these threads.
  virtual void look_at_threads(std::span<const ThreadId>) {}
  // Returns the process of each known thread.
  [[nodiscard]] virtual std::map<ThreadId, ThreadId> threads() const { return {}; }
  [[nodiscard]] virtual std::map<ThreadId, std::string> vm_names() const { return {}; }
  [[nodiscard]] virtual std::string comm(ThreadId) const { return {}; }  // empty: not known

  // Returns the beginning of a session with these pages: the head of its trace.dat.
  [[nodiscard]] virtual Result<std::string> head() const = 0;
  [[nodiscard]] virtual trace_dat::StartFacts start_facts() const = 0;
  [[nodiscard]] virtual std::string cmdlines() const = 0;  // one "TID COMM\n" each
  // Returns a line for the user at the end; may be empty.
  [[nodiscard]] virtual std::string last_words() const { return {}; }
};

// The threads of this machine by their numbers, from /proc; each is looked up once.
class HostThreads {
 public:
  static constexpr std::size_t kMost = 20'000;

  // Looks up the processes of these threads, and the names of virtual machines.
  void look_at(std::span<const ThreadId> threads);
  [[nodiscard]] const std::map<ThreadId, ThreadId>& threads() const { return threads_; }
  [[nodiscard]] const std::map<ThreadId, std::string>& vm_names() const { return vm_names_; }
  // Reads the name from /proc if it is not known yet; empty for a thread that has ended.
  [[nodiscard]] const std::string& comm(ThreadId thread) const;
  // Returns "TID COMM\n" for all threads that were looked up.
  [[nodiscard]] std::string cmdlines() const;

 private:
  std::map<ThreadId, ThreadId> threads_;
  std::map<ThreadId, std::string> vm_names_;
  mutable std::map<ThreadId, std::string> comms_;
};

// The pages of an ftrace instance, our own or somebody else's.

// Guarantees: our own instance is removed with this object, or after a SIGKILL with the next start.
// Somebody else's instance is not changed, but the pages that are read here are removed from it.
class InstanceFeed final : public PageFeed {
 public:
  // Makes an instance that records as `options` say (clock, buffer_kb, events), after removing
  // those of dead recorders.
  [[nodiscard]] static Result<std::unique_ptr<InstanceFeed>> create(
      const record::RecordOptions& options);
  // Errors (kUsage): no instance has that name.
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

  // The reader has its files open, so the reader is destroyed first.
  std::optional<record::Instance> instance_;
  std::string name_;
  std::vector<record::EventName> events_;
  trace_dat::Layout layout_;
  std::optional<record::PageReader> reader_;
  HostThreads threads_;
};

// The pages of a session that `trapline record` is writing (merge/source/trace_dat/unfinished.h).

// Reads the files as they grow; after the recorder has finished the session, reads the rest from
// its trace.dat. Writes nothing. The folder is held open, because its recorder renames NAME.new at
// the end (merge/session/session_folder.h).
class SessionFeed final : public PageFeed {
 public:
  // Returns whether somebody is recording into this folder.
  [[nodiscard]] static bool is_open(const std::string& folder);
  [[nodiscard]] static Result<std::unique_ptr<SessionFeed>> open(const std::string& folder);

  [[nodiscard]] const trace_dat::Layout& layout() const override { return layout_; }
  [[nodiscard]] std::string name() const override { return folder_; }
  [[nodiscard]] std::size_t cpus() const override { return start_.cpus; }
  [[nodiscard]] std::size_t page_size() const override { return start_.page_size; }
  [[nodiscard]] Result<bool> begin_round() override;
  [[nodiscard]] Result<bool> next(std::size_t cpu, std::span<std::byte> page) override;
  // Pages are on disk a second after their events, and later on a busy machine.
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
  // Where the pages are: in raw/, being moved, or in trace.dat.
  enum class Place { kRaw, kMoving, kTrace, kNowhere };
  [[nodiscard]] Place place() const;
  [[nodiscard]] Result<void> find_in_trace();
  // Reads the next page of a CPU from where it was streamed to; false if none is written yet.
  [[nodiscard]] Result<bool> read_streamed(std::size_t cpu, std::span<std::byte> page);

  // Returns a path to the folder, whatever its present name is.
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
    std::uint64_t taken = 0;  // in bytes
    trace_dat::Extent area;   // in trace.dat
  };
  std::vector<Cpu> cpus_;
  UniqueFd stream_, trace_;
  Place now_ = Place::kRaw;
  bool killed_ = false;
};

}  // namespace trapline::live
