#include "merge/render/page/page_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "merge/render/page_template.h"
#include "merge/report/options.h"

namespace trapline {
namespace {

ReportOptions options_of_requests() {
  ReportOptions options;
  options.requests = true;
  options.by_text = "span";
  return options;
}

}  // namespace

PageData::PageData(const Pass& pass, PageOptions options)
    : options_(std::move(options)),
      pass_(pass),
      asked_requests_(options_of_requests()),
      requests_(pass.input(), asked_requests_) {
  if (options_.kernel) kernel_.emplace(page::kMostKernelStacks);
  if (options_.phases) phases_.emplace(*options_.phases);
  if (pass.has_guest_intervals()) guest_spans_.emplace(kWorstGuestSpans);
}

ReportOptions PageData::report_options(const PageOptions& page) {
  ReportOptions options;
  options.by_default = options.page = true;
  options.irq = options.halt = options.guest = true;
  options.kernel = page.kernel;
  return options;
}

std::vector<SpanSink*> PageData::sinks() {
  std::vector<SpanSink*> sinks = {this, &requests_, &stalls_};
  if (guest_spans_) sinks.push_back(&*guest_spans_);
  return sinks;
}

Result<PageRun> run_page(const PassOptions& what, PageOptions options, const Progress& progress) {
  auto pass = Pass::open(what, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  const ReportOptions asked = options_for(PageData::report_options(options), pass->input());
  Aggregator aggregator(pass->input(), asked);
  PageData page(*pass, std::move(options));
  std::vector<SpanSink*> sinks = page.sinks();
  sinks.insert(sinks.begin(), &aggregator);
  if (auto read = read_report(*pass, asked, std::move(sinks), progress); !read)
    return tl::unexpected(std::move(read).error());
  Report report = report_of(*pass, aggregator);
  auto recording = page.recording(report);
  if (!recording) return tl::unexpected(std::move(recording).error());
  return PageRun{std::move(report), std::move(*recording), pass->status()};
}

void PageData::lost(const Event& event, const Lost& lost, const Pipeline&) {
  Loss loss{event.cpu, lost.from, lost.to, lost.count};
  if (losses_.size() < kMostLosses) {
    losses_.push_back(loss);
    return;
  }
  // The longest are drawn.
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

std::string page_json(std::span<const std::string> recordings, const std::string& comparison) {
  constexpr int kVersion = 3;
  std::string text =
      fmt::format(R"({{"format":"trapline-page","version":{},"recordings":[)", kVersion);
  for (const std::string& recording : recordings) {
    if (text.back() == '}') text += ',';
    text += recording;
  }
  text += ']';
  if (!comparison.empty()) {
    const auto json = nlohmann::ordered_json::parse(comparison);
    text += ",\"comparison\":" + without_markup(json.dump(-1, ' ', true));
  }
  return text + '}';
}

void print_page(const std::string& json, std::ostream& out) {
  const PageTemplate page = page_template();
  out << page.before << json << page.after;
}

}  // namespace trapline
