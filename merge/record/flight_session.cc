#include "merge/record/flight_session.h"

#include "backend_ftrace/base/text_file.h"
#include "merge/record/setup.h"
#include "merge/session/finish.h"

namespace trapline::record {
namespace {

// What trace-cmd prints of a CPU's buffer: of the part that is kept.
std::string stats_of(unsigned cpu, const FlightPart& part) {
  return fmt::format(
      "CPU: {}\nentries: 0\noverrun: {}\ncommit overrun: 0\nbytes: 0\ndropped events: 0\n"
      "read events: {}\n",
      cpu, part.lost, part.events);
}

Result<FlightPart> write_cpu(const Folder& folder, const FlightRing& ring, unsigned cpu,
                             const FlightCut& cut) {
  const std::string name = fmt::format("raw/cpu{}", cpu);
  const auto fd = folder.create(name);
  if (!fd) return tl::unexpected(fd.error());
  const std::string path = folder.path_of(name);
  return ring.write(cpu, cut.from, cut.to, [&](std::span<const std::byte> page) {
    return write_all(fd->get(), {reinterpret_cast<const char*>(page.data()), page.size()}, path);
  });
}

Result<void> write_parts(const Folder& folder, const FlightContent& content, const FlightCut& cut,
                         Session& session) {
  auto lock = lock_session(folder);
  if (!lock) return tl::unexpected(std::move(lock).error());
  if (auto wrote = write_session(folder, session); !wrote) return wrote;
  const auto start = write_head(content.instance, folder, content.options, session.events);
  if (!start) return tl::unexpected(start.error());
  if (auto wrote = trace_dat::write_start(folder, *start); !wrote) return wrote;
  if (auto wrote = folder.replace("raw/cmdlines", content.cmdlines); !wrote) return wrote;
  std::vector<std::string> stats;
  for (unsigned cpu = 0; cpu < content.cpus; ++cpu) {
    const auto part = write_cpu(folder, content.ring, cpu, cut);
    if (!part) return tl::unexpected(part.error());
    stats.push_back(stats_of(cpu, *part));
    session.losses.push_back({cpu, part->lost, 0, 0, 0});
    if (part->lost_unknown) {
      session.warnings.push_back(fmt::format("CPU {}: events lost (count unknown)", cpu));
    }
  }
  if (auto finished = finish_locked(folder, stats); !finished) return finished;
  session.closed = true;
  return write_session(folder, session);
}

}  // namespace

Result<void> write_flight_session(const Folder& store, const std::string& name,
                                  const FlightContent& content, const FlightCut& cut,
                                  Session& session) {
  const auto folder = make_session_folder(store, name);
  if (!folder) return tl::unexpected(folder.error());
  auto wrote = write_parts(*folder, content, cut, session);
  if (!wrote) (void)store.remove_tree(name);
  return wrote;
}

}  // namespace trapline::record
