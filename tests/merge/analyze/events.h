// Verbs to write a sequence of events with.
#pragma once

#include <initializer_list>
#include <string>

#include "merge/model/event.h"

namespace trapline::test {

inline constexpr std::string_view kReadRtc =
    "memory_region_ops_read cpu 0 mr 0x55 addr 0x71 value 0x1 size 1 name 'rtc'\n";
inline constexpr std::string_view kWriteRtcIndex =
    "memory_region_ops_write cpu 0 mr 0x55 addr 0x70 value 0x1 size 1 name 'rtc-index'\n";

inline constexpr ThreadId kVcpu0{100}, kVcpu1{101}, kOtherThread{7};
inline constexpr std::uint32_t kSvm = 2, kSvmIo = 0x7b, kSvmHlt = 0x78, kSvmNpf = 0x400;

inline Event make(std::uint64_t at, std::uint32_t cpu, ThreadId thread, Payload payload) {
  Event event;
  event.at = Timestamp(at);
  event.cpu = cpu;
  event.thread = thread;
  event.payload = std::move(payload);
  return event;
}
inline Event exit(std::uint64_t at, std::uint32_t reason = kSvmIo, ThreadId thread = kVcpu0,
                  std::uint32_t cpu = 0) {
  return make(at, cpu, thread, KvmExit{reason, kSvm, 0, thread == kVcpu1 ? 1 : 0, 0x1000});
}
inline Event entry(std::uint64_t at, ThreadId thread = kVcpu0, std::uint32_t cpu = 0) {
  return make(at, cpu, thread, KvmEntry{thread == kVcpu1 ? 1 : 0});
}
inline Event to_user(std::uint64_t at, std::uint32_t reason = 2, ThreadId thread = kVcpu0) {
  return make(at, 0, thread, KvmUserspaceExit{reason, 0});
}
inline Event run_ioctl(std::uint64_t at, ThreadId thread = kVcpu0) {
  return make(at, 0, thread, IoctlEnter{0xAE80});
}
inline Event reload(std::uint64_t at, ThreadId thread = kVcpu0) {
  return make(at, 0, thread, KvmStateLoad{kNoVcpu});
}
inline Event port(std::uint64_t at, std::uint64_t number, Access access = Access::kWrite) {
  return make(at, 0, kVcpu0, KvmDetail{number, 0, DetailKind::kPort, access, false});
}
inline Event marker(std::uint64_t at, std::string_view text, ThreadId thread = kVcpu0) {
  return make(at, 0, thread, Marker{text});
}
inline Event switch_out(std::uint64_t at, bool runnable, ThreadId thread = kVcpu0,
                        std::uint32_t cpu = 0) {
  return make(at, cpu, thread, SchedSwitch{thread, kOtherThread, runnable, "other"});
}
inline Event switch_in(std::uint64_t at, ThreadId thread = kVcpu0, std::uint32_t cpu = 0) {
  return make(at, cpu, kOtherThread, SchedSwitch{kOtherThread, thread, true, "vcpu"});
}
inline Event wake(std::uint64_t at, ThreadId thread = kVcpu0) {
  return make(at, 1, kOtherThread, SchedWakeup{thread});
}
inline Event nested(std::uint64_t at, NestedStep step) {
  return make(at, 0, kVcpu0, KvmNested{step});
}
inline Event lost(std::uint32_t cpu, std::uint64_t from, std::uint64_t to,
                  std::uint64_t count = 3) {
  return make(from, cpu, ThreadId{-1}, Lost{Timestamp(from), Timestamp(to), count});
}

}  // namespace trapline::test
