// What SystemTap and perf make of a dtrace probe: a uprobe at its nop, whose three arguments the
// kernel fetches from registers and writes into the ring buffer.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/instance.h"

namespace trapline::bench {

// The nop of one byte that sys/sdt.h places, and one of five bytes, which kernels since Linux 6.18
// can replace by a call.
extern "C" void trapline_probe_1(std::uint64_t address, std::uint32_t value, std::uint32_t size);
extern "C" void trapline_probe_5(std::uint64_t address, std::uint32_t value, std::uint32_t size);

// On while it lives; uprobe_events is one file for all programs, so the name is of this process.
class Uprobe {
 public:
  Uprobe(const test::Instance& instance,
         void (*function)(std::uint64_t, std::uint32_t, std::uint32_t));
  ~Uprobe();
  Uprobe(const Uprobe&) = delete;
  Uprobe& operator=(const Uprobe&) = delete;
  // False where this kernel has no uprobes, or this processor other registers.
  [[nodiscard]] bool is_on() const { return on_; }

 private:
  const test::Instance& instance_;
  std::string name_;
  bool on_ = false;
};

}  // namespace trapline::bench
