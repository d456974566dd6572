#include "merge/export/exporter.h"

#include "backend_ftrace/base/text.h"

namespace trapline {

const std::vector<ExportFormat>& export_formats() {
  static const std::vector<ExportFormat> kFormats = {
      {"perfetto", "protobuf for ui.perfetto.dev and the trace processor", make_perfetto},
      {"uftrace", "a folder that uftrace replays, reports and graphs", make_uftrace},
      {"folded", "stacks with weights, for flame graph tools", make_folded},
      {"jsonl", "a JSON object for each exit, request, interrupt, function, …", make_rows},
      {"arrays", "the same rows as JSON arrays, which are read faster", make_rows},
      {"csv", "the same rows, separated by commas", make_rows},
  };
  return kFormats;
}

Result<const ExportFormat*> find_export_format(std::string_view name) {
  if (name == "chrome")
    return fail(ErrorKind::kUsage, "--format chrome was removed; use --format perfetto");
  std::vector<std::string_view> names;
  for (const ExportFormat& format : export_formats()) {
    if (format.name == name) return &format;
    names.push_back(format.name);
  }
  const std::string_view near = nearest(name, names);
  return fail(ErrorKind::kUsage, "--format: unknown format '{}'; {}there are {}", name,
              near.empty() ? "" : fmt::format("did you mean '{}'? ", near), fmt::join(names, ", "));
}

Result<std::unique_ptr<Exporter>> make_exporter(const ExportContext& context,
                                                const ExportOptions& options) {
  const auto format = find_export_format(options.format);
  if (!format) return tl::unexpected(format.error());
  return (*format)->make(context, options);
}

}  // namespace trapline
