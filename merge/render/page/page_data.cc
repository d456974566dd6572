#include "merge/render/page/page_data.h"

#include <algorithm>

#include "merge/render/page_template.h"
#include "merge/render/print.h"
#include "merge/report/options.h"

namespace trapline {
PageData::PageData(const Pass& pass, const ReportOptions& options)
    : options_(options), requests_(pass.input(), asked_requests_) {
  asked_requests_.requests = true;  // which the aggregator reads later
  asked_requests_.by_text = "span";
  if (options_.asks("--kernel")) kernel_.emplace(page::kMostKernelStacks);
  if (pass.has_guest_intervals()) guest_spans_.emplace(kWorstGuestSpans);
}

std::vector<SpanSink*> PageData::sinks() {
  std::vector<SpanSink*> sinks = {this, &requests_, &stalls_};
  if (guest_spans_) sinks.push_back(&*guest_spans_);
  return sinks;
}

Result<ReportRun> run_page(const PassOptions& what, const ReportOptions& page,
                           const Progress& progress) {
  auto pass = Pass::open(what, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  const ReportOptions requested = options_for(page, pass->input());
  auto tables = make_tables(requested);
  if (!tables) return tl::unexpected(std::move(tables).error());
  Aggregator aggregator(pass->input(), requested, std::move(*tables));
  PageData data(*pass, requested);
  std::vector<SpanSink*> sinks = aggregator.sinks();
  for (SpanSink* sink : data.sinks()) sinks.push_back(sink);
  const auto end = read_report(std::move(*pass), requested, std::move(sinks), progress);
  if (!end) return tl::unexpected(end.error());
  ReportData report = report_of(*end, aggregator);
  auto recording = data.recording(*end, report);
  if (!recording) return tl::unexpected(std::move(recording).error());
  return ReportRun{std::move(report), std::move(*recording), end->status()};
}

void PageData::lost(const Event& event, const Lost& lost, const Pipeline&) {
  Loss loss{event.cpu, lost.from, lost.to, lost.count};
  if (losses_.size() < kMostLosses) {
    losses_.push_back(loss);
    return;
  }
  // The page draws only the longest losses, so a new one replaces the shortest if it is longer.
  ++losses_left_out_;
  const auto shortest = std::min_element(
      losses_.begin(), losses_.end(),
      [](const Loss& a, const Loss& b) { return elapsed(a.from, a.to) < elapsed(b.from, b.to); });
  if (elapsed(loss.from, loss.to) > elapsed(shortest->from, shortest->to)) *shortest = loss;
}

Result<void> check_page() {
  if (!page_template().before.empty()) return {};
  return fail(
      ErrorKind::kUsage,
      "--format html: this trapline was built without its page; install the packages nodejs "
      "and npm (apt-get install nodejs npm), run cmake again and build");
}

std::string page_json(std::span<const std::string> recordings, const Report* comparison) {
  std::string text =
      fmt::format(R"({{"format":"trapline-page","version":{},"recordings":[)", Report::kVersion);
  for (const std::string& recording : recordings) {
    if (text.back() == '}') text += ',';
    text += recording;
  }
  text += ']';
  if (comparison != nullptr)
    text += ",\"comparison\":" + without_markup(json_line(*comparison, true));
  return text + '}';
}

void print_page(const std::string& json, std::ostream& out) {
  const PageTemplate page = page_template();
  out << page.before << json << page.after;
}

}  // namespace trapline
