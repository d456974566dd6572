// The timeline as lines of text: events of kernel and QEMU and the spans derived from them, in
// order, indented by where the vCPU is (guest, exit, user space), each end with its duration.
//
//   call rtc_read()                            guest functions, where a plugin recorded them
//     exit io, in rtc_read                     kvm_exit
//     kvm_pio pio_write at 0x71 …              kernel events of the vCPU's thread
//       to user space: KVM_EXIT_IO             kvm_userspace_exit
//       memory_region_ops_write …              QEMU's events
//       back in KVM after 77.0 µs
//     entry after 132 µs: kernel …, user …     kvm_entry
#pragma once

#include <optional>
#include <ostream>
#include <set>
#include <string>

#include "merge/analyze/exit_tracker.h"
#include "merge/render/text_table.h"
#include "merge/session/input.h"
#include "merge/source/timeline.h"

namespace trapline {

struct TimelineOptions {
  Timestamp from, to;                         // both included
  std::optional<std::set<ThreadId>> threads;  // vCPU threads whose events are shown; empty: all
  std::string reason;                         // a pattern: only exits with this reason, whole
  TextStyle style;
};

class TimelineView {
 public:
  // Borrows everything.
  TimelineView(const Timeline& timeline, const Input& input, const TimelineOptions& options,
               std::ostream& out);

  // False when the event lies behind the window: nothing more is shown.
  [[nodiscard]] bool on(const Event& event);
  [[nodiscard]] std::uint64_t lines() const { return lines_; }

 private:
  struct Place {
    unsigned depth = 0;  // 0 guest or unknown, 1 in an exit, 2 in user space
    bool shown = true;   // of an exit with another reason, nothing is
    Timestamp user_start, off_start;
    std::int32_t vcpu = kNoVcpu;
  };
  void print(const Event& event, const Place* place, unsigned depth, std::string_view colour,
             const std::string& text);
  [[nodiscard]] std::string who(const Event& event, const Place* place) const;
  [[nodiscard]] std::string plain(const Event& event) const;
  [[nodiscard]] std::string function_of(std::uint64_t rip) const;
  void show(const Event& event, const ExitSpan* span);
  void on_exit(const Event& event, const KvmExit& exit);
  void on_guest_call(const Event& event, const GuestCall& call);
  void on_entry(const Event& event, const ExitSpan* span);
  void on_userspace_exit(const Event& event, const KvmUserspaceExit& exit);
  [[nodiscard]] bool on_user_end(const Event& event);
  void on_switch(const Event& event, const SchedSwitch& sched);
  [[nodiscard]] std::string duration(std::uint64_t ns) const;

  const Timeline& timeline_;
  const Input& input_;
  const TimelineOptions& options_;
  std::ostream& out_;
  Names names_;
  QemuEventReader reader_;
  ExitModel model_;
  ExitTracker tracker_;
  ThreadTable<Place> places_;
  std::uint64_t lines_ = 0;
  bool cycles_;
};

}  // namespace trapline
