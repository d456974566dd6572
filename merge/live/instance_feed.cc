#include "merge/live/instance_feed.h"

#include "backend_ftrace/base/text.h"
#include "merge/record/setup.h"
#include "merge/record/trace_dat_writer.h"

namespace trapline::live {

InstanceFeed::~InstanceFeed() {
  streams_.clear();
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
  page_size_ = record::page_size_of(*instance_);
  layout_.version = 6;
  layout_.long_size = sizeof(long);
  layout_.page_size = static_cast<std::uint32_t>(page_size_);
  layout_.clock = instance_->control().clock();
  layout_.uname = record::uname_text();
  layout_.writer = "trapline";
  auto formats = record::formats_of(*instance_, events_);
  if (!formats) return tl::unexpected(std::move(formats).error());
  layout_.formats = std::move(formats->formats);
  const auto cpus = record::count_cpus(*instance_);
  if (!cpus) return tl::unexpected(cpus.error());
  record::allow_streams(*cpus);
  for (unsigned cpu = 0; cpu < *cpus; ++cpu) {
    const std::string pages = instance_->path(fmt::format("per_cpu/cpu{}/trace_pipe_raw", cpu));
    auto stream = record::PageStream::open(pages, nullptr, cpu, page_size_);
    if (!stream) return tl::unexpected(std::move(stream).error());
    streams_.push_back(std::move(*stream));
  }
  layout_.cpu_count = *cpus;
  return {};
}

std::vector<int> InstanceFeed::polled() const {
  std::vector<int> fds;
  for (const record::PageStream& stream : streams_) fds.push_back(stream.fd());
  return fds;
}

Result<std::string> InstanceFeed::head() const {
  return record::trace_dat_head(instance_->tracefs(), events_, page_size_,
                                record::TextSymbols::kAll);
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
