#include "merge/report/next_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

// The report's option that tells more of a part of the exits' time, and what it tells.
struct Question {
  std::string_view option, answers;
};
Question question_of(Part part, const Report& report) {
  const auto has = [&report](std::string_view dimension) {
    return report.by.find(dimension) != std::string::npos;
  };
  if (part == Part::kPreempted) return {"--waits", "what ran while the vCPUs were ready"};
  if (part == Part::kBlocked) return {"--waits", "what the exits waited for"};
  if (part == Part::kUser && !has("device"))
    return {"--by device", "which of QEMU's devices took the time"};
  const bool details =
      std::ranges::any_of(report.rows, [](const GroupRow& row) { return !row.mostly.empty(); });
  if (!has("detail") && details)
    return {"--by detail", "which ports, registers and addresses took the time"};
  return {"--by function", "which of the guest's functions the exits interrupted"};
}

}  // namespace

std::vector<NextStep> next_steps(const Report& report, const RecordingWords& words) {
  if (report.rows_of != RowsOf::kExits || report.total.total.total() == 0) return {};
  const Parts& parts = report.total.parts;
  const auto most = static_cast<Part>(std::ranges::max_element(parts) - parts.begin());
  std::vector<NextStep> steps;
  if (most == Part::kUser && report.vmm_events.empty()) {
    steps.push_back({"help devices", "how to record which of QEMU's devices took the time"});
  } else if (const Question question = question_of(most, report);
             question.option != "--waits" || !report.waits) {
    steps.push_back(
        {fmt::format("report {}{} {}", words.recording, words.interval, question.option),
         std::string(question.answers)});
  }
  const std::string around =
      words.interval.empty() ? "" : " --around " + seconds_text(report.total.max_at_ns);
  if (!report.cycles || around.empty())
    steps.push_back({fmt::format("explain {}{}", words.recording, around),
                     "why the longest exit took so long"});
  return steps;
}

}  // namespace trapline
