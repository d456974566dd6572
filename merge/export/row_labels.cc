#include "merge/export/row_labels.h"

#include "merge/pass/exit_text.h"

namespace trapline {

RowLabels::RowLabels(const ExportContext& context, const ExportOptions& options,
                     const RowWriter& writer)
    : timeline_(context.timeline), writer_(writer) {
  cells_ = writer.cell(0, std::to_string(kRowsVersion)) +
           writer.cell(1, writer.quote(options.host)) +
           writer.cell(2, writer.quote(options.session));
  boot_ =
      context.boot_id.empty() ? std::string(writer.nothing_text()) : writer.quote(context.boot_id);
}

const std::string& RowLabels::reason(const ExitSpan& exit) {
  const auto [place, is_new] = reasons_.try_emplace(packed(exit.reason, exit.source));
  if (is_new)
    place->second = writer_.quote(reason_text(timeline_.source(exit.source), exit.reason));
  return place->second;
}

}  // namespace trapline
