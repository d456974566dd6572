#include "backend_ftrace/tracetool/event_text.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace trapline::tracetool {
namespace {

std::uint64_t narrow(std::uint64_t bits, unsigned bytes) {
  return bytes >= 8 ? bits : bits & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

std::int64_t sign_extend(std::uint64_t bits, unsigned bytes) {
  const unsigned unused = 64 - 8 * std::min(bytes, 8u);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

unsigned conversion_bytes(const std::string& length) {
  if (length == "hh") return 1;
  if (length == "h") return 2;
  return length.empty() ? 4 : 8;
}

int star(int argument, int constant, std::span<const Value> values) {
  if (argument < 0) return constant;
  const auto index = static_cast<std::size_t>(argument);
  if (index >= values.size() || values[index].kind == ValueKind::kAbsent) return -1;
  return static_cast<int>(
      std::clamp<std::int64_t>(sign_extend(values[index].bits, 4), -4096, 4096));
}

void append_padded(std::string_view text, int width, bool left, std::string& out) {
  const std::size_t field = width > 0 ? static_cast<std::size_t>(width) : 0;
  const std::size_t padding = field > text.size() ? field - text.size() : 0;
  if (!left) out.append(padding, ' ');
  out.append(text);
  if (left) out.append(padding, ' ');
}

// The format is assembled from pieces that were checked one by one.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void append_integer(const Piece& piece, std::uint64_t bits, int width, int precision,
                    std::string& out) {
  std::string spec = "%";
  if (piece.alternate) spec += '#';
  if (piece.zero) spec += '0';
  if (piece.left || width < 0) spec += '-';
  if (piece.plus) spec += '+';
  if (piece.space) spec += ' ';
  if (width != -1 && width != 0) spec += std::to_string(std::abs(width));
  if (precision >= 0) spec += "." + std::to_string(precision);
  const unsigned bytes = conversion_bytes(piece.length);
  char text[8300];
  int size = 0;
  if (piece.conversion == 'd' || piece.conversion == 'i') {
    size = std::snprintf(text, sizeof text, (spec + PRId64).c_str(), sign_extend(bits, bytes));
  } else {
    spec += 'l';
    spec += piece.conversion;
    size = std::snprintf(text, sizeof text, spec.c_str(), narrow(bits, bytes));
  }
  out.append(text,
             static_cast<std::size_t>(std::clamp(size, 0, static_cast<int>(sizeof text) - 1)));
}
#pragma GCC diagnostic pop

}  // namespace

void append_text(const Event& event, std::span<const Value> values, std::string& out,
                 std::size_t most) {
  constexpr std::string_view kCut = " [cut off]";
  for (const Piece& piece : event.format.pieces) {
    out.append(piece.literal, 0, most + 1);
    if (piece.conversion == 0 || out.size() > most) break;
    const auto index = static_cast<std::size_t>(piece.argument);
    if (index >= values.size() || values[index].kind == ValueKind::kAbsent) {
      out += '?';
      continue;
    }
    const Value& value = values[index];
    const int width = star(piece.width_argument, piece.width, values);
    const int precision = star(piece.precision_argument, piece.precision, values);
    const bool left = piece.left || width < -1;
    const int field = width < -1 ? -width : width;
    // A string is printed as text for %p too, since its address is not recorded.
    if (value.kind == ValueKind::kString) {
      std::string_view text = value.text;
      if (precision >= 0) text = text.substr(0, static_cast<std::size_t>(precision));
      append_padded(text, field, left, out);
    } else if (piece.conversion == 'p') {
      char text[32];
      const int size = value.bits == 0 ? std::snprintf(text, sizeof text, "(nil)")
                                       : std::snprintf(text, sizeof text, "0x%" PRIx64, value.bits);
      append_padded({text, static_cast<std::size_t>(size)}, field, left, out);
    } else if (piece.conversion == 'c') {
      const char c = static_cast<char>(value.bits);
      append_padded({&c, 1}, field, left, out);
    } else {
      append_integer(piece, value.bits, width, precision, out);
    }
  }
  if (out.size() <= most) return;
  out.resize(most - std::min(most, kCut.size()));
  out += kCut;
}

}  // namespace trapline::tracetool
