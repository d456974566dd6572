// Reads a simpletrace file as a source: each event is a Marker with the text that QEMU's ftrace
// backend would have written, "NAME ARGS", on CLOCK_MONOTONIC. The file has processes but no
// threads: the thread is the process's first one, and the CPU is 0.
//
// Records may be slightly out of order (each gets its time before it is written): the source sorts
// within a window of 4,096 records and counts a record that comes even later as damaged. Dropped
// events become a Lost event; a damaged or incomplete file ends with an error status after its last
// whole record.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend_ftrace/simpletrace/reader.h"
#include "backend_ftrace/tracetool/event_text.h"
#include "merge/source/open_recording.h"
#include "merge/source/programs_events.h"

namespace trapline {
namespace {

class SimpletraceSource final : public ProgramsEvents {
 public:
  SimpletraceSource(File file, std::shared_ptr<const tracetool::EventFile> declarations,
                    simpletrace::Reader reader)
      : ProgramsEvents(4096),
        file_(std::move(file)),
        declarations_(std::move(declarations)),
        reader_(std::move(reader)) {
    info_.path = file_.path();
    info_.kind = "simpletrace";
    info_.role = Role::kHostProgram;
    info_.clock = "mono";
  }
  [[nodiscard]] static Result<std::unique_ptr<Source>> open(
      File file, std::shared_ptr<const tracetool::EventFile> declarations) {
    auto reader = simpletrace::Reader::read(file.descriptor(), file.path(), *declarations);
    if (!reader) return tl::unexpected(std::move(reader).error());
    return std::make_unique<SimpletraceSource>(std::move(file), std::move(declarations),
                                               std::move(*reader));
  }
  [[nodiscard]] Result<std::unique_ptr<Source>> reopen() const override {
    return open(file_, declarations_);
  }

  // Reads the whole file, because records have no index; nullopt for more than kMostForRange bytes.
  std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    if (file_.size() > kMostForRange) return std::nullopt;
    auto reader = simpletrace::Reader::read(file_.descriptor(), info_.path, *declarations_);
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
    return static_cast<double>(reader_.offset()) / static_cast<double>(file_.size());
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
                                   : std::string(record_.name.substr(0, tracetool::kMostEventText));
      text_ += ' ';
      if (record_.event != nullptr && record_.values.size() == record_.event->arguments.size())
        tracetool::append_text(*record_.event, record_.values, text_, tracetool::kMostEventText);
      held.text = text_;  // a copy, which has no spare capacity: the window holds many texts
    }
    hold(std::move(held));
  }

  File file_;
  std::shared_ptr<const tracetool::EventFile> declarations_;
  simpletrace::Reader reader_;
  simpletrace::Record record_;
  std::string text_;  // text of the record
};

}  // namespace

Result<std::unique_ptr<Source>> open_simpletrace(File file, const std::string& events_path) {
  auto declarations = tracetool::read_trace_events(events_path);
  if (!declarations) return tl::unexpected(declarations.error());
  return SimpletraceSource::open(
      std::move(file), std::make_shared<const tracetool::EventFile>(std::move(*declarations)));
}

}  // namespace trapline
