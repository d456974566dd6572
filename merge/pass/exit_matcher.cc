#include "merge/pass/exit_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/naming.h"
#include "merge/pass/reason_kinds.h"

namespace trapline {
namespace {

// Returns whether the pattern fits the reason's name, whatever the case. The name of a ReasonKind
// fits its reasons on all CPUs.
bool is_reason(std::string_view pattern, std::string_view name) {
  const std::string requested = lowered(pattern), reason = lowered(name);
  const ReasonKind* kind = kind_of(reason);
  return requested == reason || matches(requested, reason) ||
         (kind != nullptr && kind->name == requested);
}

}  // namespace

ExitMatcher::ExitMatcher(const ExitFilter& filter, SourceOf source)
    : filter_(filter), source_(std::move(source)) {
  wanted_[kReason].pattern = filter.reason;
  wanted_[kDetail].pattern = filter.detail;
  wanted_[kDevice].pattern = filter.device;
  wanted_[kFunction].pattern = filter.function;
}

std::string ExitMatcher::name_of(Kind kind, const Key& key, const ExitSpan& exit,
                                 const Pipeline& pipeline) const {
  if (kind == kReason) return printable(source_(exit).reason_name(exit.reason));
  if (kind == kDetail) return detail_text(exit.detail);
  return name_or_dash(pipeline.names(), static_cast<NameId>(key[0]));
}

bool ExitMatcher::holds(Kind kind, const ExitSpan& exit, const Pipeline& pipeline) {
  Wanted& wanted = wanted_[kind];
  if (wanted.pattern.empty()) return true;
  Key key{};
  if (kind == kReason) {
    key = {packed(exit.reason, exit.source), 0};
  } else if (kind == kDetail) {
    key = {exit.detail.value, std::uint64_t{static_cast<std::uint8_t>(exit.detail.kind)} << 8 |
                                  static_cast<std::uint8_t>(exit.detail.access)};
  } else if (kind == kDevice) {
    key = {exit.device, 0};
  } else {
    key = {pipeline.stacks().innermost(pipeline.stack_of(exit)), 0};
  }
  const auto known = wanted.known.find(key);
  if (known != wanted.known.end()) return known->second;
  const std::string name = name_of(kind, key, exit, pipeline);
  // A report by detail has one row for all page faults, so "page fault" selects each of them.
  const bool is_fault = kind == kDetail && exit.detail.kind == DetailKind::kPageFault &&
                        wanted.pattern == "page fault";
  const bool fits =
      is_fault || name == wanted.pattern ||
      (kind == kReason ? is_reason(wanted.pattern, name) : matches(wanted.pattern, name));
  wanted.found = wanted.found || fits;
  if (fits && kind == kReason && reasons_.size() < kMostNames) reasons_.insert(name);
  if (wanted.names.size() < kMostNames) wanted.names.insert(name);
  if (wanted.known.size() < kMostKnown) wanted.known.emplace(key, fits);
  return fits;
}

bool ExitMatcher::holds(const ExitSpan& exit, const Pipeline& pipeline) {
  ++exits_;
  cost_ns_ += trapline::cost_ns(exit.parts);
  if (exit.halt && filter_.reason.empty()) return false;
  bool all = true;
  // Tests every name of the filter, even if one does not fit, so that check() can list all names.
  for (std::uint8_t kind = 0; kind < kKinds; ++kind)
    all = holds(static_cast<Kind>(kind), exit, pipeline) && all;
  held_ += all ? 1u : 0u;
  return all;
}

void ExitMatcher::merge(const ExitMatcher& other) {
  exits_ += other.exits_;
  cost_ns_ += other.cost_ns_;
  held_ += other.held_;
  reasons_.insert(other.reasons_.begin(), other.reasons_.end());
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    wanted_[kind].found = wanted_[kind].found || other.wanted_[kind].found;
    wanted_[kind].names.insert(other.wanted_[kind].names.begin(), other.wanted_[kind].names.end());
  }
}

Result<void> ExitMatcher::check() const {
  constexpr std::string_view kWhat[] = {"reason", "detail", "device", "function"};
  constexpr std::string_view kNothing[] = {
      "all exits are halts, and --reason chooses those", "the recording tells no detail of an exit",
      "the recording tells no device of an exit (trapline help devices)",
      "no function of an exit is known; give the guest's --symbols"};
  if (held_ != 0 || exits_ == 0) return {};
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const Wanted& wanted = wanted_[kind];
    if (wanted.pattern.empty() || wanted.found) continue;
    std::set<std::string> names = wanted.names;
    if (kind != kReason) names.erase("-");  // a dash is not a name
    return tl::unexpected(unknown_name(fmt::format("--{}", kWhat[kind]), wanted.pattern,
                                       fmt::format("no exit has this {}", kWhat[kind]), names,
                                       kNothing[kind]));
  }
  return fail(ErrorKind::kUsage, "{}: no exit has all of these names", filter_.text());
}

void ChosenExits::add(const ExitSpan& exit) {
  if (is_full()) return;
  begins_[exit.thread].push_back(exit.start);
  ++count_;
}

bool ChosenExits::contains(ThreadId thread, Timestamp begin) const {
  const auto found = begins_.find(thread);
  return found != begins_.end() &&
         std::binary_search(found->second.begin(), found->second.end(), begin);
}

}  // namespace trapline
