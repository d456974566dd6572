// Several sources as one sequence of events in order of time; ties go to the source added first.
#pragma once

#include <memory>
#include <vector>

#include "merge/source/merge_heap.h"
#include "merge/source/source.h"

namespace trapline {

// Guarantees: no event is given out while a source whose next one is not known yet could still have
// an earlier one: as long as one source has nothing yet, the timeline has nothing yet.
class Timeline {
 public:
  explicit Timeline(std::vector<std::unique_ptr<Source>> sources);

  // As Source::next(); at the end status() tells whether a source failed. Views in the event stay
  // valid until the next call.
  [[nodiscard]] Read next(Event& event) {
    if (lanes_.size() == 1) [[likely]]
      return lanes_[0].source->next(event);
    return next_of_many(event);
  }
  // The first source's error, or success. What was read before it stays good.
  [[nodiscard]] Result<void> status() const;
  [[nodiscard]] double progress() const;

  // Both before the first next(). Source::select().
  void select(std::size_t i, EventClass events) { lanes_[i].source->select(events); }
  // Has the source read by a thread, false where that cannot be: read_ahead.h. Then no text of an
  // event may be asked for.
  bool read_ahead(std::size_t i);
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
  Read next_of_many(Event& event);
  void fetch(std::size_t lane);

  std::vector<Lane> lanes_;
  MergeHeap heap_;                    // lanes that have an event in view
  std::vector<std::size_t> pending_;  // lanes that are to be asked again
  std::size_t handed_out_;            // the lane whose event the caller still looks at
};

}  // namespace trapline
