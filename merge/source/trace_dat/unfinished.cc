#include "merge/source/trace_dat/unfinished.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "backend_ftrace/base/json_text.h"
#include "backend_ftrace/base/paths.h"

namespace trapline::trace_dat {

// The forms of raw/start.json and raw/plan.json: each member by its name.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StartFacts, page_size, head_bytes, cpus, clocks, uname, version,
                                   first_region, region_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Run, offset, size)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FinishPlan::Part, at, size, file, offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FinishPlan, areas, parts, into, copied)

namespace {

// Limit for pages that have room on the disk but were not filled: those of one splice.
constexpr unsigned kMostUnfilled = 1024;

Result<std::uint64_t> size_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail("its size: {}", std::strerror(errno));
  return static_cast<std::uint64_t>(status.st_size);
}

Result<std::optional<std::uint64_t>> seek(int fd, std::uint64_t from, int whence) {
  const off_t found = ::lseek(fd, static_cast<off_t>(from), whence);
  if (found >= 0) return static_cast<std::uint64_t>(found);
  if (errno == ENXIO) return std::nullopt;  // there is none
  return fail("where it has data: {}", std::strerror(errno));
}

// Returns whether the page was not filled: a page of the kernel's begins with its time, which is
// not 0.
bool is_unfilled(int fd, std::uint64_t page) {
  std::array<std::byte, 16> header{};
  const ssize_t got = ::pread(fd, header.data(), header.size(), static_cast<off_t>(page));
  return got == static_cast<ssize_t>(header.size()) &&
         std::ranges::all_of(header, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

Result<std::optional<Run>> next_run(int fd, std::uint64_t from, std::uint64_t to,
                                    std::size_t page_size) {
  const auto size = size_of(fd);
  if (!size) return tl::unexpected(size.error());
  to = std::min(to, *size);
  auto data = seek(fd, from, SEEK_DATA);
  if (!data) return tl::unexpected(data.error());
  if (!*data || **data >= to) return std::nullopt;
  const std::uint64_t begin = std::max(from, **data / page_size * page_size);
  std::uint64_t end = begin;
  while (*data && **data < to && **data <= end) {
    const auto hole = seek(fd, **data, SEEK_HOLE);
    if (!hole) return tl::unexpected(hole.error());
    if (!*hole) break;
    // A file system's blocks may be smaller than a page, so a hole may begin within a page.
    end = (**hole + page_size - 1) / page_size * page_size;
    data = seek(fd, **hole, SEEK_DATA);
    if (!data) return tl::unexpected(data.error());
  }
  return Run{begin, std::min(end, to) - begin};
}

Result<std::vector<Run>> runs_in(int fd, std::uint64_t from, std::uint64_t to,
                                 std::size_t page_size, std::size_t most) {
  std::vector<Run> runs;
  for (;;) {
    const auto run = next_run(fd, from, to, page_size);
    if (!run) return tl::unexpected(run.error());
    if (!*run) return runs;
    if ((*run)->size == 0 || runs.size() >= most) return fail(ErrorKind::kDamaged, "many parts");
    from = (*run)->offset + (*run)->size;
    runs.push_back(**run);
  }
}

Result<std::uint64_t> pages_at(int fd, std::uint64_t from, std::uint64_t to,
                               std::size_t page_size) {
  const auto run = next_run(fd, from, to, page_size);
  if (!run) return tl::unexpected(run.error());
  if (!*run || (*run)->offset != from) return 0;
  std::uint64_t pages = (*run)->size / page_size;
  if (pages == 0) return 0;
  // A page may span several of the disk's blocks, so the last page may be incomplete.
  const auto hole = seek(fd, from + (pages - 1) * page_size, SEEK_HOLE);
  if (!hole) return tl::unexpected(hole.error());
  if (*hole && **hole < from + pages * page_size) --pages;
  for (unsigned looked = 0; pages > 0 && looked < kMostUnfilled; ++looked, --pages)
    if (!is_unfilled(fd, from + (pages - 1) * page_size)) break;
  return pages * page_size;
}

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Descriptor = std::shared_ptr<const UniqueFd>;

constexpr const char* kStart = "raw/start.json";
constexpr const char* kPlan = "raw/plan.json";
constexpr std::uint64_t kMostOffset = std::uint64_t{1} << 62;

Result<Descriptor> open_piece(const Folder& session, const std::string& name) {
  auto fd = session.open_file(name, O_RDONLY);
  if (!fd) return tl::unexpected(std::move(fd).error());
  return std::make_shared<const UniqueFd>(std::move(*fd));
}

// Returns a guard with the file's present size. Finishing the recording changes the size, at the
// latest when the first page moves.
File::Guard guard_of(const Descriptor& file) {
  struct stat status {};
  (void)::fstat(file->get(), &status);
  return {file, static_cast<std::uint64_t>(status.st_size)};
}

bool is_sane(const StartFacts& facts) {
  const Regions regions = facts.regions();
  return facts.page_size >= 4096 && facts.page_size <= 65536 &&
         std::has_single_bit(facts.page_size) && facts.cpus <= kMostCpus &&
         facts.head_bytes < kMostOffset && regions.first < kMostOffset &&
         regions.first % facts.page_size == 0 && regions.bytes % facts.page_size == 0 &&
         (!regions.any() || facts.head_bytes <= regions.first) &&
         regions.bytes <= (kMostOffset - regions.first) / std::max(facts.cpus, 1u);
}

// Limit for the parts of a plan. A CPU has at most three: its pages in raw/trace.dat, which a
// half-closed hole may have split in two, and those in a file of its own.
constexpr std::size_t kMostParts = 4 * kMostCpus;

bool fits(std::uint64_t offset, std::uint64_t size) {
  return offset < kMostOffset && size < kMostOffset;
}

bool is_name(const std::string& file) {
  return !file.empty() && file.size() < 32 && file.find('/') == std::string::npos &&
         file.front() != '.';
}

bool is_sane(const FinishPlan& plan) {
  std::uint64_t at = 0;
  for (const Run& area : plan.areas) {
    if (!fits(area.offset, area.size) || area.offset < at) return false;
    at = area.offset + area.size;
  }
  at = plan.begin();
  for (const FinishPlan::Part& part : plan.parts) {
    if (!fits(part.at, part.size) || !fits(part.offset, 0) || part.at < at) return false;
    if (!is_name(part.file)) return false;
    at = part.at + part.size;
  }
  const bool names = plan.copies() ? is_name(plan.into) : plan.parts.empty();
  return names && plan.copied < kMostOffset && plan.areas.size() <= kMostCpus &&
         plan.parts.size() <= kMostParts;
}

// Composes `pieces` and the bytes of `parts` from `copied` on. The parts are in files in raw/;
// `stream` is raw/trace.dat.
Result<File> compose(const Folder& session, std::vector<File::Piece> pieces,
                     std::span<const FinishPlan::Part> parts, std::uint64_t copied,
                     File::Guard guard, const Descriptor& stream) {
  for (const FinishPlan::Part& part : parts) {
    if (part.at + part.size <= copied) continue;
    auto file = part.file == kStreamName ? stream : open_piece(session, "raw/" + part.file);
    if (!file) return tl::unexpected(std::move(file).error());
    const std::uint64_t done = std::max(copied, part.at) - part.at;
    pieces.push_back({part.at + done, part.size - done, std::move(*file), part.offset + done, {}});
  }
  return File::compose(session.path_of("trace.dat"), std::move(pieces), std::move(guard));
}

// Reads a file of the session that has the form of T.
template <typename T>
Result<T> read_json(const Folder& session, const char* name) {
  const auto text = session.read(name);
  if (!text) return tl::unexpected(text.error());
  try {
    if (is_bounded_json(*text)) {
      auto read = json::parse(*text).get<T>();
      if (is_sane(read)) return read;
    }
  } catch (const json::exception&) {
  }
  return damaged_session(session.path_of(name));
}

}  // namespace

std::string cpu_name(std::size_t cpu) { return fmt::format("cpu{}", cpu); }

tl::unexpected<Error> damaged_session(const std::string& path) {
  return fail(ErrorKind::kDamaged,
              "{}: damaged; the pages in {} can still be read with trace-cmd restore", path,
              fs::path(path).parent_path().string());
}

Result<void> write_start(const Folder& session, const StartFacts& facts) {
  return session.replace(kStart, json(facts).dump(), 0600, Durable::kYes);
}

Result<StartFacts> read_start(const Folder& session) {
  auto facts = read_json<StartFacts>(session, kStart);
  if (!facts) return facts;
  const auto stream = session.look_at(kStream);
  if (stream && facts->head_bytes <= static_cast<std::uint64_t>(stream->st_size)) return facts;
  return damaged_session(session.path_of(kStart));
}

Result<std::vector<StreamedPages>> look_at_pages(const Folder& session, const StartFacts& start,
                                                 int stream) {
  std::vector<StreamedPages> all(start.cpus);
  const auto pages_of = [&](const std::string& name, int fd, std::uint64_t from,
                            std::uint64_t to) -> Result<std::uint64_t> {
    auto pages = pages_at(fd, from, to, start.page_size);
    if (!pages) return fail("{}: {}", session.path_of(name), pages.error().message);
    return pages;
  };
  for (std::size_t cpu = 0; cpu < all.size(); ++cpu) {
    const std::uint64_t from = start.regions().at(cpu);
    if (start.regions().any()) {
      const auto in_region = pages_of(kStream, stream, from, from + start.regions().bytes);
      if (!in_region) return tl::unexpected(in_region.error());
      all[cpu].in_region = *in_region;
      // A CPU's own file continues the CPU's region once the region is full. If the region is not
      // full, the region's end was lost, so the file's pages do not follow.
      if (*in_region != start.regions().bytes) continue;
    }
    const std::string name = "raw/" + cpu_name(cpu);
    const auto is_there = session.finds(name);
    if (!is_there) return tl::unexpected(is_there.error());
    if (!*is_there) continue;
    const auto file = session.open_file(name, O_RDONLY);
    if (!file) return tl::unexpected(file.error());
    const auto in_file = pages_of(name, file->get(), 0, kMostOffset);
    if (!in_file) return tl::unexpected(in_file.error());
    all[cpu].in_file = *in_file;
  }
  return all;
}

Result<Tail> tail_of(const Folder& session, const StartFacts& start,
                     const std::vector<StreamedPages>& pages,
                     const std::vector<std::string>& cpu_stats) {
  std::vector<std::uint64_t> sizes;
  for (const StreamedPages& cpu : pages) sizes.push_back(cpu.in_region + cpu.in_file);
  std::string names;
  const auto named = session.finds("raw/cmdlines");
  if (!named) return tl::unexpected(named.error());
  if (*named) {
    if (auto read = assign(names, session.read("raw/cmdlines")); !read)
      return tl::unexpected(std::move(read).error());
  }
  return trace_dat_tail(start, names, cpu_stats, sizes);
}

std::vector<FinishPlan::Part> parts_of(const StartFacts& start, const Tail& tail,
                                       const std::vector<StreamedPages>& pages) {
  std::vector<FinishPlan::Part> parts;
  for (std::size_t cpu = 0; cpu < pages.size(); ++cpu) {
    const std::uint64_t at = tail.areas[cpu].offset;
    const auto& [in_region, in_file] = pages[cpu];
    if (in_region > 0) parts.push_back({at, in_region, kStreamName, start.regions().at(cpu)});
    if (in_file > 0) parts.push_back({at + in_region, in_file, cpu_name(cpu), 0});
  }
  return parts;
}

Result<void> write_plan(const Folder& session, const FinishPlan& plan) {
  return session.replace(kPlan, json(plan).dump(), 0600, Durable::kYes);
}

Result<FinishPlan> read_plan(const Folder& session) {
  return read_json<FinishPlan>(session, kPlan);
}

Result<std::vector<FinishPlan::Part>> find_parts(const Folder& session, const FinishPlan& plan,
                                                 int fd, std::size_t page_size) {
  const std::string name = session.path_of(kStream);
  const auto runs = runs_in(fd, plan.begin(), kMostOffset, page_size, 2 * kMostCpus);
  if (!runs && runs.error().kind == ErrorKind::kDamaged) return damaged_session(name);
  if (!runs) return fail("{}: {}", name, runs.error().message);
  std::vector<FinishPlan::Part> parts;
  auto run = runs->begin();
  std::uint64_t taken = 0;  // bytes of the run already used
  for (const Run& area : plan.areas) {
    for (std::uint64_t done = 0; done < area.size;) {
      if (run == runs->end()) return damaged_session(name);
      const std::uint64_t size = std::min(area.size - done, run->size - taken);
      parts.push_back({area.offset + done, size, kStreamName, run->offset + taken});
      done += size;
      taken += size;
      if (taken == run->size) ++run, taken = 0;
    }
  }
  return parts;
}

bool is_unfinished(const Folder& session) {
  return session.has_file(kStart) && session.has_file(kStream);
}

bool is_unfinished(const std::string& session) {
  const auto folder = Folder::open_to_read(session);
  return folder && is_unfinished(*folder);
}

bool is_unfinished_trace(const std::string& path) {
  const fs::path file(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return file.filename() == "trace.dat" && is_unfinished(folder.string());
}

Result<File> open_unfinished(const std::string& session) {
  const auto folder = Folder::open_to_read(session);
  if (!folder) return tl::unexpected(folder.error());
  auto start = read_start(*folder);
  if (!start) return tl::unexpected(std::move(start).error());
  auto stream = open_piece(*folder, kStream);
  if (!stream) return tl::unexpected(std::move(stream).error());
  const auto planned = folder->finds(kPlan);
  if (!planned) return tl::unexpected(planned.error());
  const File::Guard guard = guard_of(*stream);
  if (!*planned) {
    const auto streamed = look_at_pages(*folder, *start, (*stream)->get());
    if (!streamed) return tl::unexpected(streamed.error());
    const auto tail = tail_of(*folder, *start, *streamed, {});
    if (!tail) return tl::unexpected(tail.error());
    return compose(*folder,
                   {{0, start->head_bytes, *stream, 0, {}},
                    {start->head_bytes, tail->bytes.size(), nullptr, 0, tail->bytes}},
                   parts_of(*start, *tail, *streamed), 0, guard, *stream);
  }
  const auto plan = read_plan(*folder);
  if (!plan) return tl::unexpected(plan.error());
  if (plan->copies()) {
    // The copied part is in the new file, the rest in its old place.
    const auto into = open_piece(*folder, "raw/" + plan->into);
    if (!into) return tl::unexpected(into.error());
    return compose(*folder, {{0, std::max(plan->begin(), plan->copied), *into, 0, {}}}, plan->parts,
                   plan->copied, guard_of(*into), *stream);
  }
  // The holes are being closed: head and tail are in place, the pages are somewhere after them.
  const auto parts = find_parts(*folder, *plan, (*stream)->get(), start->page_size);
  if (!parts) return tl::unexpected(parts.error());
  return compose(*folder, {{0, plan->begin(), *stream, 0, {}}}, *parts, 0, guard, *stream);
}

Result<File> open_trace_file(std::string path) {
  // The rename to trace.dat is the last step except for removing raw/, so an existing trace.dat is
  // complete.
  if (!is_there(path) && is_unfinished_trace(path)) {
    const fs::path folder = fs::path(path).parent_path();
    return open_unfinished(folder.empty() ? "." : folder.string());
  }
  return File::open(std::move(path));
}

}  // namespace trapline::trace_dat
