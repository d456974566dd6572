#include "merge/session/guest_function_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/source/uftrace/facts.h"

namespace trapline {
namespace {

class GuestFunctionSource final : public Source {
 public:
  GuestFunctionSource(DataDirectory directory, const GuestAlignment& relation)
      : directory_(std::move(directory)), line_(relation.line) {
    info_.path = directory_.path();
    info_.kind = "uftrace";
    info_.host = false;
    info_.clock = relation.clock;
    info_.method = relation.method;
    info_.offset_ns = line_.offset();
    info_.error_ns = line_.error();
  }

  Result<void> open(const GuestAlignment& relation) {
    for (const std::uint32_t tid : directory_.tids()) {
      auto reader = directory_.records(tid);
      if (!reader) return tl::unexpected(std::move(reader).error());
      if (symbols_.empty()) {
        auto symbols = directory_.symbols(directory_.session_of(tid));
        if (!symbols) return tl::unexpected(std::move(symbols).error());
        symbols_ = std::move(*symbols);
      }
      const std::int32_t vcpu = vcpu_of_task(tid);
      const auto thread = thread_of_cpu(relation.threads, vcpu);
      lanes_.push_back({std::move(*reader),
                        thread.value_or(ThreadId{static_cast<std::int32_t>(tid)}), vcpu,
                        std::nullopt});
      if (!fetch(lanes_.back())) return status_;
    }
    return {};
  }

  bool next(Event& event) override {
    Lane* first = nullptr;
    for (Lane& lane : lanes_)
      if (lane.ahead && (first == nullptr || lane.ahead->time() < first->ahead->time()))
        first = &lane;
    if (first == nullptr || !status_) return false;
    const Record record = *first->ahead;
    event = {};
    event.at = Timestamp(line_.at(record.time()));
    event.thread = first->thread;
    event.type = static_cast<std::uint16_t>(record.type());
    if (record.type() == RecordType::kLost) {
      event.payload = Lost{event.at, event.at, record.address()};
      counters_.lost_events += record.address();
      ++counters_.gaps;
    } else {
      const Symbol* symbol = symbols_.find(record.address());
      event.payload = GuestCall{record.type() == RecordType::kEntry, first->vcpu,
                                static_cast<std::uint32_t>(record.depth()), record.address(),
                                symbol != nullptr ? symbol->name : std::string_view()};
    }
    ++counters_.events;
    (void)fetch(*first);  // what fails now is told after this event
    return true;
  }

  [[nodiscard]] const Result<void>& status() const override { return status_; }
  [[nodiscard]] const SourceInfo& info() const override { return info_; }
  [[nodiscard]] const SourceCounters& counters() const override { return counters_; }
  [[nodiscard]] double progress() const override { return 1; }
  [[nodiscard]] std::string event_name(const Event& event) const override {
    const auto* call = std::get_if<GuestCall>(&event.payload);
    return call == nullptr ? "" : call->entry ? "guest:entry" : "guest:exit";
  }
  [[nodiscard]] std::string event_text(const Event& event) const override {
    const auto* call = std::get_if<GuestCall>(&event.payload);
    if (call == nullptr) return "";
    return call->name.empty() ? fmt::format("{:#x}", call->function) : printable(call->name);
  }
  [[nodiscard]] std::string comm(ThreadId) const override { return "guest"; }

 private:
  struct Lane {
    RecordReader reader;
    ThreadId thread;
    std::int32_t vcpu;
    std::optional<Record> ahead;
  };
  bool fetch(Lane& lane) {
    auto record = lane.reader.next();
    if (!record) {
      status_ = tl::unexpected(std::move(record).error());
      return false;
    }
    lane.ahead = *record;
    return true;
  }

  DataDirectory directory_;
  ClockLine line_;
  SymbolTable symbols_;
  std::vector<Lane> lanes_;
  SourceInfo info_;
  SourceCounters counters_;
  Result<void> status_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_guest_calls(const std::string& path,
                                                 const GuestAlignment& relation) {
  auto directory = DataDirectory::open(path);
  if (!directory) return tl::unexpected(std::move(directory).error());
  auto source = std::make_unique<GuestFunctionSource>(std::move(*directory), relation);
  if (auto opened = source->open(relation); !opened)
    return tl::unexpected(std::move(opened).error());
  return source;
}

}  // namespace trapline
