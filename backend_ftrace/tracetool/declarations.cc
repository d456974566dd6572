#include "backend_ftrace/tracetool/declarations.h"

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/tracetool/text_cursor.h"

namespace trapline::tracetool {
namespace {

// Limit of declarations with one hash that find() parses; more than two with the same name are an
// error.
constexpr std::size_t kMostTried = 16;
static_assert(kMostText <= UINT32_MAX, "an offset in a file has 32 bits");

// FNV-1a; `hash` is the hash of the text before, so that a caller can hash in pieces.
std::uint32_t hash_of(std::string_view text, std::uint32_t hash = 2166136261u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// Steps from declaration to declaration as the parser does, but reads only the names.
class DeclarationScan : TextCursor {
 public:
  explicit DeclarationScan(std::string_view text) : TextCursor(text) {}

  // Calls on_name(hash, offset) for each event.
  template <typename OnName>
  void run(OnName on_name) {
    while (at_ < text_.size()) {
      skip_blanks();
      if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '#') {
        const std::size_t begin = at_;
        if (const auto name = head()) {
          skip_arguments();
          if (name->is_tcg) {
            on_name(hash_of("_trans", name->hash), begin);
            on_name(hash_of("_exec", name->hash), begin);
          } else {
            on_name(name->hash, begin);
          }
        }
        skip_format();
      }
      skip_line();
    }
  }

 private:
  struct Name {
    std::uint32_t hash;
    bool is_tcg;
  };
  // Reads an event's name. Returns nullopt if no name with a parenthesis follows.
  std::optional<Name> head() {
    for (bool is_tcg = false;;) {
      const std::string_view name = word();
      if (name.empty()) return std::nullopt;
      skip_blanks();
      if (peek() == '(') {
        ++at_;
        return Name{hash_of(name), is_tcg};
      }
      is_tcg = is_tcg || name == "tcg";
    }
  }

  // Skips to the end of the argument list, or to the error in it.
  void skip_arguments() {
    const std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
    if (const auto end = line.find(')'); end != std::string_view::npos) {
      at_ += end + 1;
      return;
    }
    for (skip_space(); is_word(peek()) || peek() == '*' || peek() == ','; skip_space()) ++at_;
    if (peek() == ')') ++at_;
  }

  // Skips the strings and PRI macros of the format, also those at the beginning of a line or after
  // a backslash.
  void skip_format() {
    for (resume();; resume()) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      const std::size_t end = at_;
      skip_to_continuation();
      if (at_ == end) return;
    }
  }
};

}  // namespace

Declarations::Declarations(std::string text) : text_(std::move(text)) {
  DeclarationScan(text_).run([this](std::uint32_t hash, std::size_t offset) {
    places_.push_back({hash, static_cast<std::uint32_t>(offset)});
  });
  std::sort(places_.begin(), places_.end());
}

Result<Declarations> Declarations::read(const std::string& path) {
  auto text = read_trace_events_text(path);
  if (!text) return tl::unexpected(std::move(text).error());
  return Declarations(std::move(*text));
}

std::span<const Declarations::Place> Declarations::places_of(std::string_view name) const {
  const std::uint32_t hash = hash_of(name);
  const auto first = std::ranges::lower_bound(places_, hash, {}, &Place::hash);
  return {first, std::ranges::upper_bound(first, places_.end(), hash, {}, &Place::hash)};
}

std::optional<Event> Declarations::find(std::string_view name) const {
  const std::span<const Place> places = places_of(name);
  for (const Place& place : places.first(std::min(places.size(), kMostTried))) {
    for (Event& event : parse_declaration(std::string_view(text_).substr(place.offset))) {
      if (event.name == name) return std::move(event);
    }
  }
  return std::nullopt;
}

}  // namespace trapline::tracetool
