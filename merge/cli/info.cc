// trapline info: what is in a recording.
#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/cli/common.h"
#include "merge/report/notes.h"
#include "merge/report/units.h"
#include "merge/session/session_json.h"
#include "merge/source/timeline.h"

namespace trapline::cli {
namespace {

struct InfoArguments {
  InputOptions input;
  Output output;
};

void print_source(const Source& source, std::ostream& out, const TextStyle& style) {
  const SourceCounters counters = source.counters();
  out << printable(source.info().path) << '\n';
  const auto fact = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) print_wrapped(fmt::format("  {:<12}", name), printable(text), out, style);
  };
  const auto alarm = [&](std::string_view name, const std::string& text) {
    print_wrapped(fmt::format("  {:<12}", name), text, out, style, kAlarm);
  };
  for (const auto& [name, text] : source.facts())
    name == kDamagedFact ? alarm(name, text) : fact(name, text);
  fact("clock", source.info().clock +
                    (source.info().cycles ? " (cycles: give --tsc-khz for nanoseconds)" : ""));
  const auto session = session_of_recording(source.info().path);
  if (session && session->flight) {
    const SessionFlight& flight = *session->flight;
    fact("snapshot", fmt::format("asked by {}{}{}", flight.asked_by, flight.why.empty() ? "" : ": ",
                                 flight.why));
  }
  std::string parts;
  for (const SessionPart& part : session ? session->parts : std::vector<SessionPart>())
    parts +=
        fmt::format("{}{}, {} bytes", parts.empty() ? "" : "; ", part.name, grouped(part.size));
  fact("parts", parts);
  fact("events", grouped(counters.events));
  const auto lost = [&](const std::string& text) { alarm("lost", text); };
  const auto missing = session ? session->missing() : std::vector<std::string>();
  const auto warnings = session ? session->warnings : std::vector<std::string>();
  for (const std::string& sentence : missing) alarm("missing", sentence);
  for (const std::string& warning : warnings) alarm("warning", printable(warning));
  if (counters.lost_unplaced != 0) lost(unplaced_text(counters.lost_unplaced));
  if (counters.gaps == 0 && counters.lost_unplaced == 0 && counters.unread_events == 0 &&
      missing.empty()) {
    const bool is_text = source.info().kind == "trace text";  // a text need not name losses
    // In perf.data, a loss is reported with the buffer's next record, which may never come.
    const bool is_perf = source.info().kind == "perf.data";
    // A warning may say that events are missing, for example because tracing was switched off.
    fact("lost", !warnings.empty()        ? "none that was counted (see the warnings)"
                 : is_text                ? "nothing that the text names"
                 : is_perf                ? "nothing that perf tells"
                 : counters.counts_losses ? "nothing"
                                          : "nothing that the file tells");
  } else if (counters.gaps != 0) {
    lost(losses_text(counters));
  }
  if (counters.left_out_pieces != 0) {
    fact("left out",
         fmt::format("{} events in {} pieces, on purpose (--snapshot-on)",
                     grouped(counters.left_out_events), grouped(counters.left_out_pieces)));
  }
  if (counters.damaged_events != 0) fact("damaged", grouped(counters.damaged_events) + " events");
  auto events = source.event_counts();
  std::sort(events.begin(), events.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  if (events.empty()) return;
  TextTable table({{.title = "  event"}, {.title = "count"}});
  for (const auto& [name, count] : events) table.add({"  " + printable(name), grouped(count)});
  table.print(out, style);
}

Result<void> print_info(InfoArguments& options) {
  if (auto begun = begin_reading(options.input, options.output); !begun) return begun;
  auto input = open_input(options.input);
  if (!input) return tl::unexpected(std::move(input).error());
  Timeline timeline(std::move(input->sources));
  std::optional<Timestamp> first;
  Timestamp last;
  {
    const Progress progress = progress_line();
    Event event;
    for (std::uint64_t events = 1; timeline.next(event) == Read::kEvent; ++events) {
      if (events % 65536 == 0 && progress) progress(timeline.progress());
      if (std::holds_alternative<Lost>(event.payload)) continue;
      if (!first) first = event.at;
      last = std::max(last, event.at);
    }
  }
  auto printed = print_to(options.output, [&](std::ostream& out) {
    const TextStyle style = style_of(options.output);
    for (std::size_t i = 0; i < timeline.size(); ++i) print_source(timeline.source(i), out, style);
    if (!first) return;
    const bool cycles = timeline.source(0).info().cycles;
    out << fmt::format("from {} to {}, {}\n", time_text(first->ns(), cycles),
                       time_text(last.ns(), cycles), duration_text(elapsed(*first, last), cycles));
  });
  return printed ? timeline.status() : printed;
}

}  // namespace

void add_info(CLI::App& app, int& status) {
  auto options = std::make_shared<InfoArguments>();
  CLI::App* command = app.add_subcommand("info", "Print what is in a recording");
  add_input_options(*command, options->input);
  add_output(OptionGroup(*command, kOutput), options->output);
  on_run(*command, status, options, print_info);
}

}  // namespace trapline::cli
