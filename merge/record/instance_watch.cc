#include "merge/record/instance_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "merge/record/setup.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::record {
namespace {

constexpr std::size_t kMostEvents = 512;    // with more events, their own files are not watched
constexpr std::size_t kMostChanges = 1000;  // further changes extend the last one

std::string file_of(const EventName& event, const char* file) {
  return fmt::format("events/{}/{}/{}", event.system, event.name, file);
}

}  // namespace

InstanceWatch::InstanceWatch(const Instance& instance, const std::vector<EventName>& events,
                             const std::string& clock)
    : instance_(instance),
      events_(events),
      clock_(clock_from_name(clock)),
      inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  std::set<std::string> systems;
  std::vector<std::string> files = {"tracing_on", "trace",       "trace_clock",  "buffer_size_kb",
                                    "set_event",  "free_buffer", "events/enable"};
  for (const EventName& event : events) {
    if (systems.insert(event.system).second)
      files.push_back(fmt::format("events/{}/enable", event.system));
    if (events.size() > kMostEvents) continue;
    for (const char* file : {"enable", "filter"}) files.push_back(file_of(event, file));
  }
  const unsigned cpus = count_cpus(instance).value_or(0);
  for (unsigned cpu = 0; cpu < cpus; ++cpu)
    for (const char* file : {"trace", "buffer_size_kb"})
      files.push_back(fmt::format("per_cpu/cpu{}/{}", cpu, file));
  told_ = events.size() <= kMostEvents;
  for (const std::string& file : files) watch(file);
}

// Watches a file for writes. A file that this kernel lacks needs no watch, and is no failure.
void InstanceWatch::watch(const std::string& file) {
  const int number =
      ::inotify_add_watch(inotify_.get(), instance_.path(file).c_str(), IN_MODIFY | IN_CLOSE_WRITE);
  if (number >= 0) files_[number] = file;
  told_ &= number >= 0 || errno == ENOENT;
}

std::vector<std::string> InstanceWatch::written() {
  std::vector<std::string> files;
  alignas(inotify_event) char buffer[4096];
  for (ssize_t size; (size = ::read(inotify_.get(), buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof *event + event->len);
      const auto file = files_.find(event->wd);
      const std::string& name = file == files_.end() ? "a file" : file->second;
      if (std::ranges::find(files, name) == files.end()) files.push_back(name);
    }
  }
  return files;
}

// Returns the file's present setting; for set_event, how many of the recording's events are
// enabled, because another enabled event does no harm.
std::string InstanceWatch::setting(const std::string& file) const {
  const std::string text = instance_.control().get(file).value_or("");
  if (file != "set_event") return text;
  const std::vector<EventName> on = enabled_events(text);
  return std::to_string(std::ranges::count_if(
      events_, [&on](const EventName& event) { return std::ranges::binary_search(on, event); }));
}

// Returns the files per_cpu/cpuN/trace of CPUs whose counts have decreased: the buffer was emptied.
std::vector<std::string> InstanceWatch::fallen() {
  std::vector<std::string> files;
  for (unsigned cpu = 0;; ++cpu) {
    const std::string file = fmt::format("per_cpu/cpu{}/stats", cpu);
    const auto stats = instance_.control().get(file);
    if (!stats) return files;
    bool fell = false;
    for (const char* title : {"overrun", "dropped events", "read events"}) {
      const std::uint64_t value = trace_dat::stat_number(*stats, title);
      std::uint64_t& before = counts_[file + title];
      fell |= value < before;
      before = value;
    }
    if (fell) files.push_back(fmt::format("per_cpu/cpu{}/trace", cpu));
  }
}

std::uint64_t InstanceWatch::now() const {
  return clock_ && is_readable(*clock_) ? read_clock(*clock_) : 0;
}

void InstanceWatch::accept() {
  std::vector<std::string> files = {"tracing_on", "trace_clock", "buffer_size_kb", "set_event"};
  if (events_.size() <= kMostEvents)
    for (const EventName& event : events_) files.push_back(file_of(event, "filter"));
  for (const std::string& file : files) settings_[file] = setting(file);
  const std::vector<std::string> own = written();
  told_ &= std::ranges::find(own, "tracing_on") != own.end();
  (void)fallen();
  last_good_ = now();
  started_ = read_clock(ClockId::kMono);
}

std::vector<std::string> InstanceWatch::look() {
  const std::uint64_t time = now();
  std::vector<std::string> files = written();
  const auto add = [&files](const std::string& file) {
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  };
  bool as_set = true;
  for (const auto& [file, text] : settings_) {
    if (setting(file) == text) continue;
    as_set = false;
    add(file);
  }
  const std::vector<std::string> emptied = fallen();
  if (files.empty()) std::ranges::for_each(emptied, add);
  const bool goes_on = !changes_.empty() && changes_.back().goes_on;
  if (!files.empty() && !goes_on && changes_.size() < kMostChanges)
    changes_.push_back({{}, last_good_, 0, true});
  if (!files.empty()) changes_.back().goes_on = true;
  std::vector<std::string> sentences;
  const double at = static_cast<double>(read_clock(ClockId::kMono) - started_) / 1e9;
  for (const std::string& file : files) {
    std::vector<std::string>& known = changes_.back().files;
    if (std::ranges::find(known, file) != known.end()) continue;
    known.push_back(file);
    sentences.push_back(fmt::format(
        "another process changed this instance: it wrote {} in the second before {:.1f} "
        "s; the events in it are a loss",
        instance_.path(file), at));
  }
  if (!changes_.empty() && changes_.back().goes_on) {
    changes_.back().to_ns = time;
    changes_.back().goes_on = !as_set || !files.empty();
  }
  if (changes_.empty() || !changes_.back().goes_on) last_good_ = time;
  return sentences;
}

}  // namespace trapline::record
