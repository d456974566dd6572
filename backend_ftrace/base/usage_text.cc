#include "backend_ftrace/base/usage_text.h"

#include <fmt/format.h>

namespace trapline {
namespace {

// Says what is wrong. Returns CLI11's own text for faults that our programs cannot cause.
std::string fault(std::string_view first, std::string_view said) {
  const auto before = [&](std::string_view middle) { return said.substr(0, said.find(middle)); };
  if (said.starts_with("A subcommand is required")) {
    if (first.empty()) return "no command was given";
    const bool option = first.starts_with('-');
    return option ? fmt::format("there is no option {} before the command", first)
                  : fmt::format("'{}' is not a command", first);
  }
  constexpr std::string_view kExtra = " not expected: ";
  if (const std::size_t at = said.find(kExtra); at != std::string_view::npos) {
    const std::string_view word = said.substr(at + kExtra.size());
    return word.starts_with('-') ? fmt::format("there is no option {}", word)
                                 : fmt::format("unexpected argument '{}'", word);
  }
  if (said.find(": 1 required ") != std::string_view::npos)
    return fmt::format("{} has no value", before(": 1 required "));
  if (said.find(": At Most 1 required ") != std::string_view::npos)
    return fmt::format("{} was given more than once", before(": At Most 1 required "));
  if (said.ends_with(" is required")) return fmt::format("{} is missing", before(" is required"));
  return std::string(said);
}

}  // namespace

std::string usage_text(std::string_view program, std::string_view first, std::string_view said) {
  return fmt::format("{} ({} --help prints the usage)", fault(first, said), program);
}

}  // namespace trapline
