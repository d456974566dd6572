// A source of a kernel's events: decodes records with the recording's own formats, counts and names
// them.
//
//   trace.dat (pages), live (pages of tracefs), perf.data (samples) ──> record, time, CPU ──> Event
//
// A derived class reads the records and orders them; this class decides what a record means.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "merge/model/capabilities.h"
#include "merge/source/kernel_events/formats.h"
#include "merge/source/marker_calls.h"
#include "merge/source/source.h"

namespace trapline::kernel_events {

class KernelEventSource : public Source {
 public:
  [[nodiscard]] const ReasonNames& reasons() const { return formats_.reasons(); }
  [[nodiscard]] Capabilities capabilities() const override { return capabilities_; }
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override;
  // Returns a fact for each event type whose format or print format could not be read.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;

  void select(EventClass events) override;
  [[nodiscard]] const Result<void>& status() const override {
    return status_ ? formats_.texts().status() : status_;
  }
  [[nodiscard]] SourceCounters count() const override {
    SourceCounters counters = counters_;
    counters.events += passed_;
    counters.first = first_passed_.value_or(counters.first);
    counters.last = std::max(counters.last, last_passed_);
    for (const auto& [type, count] : types_read())
      if (formats_.is_unread(type)) counters.unread_events += count;
    return counters;
  }
  [[nodiscard]] std::string event_name(const Event& event) const override;
  [[nodiscard]] std::string event_text(const Event& event) const override;
  [[nodiscard]] std::string name_of(ThreadId thread) const override {
    return formats_.comm(thread);
  }
  [[nodiscard]] std::string reason_name(const ExitReason& reason) const override {
    return reasons().of(reason);
  }

 protected:
  static constexpr std::size_t kTypes = 1u << 16;  // common_type has 16 bits

  // If `read_marker_calls` is true, guest calls in trace_marker become events of their own.
  KernelEventSource(Formats formats, SourceInfo info, Capabilities capabilities,
                    bool read_marker_calls)
      : formats_(std::move(formats)),
        capabilities_(capabilities),
        read_marker_calls_(read_marker_calls),
        selected_(kTypes, true),
        counts_(kTypes) {
    info_ = std::move(info);
  }

  // Fills all of `event` from a record at the time `at`, and counts it.
  void decode(const RecordedEvent& recorded, Timestamp at, std::uint32_t cpu, Event& event) {
    event.at = at;
    event.cpu = cpu;
    event.raw = {recorded.data, recorded.size};
    counters_.add_event(at);
    if (recorded.size >= kCommonFields) [[likely]]
      ++counts_[formats_.type_of(recorded.data)];
    if (!formats_.decode(recorded, event)) [[unlikely]]
      ++counters_.damaged_events;
    if (std::holds_alternative<Marker>(event.payload) && read_marker_calls_) [[unlikely]]
      marker_calls_.on(event, counters_);
  }
  // Returns whether a record of at least two bytes is of a class that was not selected.
  [[nodiscard]] bool is_unwanted(const RecordedEvent& recorded) const {
    return selected_[formats_.type_of(recorded.data)] == 0;
  }
  // Counts a record of a class that was not selected, without decoding it.
  void count_unwanted(const RecordedEvent& recorded, Timestamp at) {
    counters_.add_event(at);
    ++counts_[formats_.type_of(recorded.data)];
  }
  // Returns an array indexed by type: 0 for a type that is not selected. The array is valid and up
  // to date as long as the source exists.
  [[nodiscard]] const std::uint8_t* selected() const { return selected_.data(); }
  // Counts records of classes that were not selected, given their types; note_unwanted() gets their
  // times later.
  void count_unwanted(std::span<const std::uint16_t> types) {
    passed_ += types.size();
    for (const std::uint16_t type : types) ++counts_[type];
  }
  // Notes the time of a record that count_unwanted(types) has counted.
  void note_unwanted(Timestamp at) {
    if (counters_.events == 0 && !first_passed_) first_passed_ = at;
    last_passed_ = std::max(last_passed_, at);
  }
  // Makes `event` a loss and counts it. `lost`: the number of lost events; below 1 if not known.
  // `on_purpose`: the recorder left the events out.
  void fill_lost(std::uint32_t cpu, Timestamp from, Timestamp to, std::int64_t lost, Event& event,
                 bool on_purpose = false);
  [[nodiscard]] std::uint64_t count_of(std::size_t type) const { return counts_[type]; }

  // Appends at most so many events that follow, on the same CPU, the event that next() returned
  // last. next() will still return them.
  virtual void following(std::size_t /*most*/, std::vector<RecordedEvent>&) const {}
  // Returns the recorded kernel's symbols; "" if they are not recorded or cannot be read.
  [[nodiscard]] virtual std::string kallsyms() const { return {}; }

  Formats formats_;
  Capabilities capabilities_;

 private:
  // Returns the types of the events read so far, with their numbers.
  [[nodiscard]] std::vector<std::pair<std::uint16_t, std::uint64_t>> types_read() const;
  [[nodiscard]] std::string type_name(std::uint16_t type) const;

  // The number of records that count_unwanted(types) has counted.
  std::uint64_t passed_ = 0;
  std::optional<Timestamp> first_passed_;  // set if a record of passed_ comes before all events
  Timestamp last_passed_;
  bool read_marker_calls_;
  std::vector<std::uint8_t> selected_;  // by type
  std::vector<std::uint64_t> counts_;   // events read so far, by type
  MarkerCalls marker_calls_;
};

}  // namespace trapline::kernel_events
