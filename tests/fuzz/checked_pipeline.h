// The pipeline with a sink that asks for all that it makes and ends the process where one of its
// guarantees does not hold:
//
//   exit        its parts sum to its time; its intervals follow each other from start to end
//   wait        the culprits' shares sum to the preempted and blocked parts
//   stall       its causes sum to its time
//   vCPU        exits, runs of the guest and other states sum to its time; none overlaps another
//   call        the calls of one stack end in the order in which they nest
//   counters    every kvm_exit is a span, or counted once for what it is instead; so is every entry
//
// Broken guarantees are told by a line that begins with "ERROR:".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/source/source.h"

namespace trapline::fuzz {

[[noreturn]] void broken(const char* what);
inline void hold(bool guarantee, const char* what) {
  if (!guarantee) [[unlikely]]
    broken(what);
}

class CheckedSpans : public SpanSink {
 public:
  [[nodiscard]] SpanClass selects() const override;
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void states(std::span<const StateRun> runs, const Pipeline& pipeline) override;
  void stall(const Stall& stall, const Pipeline& pipeline) override;
  void guest_run(const GuestRun& run, const Pipeline& pipeline) override;
  void begin(const FunctionCall& call, const Pipeline& pipeline) override;
  void end(const FunctionCall& call, const Pipeline& pipeline) override;

  // After Pipeline::finish().
  void finish(const Pipeline& pipeline) const;

 private:
  struct Lived {
    std::uint64_t ns = 0;  // of exits, runs of the guest and other states
    Timestamp end;         // of the last exit or run of the guest
  };
  Timestamp last_;
  bool in_order_ = true;  // else intervals may overlap, and only sums and counters are held
  std::map<ThreadId, Lived> threads_;
  std::map<std::string, std::vector<FunctionCall>> calls_;  // open, by stack
  std::uint64_t kvm_exits_ = 0, kvm_entries_ = 0, deaths_ = 0;
};

enum class Times { kInOrder, kMayGoBack };  // kMayGoBack: a CPU's own stamps do, in damaged files

// Reads the source to its end, through the whole pipeline and all texts; gives the events.
std::uint64_t read_all(std::unique_ptr<Source> source, Times times,
                       const tracetool::Declarations* declared = nullptr);

}  // namespace trapline::fuzz
