// Finds the VM exit that carried a guest's notify to QEMU.
//
// A notify that the vCPU's own thread handles was carried by the exit that the thread is in. A
// notify that KVM turned into an eventfd (ioeventfd) appears twice, and only the queue's number is
// the same:
//
//   vCPU:  kvm_exit ── kvm_mmio write ADDRESS value n ── kvm_entry      (no exit to user space)
//   QEMU:                      virtio_queue_notify … n N vq Q
//
// Q's address is found by elimination, never by time alone. Every notify of Q follows a write of n
// to Q's address since Q's previous notify, so the sets of addresses written in between are
// intersected over Q's notifies. When one address is left and was in at least two sets, it is Q's.
// The first write to it since the previous notify carried the notify. Notifies that remain
// ambiguous are counted.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

class NotifyExits {
 public:
  // Takes events of the kernel; `process` is that of the event's thread.
  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<KvmExit, KvmEntry, KvmUserspaceExit, KvmDetail>(payload);
  }
  void on(const Event& event, ThreadId process);
  // QEMU's thread handles the notify of queue `vq`, number `n` of its device. Returns the beginning
  // of the exit that carried it.
  [[nodiscard]] std::optional<Timestamp> on_notify(const Event& event, ThreadId process,
                                                   std::uint64_t vq, std::uint64_t n);
  // Events may be missing, so nothing before the loss is used any more.
  void on_hole();

  // Returns the number of notifies that several exits, or several addresses, may have carried.
  [[nodiscard]] std::uint64_t ambiguous() const { return ambiguous_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16, kMostWrites = 4096, kMostQueues = 4096;
  // Queue numbers have 16 bits; the bits above are what VIRTIO_F_NOTIFICATION_DATA adds.
  static constexpr std::uint64_t kNumber = 0xffff;

  struct Thread {
    bool in_exit = false;
    Timestamp exit;
    std::optional<std::uint64_t> written;  // in this exit, through a port or MMIO
  };
  struct Write {
    Timestamp exit, at;
    ThreadId thread;
    std::uint64_t address, value;
  };
  struct Writes {
    std::deque<Write> writes;
    Timestamp complete_from;  // earlier ones were dropped
  };
  struct Queue {
    std::optional<Timestamp> last;         // its previous notify
    std::vector<std::uint64_t> addresses;  // possible addresses, in order
    unsigned seen = 0, missed = 0;  // notifies that agree; consecutive ones without its address
    bool doubtful =
        false;  // of several writes, the last may have come too late for the previous notify
  };

  void on_write(const Event& event, ThreadId process, const KvmDetail& detail);
  [[nodiscard]] std::optional<Timestamp> find(Queue& queue,
                                              const std::vector<const Write*>& window);
  [[nodiscard]] static std::vector<std::uint64_t> addresses_of(
      const std::vector<const Write*>& window);
  static bool narrow(Queue& queue, const std::vector<const Write*>& window);

  ThreadTable<Thread> threads_;
  std::map<ThreadId, Writes> writes_;  // by process
  std::map<std::pair<ThreadId, std::uint64_t>, Queue> queues_;
  std::uint64_t ambiguous_ = 0;
};

}  // namespace trapline
