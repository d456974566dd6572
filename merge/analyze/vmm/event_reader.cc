#include "merge/analyze/vmm/event_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace trapline {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || c == '_' || is_digit(c) || (c >= 'A' && c <= 'Z');
}
bool is_name(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) && std::ranges::all_of(text, is_name_char);
}

bool number_after(std::string_view text, std::string_view label, int base, auto& number) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return false;
  const char* first = text.data() + at + label.size();
  return std::from_chars(first, text.data() + text.size(), number, base).ec == std::errc{};
}

// Returns the text after the last `before` (two characters or more) up to the last quote, since a
// name may contain a quote.
std::string_view quoted(std::string_view text, std::string_view before) {
  const char* const end = text.data() + text.size();
  const std::size_t size = before.size();
  const char* at = end;
  for (;; --at) {
    if (static_cast<std::size_t>(at - text.data()) < size) return {};
    if (at[-1] == before[size - 1] && at[-2] == before[size - 2] &&
        std::memcmp(at - size, before.data(), size) == 0)
      break;
  }
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  const auto last = text.rfind('\'');
  return last == std::string_view::npos ? text : text.substr(0, last);
}

// Returns whether `argument` follows `literal_end` in the declared format: there the built-in
// reading looks for it.
bool stands_after(const tracetool::Event& event, std::string_view argument,
                  std::string_view literal_end) {
  const auto& pieces = event.format.pieces;
  return std::any_of(pieces.begin(), pieces.end(), [&](const tracetool::Piece& piece) {
    return piece.argument >= 0 &&
           event.arguments[static_cast<std::size_t>(piece.argument)].name == argument &&
           std::string_view(" " + piece.literal).ends_with(literal_end);
  });
}
bool has_argument(const tracetool::Event& event, std::string_view argument) {
  return std::any_of(event.arguments.begin(), event.arguments.end(),
                     [&](const tracetool::Argument& a) { return a.name == argument; });
}
bool is_built_in(const tracetool::Event& event, const VmmEventField& field) {
  return !has_argument(event, field.argument) || stands_after(event, field.argument, field.before);
}
bool is_built_in(const tracetool::Event& event, const VmmEventMeaning& meaning) {
  return is_built_in(event, meaning.address) && is_built_in(event, meaning.region) &&
         is_built_in(event, meaning.vcpu) && is_built_in(event, meaning.number);
}
bool says_something(const VmmEventMeaning& meaning) {
  return !meaning.address.argument.empty() || !meaning.region.argument.empty() ||
         !meaning.vcpu.argument.empty() || !meaning.number.argument.empty();
}

}  // namespace

std::string_view event_part(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.empty() || !is_digit(text.front())) return text;
  const auto start = text.find_first_not_of("0123456789@.");
  if (start == std::string_view::npos || text[start] != ':') return text;
  if (text.substr(0, start).find('@') == std::string_view::npos) return text;
  return text.substr(start + 1);
}

VmmEventReader::VmmEventReader(Names& names, const tracetool::Declarations* declared,
                               MeaningOf meaning_of)
    : names_(&names), declared_(declared), meaning_of_(meaning_of) {}

void VmmEventReader::learn(std::string_view name, EventPlan& plan) const {
  plan.layout = Layout::kNothing;
  plan.meaning = meaning_of_(name);
  if (plan.meaning == nullptr || !says_something(*plan.meaning)) return;
  plan.layout = Layout::kBuiltIn;
  auto declared = declared_ == nullptr ? std::nullopt : declared_->find(name);
  if (!declared || is_built_in(*declared, *plan.meaning)) return;
  plan.layout = Layout::kDeclared;
  plan.format = std::make_unique<tracetool::EventFormat>(*declared);
  plan.declared = std::make_unique<const tracetool::Event>(std::move(*declared));
}

void VmmEventReader::read_built_in(const VmmEventMeaning& meaning, std::string_view arguments,
                                   VmmEvent& event) {
  if (!meaning.address.before.empty())
    event.has_address = number_after(arguments, meaning.address.before, 16, event.address);
  if (!meaning.region.before.empty()) {
    const std::string_view region = quoted(arguments, meaning.region.before);
    if (!region.empty()) event.region = names_->id(region);
  }
  if (!meaning.vcpu.before.empty() &&
      !number_after(arguments, meaning.vcpu.before, 10, event.vcpu)) {
    event.vcpu = kNoVcpu;
  }
  const std::string_view before = meaning.number.before;
  if (!before.empty() &&
      !number_after(arguments, before, before.ends_with("0x") ? 16 : 10, event.number)) {
    event.number = -1;
  }
}

void VmmEventReader::read_declared(const EventPlan& plan, std::string_view arguments,
                                   VmmEvent& event) {
  tracetool::Values values;
  if (!plan.format->match(arguments, values)) return;
  for (std::size_t i = 0; i < plan.declared->arguments.size(); ++i) {
    const std::string& name = plan.declared->arguments[i].name;
    if (values[i].kind == tracetool::ValueKind::kAbsent) continue;
    if (name == plan.meaning->address.argument) {
      event.address = values[i].bits;
      event.has_address = true;
    } else if (name == plan.meaning->region.argument) {
      event.region = names_->id(values[i].text);
    } else if (name == plan.meaning->vcpu.argument) {
      event.vcpu = static_cast<std::int32_t>(values[i].bits);
    } else if (name == plan.meaning->number.argument) {
      event.number = static_cast<std::int32_t>(values[i].bits);
    }
  }
}

void VmmEventReader::read_new(std::string_view marker, Seen& seen) {
  seen.text = marker.size() <= kLongest ? marker : std::string_view();
  VmmEvent& event = seen.event = {};
  const std::string_view text = event_part(marker);
  const std::string_view name = text.substr(0, text.find(' '));
  const std::string_view arguments = text.substr(name.size());  // with the leading blank
  if (!is_name(name)) return;
  event.name = names_->id(name);
  if (event.name == Names::kOther) [[unlikely]]
    return;  // Names is full: the event is counted, but its arguments are not read
  if (event.name >= plans_.size()) plans_.resize(event.name + 1);
  EventPlan& plan = plans_[event.name];
  if (plan.layout == Layout::kUnseen) [[unlikely]]
    learn(name, plan);
  if (plan.meaning != nullptr) event.kind = plan.meaning->kind;
  if (plan.layout == Layout::kBuiltIn) {
    read_built_in(*plan.meaning, arguments, event);
  } else if (plan.layout == Layout::kDeclared) {
    read_declared(plan, arguments.empty() ? arguments : arguments.substr(1), event);
  }
}

}  // namespace trapline
