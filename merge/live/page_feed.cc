#include "merge/live/page_feed.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/record/setup.h"
#include "merge/record/trace_dat_writer.h"
#include "merge/record/vm_names.h"
#include "merge/session/session_json.h"

namespace trapline::live {
namespace {

// Returns the process of a thread; 0 if the thread has ended.
std::int32_t process_of(ThreadId thread) {
  const auto status = read_text(fmt::format("/proc/{}/status", static_cast<std::int32_t>(thread)));
  const auto at = status ? status->find("\nTgid:") : std::string::npos;
  if (at == std::string::npos) return 0;
  const std::string_view rest = std::string_view(*status).substr(at + 6);
  return static_cast<std::int32_t>(
      parse_number(trimmed(rest.substr(0, rest.find('\n')))).value_or(0));
}

}  // namespace

void HostThreads::look_at(std::span<const ThreadId> threads) {
  for (const ThreadId thread : threads) {
    if (threads_.contains(thread) || threads_.size() >= kMost) continue;
    const std::int32_t process = process_of(thread);
    if (process == 0) continue;
    threads_[thread] = ThreadId{process};
    (void)comm(thread);
    if (vm_names_.contains(ThreadId{process})) continue;
    vm_names_[ThreadId{process}] = record::vm_name_of_process(process);
  }
}

const std::string& HostThreads::comm(ThreadId thread) const {
  static const std::string kNone, kIdle = "idle";
  if (thread == ThreadId{0}) return kIdle;
  const auto known = comms_.find(thread);
  if (known != comms_.end()) return known->second;
  if (comms_.size() >= kMost) return kNone;
  const auto text = read_text(fmt::format("/proc/{}/comm", static_cast<std::int32_t>(thread)));
  return comms_[thread] = text ? printable(trimmed(*text)) : "";
}

std::string HostThreads::cmdlines() const {
  std::string text;
  for (const auto& [thread, name] : comms_) {
    if (!name.empty()) text += fmt::format("{} {}\n", static_cast<std::int32_t>(thread), name);
  }
  return text;
}

InstanceFeed::~InstanceFeed() {
  reader_.reset();
  if (instance_) (void)instance_->remove();
}

Result<std::unique_ptr<InstanceFeed>> InstanceFeed::create(const record::RecordOptions& options) {
  auto ready = record::make_instance(options);
  if (!ready) return tl::unexpected(std::move(ready).error());
  std::unique_ptr<InstanceFeed> feed(new InstanceFeed);
  feed->instance_.emplace(std::move(ready->instance));
  feed->events_ = std::move(ready->events);
  if (auto opened = feed->open(); !opened) {
    return tl::unexpected(std::move(opened).error());
  }
  feed->name_ = "this host";
  if (auto on = feed->instance_->switch_on(true); !on) {
    return tl::unexpected(std::move(on).error());
  }
  return feed;
}

Result<std::unique_ptr<InstanceFeed>> InstanceFeed::attach(const std::string& name) {
  auto instance = record::Instance::attach(name, "--instance");
  if (!instance) {
    Error error = std::move(instance).error();
    error.message += ", and without --instance top makes one of its own";
    return tl::unexpected(std::move(error));
  }
  std::unique_ptr<InstanceFeed> feed(new InstanceFeed);
  feed->instance_.emplace(std::move(*instance));
  feed->events_ = record::enabled_events(feed->text_of("set_event"));
  if (auto opened = feed->open(); !opened) return tl::unexpected(std::move(opened).error());
  feed->name_ = name;
  return feed;
}

std::string InstanceFeed::text_of(const std::string& file) const {
  return instance_->control().get(file).value_or("");
}

Result<void> InstanceFeed::open() {
  auto reader = record::PageReader::open(*instance_);
  if (!reader) return tl::unexpected(std::move(reader).error());
  reader_.emplace(std::move(*reader));
  layout_.version = 6;
  layout_.long_size = sizeof(long);
  layout_.page_size = static_cast<std::uint32_t>(page_size());
  layout_.clock = instance_->control().clock();
  layout_.uname = record::uname_text();
  layout_.writer = "trapline";
  auto formats = record::formats_of(*instance_, events_);
  if (!formats) return tl::unexpected(std::move(formats).error());
  layout_.formats = std::move(formats->formats);
  layout_.cpu_count = reader_->cpus();
  return {};
}

std::vector<int> InstanceFeed::polled() const {
  std::vector<int> fds;
  for (unsigned cpu = 0; cpu < reader_->cpus(); ++cpu) fds.push_back(reader_->fd(cpu));
  return fds;
}

Result<std::string> InstanceFeed::head() const {
  return record::trace_dat_head(instance_->tracefs(), events_, page_size(),
                                record::TextSymbols::kAll);
}

trace_dat::StartFacts InstanceFeed::start_facts() const {
  trace_dat::StartFacts facts;
  facts.page_size = page_size();
  facts.cpus = reader_->cpus();
  facts.clocks = std::string(trimmed(text_of("trace_clock")));
  facts.uname = layout_.uname;
  facts.version = "trapline";
  return facts;
}

namespace {

// Returns whether the recorder runs: it holds the lock as long as it lives.
bool is_locked(const Folder& session) {
  const auto raw = session.open_folder("raw");
  if (!raw) return false;
  const auto lock = raw->readable();
  return lock && ::flock(lock->get(), LOCK_SH | LOCK_NB) != 0;
}

// Fills all of `page`; returns false if the file has fewer bytes.
Result<bool> read_at(int fd, std::uint64_t offset, std::span<std::byte> page,
                     const std::string& name) {
  std::size_t done = 0;
  while (done < page.size()) {
    const ssize_t got =
        ::pread(fd, page.data() + done, page.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("{}: {}", name, std::strerror(errno));
    if (got == 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

bool SessionFeed::is_open(const std::string& folder) {
  const auto session = Folder::open_to_read(folder);
  return session && trace_dat::is_unfinished(*session) && is_locked(*session);
}

Result<std::unique_ptr<SessionFeed>> SessionFeed::open(const std::string& folder) {
  std::unique_ptr<SessionFeed> feed(new SessionFeed);
  feed->folder_ = folder;
  auto session = Folder::open_to_read(folder);
  if (!session) return tl::unexpected(std::move(session).error());
  feed->session_.emplace(std::move(*session));
  auto start = trace_dat::read_start(*feed->session_);
  if (!start) return tl::unexpected(std::move(start).error());
  feed->start_ = std::move(*start);
  auto file = trace_dat::open_unfinished(folder);
  if (!file) return tl::unexpected(std::move(file).error());
  auto layout = trace_dat::read_layout(*file);
  if (!layout) return tl::unexpected(std::move(layout).error());
  feed->layout_ = std::move(*layout);
  feed->head_.resize(feed->start_.head_bytes);
  if (auto read = file->read(0, std::as_writable_bytes(std::span(feed->head_))); !read) {
    return tl::unexpected(std::move(read).error());
  }
  feed->cpus_.resize(feed->start_.cpus);
  feed->look_at_threads({});
  return feed;
}

SessionFeed::Place SessionFeed::place() const {
  if (session_->has_file("trace.dat")) return Place::kTrace;
  if (session_->has_file("raw/plan.json")) return Place::kMoving;
  return session_->has_file("raw/start.json") ? Place::kRaw : Place::kNowhere;
}

Result<void> SessionFeed::find_in_trace() {
  auto file = File::open(here() + "/trace.dat");
  if (!file) return tl::unexpected(std::move(file).error());
  auto layout = trace_dat::read_layout(*file);
  if (!layout) return tl::unexpected(std::move(layout).error());
  for (const trace_dat::Buffer& buffer : layout->buffers) {
    for (const trace_dat::CpuPages& pages : buffer.cpus) {
      if (pages.cpu < cpus_.size()) cpus_[pages.cpu].area = pages.pages;
    }
  }
  auto trace = session_->open_file("trace.dat", O_RDONLY);
  if (!trace) return tl::unexpected(std::move(trace).error());
  trace_ = std::move(*trace);
  return {};
}

Result<bool> SessionFeed::begin_round() {
  if (now_ == Place::kTrace || killed_) return false;
  now_ = place();
  if (now_ == Place::kNowhere) return fail("{}: the session was removed", folder_);
  if (now_ == Place::kTrace) {
    if (auto found = find_in_trace(); !found) return tl::unexpected(std::move(found).error());
    return false;
  }
  // A recorder that was killed no longer completes its session.
  killed_ = !is_locked(*session_) && place() == now_;
  return !killed_;
}

Result<bool> SessionFeed::next(std::size_t index, std::span<std::byte> page) {
  Cpu& cpu = cpus_[index];
  if (now_ == Place::kTrace) {
    if (cpu.taken + page.size() > cpu.area.size) return false;
    auto read = read_at(trace_.get(), cpu.area.offset + cpu.taken, page, folder_);
    if (read && *read) cpu.taken += page.size();
    return read;
  }
  if (now_ != Place::kRaw) return false;
  auto read = read_streamed(index, page);
  // Moving a page leaves zeros in its place. The plan to move is written before, so if there is
  // none now, the page is good.
  if (read && *read && place() != Place::kRaw) return false;
  if (read && *read) cpu.taken += page.size();
  return read;
}

Result<bool> SessionFeed::read_streamed(std::size_t index, std::span<std::byte> page) {
  const trace_dat::Regions& regions = start_.regions;
  Cpu& cpu = cpus_[index];
  const bool in_region = cpu.taken < regions.bytes;
  const std::string name = in_region ? trace_dat::kStream : "raw/" + trace_dat::cpu_name(index);
  UniqueFd& file = in_region ? stream_ : cpu.raw;
  if (!file) {
    auto raw = session_->open_file(name, O_RDONLY);
    if (!raw) return false;
    file = std::move(*raw);
  }
  const std::uint64_t at = in_region ? regions.at(index) + cpu.taken : cpu.taken - regions.bytes;
  auto read = read_at(file.get(), at, page, name);
  // A region holds zeros where nothing was written yet.
  const auto header = page.first(16);
  if (read && std::ranges::all_of(header, [](std::byte b) { return b == std::byte{0}; })) {
    return false;
  }
  return read;
}

void SessionFeed::look_at_threads(std::span<const ThreadId>) {
  if (auto text = session_->read("raw/cmdlines")) {
    cmdlines_ = std::move(*text);
    for (std::string_view rest = cmdlines_; !rest.empty();) {
      const auto line = take_line(rest);
      const auto blank = line.find(' ');
      const auto tid = parse_number(line.substr(0, blank));
      if (!tid || blank == std::string_view::npos) continue;
      comms_[ThreadId{static_cast<std::int32_t>(*tid)}] = printable(line.substr(blank + 1));
    }
  }
  const auto session = read_session_json(here());
  if (!session) return;
  for (const SessionThread& thread : session->threads) {
    threads_[ThreadId{thread.tid}] = ThreadId{thread.pid};
  }
  for (const SessionVm& vm : session->vms) vm_names_[ThreadId{vm.pid}] = vm.name;
}

std::string SessionFeed::comm(ThreadId thread) const {
  const auto known = comms_.find(thread);
  return known == comms_.end() ? std::string() : known->second;
}

std::string SessionFeed::last_words() const {
  return killed_ ? fmt::format("{}: its recorder was killed", folder_)
                 : fmt::format("{}: the recording has ended", folder_);
}

}  // namespace trapline::live
