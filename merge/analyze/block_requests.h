// Which reads and writes of the host's block devices serve which of a VMM's requests.
//
//   VMM:   START ──────────────────────────────────────────────────────────> END
//   host:      block_bio_queue ──> block_rq_issue ──> block_rq_complete
//                (a thread of the VMM)      (any thread, the same device and sectors)
//
// A bio is of the request that was open when a thread of the VMM's process queued it, of the same
// direction. Where several are open, it is of the one whose sectors lie in the disk where the bio's
// are: an image begins somewhere on its device, and that distance is known from bios with one open
// request, or by elimination from several. A bio that may be of more than one is of none, and
// counted. A request whose bios did not all end before it did has no way through the block layer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/analyze/request_spans.h"
#include "merge/model/event.h"

namespace trapline {

struct BlockTransfer {
  bool write = false;
  std::uint64_t sector = 0, sectors = 0;  // of the guest's disk
};

class BlockRequests {
 public:
  // A request of the process begins: it and the value that its events carry are its key.
  void begin(ThreadId process, std::uint64_t value, const BlockTransfer& transfer);
  // It ends.
  [[nodiscard]] std::optional<BlockTimes> end(ThreadId process, std::uint64_t value);
  void on(const Event& event, const BlockIo& block, ThreadId process);
  void on_hole();

  [[nodiscard]] std::uint64_t ambiguous() const { return ambiguous_; }

 private:
  // Of requests, and bios, at a time; of images, and pieces of each; of requests that a bio may be
  // of. Each bio is held against all requests: more than disks have in flight, and no more.
  static constexpr std::size_t kMostOpen = 1u << 10, kMostPlaces = 1u << 10, kMostKnown = 128,
                               kMostOwners = 64;
  static constexpr unsigned kEnough = 2;  // bios that a distance must explain

  using Key = std::pair<ThreadId, std::uint64_t>;
  struct Request {
    BlockTransfer transfer;
    std::uint64_t unqueued = 0;  // sectors
    std::optional<Timestamp> queued, issued, completed;
    std::size_t on_disk = 0;  // bios that are issued and have not completed
    bool uncertain = false;   // a bio may have been its own
  };
  // Until its last sector is read or written.
  struct Bio {
    std::uint32_t device = 0;
    std::uint64_t sector = 0, sectors = 0, left = 0;
    bool issued = false;
    std::vector<Key> requests;
  };
  // Where an image lies on a device: the sector of the device less that of the guest's disk.
  struct Place {
    // In order.
    std::vector<std::uint64_t> known;     // several of a file in pieces
    std::vector<std::uint64_t> possible;  // each explains the bios that nothing known does
    unsigned seen = 0;
    void add(std::uint64_t distance);
  };

  Bio* add(const BlockIo& block, ThreadId process);
  [[nodiscard]] std::vector<Key> owners(const BlockIo& block, ThreadId process);
  using Open = std::vector<std::pair<Key, Request*>>;
  [[nodiscard]] static std::vector<Key> at_place(const Place& place, const BlockIo& block,
                                                 const Open& open);
  static void narrow(Place& place, const BlockIo& block, const Open& open);
  [[nodiscard]] std::uint32_t device_of(const BlockIo& block) const;
  void issue(Timestamp at, const BlockIo& block);
  void complete(Timestamp at, const BlockIo& block);

  std::map<Key, Request> open_;
  std::vector<Bio> bios_;
  std::map<std::pair<ThreadId, std::uint32_t>, Place> places_;  // by process and device
  bool bios_are_recorded_ = false;
  std::uint64_t ambiguous_ = 0;
};

}  // namespace trapline
