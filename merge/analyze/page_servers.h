// Which thread of user space served the page for which a thread slept (userfaultfd): it wakes the
// sleeper inside its ioctl UFFDIO_COPY or the like. A page that KVM waits for in a worker
// (asynchronous page faults) takes one step more:
//
//   server ── UFFDIO_COPY, wakes ──> kworker ── wakes ──> vCPU
//
// And which thread of the kernel made it wait, because it collapsed small pages into a huge one:
//
//   kvm_unmap_hva_range ── mm_collapse_huge_page_isolate ── wakes ── mm_collapse_huge_page
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "merge/model/thread_table.h"

namespace trapline {

class PageServers {
 public:
  // The commands of such an ioctl (linux/userfaultfd.h): COPY, ZEROPAGE, MOVE, WRITEPROTECT,
  // CONTINUE, POISON, WAKE.
  static constexpr std::array<std::uint32_t, 7> kAnswers = {
      0xc028aa03, 0xc020aa04, 0xc028aa05, 0xc018aa06, 0xc020aa07, 0xc020aa08, 0x8010aa02};

  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<HostEvent, IoctlEnter, SchedSwitch, SchedWakeup, Lost>(payload);
  }
  struct Served {
    ThreadId by{};
    std::optional<Timestamp> collapses;  // since when it collapsed pages; else it answered
  };
  // Every event of the host that it looks at.
  void on(const Event& event);
  // Who served the sleeper that the last of them, a wake-up, ended the sleep of.
  [[nodiscard]] const std::optional<Served>& served_by() const { return served_by_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 14;
  struct Thread {
    bool serves = false;  // the last ioctl that it called answers a page fault
    bool asleep = false;
    Timestamp slept, served;
    Served server;  // that ended its last sleep, at `served`; 0: none did
    std::optional<Timestamp> unmaps, collapses;  // since when
  };
  void on_host(const Event& event, HostStep step);
  void on_wakeup(const Event& event, const SchedWakeup& wakeup);
  ThreadTable<Thread> threads_;
  std::optional<Served> served_by_;
};

}  // namespace trapline
