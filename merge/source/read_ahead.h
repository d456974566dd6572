// A source that a separate thread reads ahead of the caller of next().
//
//   thread:  the source's next() ──> batch of events ──> full ──> next():  an event of the batch
//                                      └─────────── free <──── taken ────────────────┘
//
// The events of a batch point into the source's buffers, so the buffers stay with the batch until
// it has been used. The caller asks the source itself for names while the thread reads. So this
// works only for sources that support keep_buffers(), and for callers that ask for no event's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "merge/source/source.h"

namespace trapline {

// Takes the buffers that a source has finished with and that events in use may point into.
class KeptBuffers {
 public:
  using Buffer = std::vector<std::byte>;

  // Returns another buffer for one that was filled when `events()` was `filled`. It is the same one
  // if no event was returned since, as for pages without wanted events.
  [[nodiscard]] Buffer exchange(Buffer buffer, std::uint64_t filled);
  // Returns how many events were returned.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  void count_event() { ++events_; }
  // Returns the buffers left since the last call, with their size in bytes.
  [[nodiscard]] std::vector<Buffer> take_left() {
    left_bytes_ = 0;
    return std::exchange(left_, {});
  }
  [[nodiscard]] std::size_t left_bytes() const { return left_bytes_; }
  // Takes back buffers that no event points into any more.
  void free(std::vector<Buffer> buffers);

 private:
  std::uint64_t events_ = 0;
  std::vector<Buffer> left_, free_;
  std::size_t left_bytes_ = 0;
};

// Returns how many sources should get a thread: one for each CPU of this process, none if it has
// only one.
[[nodiscard]] std::size_t most_read_ahead();
// Returns the source itself if it does not support keep_buffers().
[[nodiscard]] std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source);

}  // namespace trapline
