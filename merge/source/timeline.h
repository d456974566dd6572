// Merges several sources into one sequence of events in order of time; ties go to the source added
// first.
#pragma once

#include <memory>
#include <vector>

#include "merge/source/merge_heap.h"
#include "merge/source/source.h"

namespace trapline {

// Guarantees: no event is returned while a source without a known next event could still have an
// earlier one. So as long as one source is kPending, the timeline is too.
class Timeline {
 public:
  explicit Timeline(std::vector<std::unique_ptr<Source>> sources);

  // Works like Source::next(). At the end, status() tells whether a source failed. Views in the
  // event stay valid until the next call.
  [[nodiscard]] Read next(Event& event) {
    if (only_ != nullptr) [[likely]]
      return only_->next(event);
    return next_of_many(event);
  }
  // Does what Source::pass_on() does, for the events of all sources.
  Read pass_on(Event& event, std::uint64_t most, EventSink& sink) {
    if (only_ != nullptr) [[likely]]
      return only_->pass_on(event, most, sink);
    for (; most != 0; --most) {
      if (const Read read = next_of_many(event); read != Read::kEvent) return read;
      if (!sink.push(event)) return Read::kEnd;
    }
    return Read::kEvent;
  }
  // Returns the first source's error, or success. Events read before an error are good.
  [[nodiscard]] Result<void> status() const;
  [[nodiscard]] double progress() const;

  // Selects classes of events of one source, as Source::select() does; call it before next().
  void select(std::size_t i, EventClass events) { lanes_[i].source->select(events); }
  [[nodiscard]] std::size_t size() const { return lanes_.size(); }
  [[nodiscard]] const Source& source(std::size_t i) const { return *lanes_[i].source; }
  // Returns the event's source, which has the names and texts of the event.
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
  Source* only_ = nullptr;            // the source, if there is one
  MergeHeap heap_;                    // lanes whose next event is known
  std::vector<std::size_t> pending_;  // lanes to fetch from again
  std::size_t handed_out_;            // the lane of the event that the caller has
};

}  // namespace trapline
