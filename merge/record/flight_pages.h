// The pages of all CPUs, from the instance's buffers into the ring; and the exits in them that
// --snapshot-on waits for.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "merge/record/flight_ring.h"
#include "merge/record/instance.h"
#include "merge/record/page_stream.h"
#include "merge/record/snapshot/snapshot.h"

namespace trapline::record {

class FlightPages {
 public:
  [[nodiscard]] static Result<FlightPages> open(const Instance& instance,
                                                const FlightRingOptions& options);

  // Before the first page. The hits are found by what --snapshot-on alone finds them with: a
  // Snapshot that keeps nothing.
  void look_for(TriggerMatcher trigger);
  // What was found so far; nothing where nothing is looked for.
  [[nodiscard]] const SnapshotFacts* found() const { return finder_ ? &finder_->facts() : nullptr; }

  [[nodiscard]] std::size_t size() const { return streams_.size(); }
  [[nodiscard]] int fd(std::size_t cpu) const { return streams_[cpu].fd(); }  // to poll
  // What is there, the pages still being filled too; whether that was all.
  [[nodiscard]] Result<bool> read();
  // All of it, and a time up to which the ring has every event of every CPU.
  [[nodiscard]] Result<std::uint64_t> read_all();

  [[nodiscard]] const FlightRing& ring() const { return ring_; }
  void close();  // before the instance is removed

 private:
  explicit FlightPages(const FlightRingOptions& options)
      : ring_(options), page_size_(options.page_size) {}
  [[nodiscard]] Result<bool> round();

  FlightRing ring_;
  std::size_t page_size_;
  std::vector<PageStream> streams_;
  std::unique_ptr<Snapshot> finder_;
};

}  // namespace trapline::record
