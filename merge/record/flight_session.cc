#include "merge/record/flight_session.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

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

Result<FlightPart> write_cpu(const std::string& path, const FlightRing& ring, unsigned cpu,
                             const FlightCut& cut) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return fail("{}: {}", path, std::strerror(errno));
  return ring.write(cpu, cut.from, cut.to, [&](std::span<const std::byte> page) {
    return write_all(fd.get(), {reinterpret_cast<const char*>(page.data()), page.size()}, path);
  });
}

Result<void> write_parts(const std::string& folder, const FlightContent& content,
                         const FlightCut& cut, Session& session) {
  if (auto made = make_session_folder(folder); !made) return made;
  auto lock = lock_session(folder);
  if (!lock) return tl::unexpected(std::move(lock).error());
  if (auto wrote = write_session(folder, session); !wrote) return wrote;
  RecordOptions here = content.options;
  here.folder = folder;
  const auto start = write_head(content.instance, here, session.events);
  if (!start) return tl::unexpected(start.error());
  if (auto wrote = trace_dat::write_start(folder, *start); !wrote) return wrote;
  if (auto wrote = replace_file(folder + "/raw/cmdlines", content.cmdlines); !wrote) return wrote;
  std::vector<std::string> stats;
  for (unsigned cpu = 0; cpu < content.cpus; ++cpu) {
    const auto part = write_cpu(fmt::format("{}/raw/cpu{}", folder, cpu), content.ring, cpu, cut);
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

Result<void> write_flight_session(const std::string& folder, const FlightContent& content,
                                  const FlightCut& cut, Session& session) {
  auto wrote = write_parts(folder, content, cut, session);
  if (!wrote) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    return wrote;
  }
  if (content.owner) give_session(folder, *content.owner);
  return {};
}

}  // namespace trapline::record
