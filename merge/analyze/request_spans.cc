#include "merge/analyze/request_spans.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/vmm/event_reader.h"

namespace trapline {
namespace {

// Splits "EVENT:FIELD".
bool split(std::string_view text, std::string& event, std::string& field) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) return false;
  event = text.substr(0, colon);
  field = text.substr(colon + 1);
  return true;
}

bool same_start(const RequestSpec& a, const RequestSpec& b) {
  return a.start == b.start && a.start_field == b.start_field;
}

// Finds the number after the word `field`: "… req 0x55d0 …", "… req=0x55d0 …".
std::optional<std::uint64_t> number_after_word(std::string_view text, std::string_view field) {
  for (std::size_t at = text.find(field); at != std::string_view::npos;
       at = text.find(field, at + 1)) {
    std::string_view rest = text.substr(at + field.size());
    if (at == 0 || text[at - 1] != ' ' || rest.size() < 2) continue;
    if (rest[0] != ' ' && rest[0] != '=') continue;
    rest.remove_prefix(1);
    const bool hex = rest.starts_with("0x");
    if (hex) rest.remove_prefix(2);
    std::uint64_t value = 0;
    return take_number(rest, value, hex ? 16 : 10) ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Result<RequestSpec> parse_request_spec(std::string_view text) {
  RequestSpec spec;
  const auto dots = text.find("..");
  if (dots == std::string_view::npos ||
      !split(text.substr(0, dots), spec.start, spec.start_field) ||
      !split(text.substr(dots + 2), spec.end, spec.end_field)) {
    return fail(ErrorKind::kUsage,
                "--span: '{}' is not START:FIELD..END:FIELD; for example "
                "virtio_blk_handle_read:req..virtio_blk_req_complete:req",
                text);
  }
  return spec;
}

std::vector<RequestStage> stages_of(const RequestSpan& request) {
  using enum RequestStageKind;
  if (!request.block) return {};
  const BlockTimes& block = *request.block;
  std::vector<RequestStage> stages = {
      {block.queued ? kToBio : kToDisk, request.start, block.queued.value_or(block.issued)}};
  if (block.queued) stages.push_back({kBlockLayer, *block.queued, block.issued});
  stages.push_back({kDisk, block.issued, block.completed});
  stages.push_back({kToEnd, block.completed, request.end});
  return stages;
}

RequestSpans::RequestSpans(std::vector<RequestSpec> specs, Names& names,
                           const tracetool::Declarations* declared)
    : specs_(std::move(specs)), parser_(declared) {
  const auto add = [&](const std::string& event, Role role) {
    const NameId name = names.id(event);
    if (name >= roles_.size()) roles_.resize(name + 1);
    roles_[name].push_back(role);
  };
  for (std::size_t spec = 0; spec < specs_.size(); ++spec) {
    const auto first = std::ranges::find_if(
        specs_, [&](const RequestSpec& other) { return same_start(other, specs_[spec]); });
    first_of_.push_back(static_cast<std::size_t>(first - specs_.begin()));
    if (first_of_.back() == spec) add(specs_[spec].start, {spec, true});
    add(specs_[spec].end, {spec, false});
  }
}

void RequestSpans::look_at(const Marker& marker) {
  text_ = event_part(marker.text);
  is_parsed_ = false;
}

std::optional<std::uint64_t> RequestSpans::value_of(std::string_view field) {
  if (!is_parsed_) parsed_.matched = parser_.parse(text_, parsed_) && parsed_.matched;
  is_parsed_ = true;
  if (!parsed_.matched) return number_after_word(text_, field);
  const auto& arguments = parsed_.event->arguments;
  for (std::size_t i = 0; i < arguments.size() && i < parsed_.count; ++i) {
    if (arguments[i].name != field) continue;
    const auto kind = parsed_.values[i].kind;
    if (kind == tracetool::ValueKind::kAbsent || kind == tracetool::ValueKind::kString) break;
    return parsed_.values[i].bits;
  }
  return std::nullopt;
}

const RequestSpan* RequestSpans::on(const Event& event, NameId name, ThreadId process,
                                    std::optional<NotifyExit> notified) {
  if (!looks_at(name)) return nullptr;
  const RequestSpan* ended = nullptr;
  for (const Role& role : roles_[name]) {
    const RequestSpec& spec = specs_[role.spec];
    const auto value = value_of(role.is_start ? spec.start_field : spec.end_field);
    if (!value) continue;
    const std::tuple key{first_of_[role.spec], process, *value};
    const auto open = open_.find(key);
    if (role.is_start) {
      if (open != open_.end()) ++restarted_;
      if (open != open_.end() || open_.size() < kMostOpen)
        open_[key] = {role.spec, event.at, {}, event.thread, notified, process, *value, {}, false};
    } else if (open == open_.end()) {
      // An end may serve several begins, of which only one is open.
      const bool shared = std::any_of(specs_.begin(), specs_.end(), [&](const RequestSpec& other) {
        return &other != &spec && other.end == spec.end;
      });
      if (!shared) ++end_without_start_;
    } else {
      done_ = std::move(open_.extract(open).mapped());
      done_.number = ++ended_;
      done_.spec = role.spec;
      done_.end = event.at;
      ended = &done_;
    }
  }
  return ended;
}

}  // namespace trapline
