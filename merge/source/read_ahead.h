// A source that a thread of its own reads, ahead of who takes its events.
//
//   thread:  the source's next() ──> batch of events ──> full ──> next():  an event of the batch
//                                      └─────────── free <──── taken ────────────────┘
//
// The events of a batch point into the source's buffers: those that the source is done with stay
// with the batch until it is taken. Names and texts are asked of the source itself while the thread
// reads: this is for sources that keep_buffers(), and for who asks for no event's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "merge/source/source.h"

namespace trapline {

// Where a source leaves the buffers that it is done with and that events in hand may point into.
class KeptBuffers {
 public:
  using Buffer = std::vector<std::byte>;

  // Another buffer for one that was filled when `events()` was `filled`: the same where no event
  // was handed out since, as of pages that are of no interest.
  [[nodiscard]] Buffer exchange(Buffer buffer, std::uint64_t filled);
  // How many events were handed out.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  void count_event() { ++events_; }
  // Those that were left since the last call; their bytes.
  [[nodiscard]] std::vector<Buffer> take_left() {
    left_bytes_ = 0;
    return std::exchange(left_, {});
  }
  [[nodiscard]] std::size_t left_bytes() const { return left_bytes_; }
  // No event points into them any more.
  void free(std::vector<Buffer> buffers);

 private:
  std::uint64_t events_ = 0;
  std::vector<Buffer> left_, free_;
  std::size_t left_bytes_ = 0;
};

// How many sources are worth a thread: one for each CPU of this process, none where that is one.
[[nodiscard]] std::size_t most_read_ahead();
// The source itself where it does not keep_buffers().
[[nodiscard]] std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source);

}  // namespace trapline
