// The timeline as lines of text: events of the kernel and QEMU, and the spans derived from them, in
// order. Lines are indented by where the vCPU is (guest, exit, user space), and each end has its
// duration.
//
//   call rtc_read()                            guest functions, if a plugin recorded them
//     exit io, in rtc_read                     kvm_exit
//     kvm_pio pio_write at 0x71 …              kernel events of the vCPU's thread
//       to user space: KVM_EXIT_IO             kvm_userspace_exit
//       memory_region_ops_write …              QEMU's events
//       back in KVM after 77.0 µs
//     entry after 132 µs: kernel …, user …     kvm_entry
#pragma once

#include <map>
#include <ostream>
#include <string>

#include "merge/analyze/pipeline.h"
#include "merge/model/thread_table.h"
#include "merge/pass/exit_matcher.h"
#include "merge/pass/naming.h"
#include "merge/render/text_table.h"
#include "merge/source/timeline.h"

namespace trapline {

// A sink that prints the timeline. Exits and threads are known from the pipeline.
class TimelineView : public SpanSink {
 public:
  // Prints from `from` on, included. `only`: prints these exits, whole; nullptr: prints everything.
  // `vcpus`: vCPUs known beforehand, by thread. Borrows its reference arguments and `only`.
  TimelineView(const Timeline& timeline, TimeSpec from, const ChosenExits* only, TextStyle style,
               std::map<ThreadId, std::int32_t> vcpus, std::ostream& out)
      : timeline_(timeline),
        from_(from),
        only_(only),
        style_(style),
        out_(out),
        told_vcpus_(std::move(vcpus)),
        cycles_(timeline.source(0).info().cycles) {}
  TimelineView(const TimelineView&) = delete;
  TimelineView& operator=(const TimelineView&) = delete;
  ~TimelineView() override { write_out(); }

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kEvents | SpanClass::kAllEvents;
  }
  void event(const Event& event, const Pipeline& pipeline) override;
  [[nodiscard]] std::uint64_t lines() const { return lines_; }
  // Returns true if an event lies in the interval, printed or not.
  [[nodiscard]] bool has_events() const { return has_events_; }

 private:
  // How to print a line of a thread; if `is_vcpu` is false, the thread is not a vCPU's.
  struct Place {
    bool is_vcpu = false;
    bool shown = true;   // false for an exit that was not selected
    unsigned depth = 0;  // 0 in the guest or unknown, 1 in an exit, 2 in user space
    std::int32_t vcpu = kNoVcpu;
  };
  [[nodiscard]] Place place_of(ThreadId thread, const Pipeline& pipeline);
  void meet(ThreadId thread, std::int32_t vcpu);
  // Prints a line with the text that `append_text` appends; no line if it appends nothing.
  template <typename Text>
  void print(const Event& event, const Place& place, unsigned depth, std::string_view look,
             Text&& append_text);
  void print_plain(const Event& event, const Place& place, unsigned depth, std::string_view look);
  void write_out();
  [[nodiscard]] std::string name_of(const Event& event, const Place& place) const;
  [[nodiscard]] const std::string& who(const Event& event, const Place& place);
  void append_plain(std::string& out, const Event& event) const;
  void show(const Event& event, const Place& place, const Pipeline& pipeline);
  void on_exit(const Event& event, const KvmExit& exit, const Place& place,
               const Pipeline& pipeline);
  void on_entry(const Event& event, Place place, const Pipeline& pipeline);
  void on_guest_call(const Event& event, const GuestCall& call, Place place);
  void on_switch(const Event& event, const ThreadChange& leaves, const ThreadChange& runs,
                 const Pipeline& pipeline);

  const Timeline& timeline_;
  TimeSpec from_;
  const ChosenExits* only_;
  TextStyle style_;
  std::ostream& out_;
  std::string buffer_;  // lines that out_ has not got yet
  // The vCPUs that the caller or guest records named, for threads without an exit so far.
  std::map<ThreadId, std::int32_t> told_vcpus_;
  const Processes* processes_ = nullptr;                // the pipeline's
  std::map<ThreadId, std::int32_t> met_ = told_vcpus_;  // the vCPUs met so far
  VcpuNames names_;                                     // names of the vCPUs in met_
  std::uint64_t named_ = 0;        // 1 + processes_->changes() as of names_; 0: names_ is outdated
  ThreadTable<std::string> whos_;  // names of vCPUs, padded, as of named_; empty: not made yet
  std::string other_;
  std::uint64_t lines_ = 0;
  bool has_events_ = false, cycles_;
};

}  // namespace trapline
