#include "backend_ftrace/tracetool/event_format.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace trapline::tracetool {
namespace {

constexpr std::string_view kNil = "(nil)";

bool is_hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

ValueKind kind_of(const Argument& argument) {
  switch (argument.kind) {
    case TypeKind::kSigned:
      return ValueKind::kSigned;
    case TypeKind::kUnsigned:
      return ValueKind::kUnsigned;
    case TypeKind::kPointer:
      return ValueKind::kPointer;
    case TypeKind::kString:
      return ValueKind::kString;
  }
  return ValueKind::kAbsent;
}

std::uint64_t fit_to(std::uint64_t bits, std::uint8_t bytes, ValueKind kind) {
  if (bytes >= 8) return bits;
  const unsigned unused = 64u - 8u * bytes;
  bits <<= unused;
  if (kind == ValueKind::kSigned) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits) >> unused);
  }
  return bits >> unused;
}

}  // namespace

EventFormat::EventFormat(const Event& event) {
  for (const Argument& argument : event.arguments) kinds_.push_back(kind_of(argument));
  const std::vector<Piece>& pieces = event.format.pieces;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    Step step;
    step.literal = piece.literal;
    step.conversion = piece.conversion;
    step.argument = piece.argument;
    if (step.conversion != 0) {
      const Argument& argument = event.arguments[static_cast<std::size_t>(piece.argument)];
      step.kind = kind_of(argument);
      if (step.kind == ValueKind::kString && step.conversion == 'p')
        step.kind = ValueKind::kPointer;
      step.bytes = argument.bytes;
      step.width = std::max(piece.width, piece.precision);
      step.padded = !piece.zero && (piece.width > piece.precision || piece.width_argument >= 0);
      if (step.conversion == 's') step.width = std::max(piece.width, 0);
      step.left = piece.left;
      const bool adjacent =
          i + 1 < pieces.size() && pieces[i + 1].literal.empty() && pieces[i + 1].conversion != 0;
      step.fixed = adjacent && step.width > 0 && step.conversion != 's';
      if (step.conversion == 's') strings_.push_back(steps_.size());
    }
    steps_.push_back(std::move(step));
  }
}

bool EventFormat::match(std::string_view text, Values& values) const {
  if (text.ends_with('\n')) text.remove_suffix(1);
  for (std::size_t i = 0; i < kinds_.size(); ++i) values[i] = Value{};
  const char* at = text.data();
  const char* const end = at + text.size();
  // A segment is the part of the format between two strings: pairs of a literal and a number, then
  // the literal before the next string. It begins after the conversion of the string before it.
  std::size_t first = 0;
  for (std::size_t k = 0;; ++k) {
    const bool last_segment = k == strings_.size();
    const std::size_t last = last_segment ? steps_.size() : strings_[k] + 1;
    if (k == 0) {
      at = fit(first, last, at, end, values);
      if (at == nullptr) return false;
      if (last_segment) return at == end;
    } else {
      const Step& string = steps_[strings_[k - 1]];
      const char* const begin = at;
      // The segment can begin only where its first literal is found.
      const std::string_view anchor = steps_[first].literal;
      const bool only_literal = last_segment && last - first == 1;
      const char* found = nullptr;
      const char* stop = begin;
      if (only_literal) {  // the last string takes everything before the closing literal
        if (static_cast<std::size_t>(end - begin) < anchor.size()) return false;
        stop = end - anchor.size();
        found = fit(first, last, stop, end, values);
        if (found != end) return false;
      }
      for (; found == nullptr && stop <= end; ++stop) {
        if (!anchor.empty()) {
          const void* hit =
              memmem(stop, static_cast<std::size_t>(end - stop), anchor.data(), anchor.size());
          if (hit == nullptr) return false;
          stop = static_cast<const char*>(hit);
        }
        found = fit(first, last, stop, end, values);
        if (last_segment && found != end) found = nullptr;
        if (found != nullptr) break;
      }
      if (found == nullptr) return false;
      take_string(string, {begin, static_cast<std::size_t>(stop - begin)}, values);
      at = found;
      if (last_segment) return true;
    }
    first = last;
  }
}

// Matches the steps [first, last): literals and numbers, but only the literal of a string's step.
// Returns where they end, or nullptr.
const char* EventFormat::fit(std::size_t first, std::size_t last, const char* at, const char* end,
                             Values& values) const {
  for (std::size_t i = first; i < last; ++i) {
    const Step& step = steps_[i];
    const std::size_t size = step.literal.size();
    if (static_cast<std::size_t>(end - at) < size) return nullptr;
    if (size != 0 && std::memcmp(at, step.literal.data(), size) != 0) return nullptr;
    at += size;
    if (step.conversion == 0 || step.conversion == 's') continue;
    at = number(step, at, end, values[static_cast<std::size_t>(step.argument)]);
    if (at == nullptr) return nullptr;
  }
  return at;
}

const char* EventFormat::number(const Step& step, const char* at, const char* end, Value& value) {
  if (step.fixed && end - at > step.width) end = at + step.width;
  const char* const field = at;
  if (step.padded) {
    while (at < end && *at == ' ' && !step.left) ++at;
  }
  const auto rest = static_cast<std::size_t>(end - at);
  value.kind = step.kind;
  const char* stop = nullptr;
  if (step.conversion == 'c') {
    // printf writes a NUL byte for the character 0, and a marker's text ends there.
    if (rest == 0) return nullptr;
    value.bits = fit_to(static_cast<unsigned char>(*at), step.bytes, step.kind);
    stop = at + 1;
  } else if (step.conversion == 'p' && std::string_view(at, rest).starts_with(kNil)) {
    value.bits = 0;
    stop = at + kNil.size();
  } else {
    const int base = step.conversion == 'o' ? 8 : std::strchr("xXp", step.conversion) ? 16 : 10;
    bool negative = false;
    if (base == 10 && at < end && (*at == '-' || *at == '+' || *at == ' ')) negative = *at++ == '-';
    if (base == 16 && end - at > 2 && at[0] == '0' && (at[1] | 0x20) == 'x' &&
        is_hex_digit(at[2])) {
      at += 2;
    }
    std::uint64_t bits = 0;
    const auto [after, error] = std::from_chars(at, end, bits, base);
    if (error != std::errc()) return nullptr;
    value.bits = fit_to(negative ? 0 - bits : bits, step.bytes, step.kind);
    stop = after;
  }
  while (step.padded && step.left && stop < end && *stop == ' ' && stop - field < step.width)
    ++stop;
  return stop;
}

void EventFormat::take_string(const Step& step, std::string_view text, Values& values) const {
  if (step.width > 0 && text.size() == static_cast<std::size_t>(step.width)) {  // possibly padded
    if (step.left) {
      while (text.ends_with(' ')) text.remove_suffix(1);
    } else {
      while (text.starts_with(' ')) text.remove_prefix(1);
    }
  }
  Value& value = values[static_cast<std::size_t>(step.argument)];
  value.kind = ValueKind::kString;
  value.text = text;
}

const MarkerParser::Entry* MarkerParser::find(std::string_view name) {
  auto seen = seen_.find(name);
  if (seen == seen_.end()) {
    if (declared_ == nullptr || !declared_->may_declare(name)) return nullptr;
    auto entry =
        std::make_unique<Entry>(Entry{std::string(name), declared_->find(name), std::nullopt});
    if (entry->event) entry->format.emplace(*entry->event);
    const std::string_view key = entry->name;
    seen = seen_.emplace(key, std::move(entry)).first;
  }
  return seen->second->event ? seen->second.get() : nullptr;
}

bool MarkerParser::parse(std::string_view text, ParsedMarker& out) {
  std::size_t length = 0;
  while (length < text.size() && text[length] != ' ' && text[length] != '\n') ++length;
  const Entry* const entry = find(text.substr(0, length));
  if (entry == nullptr) return false;
  out.event = &*entry->event;
  out.arguments = text.substr(std::min(length + 1, text.size()));
  out.count = static_cast<std::uint8_t>(entry->format->argument_count());
  out.matched = entry->format->match(out.arguments, out.values);
  if (!out.matched) out.count = 0;
  return true;
}

}  // namespace trapline::tracetool
