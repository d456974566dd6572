#include "merge/session/finish.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/text_file.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline {
namespace {

using trace_dat::CpuArea;
using trace_dat::StartFacts;
using trace_dat::Tail;

constexpr std::uint64_t kPiece = 1u << 20;

std::string cpu_file(std::size_t cpu) { return fmt::format("raw/cpu{}", cpu); }

// Adds the tail to the head, writes the plan, and gives the head its name.
Result<void> begin(const Folder& session, const StartFacts& start,
                   const std::vector<std::string>& cpu_stats) {
  const Tail tail = trace_dat::tail_of(session, start, cpu_stats);
  const std::string path = session.path_of("raw/head");
  const auto head = session.open_file("raw/head", O_WRONLY);
  if (!head) return tl::unexpected(head.error());
  const auto end = static_cast<off_t>(start.head_bytes);
  if (::ftruncate(head->get(), end) != 0 || ::lseek(head->get(), end, SEEK_SET) != end) {
    return fail("{}: {}", path, std::strerror(errno));
  }
  if (auto wrote = write_all(head->get(), tail.bytes, path); !wrote) return wrote;
  if (auto planned = trace_dat::write_plan(session, tail.areas); !planned) return planned;
  return session.rename("raw/head", "trace.dat");
}

// Copies [from, from + size) of one file to the end of another; by reference where the file system
// can, else inside the kernel.
Result<void> copy_piece(int source, std::uint64_t from, int target, std::uint64_t to,
                        std::uint64_t size, const std::string& path) {
  auto in = static_cast<off_t>(from);
  auto out = static_cast<off_t>(to);
  while (size > 0) {
    ssize_t copied = ::copy_file_range(source, &in, target, &out, size, 0);
    if (copied < 0 &&
        (errno == EINVAL || errno == ENOSYS || errno == EXDEV || errno == EOPNOTSUPP)) {
      char buffer[65536];
      copied = ::pread(source, buffer, std::min<std::uint64_t>(size, sizeof buffer), in);
      if (copied > 0) copied = ::pwrite(target, buffer, static_cast<std::size_t>(copied), out);
      if (copied > 0) in += copied, out += copied;
    }
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0) return fail("{}: {}", path, std::strerror(errno));
    if (copied == 0) return fail(ErrorKind::kDamaged, "{}: ends early", path);
    size -= static_cast<std::uint64_t>(copied);
  }
  return {};
}

Result<void> move_cpu(const Folder& session, std::size_t cpu, const CpuArea& area, int target) {
  const std::string path = session.path_of(cpu_file(cpu));
  struct stat status {};
  if (::fstat(target, &status) != 0) return fail("{}: {}", path, std::strerror(errno));
  const auto length = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t done = std::min(length > area.offset ? length - area.offset : 0, area.size);
  if (done < area.size) {
    const auto source = session.open_file(cpu_file(cpu), O_RDWR);
    if (!source) return tl::unexpected(source.error());
    while (done < area.size) {
      const std::uint64_t piece = std::min(kPiece, area.size - done);
      const std::string trace = session.path_of("trace.dat");
      if (auto copied = copy_piece(source->get(), done, target, area.offset + done, piece, trace);
          !copied) {
        return copied;
      }
      // Best effort: a file system without FALLOC_FL_PUNCH_HOLE keeps both copies until this CPU is
      // done.
      (void)::fallocate(source->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(done), static_cast<off_t>(piece));
      done += piece;
    }
  }
  return session.remove(cpu_file(cpu));
}

}  // namespace

Result<void> finish_locked(const Folder& session, const std::vector<std::string>& cpu_stats) {
  if (auto removed = session.remove("raw/reserve"); !removed) return removed;
  auto start = trace_dat::read_start(session);
  if (!start) return tl::unexpected(std::move(start).error());
  if (!session.has_file("raw/plan.json") || !session.has_file("trace.dat")) {
    if (auto begun = begin(session, *start, cpu_stats); !begun) return begun;
  }
  auto areas = trace_dat::read_plan(session);
  if (!areas) return tl::unexpected(std::move(areas).error());
  {
    const auto target = session.open_file("trace.dat", O_RDWR);
    if (!target) return tl::unexpected(target.error());
    for (std::size_t cpu = 0; cpu < areas->size(); ++cpu) {
      if (auto moved = move_cpu(session, cpu, (*areas)[cpu], target->get()); !moved) return moved;
    }
  }
  // First: without it, trace.dat is whole.
  if (auto removed = session.remove("raw/start.json"); !removed) return removed;
  (void)session.remove_tree("raw");
  return {};
}

Result<Finish> finish_session(const std::string& path) {
  const auto session = open_session_folder(path);
  if (!session) return tl::unexpected(session.error());
  if (!session->has_folder("raw")) {
    if (session->has_file("session.json")) return Finish::kNothingToDo;
    return fail(ErrorKind::kUsage, "{}: not a session folder; it has no session.json", path);
  }
  auto lock = lock_session(*session);
  if (!lock) return tl::unexpected(std::move(lock).error());
  // Another reader may have finished it, and gone, before this one had the lock.
  if (!session->has_folder("raw")) return Finish::kNothingToDo;
  if (!session->has_file("raw/start.json")) {
    if (!session->has_file("trace.dat")) {
      return fail(ErrorKind::kDamaged, "{}: the recorder was killed before it recorded anything",
                  path);
    }
    (void)session->remove_tree("raw");
    return Finish::kNothingToDo;
  }
  if (auto done = finish_locked(*session, {}); !done) {
    return fail(done.error().kind, "{}: the session was cut off and cannot be finished: {}", path,
                done.error().message);
  }
  return Finish::kFinished;
}

}  // namespace trapline
