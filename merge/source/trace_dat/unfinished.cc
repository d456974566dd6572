#include "merge/source/trace_dat/unfinished.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/json_text.h"
#include "merge/source/trace_dat/layout_reader.h"

namespace trapline::trace_dat {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Descriptor = std::shared_ptr<const UniqueFd>;

std::string cpu_file(std::size_t cpu) { return fmt::format("raw/cpu{}", cpu); }

std::uint64_t size_of(const Folder& session, const std::string& name) {
  const auto status = session.look_at(name);
  return status ? static_cast<std::uint64_t>(status->st_size) : 0;
}

tl::unexpected<Error> damaged(const std::string& path) {
  return fail(ErrorKind::kDamaged,
              "{}: damaged; the pages in {} can still be read with trace-cmd restore", path,
              fs::path(path).parent_path().string());
}

Result<Descriptor> open_piece(const Folder& session, const std::string& name) {
  auto fd = session.open_file(name, O_RDONLY);
  if (!fd) return tl::unexpected(std::move(fd).error());
  return std::make_shared<const UniqueFd>(std::move(*fd));
}

std::uint64_t length(const UniqueFd& fd) {
  struct stat status {};
  return ::fstat(fd.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

// Pages that nobody has begun to move: the head is what the recorder wrote, or has a tail already
// that somebody did not come to use.
Result<File> compose_streamed(const Folder& session, const StartFacts& start,
                              const Descriptor& head, std::uint64_t head_length) {
  const Tail tail = tail_of(session, start, {});
  std::vector<File::Piece> pieces;
  pieces.push_back({0, start.head_bytes, head, 0, {}});
  pieces.push_back({start.head_bytes, tail.bytes.size(), nullptr, 0, tail.bytes});
  for (std::size_t cpu = 0; cpu < tail.areas.size(); ++cpu) {
    const CpuArea& area = tail.areas[cpu];
    if (area.size == 0) continue;
    auto pages = open_piece(session, cpu_file(cpu));
    if (!pages) return tl::unexpected(std::move(pages).error());
    pieces.push_back({area.offset, area.size, std::move(*pages), 0, {}});
  }
  return File::compose(session.path_of("trace.dat"), std::move(pieces), {head, head_length});
}

// What was moved is in trace.dat, the rest still in raw/.
Result<File> compose_moved(const Folder& session, const Descriptor& trace) {
  auto areas = read_plan(session);
  if (!areas) return tl::unexpected(std::move(areas).error());
  const std::uint64_t moved = length(*trace);
  const std::uint64_t first = areas->empty() ? moved : areas->front().offset;
  std::vector<File::Piece> pieces;
  pieces.push_back({0, std::min(first, moved), trace, 0, {}});
  for (std::size_t cpu = 0; cpu < areas->size(); ++cpu) {
    const CpuArea& area = (*areas)[cpu];
    const std::uint64_t done = std::min(moved > area.offset ? moved - area.offset : 0, area.size);
    if (done > 0) pieces.push_back({area.offset, done, trace, area.offset, {}});
    if (done == area.size) continue;
    auto pages = open_piece(session, cpu_file(cpu));
    if (!pages) return tl::unexpected(std::move(pages).error());
    pieces.push_back({area.offset + done, area.size - done, std::move(*pages), done, {}});
  }
  return File::compose(session.path_of("trace.dat"), std::move(pieces), {trace, moved});
}

}  // namespace

Result<void> write_start(const Folder& session, const StartFacts& facts) {
  const json start{{"page_size", facts.page_size}, {"head_bytes", facts.head_bytes},
                   {"cpus", facts.cpus},           {"clocks", facts.clocks},
                   {"uname", facts.uname},         {"version", facts.version}};
  return session.replace("raw/start.json", start.dump());
}

Result<StartFacts> read_start(const Folder& session) {
  const std::string path = session.path_of("raw/start.json");
  auto text = session.read("raw/start.json");
  if (!text) return tl::unexpected(std::move(text).error());
  if (!is_bounded_json(*text)) return damaged(path);
  try {
    const json start = json::parse(*text);
    StartFacts facts;
    facts.page_size = start.at("page_size").get<std::size_t>();
    facts.head_bytes = start.at("head_bytes").get<std::uint64_t>();
    facts.cpus = start.at("cpus").get<unsigned>();
    facts.clocks = start.at("clocks").get<std::string>();
    facts.uname = start.at("uname").get<std::string>();
    facts.version = start.at("version").get<std::string>();
    const bool sane =
        facts.page_size >= 4096 && facts.page_size <= 65536 && facts.cpus <= kMostCpus;
    if (sane && facts.head_bytes <= size_of(session, "raw/head")) return facts;
    if (sane && session.has_file("raw/plan.json")) return facts;
  } catch (const json::exception&) {
  }
  return damaged(path);
}

Result<void> write_plan(const Folder& session, const std::vector<CpuArea>& areas) {
  json list = json::array();
  for (const CpuArea& area : areas) list.push_back({{"offset", area.offset}, {"size", area.size}});
  return session.replace("raw/plan.json", json{{"areas", list}}.dump());
}

Result<std::vector<CpuArea>> read_plan(const Folder& session) {
  const std::string path = session.path_of("raw/plan.json");
  auto text = session.read("raw/plan.json");
  if (!text) return tl::unexpected(std::move(text).error());
  if (!is_bounded_json(*text)) return damaged(path);
  try {
    std::vector<CpuArea> areas;
    const json plan = json::parse(*text);
    std::uint64_t at = 0;
    for (const json& area : plan.at("areas")) {
      areas.push_back(
          {area.at("offset").get<std::uint64_t>(), area.at("size").get<std::uint64_t>()});
      if (areas.back().offset < at || areas.back().size > ~std::uint64_t{0} / 2 - at ||
          areas.size() > kMostCpus) {
        return damaged(path);
      }
      at = areas.back().offset + areas.back().size;
    }
    return areas;
  } catch (const json::exception&) {
    return damaged(path);
  }
}

Tail tail_of(const Folder& session, const StartFacts& start,
             const std::vector<std::string>& cpu_stats) {
  std::vector<std::uint64_t> sizes;
  for (unsigned cpu = 0; cpu < start.cpus; ++cpu) {
    sizes.push_back(size_of(session, cpu_file(cpu)) / start.page_size * start.page_size);
  }
  const TailFacts facts{session.read("raw/cmdlines").value_or(""), start.clocks, start.uname,
                        start.version, cpu_stats};
  return trace_dat_tail(facts, start.head_bytes, start.page_size, sizes);
}

bool is_unfinished(const Folder& session) {
  return session.has_file("raw/start.json") &&
         (session.has_file("raw/head") || session.has_file("trace.dat"));
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
  if (auto head = open_piece(*folder, "raw/head")) {
    const std::uint64_t head_length = length(**head);
    return compose_streamed(*folder, *start, *head, head_length);
  }
  auto trace = open_piece(*folder, "trace.dat");
  if (!trace) return tl::unexpected(std::move(trace).error());
  return compose_moved(*folder, *trace);
}

Result<File> open_trace_file(std::string path) {
  if (is_unfinished_trace(path)) {
    const fs::path folder = fs::path(path).parent_path();
    return open_unfinished(folder.empty() ? "." : folder.string());
  }
  return File::open(std::move(path));
}

}  // namespace trapline::trace_dat
