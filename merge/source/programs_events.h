// A source of a program's own events, which are treated as markers: simpletrace files, QEMU's logs.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/model/numbered_names.h"
#include "merge/source/source.h"

namespace trapline {

// Sorts events that are out of order by less than a window of `most` events.
class ProgramsEvents : public Source {
 public:
  Read take(Event& event) override {
    while (!ended_ && window_.size() < most_) read_more();
    if (window_.empty()) return Read::kEnd;
    std::pop_heap(window_.begin(), window_.end(), later);
    current_ = std::move(window_.back());
    window_.pop_back();
    if (current_.at < last_) {  // out of order by more than the window
      ++counters_.damaged_events;
      current_.at = last_;
    }
    event = Event{};
    event.at = Timestamp(current_.at);
    event.thread = ThreadId{current_.thread};
    if (current_.dropped != 0) {
      event.payload = Lost{Timestamp(last_), event.at, current_.dropped};
      event.at = Timestamp(last_);
      counters_.add_gap(current_.dropped);
    } else {
      event.payload = Marker{current_.text};
      ++counters_.events;
    }
    last_ = current_.at;
    return Read::kEvent;
  }

  Capabilities capabilities() const override { return {.markers = true}; }
  std::string event_name(const Event&) const override {
    return printable(std::string_view(current_.text).substr(0, current_.text.find(' ')));
  }
  std::string event_text(const Event&) const override { return printable(current_.text); }
  std::string reason_name(const ExitReason& exit) const override {
    return exit.isa == ExitReason::kIsaUserspace ? run_exit_name(exit.reason) : "";
  }

 protected:
  struct Held {
    std::uint64_t at = 0;
    std::int32_t thread = 0;
    std::string text;
    std::uint64_t dropped = 0;  // the number of dropped events that this item stands for; 0: none
    std::uint64_t number = 0;   // keeps the order in the file for equal times
  };
  explicit ProgramsEvents(std::size_t most) : most_(most) {}
  // Adds the next record to the window if it is an event, or notes the end.
  virtual void read_more() = 0;
  void hold(Held held) {
    held.number = number_++;
    window_.push_back(std::move(held));
    std::push_heap(window_.begin(), window_.end(), later);
  }

  bool ended_ = false;

 private:
  static bool later(const Held& a, const Held& b) {
    return std::pair(a.at, a.number) > std::pair(b.at, b.number);
  }

  std::size_t most_;
  std::vector<Held> window_;  // a heap with the earliest event on top
  Held current_;
  std::uint64_t number_ = 0, last_ = 0;
};

}  // namespace trapline
