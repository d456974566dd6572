#include "merge/export/side_rows.h"

#include <algorithm>
#include <map>

namespace trapline {
namespace {

std::vector<std::string_view> all_columns(std::initializer_list<std::string_view> own) {
  std::vector<std::string_view> columns(std::begin(kLabelColumns), std::end(kLabelColumns));
  columns.insert(columns.end(), {"vm", "vcpu", "tid", "start_ns", "total_ns"});
  columns.insert(columns.end(), own);
  columns.insert(columns.end(), {"wall_ns", "boot"});
  return columns;
}

}  // namespace

SideRowExporter::SideRowExporter(const ExportContext& context, const ExportOptions& options,
                                 RowForm form, OutputFile output,
                                 const std::vector<std::string_view>& columns)
    : context_(context),
      writer_(form, std::move(output), columns),
      labels_(context_, options, writer_) {}

void SideRowExporter::begin_row(ThreadId process, std::int32_t vcpu, ThreadId thread,
                                Timestamp begin, Timestamp end) {
  writer_.cells(labels_.cells(), std::size(kLabelColumns));
  writer_.thread(process);
  if (vcpu == kNoVcpu) {
    writer_.nothing();
  } else {
    writer_.signed_number(vcpu);
  }
  writer_.signed_number(static_cast<std::int32_t>(thread));
  writer_.number(begin.ns());
  writer_.number(elapsed(begin, end));
}

void SideRowExporter::end_row(Timestamp begin) {
  writer_.number(context_.wall_ns(begin));
  writer_.text(labels_.boot());
  writer_.end();
}

GuestSpanRowExporter::GuestSpanRowExporter(const ExportContext& context,
                                           const ExportOptions& options, RowForm form,
                                           OutputFile output)
    : SideRowExporter(context, options, form, std::move(output),
                      all_columns({"span", "name", "guest_ns", "kernel_ns", "user_ns",
                                   "preempted_ns", "blocked_ns", "halted_ns", "not_recorded_ns",
                                   "preempted_by", "blocked_on"})),
      culprits_(context_.timeline, [this](const std::string& text) { return writer_.quote(text); }),
      span_(writer_.quote(options.guest_span)) {}

void GuestSpanRowExporter::largest_of(const GuestInterval& interval, Part part,
                                      const Pipeline& pipeline) {
  std::map<Culprit, std::uint64_t> sums;
  for (const VcpuPiece& piece : interval.pieces) {
    if (piece.part == part) sums[piece.culprit] += piece.length();
  }
  const auto most = std::max_element(
      sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == sums.end()) {
    writer_.nothing();
  } else {
    writer_.text(culprits_.of(most->first, pipeline));
  }
}

void GuestSpanRowExporter::guest_interval(const GuestInterval& interval, const Pipeline& pipeline) {
  const auto vcpu = pipeline.vcpu(interval.thread);
  begin_row(pipeline.processes().of(interval.thread, {}), vcpu ? vcpu->vcpu : kNoVcpu,
            interval.thread, interval.begin, interval.end);
  writer_.text(span_);
  if (interval.what.empty()) {
    writer_.nothing();
  } else {
    writer_.text(writer_.quote(interval.what));
  }
  std::uint64_t guest = 0, known = 0;
  Parts parts{};
  for (const VcpuPiece& piece : interval.pieces) {
    (piece.part ? parts[static_cast<std::size_t>(*piece.part)] : guest) += piece.length();
    known += piece.length();
  }
  writer_.number(guest);
  for (const std::uint64_t part : parts) writer_.number(part);
  writer_.number(interval.length() - std::min(known, interval.length()));
  largest_of(interval, Part::kPreempted, pipeline);
  largest_of(interval, Part::kBlocked, pipeline);
  end_row(interval.begin);
}

VhostRowExporter::VhostRowExporter(const ExportContext& context, const ExportOptions& options,
                                   RowForm form, OutputFile output)
    : SideRowExporter(context, options, form, std::move(output),
                      all_columns({"name", "ran_at_ns", "ran_ns", "preempted_ns", "notified_ns",
                                   "raised_ns"})) {}

void VhostRowExporter::turn(const VhostTurn& turn, const Pipeline&) {
  begin_row(turn.process, kNoVcpu, turn.worker, turn.woken, turn.end);
  writer_.text(writer_.quote(turn.name));
  writer_.number(turn.ran_at.ns());
  writer_.number(turn.ran_ns);
  writer_.number(turn.preempted_ns);
  writer_.time(turn.notify);
  writer_.time(turn.raised);
  end_row(turn.woken);
}

}  // namespace trapline
