// Finds which reads and writes of the host's block devices serve which of a VMM's requests.
//
//   VMM:   START ──────────────────────────────────────────────────────────> END
//   host:      block_bio_queue ──> block_rq_issue ──> block_rq_complete
//                (a thread of the VMM)      (any thread, the same device and sectors)
//
// A bio belongs to the request of the same direction that was open when a thread of the VMM's
// process queued the bio. If several are open, it belongs to the one that covers the bio's sectors.
// The sector of the device at which an image begins is learnt from bios with only one open request,
// or by elimination from several. A bio that may belong to several requests is assigned to none,
// and counted. A request with a bio that did not end before the request gets no stages in the block
// layer.
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
  std::uint64_t sector = 0, sectors = 0;  // place and length on the guest's disk
};

class BlockRequests {
 public:
  // Notes that a request of the process begins. The process and `value`, which the request's events
  // carry, are the request's key.
  void begin(ThreadId process, std::uint64_t value, const BlockTransfer& transfer);
  // Ends the request. Returns its times in the block layer, if they are known.
  [[nodiscard]] std::optional<BlockTimes> end(ThreadId process, std::uint64_t value);
  void on(const Event& event, const BlockIo& block, ThreadId process);
  void on_hole();

  [[nodiscard]] std::uint64_t ambiguous() const { return ambiguous_; }

 private:
  // The greatest numbers of open requests and of open bios, of images, of pieces of an image, and
  // of requests that share a bio. They bound the work for a bio, which is compared with all open
  // requests. Disks have fewer requests in flight.
  static constexpr std::size_t kMostOpen = 1u << 10, kMostPlaces = 1u << 10, kMostKnown = 128,
                               kMostOwners = 64;
  static constexpr unsigned kEnough = 2;  // bios that a distance must explain to be taken as known

  using Key = std::pair<ThreadId, std::uint64_t>;
  struct Request {
    BlockTransfer transfer;
    std::uint64_t unqueued = 0;  // number of sectors that no bio carries so far
    std::optional<Timestamp> queued, issued, completed;
    std::size_t on_disk = 0;  // bios that were issued and have not completed
    bool uncertain = false;   // it is not known whether a bio belonged to this request
  };
  // A bio, kept until its last sector has been read or written.
  struct Bio {
    std::uint32_t device = 0;
    std::uint64_t sector = 0, sectors = 0, left = 0;
    bool issued = false;
    std::vector<Key> requests;
  };
  // The place of an image on a device: the device's sector minus the sector of the guest's disk.
  struct Place {
    // `known` and `possible` are sorted.
    std::vector<std::uint64_t> known;     // proven places; several if the file is in pieces
    std::vector<std::uint64_t> possible;  // each explains the latest bios that no known place does
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
