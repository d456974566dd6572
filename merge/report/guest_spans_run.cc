#include <fmt/format.h>

#include "merge/report/feed.h"
#include "merge/report/guest_spans.h"
#include "merge/report/no_exits.h"
#include "merge/report/notes.h"
#include "merge/report/placement.h"

namespace trapline {

std::vector<std::string> guest_clocks(const Timeline& timeline) {
  std::vector<std::string> clocks;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceInfo& info = timeline.source(i).info();
    if (info.role == Role::kHostKernel) continue;
    const std::string error =
        info.error_ns ? fmt::format("± {} ns", *info.error_ns) : "error not known";
    clocks.push_back(fmt::format("{}: {}, {}{}", info.path, error, info.method,
                                 info.one_boot_error_ns ? ", one boot assumed" : ""));
    if (info.rate_change_ppm)
      clocks.back() += fmt::format("; assumed: a rate that changes by at most {:.3g} ppm",
                                   *info.rate_change_ppm);
  }
  return clocks;
}

Result<GuestSpansExplained> run_guest_spans(const InputOptions& options, const GuestSpanSpec& spec,
                                            std::size_t worst, const Progress& progress) {
  auto input = open_input(options);
  if (!input) return tl::unexpected(std::move(input).error());
  for (auto& source : input->sources) {
    source->select(source->info().role == Role::kHostKernel
                       ? EventClass::kExits | EventClass::kHalts
                       : EventClass::kAll);
  }
  Timeline timeline(std::move(input->sources));
  GuestSpans spans(timeline, spec, worst);
  Pipeline pipeline(pipeline_options(timeline, *input), {&spans});
  feed(timeline, pipeline, progress);
  if (auto placed = check_placement(timeline, pipeline); !placed)
    return tl::unexpected(std::move(placed).error());
  if (!timeline.status()) return tl::unexpected(timeline.status().error());
  if (!input->capabilities.kvm_exit && !input->capabilities.kvm_userspace_exit)
    return tl::unexpected(no_exits(timeline));
  finish(timeline, pipeline);
  GuestSpansExplained explained = spans.explain(pipeline);
  explained.clocks = guest_clocks(timeline);
  if (auto found = spans.check_found(); !found) return tl::unexpected(std::move(found).error());
  Report report;
  report.model = pipeline.exits().model();
  explained.notes = input->notes;
  for (std::string& note : notes_of(report, input->capabilities, false))
    explained.notes.push_back(std::move(note));
  return explained;
}

}  // namespace trapline
