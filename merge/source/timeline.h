// Several sources as one sequence of events in order of time; ties go to the source added first.
#pragma once

#include <memory>
#include <vector>

#include "merge/source/source.h"

namespace trapline {

class Timeline {
 public:
  explicit Timeline(std::vector<std::unique_ptr<Source>> sources);

  // Fills `event` and returns true; false at the end, and when a source failed: see status().
  // Views in the event stay valid until the next call.
  [[nodiscard]] bool next(Event& event) {
    if (lanes_.size() == 1) [[likely]]
      return lanes_[0].source->next(event);
    return next_of_many(event);
  }
  // The first source's error, or success. What was read before it stays good.
  [[nodiscard]] Result<void> status() const;
  [[nodiscard]] double progress() const;

  [[nodiscard]] std::size_t size() const { return lanes_.size(); }
  [[nodiscard]] const Source& source(std::size_t i) const { return *lanes_[i].source; }
  // The source that an event came from: names and texts are its.
  [[nodiscard]] const Source& source_of(const Event& event) const {
    return *lanes_[event.source].source;
  }

 private:
  struct Lane {
    std::unique_ptr<Source> source;
    Event ahead;  // the lane's next event
  };
  bool next_of_many(Event& event);
  void fetch(std::size_t lane);
  [[nodiscard]] bool is_later(std::size_t a, std::size_t b) const;

  std::vector<Lane> lanes_;
  std::vector<std::size_t> heap_;  // lanes that have an event, the earliest in front
  std::size_t handed_out_;         // the lane whose event the caller still looks at
};

}  // namespace trapline
