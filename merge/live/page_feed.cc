#include "merge/live/page_feed.h"

#include <fmt/format.h>

#include <sys/file.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/record/instance.h"
#include "merge/record/page_reader.h"
#include "merge/record/setup.h"
#include "merge/record/trace_dat_writer.h"
#include "merge/record/vm_names.h"
#include "merge/session/session_json.h"
#include "merge/source/kernel_events/event_texts.h"

namespace trapline::live {
namespace {

// Returns the process of a thread; 0 if the thread has ended.
std::int32_t process_of(ThreadId thread) {
  const auto status = read_text(fmt::format("/proc/{}/status", tid_of(thread)));
  const auto process = parse_number(kernel_events::format_line(status.value_or(""), "Tgid:"));
  return static_cast<std::int32_t>(process.value_or(0));
}

}  // namespace

std::string PageFeed::comm(ThreadId thread) const {
  const auto known = threads_.comms.find(thread);
  return known == threads_.comms.end() ? std::string() : known->second;
}

std::string PageFeed::cmdlines() const {
  std::string text;
  for (const auto& [thread, name] : threads_.comms)
    if (!name.empty()) text += fmt::format("{} {}\n", static_cast<std::int32_t>(thread), name);
  return text;
}

namespace {

class InstanceFeed final : public PageFeed {
 public:
  Result<void> create(const record::RecordOptions& options) {
    auto ready = record::make_instance(options);
    if (!ready) return tl::unexpected(std::move(ready).error());
    instance_.emplace(std::move(ready->instance));
    events_ = std::move(ready->events);
    name_ = "this host";
    if (auto opened = open(); !opened) return opened;
    return instance_->switch_on(true);
  }
  Result<void> attach(const std::string& name) {
    auto attached = record::Instance::attach(name, "--instance");
    if (!attached) {
      attached.error().message += ", and without --instance top makes one of its own";
      return tl::unexpected(std::move(attached).error());
    }
    instance_.emplace(std::move(*attached));
    events_ = record::enabled_events(instance_->control().get("set_event").value_or(""));
    name_ = name;
    return open();
  }

  Result<bool> next(std::size_t cpu, std::span<std::byte> page) override {
    return reader_->read_page(static_cast<unsigned>(cpu), page);
  }
  [[nodiscard]] std::vector<int> polled() const override {
    std::vector<int> fds;
    for (unsigned cpu = 0; cpu < reader_->cpus(); ++cpu) fds.push_back(reader_->fd(cpu));
    return fds;
  }
  void look_at_threads(std::span<const ThreadId> threads) override {
    for (const ThreadId thread : threads) {
      auto& processes = threads_.processes;
      if (processes.contains(thread) || processes.size() >= kMostThreads) continue;
      const std::int32_t process = process_of(thread);
      if (process == 0) continue;
      processes[thread] = ThreadId{process};
      (void)comm(ThreadId{tid_of(thread)});
      if (threads_.vm_names.contains(ThreadId{process})) continue;
      threads_.vm_names[ThreadId{process}] = record::vm_name_of_process(process);
    }
  }
  // Reads the name from /proc if it is not known yet; empty for a thread that has ended.
  [[nodiscard]] std::string comm(ThreadId thread) const override {
    if (thread == ThreadId{0}) return "idle";
    auto& comms = threads_.comms;
    if (comms.contains(thread) || comms.size() >= kMostThreads) return PageFeed::comm(thread);
    const auto text = read_text(fmt::format("/proc/{}/comm", static_cast<std::int32_t>(thread)));
    return comms[thread] = text ? printable(trimmed(*text)) : "";
  }
  [[nodiscard]] Result<std::string> head() const override {
    return record::trace_dat_head(instance_->tracefs(), events_, layout_.page_size,
                                  record::TextSymbols::kAll);
  }

 private:
  static constexpr std::size_t kMostThreads = 20'000;

  Result<void> open() {
    if (auto opened = assign(reader_, record::PageReader::open(*instance_)); !opened) return opened;
    auto formats = record::formats_of(*instance_, events_);
    if (!formats) return tl::unexpected(std::move(formats).error());
    layout_.formats = std::move(formats->formats);
    layout_.long_size = sizeof(long);
    layout_.clock = instance_->control().clock();
    layout_.page_size = static_cast<std::uint32_t>(reader_->page_size());
    layout_.cpu_count = reader_->cpus();
    return assign(start_, record::start_facts(*instance_));
  }
  // The reader has its files open, so the reader is destroyed first.
  std::optional<record::Instance> instance_;
  std::vector<record::EventName> events_;
  std::optional<record::PageReader> reader_;
};

// Returns whether the recorder runs: it holds the lock as long as it lives.
bool is_locked(const Folder& session) {
  const auto raw = session.open_folder("raw");
  if (!raw) return false;
  const auto lock = raw->readable();
  return lock && ::flock(lock->get(), LOCK_SH | LOCK_NB) != 0;
}

// The folder is held open, because its recorder renames NAME.new at the end
// (merge/session/session_folder.h).
class SessionFeed final : public PageFeed {
 public:
  Result<void> open(const std::string& folder) {
    name_ = folder;
    if (auto opened = assign(session_, Folder::open_to_read(folder)); !opened) return opened;
    if (auto read = assign(start_, trace_dat::read_start(*session_)); !read) return read;
    if (auto looked = look_at_pages(folder); !looked) return looked;
    if (auto read = assign(layout_, trace_dat::read_layout(*file_)); !read) return read;
    layout_.page_size = static_cast<std::uint32_t>(start_.page_size);
    layout_.cpu_count = start_.cpus;
    look_at_threads({});
    head_.resize(start_.head_bytes);
    return file_->read(0, std::as_writable_bytes(std::span(head_)));
  }

  Result<bool> begin_round() override {
    if (ended_) return false;
    for (const Cpu& cpu : cpus_)
      if (cpu.taken + layout_.page_size <= cpu.area.size) return true;
    // Looks at the lock first: a recorder releases it only after trace.dat is there, unless it was
    // killed, and then nothing completes the session.
    const bool runs = is_locked(*session_), is_whole = session_->has_file("trace.dat");
    const auto looked = look_at_pages(here());
    ended_ = is_whole || !runs;
    killed_ = ended_ && !is_whole;
    if (looked) return !ended_;
    if (!session_->has_file("raw/start.json") && !session_->has_file("trace.dat"))
      return fail("{}: the session was removed", name_);
    if (ended_) return tl::unexpected(looked.error());
    return true;  // its pages were moved meanwhile
  }

  Result<bool> next(std::size_t index, std::span<std::byte> page) override {
    Cpu& cpu = cpus_[index];
    for (int tries = 0; tries < 2 && cpu.taken + page.size() <= cpu.area.size; ++tries) {
      const auto read = file_->read(cpu.area.offset + cpu.taken, page);
      if (read) {
        cpu.taken += page.size();
        return true;
      }
      if (ended_) return tl::unexpected(read.error());
      if (!look_at_pages(here())) cpu.area.size = 0;  // the pages were moved meanwhile
    }
    return false;
  }

  // Pages are on disk a second after their events, and later on a busy machine.
  [[nodiscard]] std::uint64_t latency_ns() const override { return 2'500'000'000; }
  [[nodiscard]] Result<std::string> head() const override { return head_; }
  [[nodiscard]] std::string last_words() const override {
    return name_ + (killed_ ? ": its recorder was killed" : ": the recording has ended");
  }

  void look_at_threads(std::span<const ThreadId>) override {
    if (const auto text = session_->read("raw/cmdlines")) {
      for (std::string_view rest = *text; !rest.empty();) {
        const auto line = take_line(rest);
        const auto blank = line.find(' ');
        const auto tid = parse_number(line.substr(0, blank));
        if (tid && blank != line.npos)
          threads_.comms[ThreadId{static_cast<std::int32_t>(*tid)}] =
              printable(line.substr(blank + 1));
      }
    }
    const auto session = read_session_json(here());
    if (!session) return;
    for (const SessionThread& thread : session->threads)
      threads_.processes[ThreadId{thread.tid}] = ThreadId{thread.pid};
    for (const SessionVm& vm : session->vms) threads_.vm_names[ThreadId{vm.pid}] = vm.name;
  }

 private:
  // Finds where each CPU's pages are now: in raw/ or, once the recorder has finished, in trace.dat.
  Result<void> look_at_pages(const std::string& folder) {
    auto file = trace_dat::open_trace_file(folder + "/trace.dat");
    if (!file) return tl::unexpected(std::move(file).error());
    const auto layout = trace_dat::read_layout(*file);
    if (!layout) return tl::unexpected(layout.error());
    cpus_.resize(start_.cpus);
    for (const trace_dat::Buffer& buffer : layout->buffers)
      for (const trace_dat::CpuPages& pages : buffer.cpus)
        if (pages.cpu < cpus_.size()) cpus_[pages.cpu].area = pages.pages;
    file_.emplace(std::move(*file));
    return {};
  }
  // Returns a path to the folder, whatever its present name is.
  [[nodiscard]] std::string here() const { return fmt::format("/proc/self/fd/{}", session_->fd()); }

  std::optional<Folder> session_;
  std::string head_;
  std::optional<File> file_;  // trace.dat, or what it would be now
  struct Cpu {
    std::uint64_t taken = 0;  // in bytes
    trace_dat::Extent area;   // in file_
  };
  std::vector<Cpu> cpus_;
  bool ended_ = false, killed_ = false;
};

}  // namespace

Result<std::unique_ptr<PageFeed>> open_instance(const std::string& name,
                                                const record::RecordOptions& options) {
  auto feed = std::make_unique<InstanceFeed>();
  if (auto opened = name.empty() ? feed->create(options) : feed->attach(name); !opened)
    return tl::unexpected(std::move(opened).error());
  return feed;
}

bool is_open_session(const std::string& folder) {
  const auto session = Folder::open_to_read(folder);
  return session && trace_dat::is_unfinished(*session) && is_locked(*session);
}

Result<std::unique_ptr<PageFeed>> open_session(const std::string& folder) {
  auto feed = std::make_unique<SessionFeed>();
  if (auto opened = feed->open(folder); !opened) return tl::unexpected(std::move(opened).error());
  return feed;
}

}  // namespace trapline::live
