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

Result<void> write_parts(const Folder& folder, const FlightContent& content, const FlightCut& cut,
                         Session& session) {
  if (auto wrote = write_session(folder, session); !wrote) return wrote;
  auto files = make_page_files(content.instance, folder, content.options, session.enabled_events);
  if (!files) return tl::unexpected(std::move(files).error());
  if (auto wrote = folder.replace("raw/cmdlines", content.cmdlines, 0600, Durable::kYes); !wrote)
    return wrote;
  std::vector<std::string> stats;
  for (unsigned cpu = 0; cpu < content.cpus; ++cpu) {
    const auto part = content.ring.write(
        cpu, cut.from, cut.to,
        [&](std::span<const std::byte> page) { return files->write(cpu, page); });
    if (!part) return tl::unexpected(part.error());
    stats.push_back(stats_of(cpu, *part));
    session.losses.push_back({cpu, part->lost, 0, 0, 0});
    if (part->lost_unknown) {
      session.warnings.push_back(fmt::format("CPU {}: events lost (count unknown)", cpu));
    }
  }
  files->close();
  if (auto finished = finish_locked(folder, stats); !finished) return finished;
  session.closed = true;
  return write_session(folder, session);
}

}  // namespace

Result<void> write_flight_session(const Folder& store, const std::string& name,
                                  const FlightContent& content, const FlightCut& cut,
                                  Session& session) {
  auto made = make_session(store, name);
  if (!made) return tl::unexpected(made.error());
  auto wrote = write_parts(made->folder, content, cut, session);
  if (!wrote) {
    (void)remove_session_folder(std::move(made->folder));
    return wrote;
  }
  return made->earlier.make_way(made->folder);
}

}  // namespace trapline::record
