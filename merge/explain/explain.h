// trapline explain: one exit, what its time was spent on, and who kept it waiting.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/analyze/thread_activity.h"
#include "merge/pass/naming.h"
#include "merge/pass/pass.h"
#include "merge/report/causes.h"
#include "merge/report/slow_exits.h"
#include "merge/report/table.h"

namespace trapline {

using ExplainNode = TimeTree;

// A culprit that a vCPU waited for in a part of an exit.
struct WaitedFor {
  Part part = Part::kPreempted;
  std::string who;  // "vm 229 vcpu 0", "timer"
  std::string how;  // "vm 229 vcpu 0 ran instead", "until woken by timer"
  std::uint64_t ns = 0;
  std::uint64_t pieces = 0;  // 0: not a wait, but the rest of a halt
};

struct ExplainStep {
  std::uint64_t after_ns = 0;  // since the exit's beginning
  std::uint64_t ns = 0;
  Part part = Part::kKernel;
  std::string who;   // the culprit; empty: the vCPU waited for nobody
  std::string text;  // "preempted by X"
};

struct VmmEventText {
  std::uint64_t after_ns = 0;  // since the exit's beginning
  bool of_run = false;         // the event concerns the run itself, not who served the exit
  std::string name, text;      // `text` is as QEMU wrote it and begins with the name
};

// The activity of the thread that woke the vCPU, while the vCPU slept; its times sum to the sleep.
struct WakerTimes : Activity {
  std::string who;
  std::vector<std::pair<std::string, std::uint64_t>> vmm_events;  // number of each
};

struct Explanation {
  Report begun;  // head, sources and notes
  bool cycles = false;
  ExitRow exit;
  std::string vmm = "QEMU";    // the VMM that runs the vCPU: Naming::vmm()
  bool before = false;         // the exit begins only after the requested time
  States known;                // the parts that are known for exits in this recording
  std::uint64_t guest_ns = 0;  // how long the guest ran before the exit; 0: not known
  // Number of the exit's accesses to ports, or to MMIO; the exit's detail is that of the first
  // access. 0: no access is known.
  std::uint64_t accesses = 0;
  std::string fault;  // the cause of the exit's page fault; empty: no fault, or cause not known
  bool has_vmm_events = false;      // the recording has events of QEMU
  std::vector<WaitedFor> culprits;  // for each part, the largest first; they sum to the part
  // The shares of the kernel's part (KernelTracker), the largest first; they sum to the part.
  std::vector<ExplainNode> kernel;
  // `kernel` as a tree of functions with their callees, if functions were recorded.
  std::vector<ExplainNode> kernel_functions;
  std::vector<ExplainStep> steps;  // in order of time, the first kMostSteps
  std::size_t steps_left_out = 0;
  std::vector<VmmEventText> vmm_events;  // written by the vCPU's thread; the first ones
  std::size_t vmm_events_left_out = 0;
  bool device_told = false;  // vmm_events has an event of the device itself, not of the access
  std::optional<WakerTimes> waker;  // set if a thread woke the vCPU after most of the blocked time
  std::vector<std::string> quotas;  // sentences on limits of the vCPU's CPU time
  std::string advice, source;       // from docs/explain.md; empty: no entry there
  std::vector<std::string> open;    // OpenExits::sentences()

  // Returns whether events show anything about the kernel's part.
  [[nodiscard]] bool traced() const {
    return kernel.size() > 1 || (kernel.size() == 1 && kernel[0].text != "untraced");
  }
};

[[nodiscard]] Result<Explanation> run_explain(const PassOptions& what,
                                              std::optional<TimeSpec> around,
                                              const Progress& progress);

// Makes rows that text draws as a tree.
[[nodiscard]] TableOf<ExplainNode> tree_table(std::vector<ExplainNode> nodes);
// Borrows the explanation. `steps`: text also has what happened in order, and QEMU's events.
[[nodiscard]] Report make_report(const Explanation& explanation, bool steps);

}  // namespace trapline
