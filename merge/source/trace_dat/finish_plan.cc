#include "merge/source/trace_dat/finish_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/json_text.h"
#include "merge/source/trace_dat/unfinished.h"

namespace trapline::trace_dat {
namespace {

using nlohmann::json;

constexpr const char* kPlan = "raw/plan.json";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

// Limit for the parts of a plan. A CPU has at most three: its pages in raw/trace.dat, which a
// half-closed hole may have split in two, and those in a file of its own.
constexpr std::size_t kMostParts = 4 * kMostCpus;

bool fits(std::uint64_t offset, std::uint64_t size) {
  return offset < kMostBytes && size < kMostBytes;
}

bool is_name(const std::string& file) {
  return !file.empty() && file.size() < 32 && file.find('/') == std::string::npos &&
         file.front() != '.';
}

bool is_sane(const FinishPlan& plan) {
  std::uint64_t at = 0;
  for (const CpuArea& area : plan.areas) {
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
  return names && plan.copied < kMostBytes && plan.areas.size() <= kMostCpus &&
         plan.parts.size() <= kMostParts;
}

}  // namespace

Result<void> write_plan(const Folder& session, const FinishPlan& plan) {
  json areas = json::array(), parts = json::array();
  for (const CpuArea& area : plan.areas)
    areas.push_back({{"offset", area.offset}, {"size", area.size}});
  for (const FinishPlan::Part& part : plan.parts) {
    parts.push_back(
        {{"at", part.at}, {"size", part.size}, {"file", part.file}, {"offset", part.offset}});
  }
  const json text{{"areas", areas}, {"parts", parts}, {"into", plan.into}, {"copied", plan.copied}};
  return session.replace(kPlan, text.dump(), 0600, Durable::kYes);
}

Result<FinishPlan> read_plan(const Folder& session) {
  auto text = session.read(kPlan);
  if (!text) return tl::unexpected(std::move(text).error());
  if (!is_bounded_json(*text)) return damaged_session(session.path_of(kPlan));
  try {
    FinishPlan plan;
    const json all = json::parse(*text);
    for (const json& area : all.at("areas")) {
      plan.areas.push_back(
          {area.at("offset").get<std::uint64_t>(), area.at("size").get<std::uint64_t>()});
    }
    for (const json& part : all.at("parts")) {
      plan.parts.push_back(
          {part.at("at").get<std::uint64_t>(), part.at("size").get<std::uint64_t>(),
           part.at("file").get<std::string>(), part.at("offset").get<std::uint64_t>()});
    }
    plan.into = all.at("into").get<std::string>();
    plan.copied = all.at("copied").get<std::uint64_t>();
    if (is_sane(plan)) return plan;
  } catch (const json::exception&) {
  }
  return damaged_session(session.path_of(kPlan));
}

Result<std::vector<FinishPlan::Part>> find_parts(const Folder& session, const FinishPlan& plan,
                                                 int fd, std::size_t page_size) {
  const std::string name = session.path_of(kStream);
  const auto runs = runs_in(fd, plan.begin(), kMostBytes, page_size, 2 * kMostCpus);
  if (!runs && runs.error().kind == ErrorKind::kDamaged) return damaged_session(name);
  if (!runs) return fail("{}: {}", name, runs.error().message);
  std::vector<FinishPlan::Part> parts;
  auto run = runs->begin();
  std::uint64_t taken = 0;  // bytes of the run already used
  for (const CpuArea& area : plan.areas) {
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

}  // namespace trapline::trace_dat
