#include "merge/export/rows.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "backend_ftrace/base/text.h"
#include "merge/export/json_text.h"
#include "merge/report/exit_text.h"

namespace trapline {
namespace {

constexpr std::string_view kLabels[] = {"rows_version", "host", "session"};
constexpr std::string_view kPlace[] = {"vm", "vcpu", "tid"};
constexpr std::string_view kExitColumns[] = {
    "start_ns", "total_ns", "kernel_ns",    "user_ns", "preempted_ns", "blocked_ns",
    "reason",   "detail",   "device",       "handler", "function",     "stack",
    "rip",      "injected", "preempted_by", "cpu"};
constexpr std::string_view kSpanColumns[] = {"start_ns", "total_ns", "name", "number", "complete"};
constexpr std::string_view kRowKinds[] = {"exits", "requests", "interrupts", "functions"};

void append_number(std::string& text, std::uint64_t value) {
  const fmt::format_int digits(value);
  text.append(digits.data(), digits.size());
}

}  // namespace

void RowWriter::header(const std::vector<std::string_view>& columns) {
  if (form_ != RowForm::kCsv) return;
  std::string line;
  for (const std::string_view column : columns)
    line += (line.empty() ? "" : ",") + std::string(column);
  output_.write(line + "\n");
}

void RowWriter::name(std::string_view column) {
  if (form_ == RowForm::kCsv) {
    if (!first_) text_ += ',';
  } else {
    text_ += first_ ? "\"" : ",\"";
    text_ += column;
    text_ += "\":";
  }
  first_ = false;
}

void RowWriter::number(std::string_view column, std::uint64_t value) {
  name(column);
  append_number(text_, value);
}

void RowWriter::signed_number(std::string_view column, std::int64_t value) {
  name(column);
  const fmt::format_int digits(value);
  text_.append(digits.data(), digits.size());
}

void RowWriter::hex(std::string_view column, std::uint64_t value) {
  name(column);
  const std::string_view quote = form_ == RowForm::kJsonl ? "\"" : "";
  fmt::format_to(std::back_inserter(text_), "{}{:#x}{}", quote, value, quote);
}

void RowWriter::nothing(std::string_view column) {
  name(column);
  if (form_ == RowForm::kJsonl) text_ += "null";
}

void RowWriter::text(std::string_view column, std::string_view quoted) {
  name(column);
  text_ += quoted;
}

void RowWriter::end() {
  text_ += form_ == RowForm::kJsonl ? "}\n" : "\n";
  output_.write(text_);
  first_ = true;
  ++rows_;
}

std::string RowWriter::quote(std::string_view text) const {
  if (form_ == RowForm::kJsonl) return json_string(text);
  std::string cell = printable(text);
  // A cell that a spreadsheet would take for a formula is a text.
  if (!cell.empty() && std::string_view("=+@").find(cell[0]) != std::string_view::npos) {
    cell.insert(0, "'");
  }
  if (cell.find_first_of(",\"") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

RowExporter::RowExporter(const ExportContext& context, const ExportOptions& options, Rows rows,
                         RowForm form, OutputFile output)
    : context_(context),
      rows_(rows),
      writer_(form, std::move(output)),
      host_(writer_.quote(options.host)),
      session_(writer_.quote(options.session)),
      none_(form == RowForm::kJsonl ? "null" : "") {
  std::vector<std::string_view> columns;
  for (const std::string_view column : kLabels) columns.push_back(column);
  for (const std::string_view column : kPlace) columns.push_back(column);
  if (rows == Rows::kExits) {
    for (const std::string_view column : kExitColumns) columns.push_back(column);
  } else {
    for (const std::string_view column : kSpanColumns) columns.push_back(column);
  }
  writer_.header(columns);
}

SpanClass RowExporter::selects() const {
  switch (rows_) {
    case Rows::kExits:
      return SpanClass::kExits;
    case Rows::kRequests:
      return SpanClass::kSpans | SpanClass::kRequests;
    case Rows::kInterrupts:
      return SpanClass::kSpans | SpanClass::kInterrupts;
    case Rows::kFunctions:
      break;
  }
  return SpanClass::kFunctions;
}

void RowExporter::labels() {
  writer_.begin();
  writer_.number(kLabels[0], kRowsVersion);
  writer_.text(kLabels[1], host_);
  writer_.text(kLabels[2], session_);
}

void RowExporter::place(ThreadId thread, std::int32_t vcpu, const Pipeline& pipeline) {
  const ThreadId process = pipeline.processes().of(thread, {});
  if (process == ThreadId{}) {
    writer_.nothing(kPlace[0]);
  } else {
    writer_.signed_number(kPlace[0], static_cast<std::int32_t>(process));
  }
  if (vcpu == kNoVcpu) {
    writer_.nothing(kPlace[1]);
  } else {
    writer_.signed_number(kPlace[1], vcpu);
  }
  writer_.signed_number(kPlace[2], static_cast<std::int32_t>(thread));
}

const std::string& RowExporter::name(NameId id, const Pipeline& pipeline) {
  if (id == kNoName) return none_;
  if (id >= names_.size()) names_.resize(id + 1);
  if (names_[id].empty()) names_[id] = writer_.quote(pipeline.names()[id]);
  return names_[id];
}

const std::string& RowExporter::stack(StackId id, const Pipeline& pipeline) {
  if (id == kNoStack) return none_;
  if (id >= stacks_.size()) stacks_.resize(id + 1);
  if (stacks_[id].empty()) stacks_[id] = writer_.quote(pipeline.stacks().text(id));
  return stacks_[id];
}

const std::string& RowExporter::reason(const ExitSpan& exit) {
  const std::uint64_t key = std::uint64_t{exit.reason.reason} << 32 |
                            (std::uint64_t{exit.reason.isa} & 0xffff) << 16 |
                            (exit.reason.exception_class & 0xff) << 8 | (exit.source & 0xff);
  const auto [place, is_new] = reasons_.try_emplace(key);
  if (is_new) {
    place->second = writer_.quote(reason_text(context_.timeline.source(exit.source), exit.reason));
  }
  return place->second;
}

void RowExporter::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (rows_ != Rows::kExits) return;
  labels();
  place(exit.thread, exit.vcpu, pipeline);
  const auto& columns = kExitColumns;
  writer_.number(columns[0], exit.start.ns());
  writer_.number(columns[1], exit.total());
  for (std::size_t i = 0; i < kParts; ++i) writer_.number(columns[2 + i], exit.parts[i]);
  writer_.text(columns[6], reason(exit));
  if (exit.detail.kind == DetailKind::kNone) {
    writer_.nothing(columns[7]);
  } else {
    writer_.text(columns[7], writer_.quote(detail_text(exit.detail)));
  }
  writer_.text(columns[8], name(exit.device, pipeline));
  writer_.text(columns[9], name(exit.qemu_event, pipeline));
  const StackId id = pipeline.stack_of(exit);
  writer_.text(columns[10], name(pipeline.stacks().innermost(id), pipeline));
  writer_.text(columns[11], stack(id, pipeline));
  writer_.hex(columns[12], exit.rip);
  if (exit.injected == kNoVector) {
    writer_.nothing(columns[13]);
  } else {
    writer_.number(columns[13], exit.injected);
  }
  if (exit.preempted_by == ThreadId{}) {
    writer_.nothing(columns[14]);
  } else {
    writer_.signed_number(columns[14], static_cast<std::int32_t>(exit.preempted_by));
  }
  writer_.number(columns[15], exit.cpu);
  writer_.end();
}

void RowExporter::span(const Span& span, const Pipeline& pipeline) {
  constexpr std::array kKinds = {SpanKind::kExit, SpanKind::kRequest, SpanKind::kInterrupt,
                                 SpanKind::kFunction};
  if (rows_ == Rows::kExits || span.kind != kKinds[static_cast<std::size_t>(rows_)]) return;
  labels();
  place(span.track.thread, span.vcpu, pipeline);
  writer_.number(kSpanColumns[0], span.begin.ns());
  writer_.number(kSpanColumns[1], span.length());
  writer_.text(kSpanColumns[2], name(span.name, pipeline));
  if (span.number == kNoVector) {
    writer_.nothing(kSpanColumns[3]);
  } else {
    writer_.number(kSpanColumns[3], span.number);
  }
  writer_.number(kSpanColumns[4], span.complete ? 1 : 0);
  writer_.end();
}

Result<void> RowExporter::finish(const Pipeline&) { return writer_.finish(); }

namespace {

Result<std::unique_ptr<Exporter>> make_rows(const ExportContext& context,
                                            const ExportOptions& options, RowForm form) {
  std::size_t kind = 0;
  while (kind < std::size(kRowKinds) && kRowKinds[kind] != options.rows) ++kind;
  if (kind == std::size(kRowKinds)) {
    return fail(ErrorKind::kUsage,
                "--rows: unknown '{}'; there are exits, requests, interrupts, functions",
                options.rows);
  }
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return std::make_unique<RowExporter>(context, options, static_cast<RowExporter::Rows>(kind), form,
                                       std::move(*output));
}

}  // namespace

Result<std::unique_ptr<Exporter>> make_jsonl(const ExportContext& context,
                                             const ExportOptions& options) {
  return make_rows(context, options, RowForm::kJsonl);
}

Result<std::unique_ptr<Exporter>> make_csv(const ExportContext& context,
                                           const ExportOptions& options) {
  return make_rows(context, options, RowForm::kCsv);
}

}  // namespace trapline
