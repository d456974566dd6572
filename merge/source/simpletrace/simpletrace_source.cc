#include "merge/source/simpletrace/simpletrace_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "backend_ftrace/simpletrace/reader.h"
#include "backend_ftrace/tracetool/event_text.h"
#include "merge/source/programs_events.h"
#include "merge/source/stream_copy.h"

namespace trapline {
namespace {

class SimpletraceSource final : public ProgramsEvents {
 public:
  SimpletraceSource(std::string path, std::unique_ptr<tracetool::EventFile> declarations,
                    simpletrace::Reader reader, std::uint64_t size)
      : ProgramsEvents(4096),
        declarations_(std::move(declarations)),
        reader_(std::move(reader)),
        size_(size) {
    info_.path = std::move(path);
    info_.kind = "simpletrace";
    info_.role = Role::kHostProgram;
    info_.clock = "mono";
  }

  // Records have no index, so only a small file is read for this; nullopt for larger ones.
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

 private:
  static constexpr std::uint64_t kMostForRange = 16u << 20;

  void read_more() override {
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
      hold_record();
    }
  }

  void hold_record() {
    Held held;
    held.at = record_.timestamp;
    held.thread = static_cast<std::int32_t>(record_.pid);
    if (record_.dropped) {
      held.dropped = std::max<std::uint64_t>(record_.count, 1);
    } else {
      text_ = record_.name.empty() ? fmt::format("event_{}", record_.id)
                                   : std::string(record_.name.substr(0, tracetool::kMostText));
      text_ += ' ';
      if (record_.event != nullptr && record_.values.size() == record_.event->arguments.size())
        tracetool::append_text(*record_.event, record_.values, text_, tracetool::kMostText);
      held.text = text_;  // a copy, which has no spare capacity: the window holds many texts
    }
    hold(std::move(held));
  }

  std::unique_ptr<tracetool::EventFile> declarations_;
  simpletrace::Reader reader_;
  simpletrace::Record record_;
  std::string text_;  // text of the record
  std::uint64_t size_;
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
