#include "merge/session/finish.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>
#include <span>

#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/uninterrupted.h"
#include "merge/source/trace_dat/ring_page.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline {
namespace {

using trace_dat::FinishPlan;
using trace_dat::kStream;
using trace_dat::StartFacts;
using trace_dat::StreamedPages;
using trace_dat::Tail;
using Part = FinishPlan::Part;

// Bytes copied and synced at a time; less on a nearly full disk, down to a third of raw/reserve.
constexpr std::uint64_t kPiece = 64u << 20, kSmallestPiece = 1u << 20;
constexpr const char* kWhole = "whole";  // in raw/: the copied trace.dat, if pages are in regions

tl::unexpected<Error> failed(const std::string& path, int cause) {
  return fail("{}: {}", path, why_not_written(cause));
}

Result<void> sync_file(int fd, const std::string& path) {
  if (uninterrupted([fd] { return ::fsync(fd); }) != 0) return failed(path, errno);
  return {};
}

// Makes later reads come from the disk. Data that the disk refused stays in the page cache as if it
// had been written: reads return it, SEEK_DATA finds it, and ext4 accepts the same bytes again for
// an extent that stays unwritten.
Result<void> ask_the_disk(int fd, const std::string& path) {
  if (uninterrupted([fd] { return ::fdatasync(fd); }) != 0) return failed(path, errno);
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

// Copies [from, from + size) of one file to another with copy_file_range(), which may copy by
// reference, or through a buffer if the file system cannot do that. Returns 0 or an errno.
int copy_piece(int source, std::uint64_t from, int target, std::uint64_t to, std::uint64_t size) {
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
    if (copied < 0) return errno;
    if (copied == 0) return EIO;  // the file has become shorter
    size -= static_cast<std::uint64_t>(copied);
  }
  return 0;
}

bool is_whole(std::span<const std::byte> page) {
  trace_dat::RingPage walk;
  // A page from the recorder has a time; zeros are a hole.
  if (!walk.load(page, sizeof(std::uint64_t)) || walk.time() == 0) return false;
  for (kernel_events::RecordedEvent event; walk.next(event);) continue;
  return !walk.damaged();
}

class Finisher {
 public:
  Finisher(const Folder& session, StartFacts start) : session_(session), start_(std::move(start)) {}

  Result<void> run(const std::vector<std::string>& cpu_stats, std::vector<std::uint64_t>* torn) {
    if (auto opened = assign(stream_, session_.open_file(kStream, O_RDWR)); !opened) return opened;
    const auto planned = session_.finds("raw/plan.json");
    if (!planned) return tl::unexpected(planned.error());
    if (*planned) {
      if (auto read = assign(plan_, trace_dat::read_plan(session_)); !read) return read;
    } else if (auto made = make_plan(cpu_stats); !made) {
      return made;
    }
    if (!plan_.copies()) {
      if (auto closed = close_holes(); !closed) return closed;
    }
    if (plan_.copies()) {
      if (auto copied = copy_parts(); !copied) return copied;
    }
    if (torn != nullptr) {
      if (auto read = assign(*torn, read_back()); !read) return read;
    }
    return name_it();
  }

 private:
  Result<void> make_plan(const std::vector<std::string>& cpu_stats) {
    if (auto on_disk = bring_to_disk(); !on_disk) return on_disk;
    const auto pages = trace_dat::look_at_pages(session_, start_, stream_.get());
    if (!pages) return tl::unexpected(pages.error());
    const auto tail = trace_dat::tail_of(session_, start_, *pages, cpu_stats);
    if (!tail) return tl::unexpected(tail.error());
    plan_.areas = tail->areas;
    const bool in_regions =
        start_.regions().any() && plan_.begin() <= start_.regions().first &&
        std::ranges::all_of(*pages, [](const StreamedPages& cpu) { return cpu.in_file == 0; });
    if (auto begun = in_regions ? begin_closing(*tail, *pages)
                                : begin_copying(*tail, parts_of(start_, *tail, *pages));
        !begun) {
      return begun;
    }
    return save_plan();
  }
  // Syncs the recorder's files before the plan (raw/plan.json) is made: the plan depends on their
  // sizes, which must be the same after a power cut.
  Result<void> bring_to_disk() const {
    if (auto synced = ask_the_disk(stream_.get(), session_.path_of(kStream)); !synced)
      return synced;
    for (unsigned cpu = 0; cpu < start_.cpus; ++cpu) {
      const std::string name = trace_dat::cpu_name(cpu);
      const auto is_there = session_.finds("raw/" + name);
      if (!is_there) return tl::unexpected(is_there.error());
      if (!*is_there) continue;
      const auto pages = session_.open_file("raw/" + name, O_RDWR);
      if (!pages) return tl::unexpected(pages.error());
      if (auto synced = ask_the_disk(pages->get(), path(name)); !synced) return synced;
    }
    return {};
  }
  // Writes the tail after the head, and removes everything after a CPU's last whole page.
  Result<void> begin_closing(const Tail& tail, const std::vector<StreamedPages>& pages) {
    const std::string name = session_.path_of(kStream);
    if (const int cause = write_bytes(stream_.get(), tail.bytes, start_.head_bytes))
      return failed(name, cause);
    std::uint64_t end = plan_.begin();
    for (std::size_t cpu = 0; cpu < pages.size(); ++cpu) {
      const std::uint64_t region = start_.regions().at(cpu);
      // An attempt that was killed may have left a longer tail.
      if (auto empty = make_hole(end, region); !empty) return empty;
      end = region + pages[cpu].in_region;
    }
    if (::ftruncate(stream_.get(), static_cast<off_t>(end)) != 0) return failed(name, errno);
    return sync_file(stream_.get(), name);
  }
  // Writes head and tail into the file that the pages are copied to: a new file if raw/trace.dat
  // has regions for pages, else raw/trace.dat itself, which then has only the head.
  Result<void> begin_copying(const Tail& tail, const std::vector<Part>& parts) {
    plan_.parts = parts;
    plan_.into = start_.regions().any() ? kWhole : trace_dat::kStreamName;
    plan_.copied = plan_.begin();
    UniqueFd whole;
    if (start_.regions().any()) {
      if (auto removed = session_.remove(std::string("raw/") + kWhole); !removed) return removed;
      if (auto made = assign(whole, session_.create(std::string("raw/") + kWhole)); !made)
        return made;
      if (const int cause = copy_piece(stream_.get(), 0, whole.get(), 0, start_.head_bytes))
        return failed(path(kWhole), cause);
      // A program that is reading raw/trace.dat notices by its new size that its pages are moving.
      std::uint64_t end = start_.head_bytes;
      for (const Part& part : parts)
        if (part.file == trace_dat::kStreamName) end = std::max(end, part.offset + part.size);
      if (::ftruncate(stream_.get(), static_cast<off_t>(end + start_.page_size)) != 0)
        return failed(session_.path_of(kStream), errno);
    }
    const int into = whole ? whole.get() : stream_.get();
    if (const int cause = write_bytes(into, tail.bytes, start_.head_bytes))
      return failed(path(plan_.into), cause);
    return sync_file(into, path(plan_.into));
  }
  // Closes the holes between the pages; if the file system refuses, copies the remaining pages.
  Result<void> close_holes() {
    const auto parts = trace_dat::find_parts(session_, plan_, stream_.get(), start_.page_size);
    if (!parts) return tl::unexpected(parts.error());
    std::uint64_t closed = 0;
    for (std::size_t i = 0; i < parts->size(); ++i) {
      const Part& part = (*parts)[i];
      const std::uint64_t now = part.offset - closed;
      if (now == part.at) continue;
      const auto collapse = [&] {
        return ::fallocate(stream_.get(), FALLOC_FL_COLLAPSE_RANGE, static_cast<off_t>(part.at),
                           static_cast<off_t>(now - part.at));
      };
      if (uninterrupted(collapse) != 0) return copy_instead();
      closed += now - part.at;
    }
    const std::uint64_t end =
        plan_.areas.empty() ? plan_.begin() : plan_.areas.back().offset + plan_.areas.back().size;
    if (::ftruncate(stream_.get(), static_cast<off_t>(end)) != 0)
      return failed(session_.path_of(kStream), errno);
    return sync_file(stream_.get(), session_.path_of(kStream));
  }
  Result<void> make_hole(std::uint64_t from, std::uint64_t to) const {
    const auto run = trace_dat::next_run(stream_.get(), from, to, start_.page_size);
    if (!run) return fail("{}: {}", session_.path_of(kStream), run.error().message);
    if (!*run) return {};
    if (::fallocate(stream_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(from), static_cast<off_t>(to - from)) != 0) {
      return failed(session_.path_of(kStream), errno);
    }
    return {};
  }
  Result<void> copy_instead() {
    const auto parts = trace_dat::find_parts(session_, plan_, stream_.get(), start_.page_size);
    if (!parts) return tl::unexpected(parts.error());
    Tail tail;
    tail.bytes.resize(plan_.begin() - std::min(plan_.begin(), start_.head_bytes));
    const auto got = ::pread(stream_.get(), tail.bytes.data(), tail.bytes.size(),
                             static_cast<off_t>(start_.head_bytes));
    if (got != static_cast<ssize_t>(tail.bytes.size()))
      return trace_dat::damaged_session(session_.path_of(kStream));
    if (auto begun = begin_copying(tail, *parts); !begun) return begun;
    return save_plan();
  }
  Result<void> copy_parts() {
    const auto into = session_.open_file("raw/" + plan_.into, O_RDWR);
    if (!into) return tl::unexpected(into.error());
    // Copied data that may not be on the disk is copied again.
    if (::ftruncate(into->get(), static_cast<off_t>(plan_.copied)) != 0)
      return failed(path(plan_.into), errno);
    for (const Part& part : plan_.parts) {
      if (part.at + part.size <= plan_.copied) continue;
      if (auto copied = copy_part(part, into->get()); !copied) return copied;
    }
    return sync_file(into->get(), path(plan_.into));
  }
  // A copied part is on the disk, and the plan says so, before the room of its source is freed.
  Result<void> copy_part(const Part& part, int into) {
    const auto source = session_.open_file("raw/" + part.file, O_RDWR);
    if (!source) return tl::unexpected(source.error());
    std::uint64_t done = std::max(plan_.copied, part.at) - part.at;
    while (done < part.size) {
      const std::uint64_t size = std::min(piece_, part.size - done);
      const int cause = copy_piece(source->get(), part.offset + done, into, part.at + done, size);
      if (cause == ENOSPC && piece_ > kSmallestPiece) {
        piece_ = std::max(piece_ / 4, kSmallestPiece);
        if (::ftruncate(into, static_cast<off_t>(plan_.copied)) != 0)
          return failed(path(plan_.into), errno);
        continue;
      }
      if (cause != 0) return failed(path(plan_.into), cause);
      if (auto synced = sync_file(into, path(plan_.into)); !synced) return synced;
      plan_.copied = part.at + done + size;
      if (auto saved = save_plan(); !saved) return saved;
      // Frees the source's room, if the file system can; otherwise both copies stay until the end.
      (void)::fallocate(source->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(part.offset + done), static_cast<off_t>(size));
      done += size;
    }
    return {};
  }
  Result<void> save_plan() const {
    if (auto wrote = trace_dat::write_plan(session_, plan_); !wrote) return wrote;
    const auto raw = session_.open_folder("raw");
    return raw ? raw->sync() : tl::unexpected(raw.error());
  }
  // Returns, for each CPU, the pages that the disk does not return as they were written. Data that
  // the disk refused may be in the page cache, so the cache is dropped, and bypassed if the file
  // system can (O_DIRECT).
  Result<std::vector<std::uint64_t>> read_back() const {
    const std::string name = "raw/" + (plan_.copies() ? plan_.into : trace_dat::kStreamName);
    const auto cached = session_.open_file(name, O_RDWR);
    if (!cached) return tl::unexpected(cached.error());
    if (auto synced = ask_the_disk(cached->get(), session_.path_of(name)); !synced)
      return tl::unexpected(synced.error());
    const auto direct = session_.open_file(name, O_RDONLY | O_DIRECT);
    constexpr std::size_t kAtOnce = 1U << 20, kAligned = 65536;
    std::vector<std::byte> memory(kAtOnce + kAligned);
    void* at = memory.data();
    std::size_t room = memory.size();
    const std::span<std::byte> buffer(
        static_cast<std::byte*>(std::align(kAligned, kAtOnce, at, room)), kAtOnce);
    std::vector<std::uint64_t> torn;
    for (const trace_dat::Run& area : plan_.areas) {
      torn.push_back(0);
      for (std::uint64_t done = 0; done < area.size;) {
        const auto part = buffer.first(std::min<std::uint64_t>(area.size - done, kAtOnce));
        const auto from = static_cast<off_t>(area.offset + done);
        const auto get = [&](int fd) { return ::pread(fd, part.data(), part.size(), from); };
        ssize_t got = direct ? uninterrupted([&] { return get(direct->get()); }) : -1;
        if (got <= 0) got = uninterrupted([&] { return get(cached->get()); });
        const std::size_t page = start_.page_size;
        // A page that cannot be read is skipped.
        const std::size_t pages =
            std::max<std::size_t>(got > 0 ? static_cast<std::size_t>(got) / page : 0, 1);
        for (std::size_t i = 0; i < pages; ++i)
          if (got < static_cast<ssize_t>((i + 1) * page) || !is_whole(part.subspan(i * page, page)))
            ++torn.back();
        done += pages * page;
      }
    }
    return torn;
  }
  // Renames the finished file to trace.dat. From then on the session has a trace.dat, and what is
  // left in raw/ is not needed.
  Result<void> name_it() const {
    const std::string from = plan_.copies() ? plan_.into : trace_dat::kStreamName;
    if (auto named = session_.rename("raw/" + from, "trace.dat"); !named) return named;
    if (auto synced = session_.sync(); !synced) return synced;
    return session_.remove_tree("raw");
  }
  [[nodiscard]] std::string path(const std::string& file) const {
    return session_.path_of("raw/" + file);
  }

  const Folder& session_;
  StartFacts start_;
  UniqueFd stream_;
  FinishPlan plan_;
  std::uint64_t piece_ = kPiece;
};

}  // namespace

void add_torn(const std::vector<std::uint64_t>& pages, std::vector<CpuLoss>& losses) {
  for (unsigned cpu = 0; cpu < pages.size(); ++cpu) {
    if (pages[cpu] == 0) continue;
    const auto known = std::ranges::find(losses, cpu, &CpuLoss::cpu);
    CpuLoss& loss = known == losses.end() ? losses.emplace_back(CpuLoss{cpu}) : *known;
    loss.unwritten_pages += pages[cpu];
  }
}

Result<void> finish_locked(const Folder& session, const std::vector<std::string>& cpu_stats,
                           std::vector<std::uint64_t>* torn) {
  if (auto removed = session.remove("raw/reserve"); !removed) return removed;
  const auto whole = session.finds("trace.dat");
  if (!whole) return tl::unexpected(whole.error());
  if (*whole) return session.remove_tree("raw");
  auto start = trace_dat::read_start(session);
  if (!start) return tl::unexpected(std::move(start).error());
  return Finisher(session, std::move(*start)).run(cpu_stats, torn);
}

Result<Finish> finish_session(const std::string& path, std::uint64_t* torn) {
  const auto session = open_session_folder(path);
  if (!session) return tl::unexpected(session.error());
  auto unfinished = session->finds("raw");
  if (!unfinished) return tl::unexpected(unfinished.error());
  if (!*unfinished) {
    if (session->has_file("session.json")) return Finish::kNothingToDo;
    return fail(ErrorKind::kUsage, "{}: not a session folder; it has no session.json", path);
  }
  auto lock = lock_session(*session);
  if (!lock) return tl::unexpected(std::move(lock).error());
  // Another reader may have finished the session and gone before this one got the lock.
  unfinished = session->finds("raw");
  if (!unfinished) return tl::unexpected(unfinished.error());
  if (!*unfinished) return Finish::kNothingToDo;
  const auto whole = session->finds("trace.dat");
  if (!whole) return tl::unexpected(whole.error());
  if (*whole) {
    if (auto removed = session->remove_tree("raw"); !removed)
      return tl::unexpected(removed.error());
    return Finish::kNothingToDo;
  }
  const auto begun = session->finds("raw/start.json");
  if (!begun) return tl::unexpected(begun.error());
  if (!*begun) {
    return fail(ErrorKind::kDamaged, "{}: the recorder was killed before it recorded anything",
                path);
  }
  std::vector<std::uint64_t> pages;
  if (auto done = finish_locked(*session, {}, &pages); !done) {
    return fail(done.error().kind, "{}: the session was cut off and cannot be finished: {}", path,
                done.error().message);
  }
  const std::uint64_t all = std::accumulate(pages.begin(), pages.end(), std::uint64_t{0});
  if (torn != nullptr) *torn = all;
  auto text = all == 0 ? Result<std::string>() : session->read("session.json");
  auto known = all == 0 || !text ? std::nullopt : parse_session_json(*text);
  if (!known) return Finish::kFinished;
  add_torn(pages, known->losses);
  if (auto wrote = write_session_json(*session, *known); !wrote)
    return tl::unexpected(wrote.error());
  return Finish::kFinished;
}

}  // namespace trapline
