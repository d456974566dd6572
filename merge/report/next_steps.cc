#include "merge/report/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/report/table_kinds.h"

namespace trapline {
namespace {

// The report's option that tells more of a part of the exits' time, and what it tells; no option
// where the recording has no more.
struct Question {
  std::string_view option, answers;
};
Question question_of(Part part, const ReportData& report) {
  const auto has = [&report](std::string_view dimension) {
    return report.by.find(dimension) != std::string::npos;
  };
  for (const TableKind& kind : table_kinds()) {
    const std::string_view answers = kind.answers(part);
    if (answers.empty()) continue;
    if (report.tables_asked.contains(kind.option)) return {};
    return {kind.option, answers};
  }
  if (part == Part::kUser && !has("device"))
    return {"--by device", "which of QEMU's devices took the time"};
  const bool details =
      std::ranges::any_of(report.rows, [](const GroupRow& row) { return !row.largest.empty(); });
  if (has("detail") || !details) return {};
  return {"--by detail --top 20", "which ports, registers and addresses took the time"};
}

// Another recording, where this one cannot tell kernel, QEMU and waiting apart; else no command.
NextStep step_to_record(const ReportData& report) {
  if (report.knows(State::kUser) && report.durations()) return {};
  return {report.knows(State::kPreempted) ? "record" : "record --sched",
          report.durations() ? "tells kernel, QEMU and waiting apart"
                             : "a recording that has the exits' durations"};
}

// Of the busy time a twentieth or more went to exits, or to waits for a CPU: a change may gain it.
bool can_be_advised(const ReportData& report) {
  if (!report.overhead || !report.exits_asked.empty() || report.cycles) return false;
  const Overhead& overhead = *report.overhead;
  return std::max(overhead.exit_ns, overhead.not_run_ns) > overhead.busy_ns() / 20;
}

constexpr std::uint64_t kAround = 1'000'000;

std::vector<NextStep> steps_of_calls(const ReportData& report, const RecordingWords& words) {
  std::vector<NextStep> steps;
  if (report.by.find("stack") == std::string::npos)
    steps.push_back(
        {fmt::format("report {}{} --by stack --top 20", words.recording, words.interval),
         "from where the functions are called"});
  if (report.cycles) return steps;
  const GroupRow& row = report.rows.front();
  steps.push_back({fmt::format("timeline {} --from {} --to {}", words.recording,
                               seconds_text(row.max_at_ns), seconds_text(row.max_at_ns + kAround)),
                   fmt::format("the longest call of {}, and what follows", row.key)});
  return steps;
}

}  // namespace

std::vector<NextStep> next_steps(const ReportData& report, const RecordingWords& words) {
  if (report.rows_of == RowsOf::kCalls && !report.rows.empty())
    return steps_of_calls(report, words);
  if (report.rows_of == RowsOf::kExits && report.rows.empty() && report.is_window &&
      !report.cycles) {
    return {{fmt::format("explain {} --around {}", words.recording, seconds_text(report.start_ns)),
             "the exit that lies over this part, or the next one"}};
  }
  if (report.rows_of != RowsOf::kExits || report.rows.empty()) return {};
  const NextStep record = step_to_record(report);
  if (report.total.total.total() == 0)
    return record.command.empty() ? std::vector<NextStep>() : std::vector{record};
  const Parts& parts = report.total.parts;
  const auto most = static_cast<Part>(std::ranges::max_element(parts) - parts.begin());
  std::vector<NextStep> steps;
  const std::string around =
      words.interval.empty() ? "" : " --around " + seconds_text(report.total.max_at_ns);
  const Question question = question_of(most, report);
  if (most == Part::kUser && report.vmm_events.empty()) {
    steps.push_back({"help devices", "how to record which of QEMU's devices took the time"});
  } else if (!question.option.empty()) {
    steps.push_back(
        {fmt::format("report {}{} {}", words.recording, words.interval, question.option),
         std::string(question.answers)});
  }
  if (report.cycles && !around.empty()) return steps;
  steps.push_back(
      {fmt::format("explain {}{}", words.recording, around), "why the longest exit took so long"});
  if (steps.size() == 1 && !record.command.empty()) {
    steps.push_back(record);
  } else if (can_be_advised(report)) {
    steps.push_back(
        {fmt::format("advise {}{}", words.recording, words.interval), "what changes would gain"});
  } else if (steps.size() == 1) {
    steps.push_back(
        {fmt::format("timeline {}{}", words.recording, around.empty() ? " --around max" : around),
         "the events around it"});
  }
  return steps;
}

}  // namespace trapline
