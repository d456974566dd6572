#include "merge/record/session_writer.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <set>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/session/finish.h"
#include "merge/source/kernel_events/event_texts.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::record {
namespace {

// Returns the swap devices in /proc/swaps, which begins with a line of titles.
std::vector<std::string> swaps() {
  std::vector<std::string> swaps;
  const std::string text = read_text("/proc/swaps").value_or("");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    const std::string path(line.substr(0, line.find_first_of(" \t")));
    if (!path.starts_with('/')) continue;
    struct stat status {};
    const bool is_device = ::stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode);
    swaps.push_back(is_device ? fmt::format("{}:{}", major(status.st_rdev), minor(status.st_rdev))
                              : "file");
  }
  return swaps;
}

}  // namespace

std::vector<SessionSlot> slots_in(const std::vector<std::string>& lines) {
  constexpr std::string_view kIsSlot = " KVM", kName = "): ", kOffset = " @";
  std::vector<SessionSlot> slots;
  bool is_memory = false;
  for (const std::string& line : lines) {
    if (line.starts_with("FlatView #")) is_memory = false;
    is_memory |= line.starts_with("AS \"memory\",");
    SessionSlot slot;
    std::string_view rest = line;
    if (!is_memory || !line.ends_with(kIsSlot) || !take_number_to(rest, slot.first, '-', 16) ||
        !take_number_to(rest, slot.last, ' ', 16) || slot.last < slot.first)
      continue;
    const std::size_t name = rest.find(kName);
    if (name == rest.npos) continue;
    if (slots.size() >= kMostSlots) return {};
    rest = rest.substr(name + kName.size());
    rest.remove_suffix(kIsSlot.size());
    const std::size_t at = rest.rfind(kOffset);
    std::string_view number = at == rest.npos ? "0" : rest.substr(at + kOffset.size());
    std::uint64_t offset = 0;
    if (take_number(number, offset, 16) && number.empty()) slot.offset = offset;
    slot.name = printable(rest.substr(0, at));
    slots.push_back(std::move(slot));
  }
  return slots;
}

SessionEdge edge_now(const std::map<pid_t, Thread>& threads, QemuMonitor* monitor) {
  SessionEdge edge;
  edge.huge_pages = trimmed(read_text("/sys/kernel/mm/transparent_hugepage/enabled").value_or(""));
  edge.same_pages = trimmed(read_text("/sys/kernel/mm/ksm/run").value_or(""));
  edge.swaps = swaps();
  std::set<pid_t> processes;
  for (const auto& [tid, thread] : threads) processes.insert(thread.pid);
  for (const pid_t pid : processes) {
    const auto status = read_text(fmt::format("/proc/{}/status", pid));
    if (!status) continue;
    SessionMemory& of = edge.memory.emplace_back(SessionMemory{.pid = pid});
    for (const auto& [key, to] :
         {std::pair("RssAnon:", &of.anonymous), std::pair("RssFile:", &of.file),
          std::pair("RssShmem:", &of.shared), std::pair("VmSwap:", &of.swapped)}) {
      std::string_view number = kernel_events::format_line(*status, key);
      (void)take_number(number, *to);
    }
  }
  if (monitor != nullptr)
    edge.slots = slots_in(monitor->human("info mtree -f").value_or(std::vector<std::string>()));
  return edge;
}

SessionJson new_session(const std::string& version, const std::string& clock) {
  utsname name{};
  ::uname(&name);
  const auto boot_id = read_text("/proc/sys/kernel/random/boot_id");
  SessionJson session;
  const auto config = read_text(fmt::format("/boot/config-{}", name.release));
  // nullopt: not known
  const auto is_built_with = [&config](const char* option) -> std::optional<bool> {
    if (!config) return std::nullopt;
    return config->find(fmt::format("\n{}=y\n", option)) != std::string::npos;
  };
  session.host = {name.release,
                  name.machine,
                  name.nodename,
                  ::sysconf(_SC_NPROCESSORS_ONLN),
                  boot_id ? std::string(trimmed(*boot_id)) : std::string(),
                  is_built_with("CONFIG_IRQ_TIME_ACCOUNTING"),
                  is_built_with("CONFIG_PARAVIRT_TIME_ACCOUNTING")};
  session.swaps = swaps();
  session.trapline_version = version;
  session.clocks.emplace_back("trace.dat", clock);
  session.recorder_pid = ::getpid();
  return session;
}

// Looks for raw/ or trace.dat, one of which exists until the end. A look-up that fails proves
// nothing, so it is not an Error.
Result<void> check_presence(const Folder& folder) {
  for (const char* name : {"raw", "trace.dat"}) {
    const auto there = folder.finds(name);
    if (!there || *there) return {};
  }
  return fail("{}: was removed while trapline recorded into it: nothing is kept; record again",
              folder.path());
}

std::vector<std::string> cpu_stats(const std::vector<CpuLoss>& losses,
                                   const std::vector<std::string>& stats) {
  std::vector<std::string> texts;
  for (const CpuLoss& loss : losses) {
    std::string& text =
        texts.emplace_back(fmt::format("CPU: {}\n{}", loss.cpu, stats[texts.size()]));
    for (const auto& [key, count] : {std::pair(trace_dat::kPagesUnwritten, loss.unwritten_pages),
                                     std::pair(trace_dat::kEventsUnread, loss.unread),
                                     std::pair(trace_dat::kEventsTaken, loss.read_by_others)}) {
      if (count != 0) text += fmt::format("{}: {}\n", key, count);
    }
  }
  return texts;
}

// Writes session.json first: without it, a kill would leave a folder that is not a session.
Result<SessionWriter> SessionWriter::make(Result<NewSession> made, const SessionJson& session) {
  if (!made) return tl::unexpected(std::move(made).error());
  SessionWriter writer(std::move(*made));
  if (auto wrote = writer.write(session); !wrote) {
    writer.discard();
    return tl::unexpected(std::move(wrote).error());
  }
  return writer;
}

Result<void> SessionWriter::open_files(std::string_view head, trace_dat::StartFacts facts) {
  return assign(files_, PageFiles::open(folder(), head, std::move(facts)));
}

Result<void> SessionWriter::write(const SessionJson& session) const {
  auto wrote = write_session_json(folder(), session);
  return wrote && session.closed ? folder().sync() : wrote;
}

Result<void> SessionWriter::seal(SessionJson& session, const std::string& cmdlines,
                                 const std::vector<std::string>& stats, bool has_failed) {
  folder().follow_rename();
  files_->close();
  // Frees the reserve first: what follows needs room on a full disk.
  (void)folder().remove("raw/reserve");
  if (auto present = check_presence(folder()); !present) return present;
  // Errors are ignored: on a nearly full disk, either of these files is better than nothing.
  (void)folder().replace("raw/cmdlines", cmdlines, 0600, Durable::kYes);
  (void)folder().replace("session.json", to_text(session), 0600, Durable::kYes);
  std::vector<std::uint64_t> torn;
  auto finished = finish_locked(folder(), stats, has_failed ? &torn : nullptr);
  add_torn(torn, session.losses);
  session.closed = finished.has_value();
  auto wrote = write(session);
  made_->lock.reset();
  if (finished) return wrote;
  return fail("{}; the pages are in {}/raw; once there is room: trapline record --finish {}",
              finished.error().message, folder().path(), shell_text({folder().path()}));
}

Result<std::uint64_t> SessionWriter::seal_ring(const PageRing& ring, std::uint64_t from,
                                               std::uint64_t to, SessionJson& session,
                                               const std::string& cmdlines) {
  std::uint64_t events = 0;
  std::vector<std::string> stats;
  for (unsigned cpu = 0; cpu < ring.cpus(); ++cpu) {
    const auto part =
        ring.write(cpu, from, to, files_->page_size(),
                   [&](std::span<const std::byte> page) { return files_->page(cpu, page); });
    if (!part) return tl::unexpected(part.error());
    events += part->events;
    // A CPU's statistics in trace.dat's form, for the events that are written here.
    stats.push_back(fmt::format(
        "CPU: {}\nentries: 0\noverrun: {}\ncommit overrun: 0\nbytes: 0\ndropped events: 0\n"
        "read events: {}\n",
        cpu, part->lost, part->events));
    session.losses.push_back({cpu, part->lost, 0, 0, 0});
    if (part->lost_unknown)
      session.warnings.push_back(fmt::format("CPU {}: events lost (count unknown)", cpu));
  }
  return seal(session, cmdlines, stats).map([events] { return events; });
}

Result<std::uint64_t> SessionWriter::keep_ring(Result<void> opened, const PageRing& ring,
                                               std::uint64_t from, std::uint64_t to,
                                               SessionJson& session, const std::string& cmdlines) {
  auto kept = opened ? seal_ring(ring, from, to, session, cmdlines)
                     : tl::unexpected(std::move(opened).error());
  if (!kept) {
    discard();
  } else if (auto moved = make_way(); !moved) {
    return fail("{}; the session is {}", moved.error().message, folder().path());
  }
  return kept;
}

void SessionWriter::discard() {
  files_.reset();
  (void)remove_session_folder(std::move(made_->folder));
}

}  // namespace trapline::record
