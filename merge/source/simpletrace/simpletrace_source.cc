#include "merge/source/simpletrace/simpletrace_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <queue>
#include <utility>
#include <vector>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/simpletrace/reader.h"
#include "backend_ftrace/tracetool/event_text.h"
#include "merge/source/programs_events.h"
#include "merge/source/stream_copy.h"

namespace trapline {
namespace {

class SimpletraceSource : public Source {
 public:
  SimpletraceSource(std::string path, std::unique_ptr<tracetool::EventFile> declarations,
                    simpletrace::Reader reader, std::uint64_t size)
      : declarations_(std::move(declarations)), reader_(std::move(reader)), size_(size) {
    info_.path = std::move(path);
    info_.kind = "simpletrace";
    info_.role = Role::kHostProgram;
    info_.clock = "mono";
  }

  Read next(Event& event) override {
    fill();
    if (window_.empty()) return Read::kEnd;
    std::pop_heap(window_.begin(), window_.end(), later);
    current_ = std::move(window_.back());
    window_.pop_back();
    if (current_.time < last_) {  // out of order by more than the window
      ++counters_.damaged_events;
      current_.time = last_;
    }
    event = Event{};
    event.at = Timestamp(current_.time);
    event.thread = ThreadId{static_cast<std::int32_t>(current_.pid)};
    if (current_.dropped != 0) {
      event.payload = Lost{Timestamp(last_), event.at, current_.dropped};
      event.at = Timestamp(last_);
      counters_.lost_events = saturated_sum(counters_.lost_events, current_.dropped);
      ++counters_.gaps;
    } else {
      event.payload = Marker{current_.text};
      ++counters_.events;
    }
    last_ = current_.time;
    return Read::kEvent;
  }

  const Result<void>& status() const override { return status_; }
  const SourceInfo& info() const override { return info_; }
  SourceCounters counters() const override { return counters_; }
  Capabilities capabilities() const override { return kProgramsEvents; }
  Description describe() const override {
    Description is = Source::describe();
    is.has = capabilities();
    return is;
  }
  // Records have no index, and only a small file is read for it; nothing for others.
  std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    if (size_ > kMostForRange) return std::nullopt;
    const auto readable = readable_path(info_.path);
    if (!readable) return std::nullopt;
    auto reader = simpletrace::Reader::open(*readable, *declarations_);
    if (!reader) return std::nullopt;
    std::optional<std::pair<Timestamp, Timestamp>> range;
    simpletrace::Record record;
    for (auto more = reader->next(record); more && *more; more = reader->next(record)) {
      if (record.dropped) continue;
      const Timestamp at(record.timestamp);
      if (!range) range = std::pair(at, at);
      range = std::pair(std::min(range->first, at), std::max(range->second, at));
    }
    return range;
  }
  double progress() const override {
    return size_ == 0 ? 1.0 : static_cast<double>(reader_.offset()) / static_cast<double>(size_);
  }
  std::string event_name(const Event&) const override {
    return printable(std::string_view(current_.text).substr(0, current_.text.find(' ')));
  }
  std::string event_text(const Event&) const override { return printable(current_.text); }

 private:
  static constexpr std::size_t kWindow = 4096;
  static constexpr std::uint64_t kMostForRange = 16u << 20;

  struct Held {
    std::uint64_t time = 0;
    std::uint64_t number = 0;  // keeps the file's order among equal times
    std::uint64_t dropped = 0;
    std::uint32_t pid = 0;
    std::string text;
  };
  static bool later(const Held& a, const Held& b) {
    return std::pair(a.time, a.number) > std::pair(b.time, b.number);
  }

  void fill() {
    while (!ended_ && window_.size() < kWindow) {
      auto more = reader_.next(record_);
      if (!more) {
        status_ = tl::unexpected(more.error());
        ended_ = true;
      } else if (!*more) {
        ended_ = true;
        if (reader_.cut_bytes() != 0) {
          status_ =
              fail(ErrorKind::kDamaged, "{}: cut off: the last {} bytes are not a complete record",
                   info_.path, reader_.cut_bytes());
        }
      } else {
        hold();
      }
    }
  }

  void hold() {
    Held held;
    held.time = record_.timestamp;
    held.number = number_++;
    held.pid = record_.pid;
    if (record_.dropped) {
      held.dropped = std::max<std::uint64_t>(record_.count, 1);
    } else {
      text_ = record_.name.empty() ? fmt::format("event_{}", record_.id)
                                   : std::string(record_.name.substr(0, tracetool::kMostText));
      text_ += ' ';
      if (record_.event != nullptr && record_.values.size() == record_.event->arguments.size()) {
        tracetool::append_text(*record_.event, record_.values, text_, tracetool::kMostText);
      }
      held.text = text_;  // a copy has no room to spare, which the whole window would hold
    }
    window_.push_back(std::move(held));
    std::push_heap(window_.begin(), window_.end(), later);
  }

  std::unique_ptr<tracetool::EventFile> declarations_;
  simpletrace::Reader reader_;
  simpletrace::Record record_;
  std::string text_;          // of the record
  std::vector<Held> window_;  // a heap, the earliest first
  Held current_;
  std::uint64_t number_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t size_;
  bool ended_ = false;
  Result<void> status_;
  SourceInfo info_;
  SourceCounters counters_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_simpletrace(const std::string& path,
                                                 const std::string& events_path) {
  auto declarations = tracetool::read_trace_events(events_path);
  if (!declarations) return tl::unexpected(declarations.error());
  auto kept = std::make_unique<tracetool::EventFile>(std::move(*declarations));
  const auto readable = readable_path(path);
  if (!readable) return tl::unexpected(readable.error());
  auto reader = simpletrace::Reader::open(*readable, *kept, path);
  if (!reader) return tl::unexpected(reader.error());
  std::error_code ignored;
  const auto size = std::filesystem::file_size(*readable, ignored);
  return std::make_unique<SimpletraceSource>(path, std::move(kept), std::move(*reader),
                                             ignored ? 0 : size);
}

}  // namespace trapline
