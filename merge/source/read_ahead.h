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
#include <memory>
#include <utility>
#include <vector>

#include "merge/source/source.h"

namespace trapline {

// Where a source leaves the buffers that it is done with.
class KeptBuffers {
 public:
  using Buffer = std::vector<std::byte>;

  // Another buffer for one that events may still point into.
  [[nodiscard]] Buffer exchange(Buffer buffer) {
    if (!buffer.empty()) left_.push_back(std::move(buffer));
    if (free_.empty()) return {};
    Buffer other = std::move(free_.back());
    free_.pop_back();
    return other;
  }
  [[nodiscard]] std::vector<Buffer> take_left() { return std::exchange(left_, {}); }
  void free(std::vector<Buffer> buffers) {
    for (Buffer& buffer : buffers) free_.push_back(std::move(buffer));
  }

 private:
  std::vector<Buffer> left_, free_;
};

// How many sources are worth a thread: one for each CPU of this process, none where that is one.
[[nodiscard]] std::size_t most_read_ahead();
// The source itself where it does not keep_buffers().
[[nodiscard]] std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source);

}  // namespace trapline
