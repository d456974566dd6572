// What the numbers of threads, exits and culprits are called: of what a pass has met so far. A vCPU
// that has had no exit yet is named as a thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/pipeline.h"
#include "merge/analyze/vmm/vmm_knowledge.h"
#include "merge/pass/vcpu_names.h"
#include "merge/source/timeline.h"

namespace trapline {

// A culprit in one word, for a group's key.
[[nodiscard]] std::uint64_t pack(const Culprit& culprit);
[[nodiscard]] Culprit unpack_culprit(std::uint64_t word);
// The key of an exit that waited for nobody.
inline constexpr std::uint64_t kNoCulprit = ~std::uint64_t{0};

struct Naming {
  // Borrows what it is made of.
  Naming(const Timeline& from, const Pipeline& of) : Naming(from, of, of.processes(), of.vcpus()) {}
  Naming(const Timeline& from, const Pipeline& of, const Processes& known,
         const std::vector<VcpuTotalsOf>& all);

  const Timeline& timeline;  // its sources name reasons and threads
  const Pipeline& pipeline;
  const Names& names;
  const Processes& processes;
  std::vector<VcpuThread> threads;  // in the pipeline's order
  std::vector<Vm> vms;              // of each
  VcpuNames vcpus;

  // "stress-ng (tid 412)", "vCPU 1", "QEMU thread CPU 0/KVM (tid 9)", "idle", "timer",
  // "IPI from vCPU 1", "not allowed to run: CPU quota", "unknown (record sched:sched_waking)".
  // `root`: the thread of Culprit::root, where that is one and known.
  [[nodiscard]] std::string text(const Culprit& culprit, ThreadId root = {}) const;
  // Of time in which a vCPU was ready to run: "X ran instead", "it was not allowed to run: CPU
  // quota", "its CPU was idle and had yet to take it up".
  [[nodiscard]] std::string ran_instead(const Culprit& culprit) const;
  // Of time in which it slept: "until woken by timer", "waiting for a lock, held by X".
  [[nodiscard]] std::string slept_for(const Culprit& culprit, ThreadId root = {}) const;
  // A step of either, after its part: "preempted by X", "blocked, until timer".
  [[nodiscard]] std::string step(Part part, const Culprit& culprit, ThreadId root = {}) const;
  [[nodiscard]] bool is_vcpu(ThreadId thread) const { return vcpus.vm(thread) != "?"; }
  // The VM that the thread belongs to; empty: to none, or it is not known.
  [[nodiscard]] std::string vm(ThreadId thread) const;
  // "vCPU 1", "QEMU thread CPU 0/KVM (tid 9)", "stress-ng (tid 412)".
  [[nodiscard]] std::string text(ThreadId thread) const;
  // Who runs the vCPU: "QEMU"; "the VMM" where its names, and what it wrote, are not QEMU's.
  [[nodiscard]] std::string_view vmm(ThreadId vcpu) const;
  // The name of a thread of the host, printable; empty where no source knows it.
  [[nodiscard]] std::string comm(ThreadId thread) const;

 private:
  [[nodiscard]] bool tells_of_devices(const VmmKnowledge& vmm) const;
};

}  // namespace trapline
