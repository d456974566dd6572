// What the trace says of the recording itself, and the native events of its kernels.
#include <fmt/format.h>

#include "backend_ftrace/base/text.h"
#include "merge/export/perfetto.h"

namespace trapline {
namespace {

using perfetto::Annotation;

// "Linux NAME RELEASE VERSION… MACHINE" as trace-cmd writes it.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words = split(text, ' ');
  std::erase(words, std::string_view());
  return words;
}

}  // namespace

// The recording's own facts, as instants where it begins and as the trace's system information.
void PerfettoExporter::add_metadata(std::uint64_t at, const Timeline& timeline) {
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const Source& source = timeline.source(i);
    const SourceInfo& info = source.info();
    std::vector<std::pair<std::string, std::string>> facts = source.facts();
    facts.emplace_back("kind", info.kind);
    facts.emplace_back("clock", info.clock);
    if (info.resolution_ns)
      facts.emplace_back("resolution", fmt::format("{} ns", *info.resolution_ns));
    const auto& error = info.aligned.error_ns;
    facts.emplace_back("aligned by", info.aligned.text());
    facts.emplace_back("clock error bound", error ? fmt::format("{} ns", *error) : "not known");
    std::vector<Annotation> annotations;
    for (const auto& [name, text] : facts) {
      annotations.push_back({writer_.key(name), {0, text}});
      if (name != "host" || i != 0) continue;
      const auto words = words_of(text);
      if (words.size() < 4) continue;
      const std::string_view release = words[2], machine = words.back();
      const auto after = text.find(release) + release.size();
      const auto end = text.rfind(machine);
      writer_.add_system(
          words[0], release,
          trimmed(std::string_view(text).substr(after, end > after ? end - after : 0)), machine);
    }
    writer_.instant(about_track_, at, {writer_.name(info.path), words_.of_trapline, annotations});
  }
  for (const std::string& note : context_.notes) {
    writer_.instant(about_track_, at, {writer_.name(note), words_.of_trapline});
  }
}

void PerfettoExporter::on_switch(const Event& event, const SchedSwitch& sched,
                                 const Pipeline& pipeline) {
  // As the kernel's trace event prints them.
  constexpr std::int64_t kPreempted = 256, kAsleep = 1;
  texts_.note_comm(event, sched.next, sched.next_comm);
  writer_.add_switch(static_cast<std::uint32_t>(event.machine), event.cpu,
                     {event.at.ns(), perfetto::number(sched.prev), perfetto::number(sched.next),
                      sched.runnable ? kPreempted : kAsleep, texts_.comm(event, sched.prev),
                      texts_.comm(event, sched.next)});
  if (is_guest(event.machine)) {
    const bool is_known = event.thread != ThreadId{};
    const auto guest_cpu = static_cast<std::int32_t>(event.cpu);
    const std::uint64_t track =
        is_known ? vcpu(event.thread, guest_cpu, pipeline).track : vm_track({});
    return fused_.on_guest_switch(event, sched, track);
  }
  const Vcpu* next = vcpus_.find(sched.next);
  fused_.on_host_switch(event, sched, next == nullptr ? std::nullopt : std::optional(next->name));
}

void PerfettoExporter::event(const Event& event, const Pipeline& pipeline) {
  const auto machine = static_cast<std::uint32_t>(event.machine);
  if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    on_switch(event, *sched, pipeline);
  } else if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload)) {
    writer_.add_waking(machine, event.cpu, event.at.ns(), perfetto::number(event.thread),
                       perfetto::number(wakeup->thread), texts_.comm(event, wakeup->thread));
  } else if (events_ && !std::holds_alternative<Lost>(event.payload) &&
             !std::holds_alternative<GuestCall>(event.payload)) {
    const Source& source = context_.timeline.source_of(event);
    writer_.add_generic(machine, event.cpu, event.at.ns(), perfetto::number(event.thread),
                        source.event_name(event), source.event_text(event));
  }
}

Result<void> PerfettoExporter::finish(const Naming& names) {
  const Pipeline& pipeline = names.pipeline;
  write_open_exit(pipeline);
  write_asynchronous(pipeline);
  fused_.finish(pipeline.end());
  for (auto& [thread, vcpu] : vcpus_.entries()) {
    if (vcpu.counters.exits_track != 0) write_counters(vcpu.counters);
  }
  if (left_out_ != 0) {
    const std::string text = fmt::format(
        "{} requests and interrupts are left out: more than {} overlapped", left_out_, kMostLanes);
    writer_.instant(about_track_, pipeline.end().ns(), {writer_.name(text), words_.of_trapline});
  }
  add_thread_names(names);
  add_metadata(pipeline.begin().value_or(Timestamp()).ns(), names.timeline);
  return writer_.finish();
}

void PerfettoExporter::add_thread_names(const Naming& names) {
  std::vector<perfetto::Writer::Thread> threads;
  for (const auto& [thread, vcpu] : vcpus_.entries()) {
    const ThreadId process = names.processes.of(thread, thread);
    if (process == ThreadId{0}) continue;
    threads.push_back(
        {perfetto::number(thread), perfetto::number(process), texts_.host_comm(thread)});
  }
  if (!threads.empty()) writer_.add_threads(threads);
}

Result<std::unique_ptr<Exporter>> make_perfetto(const ExportContext& context,
                                                const ExportOptions& options) {
  if (context.timeline.source(0).info().cycles) {
    return fail(ErrorKind::kUsage,
                "{}: its times are cycles, which Perfetto has no unit for; give --tsc-khz",
                context.timeline.source(0).info().path);
  }
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return std::make_unique<PerfettoExporter>(context, options, std::move(*output));
}

}  // namespace trapline
