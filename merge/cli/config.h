// Defaults of the user: ~/.config/trapline/config.toml and the environment.
//
// An option on the command line comes first, then the environment, then the file, then what is
// built in. Nothing is needed: without a file and variables every setting is the built-in one.
#pragma once

#include <CLI/CLI.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline::cli {

enum class SettingKind : std::uint8_t { kText, kList };

struct Setting {
  std::string_view name, variable;
  SettingKind kind;
  std::string_view what;              // a line for `trapline config`
  std::string built_in;               // empty: nothing
  std::vector<std::string> values{};  // of the environment or the file; empty: what is built in
  std::string origin = "built in";    // "TRAPLINE_CLOCK", "/home/me/.config/trapline/config.toml:3"
};

struct Config {
  std::string file;  // where it is looked for; empty: nowhere
  bool found = false;
  std::vector<Setting> settings;
  [[nodiscard]] const Setting& operator[](std::string_view name) const;
};

// An Error (kUsage) says what is wrong, with file and line. A file that is not there is none.
[[nodiscard]] Result<Config> load_config();
// Help and the version are printed whatever the file holds.
[[nodiscard]] bool needs_no_config(const std::vector<std::string>& words);
// All settings, as a file to begin with.
[[nodiscard]] std::string example_config();

// Gives the options of all commands the settings as their defaults; before the command line is
// read. `config` must live until it was. Throws CLI::ConfigError when an option refuses a value.
void apply_config(const Config& config, CLI::App& app);

void add_config(CLI::App& app, int& status);

}  // namespace trapline::cli
