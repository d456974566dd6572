// The words for whom a vCPU waited for.
#pragma once

#include <cstdint>
#include <string>

#include "merge/analyze/culprit.h"
#include "merge/model/processes.h"
#include "merge/pass/vcpu_names.h"
#include "merge/source/timeline.h"

namespace trapline {

// A culprit in one word, for a group's key.
[[nodiscard]] std::uint64_t pack(const Culprit& culprit);
[[nodiscard]] Culprit unpack_culprit(std::uint64_t word);
// The key of an exit that waited for nobody.
inline constexpr std::uint64_t kNoCulprit = ~std::uint64_t{0};

struct CulpritNames {
  const Names& names;
  const Timeline& timeline;  // of the threads' names
  const VcpuNames& vcpus;
  const Processes& processes;

  // "stress-ng (tid 412)", "vcpu 1", "QEMU thread CPU 0/KVM (tid 9)", "idle", "timer",
  // "IPI from vcpu 1", "not allowed to run: CPU quota", "unknown (record sched:sched_waking)".
  [[nodiscard]] std::string text(const Culprit& culprit) const;
  // Of time in which a vCPU was ready to run: "X ran instead", "it was not allowed to run: CPU
  // quota", "its CPU was idle and had yet to wake up".
  [[nodiscard]] std::string ran_instead(const Culprit& culprit) const;
  // Of time in which it slept: "until woken by timer", "waiting for a lock, held by X".
  [[nodiscard]] std::string slept_for(const Culprit& culprit) const;
  // A step of either, after its part: "preempted by X", "blocked, until timer".
  [[nodiscard]] std::string step(Part part, const Culprit& culprit) const;
  [[nodiscard]] bool is_vcpu(ThreadId thread) const { return vcpus.vm(thread) != "?"; }
  // The VM that the thread belongs to; empty: to none, or it is not known.
  [[nodiscard]] std::string vm(ThreadId thread) const;
};

}  // namespace trapline
