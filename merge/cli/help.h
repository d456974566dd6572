// Formats what --help and `trapline help` print: 80 columns, options in groups, three examples.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "backend_ftrace/base/size.h"
#include "merge/cli/usage_error.h"
#include "merge/report/table_kinds.h"

namespace trapline::cli {

inline constexpr std::size_t kHelpWidth = 80;

// The examples below a command's options, the first three of its man page; empty: there are none.
[[nodiscard]] std::span<const std::string_view> examples_of(std::string_view command);

// Returns "  HEAD" with `text` beside it, in lines of at most kHelpWidth.
[[nodiscard]] std::string help_entry(const std::string& head, std::string_view text,
                                     std::size_t text_column = 28);

// Returns the text in capitals, as help names words that are not options: "COMMAND".
[[nodiscard]] std::string upper(std::string text);

// Makes `app` and its commands print their help in our form.
void arrange_help(CLI::App& app);

// Headings of the groups of options.
inline constexpr std::string_view kWhat = "What to record", kTables = "Tables",
                                  kWhich = "Which part of the recording", kEvents = "Events",
                                  kQemu = "QEMU and its guest",
                                  kSnapshot = "Snapshots of slow exits",
                                  kHow = "How to read the recording", kBuffer = "Clock and buffer",
                                  kOutput = "Output", kRest = "Options";
inline constexpr std::string_view kRareMark = " (rare)";  // at the end of a group's name

// Adds a command's options to a group. `argument` is how help shows an option's value; if it is
// empty, the value's type decides.
class OptionGroup {
 public:
  OptionGroup(CLI::App& command, std::string_view group) : command_(command), group_(group) {}

  // Returns the same group for options that only --help-all shows, so that --help fits a screen of
  // 50 lines.
  [[nodiscard]] OptionGroup rare() const { return {command_, group_ + std::string(kRareMark)}; }
  template <typename Value>
  CLI::Option* add(const std::string& names, Value& value, const std::string& argument,
                   const std::string& text) const {
    CLI::Option* option = command_.add_option(names, value, text)->group(group_);
    refuse_empty(*option);
    // Value, or that of an optional.
    using Number = typename decltype(std::optional(value))::value_type;
    if constexpr (std::is_arithmetic_v<Number>) take_numbers<Number>(*option);
    return argument.empty() ? option : option->type_name(argument);
  }
  // Adds an option for a size. The value, `least` and `most` are in units of `unit` bytes.
  template <typename Value>
  CLI::Option* size(const std::string& names, Value& value, std::uint64_t unit, std::uint64_t least,
                    std::uint64_t most, const std::string& text) const {
    CLI::Option* option = add(names, value, "SIZE", text)->transform(size_in(unit, least, most));
    if constexpr (std::is_arithmetic_v<Value>) option->default_str(size_text(value * unit));
    return option;
  }
  // Adds an option that takes one of these words; help shows the default.
  CLI::Option* choice(const std::string& names, std::string& value,
                      const std::vector<std::string>& words, const std::string& text) const {
    return add(names, value, "", text)->check(one_of(words))->capture_default_str();
  }
  // Adds the option that chooses a table. Its argument is stored in `values` under the option's
  // name.
  CLI::Option* table(const TableKind& kind,
                     std::map<std::string, std::string, std::less<>>& values) const;
  CLI::Option* flag(const std::string& names, auto& value, const std::string& text) const {
    return command_.add_flag(names, value, text)->group(group_);
  }

 private:
  CLI::App& command_;
  std::string group_;
};

// Returns how help shows an option's argument: "FILE", "N", "text|json"; empty for a flag.
[[nodiscard]] std::string argument_of(const CLI::Option& option);
// Returns "-o,--output", as help shows names.
[[nodiscard]] std::string names_of(const CLI::Option& option);

// A text that `trapline help NAME` prints, from docs/topics/NAME.md.
struct Topic {
  std::string_view name, title, text;
};
[[nodiscard]] std::span<const Topic> topics();

}  // namespace trapline::cli
