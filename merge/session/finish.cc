#include "merge/session/finish.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/text_file.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;
using trace_dat::CpuArea;
using trace_dat::raw_file;
using trace_dat::StartFacts;
using trace_dat::Tail;

constexpr std::uint64_t kPiece = 1u << 20;

std::string cpu_file(const std::string& session, std::size_t cpu) {
  return raw_file(session, fmt::format("cpu{}", cpu));
}

// Adds the tail to the head, writes the plan, and gives the head its name.
Result<void> begin(const std::string& session, const StartFacts& start,
                   const std::vector<std::string>& cpu_stats) {
  const Tail tail = trace_dat::tail_of(session, start, cpu_stats);
  const std::string path = raw_file(session, "head");
  const UniqueFd head(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!head) return fail("{}: {}", path, std::strerror(errno));
  const auto end = static_cast<off_t>(start.head_bytes);
  if (::ftruncate(head.get(), end) != 0 || ::lseek(head.get(), end, SEEK_SET) != end) {
    return fail("{}: {}", path, std::strerror(errno));
  }
  if (auto wrote = write_all(head.get(), tail.bytes, path); !wrote) return wrote;
  if (auto planned = trace_dat::write_plan(session, tail.areas); !planned) return planned;
  if (::rename(path.c_str(), (session + "/trace.dat").c_str()) != 0) {
    return fail("{}/trace.dat: {}", session, std::strerror(errno));
  }
  return {};
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

Result<void> move_cpu(const std::string& session, std::size_t cpu, const CpuArea& area,
                      int target) {
  const std::string path = cpu_file(session, cpu);
  struct stat status {};
  if (::fstat(target, &status) != 0) return fail("{}: {}", path, std::strerror(errno));
  const auto length = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t done = std::min(length > area.offset ? length - area.offset : 0, area.size);
  if (done < area.size) {
    const UniqueFd source(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!source) return fail("{}: {}", path, std::strerror(errno));
    while (done < area.size) {
      const std::uint64_t piece = std::min(kPiece, area.size - done);
      const std::string trace = session + "/trace.dat";
      if (auto copied = copy_piece(source.get(), done, target, area.offset + done, piece, trace);
          !copied) {
        return copied;
      }
      // Best effort: a file system without FALLOC_FL_PUNCH_HOLE keeps both copies until this CPU is
      // done.
      (void)::fallocate(source.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(done), static_cast<off_t>(piece));
      done += piece;
    }
  }
  ::unlink(path.c_str());
  return {};
}

}  // namespace

Result<UniqueFd> lock_session(const std::string& session) {
  const std::string folder = session + "/raw";
  UniqueFd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) return fail("{}: {}", folder, std::strerror(errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail("{}: trapline record is still writing this session; end it first", session);
  }
  return lock;
}

Result<void> finish_locked(const std::string& session, const std::vector<std::string>& cpu_stats) {
  ::unlink(raw_file(session, "reserve").c_str());
  auto start = trace_dat::read_start(session);
  if (!start) return tl::unexpected(std::move(start).error());
  std::error_code error;
  const std::string trace = session + "/trace.dat";
  if (!fs::exists(raw_file(session, "plan.json"), error) || !fs::exists(trace, error)) {
    if (auto begun = begin(session, *start, cpu_stats); !begun) return begun;
  }
  auto areas = trace_dat::read_plan(session);
  if (!areas) return tl::unexpected(std::move(areas).error());
  {
    const UniqueFd target(::open(trace.c_str(), O_RDWR | O_CLOEXEC));
    if (!target) return fail("{}: {}", trace, std::strerror(errno));
    for (std::size_t cpu = 0; cpu < areas->size(); ++cpu) {
      if (auto moved = move_cpu(session, cpu, (*areas)[cpu], target.get()); !moved) return moved;
    }
  }
  ::unlink(raw_file(session, "start.json").c_str());  // first: without it, trace.dat is whole
  fs::remove_all(session + "/raw", error);
  return {};
}

Result<Finish> finish_session(const std::string& session) {
  std::error_code error;
  if (!fs::is_directory(session + "/raw", error)) {
    if (fs::is_regular_file(session + "/session.json", error)) return Finish::kNothingToDo;
    return fail(ErrorKind::kUsage, "{}: not a session folder; it has no session.json", session);
  }
  auto lock = lock_session(session);
  if (!lock) return tl::unexpected(std::move(lock).error());
  // Another reader may have finished it, and gone, before this one had the lock.
  if (!fs::is_directory(session + "/raw", error)) return Finish::kNothingToDo;
  if (!fs::exists(raw_file(session, "start.json"), error)) {
    if (!fs::exists(session + "/trace.dat", error)) {
      return fail(ErrorKind::kDamaged, "{}: the recorder was killed before it recorded anything",
                  session);
    }
    fs::remove_all(session + "/raw", error);
    return Finish::kNothingToDo;
  }
  if (auto done = finish_locked(session, {}); !done) {
    return fail(done.error().kind, "{}: the session was cut off and cannot be finished: {}",
                session, done.error().message);
  }
  return Finish::kFinished;
}

}  // namespace trapline
