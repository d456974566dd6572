#include "merge/record/summary.h"

namespace trapline::record {
namespace {

void add_losses(const Session& session, bool whole, std::vector<std::string>& lines) {
  bool any = false;
  std::uint64_t events = 0;
  for (const CpuLoss& loss : session.losses) {
    if (!loss.any()) continue;
    any = true;
    events += loss.overwritten + loss.dropped;
    lines.push_back(
        fmt::format("lost on CPU {}: {} events overwritten, {} without room, {} pages not written",
                    loss.cpu, loss.overwritten, loss.dropped, loss.unwritten_pages));
  }
  if (!any && whole) lines.emplace_back("lost nothing");
  if (events != 0) {
    lines.push_back(
        fmt::format("fewer are lost with larger buffers: --buffer-size {}", session.buffer_kb * 4));
  }
}

}  // namespace

std::vector<std::string> summary(const Session& session, const Outcome& outcome) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "recorded {:.1f} MiB in {:.1f} s", static_cast<double>(outcome.written) / (1 << 20),
      static_cast<double>(session.end_real_ns - session.start_real_ns) / 1e9));
  add_losses(session, outcome.whole, lines);
  lines.push_back(fmt::format("next: trapline report {}", outcome.folder));
  return lines;
}

}  // namespace trapline::record
