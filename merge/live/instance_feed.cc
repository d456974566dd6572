#include "merge/live/instance_feed.h"

#include <sys/utsname.h>
#include <unistd.h>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
#include "merge/record/setup.h"
#include "merge/record/trace_dat_writer.h"

namespace trapline::live {
namespace {

std::string uname_text() {
  utsname name{};
  ::uname(&name);
  return fmt::format("{} {} {} {} {}", name.sysname, name.nodename, name.release, name.version,
                     name.machine);
}

}  // namespace

InstanceFeed::~InstanceFeed() {
  streams_.clear();
  if (own_) (void)own_->remove();
}

Result<std::unique_ptr<InstanceFeed>> InstanceFeed::create(const record::RecordOptions& options) {
  auto root = record::find_tracefs();
  if (!root) return tl::unexpected(std::move(root).error());
  for (const std::string& line : record::remove_leftovers(*root)) {
    if (options.say) options.say(line);
  }
  auto events = record::choose_events(*root, options.events);
  if (!events) return tl::unexpected(std::move(events).error());
  auto instance = record::Instance::create();
  if (!instance) return tl::unexpected(std::move(instance).error());
  std::unique_ptr<InstanceFeed> feed(new InstanceFeed);
  feed->own_.emplace(std::move(*instance));
  feed->events_ = std::move(*events);
  if (auto set = record::set_up(*feed->own_, options, feed->events_); !set) {
    return tl::unexpected(std::move(set).error());
  }
  if (auto opened = feed->open(*root, feed->own_->path("")); !opened) {
    return tl::unexpected(std::move(opened).error());
  }
  feed->name_ = "this host";
  if (auto on = feed->own_->switch_on(true); !on) {
    return tl::unexpected(std::move(on).error());
  }
  return feed;
}

Result<std::unique_ptr<InstanceFeed>> InstanceFeed::attach(const std::string& name) {
  auto root = record::find_tracefs();
  if (!root) return tl::unexpected(std::move(root).error());
  const std::string folder = *root + "/instances/" + name;
  if (name.empty() || name.find('/') != std::string::npos || !is_folder(folder)) {
    return fail(ErrorKind::kUsage,
                "--instance {}: there is no ftrace instance of that name; ls {}/instances shows "
                "them, and without --instance top makes one of its own",
                name, *root);
  }
  std::unique_ptr<InstanceFeed> feed(new InstanceFeed);
  feed->events_ = record::enabled_events(read_text(folder + "/set_event").value_or(""));
  if (auto opened = feed->open(*root, folder); !opened) {
    return tl::unexpected(std::move(opened).error());
  }
  feed->name_ = name;
  return feed;
}

std::string InstanceFeed::text_of(const std::string& file) const {
  return read_text(folder_ + "/" + file).value_or("");
}

Result<void> InstanceFeed::open(const std::string& tracefs, const std::string& folder) {
  tracefs_ = tracefs;
  folder_ = folder;
  const auto kb = parse_number(trimmed(text_of("buffer_subbuf_size_kb")));
  page_size_ = kb && *kb != 0 ? *kb * 1024 : static_cast<std::size_t>(::getpagesize());
  layout_.version = 6;
  layout_.long_size = sizeof(long);
  layout_.page_size = static_cast<std::uint32_t>(page_size_);
  layout_.clock = std::string(selected_clock(text_of("trace_clock")));
  layout_.uname = uname_text();
  layout_.writer = "trapline";
  std::vector<record::EventName> all = events_;
  all.push_back({"ftrace", "print"});
  for (const record::EventName& event : all) {
    auto text = read_text(fmt::format("{}/events/{}/{}/format", tracefs, event.system, event.name));
    if (!text) return tl::unexpected(std::move(text).error());
    layout_.formats.push_back({event.system, std::move(*text)});
  }
  std::vector<std::string> pages;
  for (unsigned cpu = 0;; ++cpu) {
    pages.push_back(fmt::format("{}/per_cpu/cpu{}/trace_pipe_raw", folder, cpu));
    if (::access(pages.back().c_str(), F_OK) != 0) break;
  }
  pages.pop_back();
  record::allow_streams(pages.size());
  for (unsigned cpu = 0; cpu < pages.size(); ++cpu) {
    auto stream = record::PageStream::open(pages[cpu], nullptr, cpu, page_size_);
    if (!stream) return tl::unexpected(std::move(stream).error());
    streams_.push_back(std::move(*stream));
  }
  layout_.cpu_count = static_cast<std::uint32_t>(streams_.size());
  if (streams_.empty()) return fail("{}: has no buffers to read", folder);
  return {};
}

std::vector<int> InstanceFeed::polled() const {
  std::vector<int> fds;
  for (const record::PageStream& stream : streams_) fds.push_back(stream.fd());
  return fds;
}

Result<std::string> InstanceFeed::head() const {
  return record::trace_dat_head(tracefs_, events_, page_size_);
}

trace_dat::StartFacts InstanceFeed::start_facts() const {
  trace_dat::StartFacts facts;
  facts.page_size = page_size_;
  facts.cpus = static_cast<unsigned>(streams_.size());
  facts.clocks = std::string(trimmed(text_of("trace_clock")));
  facts.uname = layout_.uname;
  facts.version = "trapline";
  return facts;
}

}  // namespace trapline::live
