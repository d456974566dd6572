// Interrupts through the PIC (i8259), which knows pins where the guest knows vectors:
//
//   kvm_set_irq 1 ──> kvm_pic_set_irq ──> kvm_inj_virq ──> kvm_entry ──> kvm_ack_irq
//     raised (pin)     latched: chip, pin    injected         in guest     done
//
// A vector's low three bits are its pin; which of the two chips it is of follows from the base that
// the guest gave to each (the vector's other bits), learned where only one of them has such a pin
// latched. What could be either's stays open and is counted. A pin latched again is one interrupt;
// one that the guest masked is not followed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/analyze/irq_span.h"
#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

class PicLines {
 public:
  // `line` is chip * 8 + pin, as in KvmIrq of IrqStep::kPic.
  void latch(ThreadId process, std::uint32_t line, const IrqSpan& raised);
  // Whether it was an interrupt of the PIC.
  [[nodiscard]] bool inject(ThreadId process, std::uint32_t vector, const Event& event);
  void enter(ThreadId thread, Timestamp at);
  // The interrupt that the guest ended, or nullptr; valid until the next call.
  [[nodiscard]] const IrqSpan* end(ThreadId process, std::uint32_t line, Timestamp at);
  // Until it returns nullptr: what was injected and never ended.
  [[nodiscard]] const IrqSpan* finish();
  void on_hole();

  [[nodiscard]] std::uint64_t coalesced() const { return coalesced_; }
  [[nodiscard]] std::uint64_t ambiguous() const { return ambiguous_; }

 private:
  static constexpr std::size_t kMostProcesses = 4096, kMostThreads = 1u << 16;
  static constexpr std::uint32_t kPins = 8, kLines = 2 * kPins;
  struct Line {
    std::optional<IrqSpan> latched, active;
    ThreadId injected_by{};
  };
  struct Pics {
    bool held = false;  // among held_
    std::array<Line, kLines> lines;
    std::array<std::uint32_t, 2> base{kNoVector, kNoVector};  // vector of each chip's pin 0
  };
  // The latched line whose vector it is, or nullptr.
  [[nodiscard]] Line* find(Pics& pics, std::uint32_t vector);

  std::map<ThreadId, Pics> pics_;
  HeldStates<Pics> held_;  // with a line latched since the last loss
  // Process and line of what a thread has injected since it entered its guest.
  std::map<ThreadId, std::vector<std::pair<ThreadId, std::size_t>>> to_enter_;
  std::uint64_t coalesced_ = 0, ambiguous_ = 0;
  IrqSpan done_;
};

}  // namespace trapline
