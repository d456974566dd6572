// An interval that a guest recorded, with what its host did meanwhile.
#pragma once

#include <string>
#include <vector>

#include "merge/analyze/vcpu_history.h"

namespace trapline {

class Pipeline;

struct GuestInterval {
  ThreadId thread{};  // of the vCPU on which it ended
  Timestamp begin, end;
  std::string what;               // "next_pid=12"; empty: intervals have no value
  std::vector<VcpuPiece> pieces;  // what is known of its vCPU in that time
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

// Who takes each of them, in the order in which their vCPU is known up to their end.
class GuestSpanTaker {
 public:
  virtual ~GuestSpanTaker() = default;
  virtual void guest_span(const GuestInterval&, const Pipeline&) {}
};

}  // namespace trapline
