#include "merge/cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/tracetool/trace_events.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace trapline::cli {
namespace {

std::vector<Setting> all_settings() {
  using enum SettingKind;
  return {
      {"clock", "TRAPLINE_CLOCK", kText, "the clock of trapline record", "mono"},
      {"buffer-size", "TRAPLINE_BUFFER_SIZE", kText, "the size of its buffer for each CPU", "8M"},
      {"symbols", "TRAPLINE_SYMBOLS", kList, "guest symbols for recordings that contain none", ""},
      {"trace-events", "TRAPLINE_TRACE_EVENTS", kText,
       "QEMU's trace-events-all, for recordings that contain none",
       tracetool::kInstalledTraceEvents},
      {"color", "TRAPLINE_COLOR", kText, "colours on the terminal: auto, always or never", "auto"}};
}

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// TRAPLINE_CONFIG names another file, and none where it is empty.
std::string config_file() {
  if (std::getenv("TRAPLINE_CONFIG") != nullptr) return environment("TRAPLINE_CONFIG");
  const std::string folder = environment("XDG_CONFIG_HOME"), home = environment("HOME");
  if (folder.starts_with('/')) return folder + "/trapline/config.toml";
  return home.empty() ? "" : home + "/.config/trapline/config.toml";
}

std::string place(const std::string& file, const toml::source_region& at) {
  return fmt::format("{}:{}", file, at.begin.line);
}

Result<std::vector<std::string>> values_of(const Setting& setting, const toml::node& node,
                                           const std::string& at) {
  const auto wrong = [&](std::string_view example) {
    return fail(ErrorKind::kUsage, "{}: {} has the wrong type of value; write {} = {}", at,
                setting.name, setting.name, example);
  };
  switch (setting.kind) {
    case SettingKind::kText:
      if (const auto text = node.value_exact<std::string>()) return std::vector{*text};
      return wrong(fmt::format("\"{}\"", setting.built_in));
    case SettingKind::kList:
      break;
  }
  if (const auto text = node.value_exact<std::string>()) return std::vector{*text};
  const toml::array* array = node.as_array();
  std::vector<std::string> texts;
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto text = (*array)[i].value_exact<std::string>();
    if (text) texts.push_back(*text);
  }
  if (array == nullptr || texts.size() != array->size()) return wrong("[\"FILE\", \"FILE\"]");
  return texts;
}

Result<void> read_file(Config& config) {
  std::error_code error;
  if (config.file.empty() || !std::filesystem::exists(config.file, error)) return {};
  constexpr std::size_t kMost = 64u << 10;  // a dot makes a table in a table, freed by recursion
  const auto text = read_text(config.file, kMost, TextFrom::kAnything);
  if (!text) return tl::unexpected(text.error());
  const toml::parse_result parsed = toml::parse(*text, config.file);
  if (!parsed) {
    return fail(ErrorKind::kUsage, "{}: {}", place(config.file, parsed.error().source()),
                parsed.error().description());
  }
  config.found = true;
  for (const auto& [key, node] : parsed.table()) {
    const std::string at = place(config.file, key.source());
    const std::string_view name = key.str();
    const auto setting = std::ranges::find(config.settings, name, &Setting::name);
    if (setting == config.settings.end()) {
      std::vector<std::string_view> names;
      for (const Setting& one : config.settings) names.push_back(one.name);
      const auto near = nearest(name, names);
      return fail(ErrorKind::kUsage,
                  "{}: there is no setting '{}'{}; trapline config --example lists them", at,
                  printable(name), near.empty() ? "" : fmt::format("; did you mean {}?", near));
    }
    auto values = values_of(*setting, node, at);
    if (!values) return tl::unexpected(std::move(values).error());
    setting->values = std::move(*values);
    setting->origin = at;
  }
  return {};
}

void read_environment(Config& config) {
  for (Setting& setting : config.settings) {
    const std::string text = environment(std::string(setting.variable).c_str());
    if (text.empty()) continue;
    setting.values = {text};
    if (setting.kind == SettingKind::kList) {
      const auto parts = split(text, ':');
      setting.values.assign(parts.begin(), parts.end());
      std::erase(setting.values, "");
    }
    setting.origin = setting.variable;
  }
  // NO_COLOR is the environment's word as well, unless it has the more exact one.
  Setting& color = config.settings.back();
  if (color.origin != color.variable && !environment("NO_COLOR").empty()) {
    color.values = {"never"};
    color.origin = "NO_COLOR";
  }
}

const Setting& config_of(const Config& config, std::string_view option) {
  return config[option.substr(2)];
}

// As though the user had typed it. Throws CLI::ConfigError with the place of a wrong value.
void set(CLI::Option& option, const Setting& setting) {
  try {
    for (const std::string& value : setting.values) option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    throw CLI::ConfigError(fmt::format("{}: {}", setting.origin, error.what()));
  }
}

// True if a recording of the command line is a session with `part` in it.
bool is_in_session(const CLI::App& command, const char* part) {
  for (const CLI::Option* option : command.get_options([](const CLI::Option* one) {
         return one->get_positional() || one->check_lname("before") || one->check_lname("after");
       })) {
    for (const std::string& path : option->results()) {
      std::error_code error;
      if (std::filesystem::exists(path + '/' + part, error)) return true;
    }
  }
  return false;
}

void complete_input(CLI::App& command, const Config& config) {
  for (const auto& [name, part] :
       {std::pair{"--symbols", "symbols"}, std::pair{"--trace-events", "trace-events-all"}}) {
    CLI::Option* option = command.get_option_no_throw(name);
    const Setting& setting = config_of(config, name);
    if (option == nullptr || option->count() != 0 || setting.values.empty()) continue;
    if (!is_in_session(command, part)) set(*option, setting);
  }
}

}  // namespace

const Setting& Config::operator[](std::string_view name) const {
  return *std::ranges::find(settings, name, &Setting::name);
}

Result<Config> load_config() {
  Config config{config_file(), false, all_settings()};
  if (auto read = read_file(config); !read) return tl::unexpected(std::move(read).error());
  read_environment(config);
  const Setting& color = config["color"];
  const std::string value = color.values.empty() ? color.built_in : color.values.front();
  if (value != "auto" && value != "always" && value != "never") {
    return fail(ErrorKind::kUsage, "{}: color: '{}' is not one of auto, always, never",
                color.origin, printable(value));
  }
  return config;
}

bool needs_no_config(const std::vector<std::string>& words) {
  constexpr std::string_view kCommands[] = {"help", "config", "complete"};
  if (!words.empty() && std::count(std::begin(kCommands), std::end(kCommands), words[0]) != 0)
    return true;
  return std::any_of(words.begin(), std::find(words.begin(), words.end(), "--"),
                     [](const auto& word) {
                       return word == "-h" || word.starts_with("--help") || word == "--version";
                     });
}

std::string example_config() {
  std::string text = "# Defaults of trapline; all may be left out. trapline config prints them.\n";
  for (const Setting& setting : all_settings()) {
    const std::string value = setting.kind == SettingKind::kList
                                  ? "[\"/boot/System.map\"]"
                                  : fmt::format("\"{}\"", setting.built_in);
    text +=
        fmt::format("\n# {} ({})\n#{} = {}\n", setting.what, setting.variable, setting.name, value);
  }
  return text;
}

void apply_config(const Config& config, CLI::App& app) {
  const auto of_every_command = [&](const char* name, auto&& act) {
    for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
      CLI::Option* option = command->get_option_no_throw(name);
      if (option != nullptr && !config_of(config, name).values.empty()) act(*command, *option);
    }
  };
  for (const char* name : {"--clock", "--buffer-size", "--color"}) {
    of_every_command(name, [&](CLI::App&, CLI::Option& option) {
      set(option, config_of(config, name));
      option.default_str(config_of(config, name).values.front());
      option.clear();  // an option that is typed takes the place of the setting
    });
  }
  // When the recordings are known: what a session brings comes before the user's own.
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_name() == "record" || !command->get_option_no_throw("--symbols")) continue;
    command->parse_complete_callback([command, &config] { complete_input(*command, config); });
  }
}

}  // namespace trapline::cli
