// The data of the page (docs/formats/page.md), gathered in the pass that makes the report.
//
//   Pipeline ──> an Aggregator of interrupts, halts and guest functions, and one of requests
//           ├──> Exits: tables, exact as in every report; cells that can be selected and brushed
//           ├──> Shares: vCPU time, by state and time bin
//           ├──> Waits: who kept the vCPUs waiting
//           ├──> WorstExits: the longest, with what was around
//           └──> PageData itself: losses
//
// Memory does not grow with the recording.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/render/page/exits.h"
#include "merge/render/page/shares.h"
#include "merge/render/page/waits.h"
#include "merge/render/page/worst_exits.h"
#include "merge/report/aggregator.h"
#include "merge/report/run.h"

namespace trapline {

struct PageOptions {
  std::vector<std::string> command;  // "report", FILE, …: the words that print this in a terminal
  std::string tool;                  // "trapline 0.1.0"
  // What the recording says of itself: {"host", "Linux …"}, {"command", …}.
  std::vector<std::pair<std::string, std::string>> recorded;
};

class PageData : public SpanSink, public ReportCompanion {
 public:
  static constexpr std::size_t kMostLosses = 300, kMostRows = 200;
  static constexpr std::size_t kMostBytes = 2'000'000;

  explicit PageData(PageOptions options);
  ~PageData() override;

  // Of what was asked for; the report that it accompanies has few tables, for the page has its own.
  [[nodiscard]] static ReportOptions report_options(const ReportOptions& asked);

  // ReportCompanion
  [[nodiscard]] std::vector<SpanSink*> sinks(const Timeline& timeline, const Input& input,
                                             const ReportOptions& options) override;
  void finish(const Pipeline& pipeline) override;

  [[nodiscard]] SpanClass selects() const override { return SpanClass::kLosses; }
  void lost(const Event& event, const Lost& lost, const Pipeline& pipeline) override;

  // After the pass: one line of JSON, ASCII only, without '<' and '>': it can stand in a script
  // element. At most kMostBytes.
  [[nodiscard]] const std::string& json() const { return json_; }

 private:
  struct Writer;
  struct Loss {
    std::uint32_t cpu = 0;
    Timestamp from, to;
    std::uint64_t count = 0;
  };

  PageOptions options_;
  const Timeline* timeline_ = nullptr;
  ReportOptions asked_, asked_requests_;
  std::unique_ptr<Aggregator> report_, requests_;
  page::Exits exits_;
  page::Shares shares_;
  page::Waits waits_;
  page::WorstExits worst_{waits_};
  std::vector<Loss> losses_;
  std::uint64_t losses_left_out_ = 0;
  std::string json_;
};

// What session.json tells, where one of the paths is a session; else nothing.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> session_facts(
    const std::vector<std::string>& paths);

// JSON that can stand in a script element: what would end one, or begin a comment in one, is written
// as an escape.
[[nodiscard]] std::string without_markup(const std::string& json);
// The page with the data in it. An Error says what to install where the page was not built.
[[nodiscard]] Result<void> check_page();
void print_page(const std::string& json, std::ostream& out);

}  // namespace trapline
