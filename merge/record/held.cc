#include "merge/record/held.h"

#include <sys/stat.h>
#include <unistd.h>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/clock.h"
#include "merge/record/instance.h"
#include "merge/record/page_reader.h"
#include "merge/record/session_writer.h"
#include "merge/record/setup.h"
#include "merge/record/summary.h"
#include "merge/record/target.h"
#include "merge/record/vm_names.h"

namespace trapline::record {
namespace {

// Stores in `session` the instance's settings, and the threads and VMs that exist now. Returns the
// threads' names as lines "TID NAME".
std::string describe(const Instance& instance, SessionJson& session) {
  const FtraceControl& control = instance.control();
  session.instance = instance.name();
  for (const EventName& event : enabled_events(control.get("set_event").value_or("")))
    session.events.push_back(event.full_name());
  const std::string size = control.get("buffer_size_kb").value_or("");
  // buffer_size_kb contains "X" if the CPUs' buffers have different sizes: 0 is stored then.
  session.buffer_kb = parse_number(trimmed(size)).value_or(0);
  session.start_real_ns = session.end_real_ns = read_clock(ClockId::kReal);
  session.ended_by = "held";
  TracedThreads threads;
  threads.add_names(read_text(instance.tracefs() + "/saved_cmdlines").value_or(""));
  (void)threads.update();
  VmNames names;
  (void)names.update(threads.threads());
  session.threads = threads.in_session();
  session.vms = names.vms(threads.threads());
  return threads.cmdlines();
}

void tell(const RecordOptions& options, const Instance& instance, const SessionJson& session,
          std::uint64_t written) {
  const bool on = instance.control().get("tracing_on").value_or("").starts_with('1');
  options.say(
      fmt::format("took {:.1f} MiB of events out of the ftrace instance {}: they are no longer in "
                  "it, and its settings are as they were ({})",
                  mib(written), instance.name(), on ? "it records on" : "it is switched off"));
  std::uint64_t overwritten = 0, dropped = 0;
  for (const CpuLoss& loss : session.losses) {
    overwritten += loss.overwritten;
    dropped += loss.dropped;
  }
  if (overwritten != 0)
    options.say(
        fmt::format("{} older events had been overwritten in its buffers before", overwritten));
  if (dropped != 0) options.say(fmt::format("{} events had found no room in its buffers", dropped));
}

// Moves the pages out of the instance into a new session. Its trace.dat gets the `formats` of all
// events, since the pages may contain events that are disabled by now. A page that cannot be
// written is lost; the rest then stays in the instance.
Result<int> take(const RecordOptions& options, const Instance& instance, PageReader& reader,
                 const Target& target, const std::vector<EventName>& formats) {
  SessionJson session = new_session(options.trapline_version, instance.control().clock());
  const std::string cmdlines = describe(instance, session);
  auto writer = SessionWriter::make(make_session(options.folder), session);
  if (!writer) return tl::unexpected(std::move(writer).error());
  if (const std::string text = writer->earlier().make_room(); !text.empty()) options.say(text);
  copy_companions(writer->folder(), options, target);
  Result<void> ready = reserve(writer->folder());
  if (ready) ready = open_page_files(*writer, instance, options, formats);
  Result<bool> taken = ready ? Result<bool>(false) : tl::unexpected(ready.error());
  PageSink* const files = ready ? &writer->files() : nullptr;
  while (taken && !*taken) taken = reader.round({&files, 1});
  if (!ready || (!taken && writer->files().written() == 0)) {
    writer->discard();
    return tl::unexpected(taken.error());
  }
  std::vector<std::string> stats;
  session.losses = reader.losses(instance, stats);
  for (CpuLoss& loss : session.losses) {
    loss.unwritten_pages = writer->files().unwritten(loss.cpu) / reader.page_size();
    if (taken) loss.unread = 0;  // events that came meanwhile
  }
  if (!taken) session.ended_by = taken.error().message;
  if (const std::string text = writer->earlier().text(); !text.empty()) options.say(text);
  const std::uint64_t written = writer->files().written();
  const auto sealed = writer->seal(session, cmdlines, cpu_stats(session.losses, stats), !taken);
  if (!session.closed) return tl::unexpected(sealed.error());
  const std::string& path = writer->folder().path();
  if (auto moved = writer->make_way(); !moved)
    options.say(fmt::format("warning: {}; the recording is {}", moved.error().message, path));
  tell(options, instance, session, written);
  const Outcome outcome{writer->folder(), written, written, taken.has_value()};
  if (const std::string next = ending_of(session, outcome).next; !next.empty())
    options.say("next: " + next);
  if (taken) return 0;
  return fail("{}; what came before is in {}, and the rest is still in the instance",
              taken.error().message, path);
}

}  // namespace

Result<int> record_held(const RecordOptions& options) {
  ::umask(077);  // only the owner can read the session
  const std::string& name = *options.from_instance;
  auto instance = Instance::attach(name, "--from-instance");
  if (!instance) return tl::unexpected(std::move(instance).error());
  if (maker_of(name) == Maker::kAlive) {
    return fail(ErrorKind::kUsage,
                "--from-instance {}: a trapline that runs reads this instance: its session can be "
                "read while it is recorded",
                name);
  }
  const auto target = look_at_target(options);
  if (!target) return tl::unexpected(target.error());
  const auto formats = choose_events(instance->tracefs(), {.kvm = false, .patterns = {"*:*"}});
  if (!formats) return tl::unexpected(formats.error());
  auto reader = PageReader::open(*instance);
  if (!reader) return tl::unexpected(std::move(reader).error());
  // No session is made for an empty buffer.
  std::vector<std::string> stats;
  std::uint64_t entries = 0;
  std::vector<std::uint64_t> bytes;
  for (const CpuLoss& loss : reader->losses(*instance, stats)) {
    entries += loss.unread;
    const std::string size =
        instance->control().get(fmt::format("per_cpu/cpu{}/buffer_size_kb", loss.cpu)).value_or("");
    const auto kb = parse_number(size.substr(0, size.find_first_not_of("0123456789")));
    bytes.push_back(kb.value_or(0) * 1024);
  }
  if (entries == 0) return fail("{}: holds no events", instance->path(""));
  reader->take_at_most(std::move(bytes));
  return take(options, *instance, *reader, *target, *formats);
}

}  // namespace trapline::record
