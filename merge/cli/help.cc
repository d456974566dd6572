#include "merge/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text.h"

namespace trapline::cli {
namespace {

constexpr std::size_t kCommandColumn = 12;

// Groups of options in the order in which help prints them, after groups that are not in this list.
constexpr std::string_view kOrder[] = {kWhat,     kTables, kWhich,  kEvents, kQemu,
                                       kSnapshot, kHow,    kBuffer, kOutput, kRest};

bool is_rare(const CLI::Option& option) { return option.get_group().ends_with(kRareMark); }

std::string text_of(const CLI::Option& option) {
  std::string text = option.get_description();
  const std::string& value = option.get_default_str();
  const bool first_of_list = argument_of(option).starts_with(value + '|');
  if (!value.empty() && !first_of_list && text.find("efault") == std::string::npos)
    text += fmt::format(" (default: {})", value);
  return text;
}

std::string usage(const CLI::App& app) {
  std::string line = "Usage: trapline";
  if (app.get_parent() != nullptr) line += ' ' + app.get_name();
  line += " [OPTIONS]";
  for (const CLI::Option* option : app.get_options(
           [](const CLI::Option* one) { return one->get_positional() && !one->nonpositional(); })) {
    std::string word = upper(option->get_single_name());
    if (option->get_expected_max() >= CLI::detail::expected_max_vector_size) word += "...";
    // The words after -- are another program's command line.
    if (word.starts_with("COMMAND")) word = "-- " + word;
    line += option->get_required() ? ' ' + word : " [" + word + ']';
  }
  if (app.get_parent() == nullptr) line += " COMMAND";
  return line + '\n';
}

std::string positionals(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() || option->get_group().empty()) continue;
    out += help_entry(upper(option->get_single_name()), text_of(*option));
  }
  return out.empty() ? out : '\n' + out;
}

std::string group(const CLI::App& app, const std::string& name, bool with_rare) {
  std::string out;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional() || (!with_rare && is_rare(*option))) continue;
    if (option->get_group() != name && option->get_group() != name + std::string(kRareMark))
      continue;
    const std::string argument = argument_of(*option);
    out +=
        help_entry(names_of(*option) + (argument.empty() ? "" : ' ' + argument), text_of(*option));
  }
  return out.empty() ? out : fmt::format("\n{}:\n{}", name, out);
}

// Groups of commands by what a user does with them; "Other" gets commands that are in no group.
constexpr std::pair<std::string_view, std::string_view> kCommandGroups[] = {
    {"Record", "doctor record snapshot"},
    {"Ask", "report explain stalls advise timeline top"},
    {"Compare", "bench diff"},
    {"Other", ""}};

std::string commands(const CLI::App& app) {
  std::vector<const CLI::App*> rest = app.get_subcommands({});
  std::erase_if(rest, [](const CLI::App* command) { return command->get_group().empty(); });
  if (rest.empty()) return {};
  std::string out;
  const auto add = [&out](const CLI::App& command) {
    out += help_entry(command.get_name(), command.get_description(), kCommandColumn);
  };
  for (const auto& [name, members] : kCommandGroups) {
    out += fmt::format("\n{}:\n", name);
    for (const std::string_view member : split(members, ' ')) {
      const auto command = std::ranges::find(rest, member, &CLI::App::get_name);
      if (command == rest.end()) continue;
      add(**command);
      rest.erase(command);
    }
    if (!members.empty()) continue;
    for (const CLI::App* command : rest) add(*command);
  }
  return out + "\ntrapline COMMAND --help prints the options of a command.\n";
}

std::string help_of(const CLI::App* app, std::string, CLI::AppFormatMode mode) {
  std::string out =
      app->get_description() + '\n' + usage(*app) + positionals(*app) + commands(*app);
  std::vector<std::string> names;
  for (std::string name : app->get_groups()) {
    if (name.ends_with(kRareMark)) name.resize(name.size() - kRareMark.size());
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  const auto place = [](const std::string& name) {
    const auto at = std::find(std::begin(kOrder), std::end(kOrder), name);
    return at == std::end(kOrder) ? 0 : at - std::begin(kOrder) + 1;
  };
  std::stable_sort(names.begin(), names.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  for (const std::string& name : names) out += group(*app, name, mode == CLI::AppFormatMode::All);
  const auto examples = examples_of(app->get_parent() == nullptr ? "" : app->get_name());
  if (!examples.empty()) out += "\nExamples:\n";
  for (const std::string_view line : examples) out += fmt::format("  {}\n", line);
  return out;
}

}  // namespace

std::string help_entry(const std::string& head, std::string_view text, std::size_t text_column) {
  std::string out = "  " + head;
  std::size_t column = out.size();
  if (column + 2 > text_column) out += '\n', column = 0;
  out.append(text_column - column, ' ');
  column = text_column;
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > text_column && column + 1 + word.size() > kHelpWidth) {
      out += '\n' + std::string(text_column, ' ');
      column = text_column;
    }
    if (column > text_column) out += ' ', ++column;
    out += word;
    column += word.size();
  }
  while (out.back() == ' ') out.pop_back();
  return out + '\n';
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string names_of(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ",-") + name;
  for (const std::string& name : option.get_lnames()) text += (text.empty() ? "--" : ",--") + name;
  return text;
}

std::string argument_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {};
  const std::string type = option.get_type_name();
  const std::string head = type.substr(0, type.find(':'));
  const std::string check = head.size() < type.size() ? type.substr(head.size() + 1) : "";
  if (check.starts_with('{')) {
    std::string values = check.substr(1, check.find('}') - 1);
    std::replace(values.begin(), values.end(), ',', '|');
    return values;
  }
  return head == "INT" || head == "UINT" || head == "FLOAT" ? "N" : head;
}

void arrange_help(CLI::App& app) {
  constexpr const char* kAll = "Print all options, rarely used ones too";
  app.formatter_fn(help_of);
  app.set_help_all_flag("--help-all", kAll);
  for (CLI::App* command : app.get_subcommands({})) {
    command->formatter_fn(help_of);
    command->set_help_all_flag("--help-all", kAll);
  }
}

CLI::Option* OptionGroup::table(const TableKind& kind,
                                std::map<std::string, std::string, std::less<>>& values) const {
  const std::string option(kind.option), help(kind.help);
  if (kind.argument.empty()) {
    return command_
        .add_flag_callback(
            option, [&values, option] { values[option]; }, help)
        ->group(group_);
  }
  CLI::Option* added = command_.add_option_function<std::string>(
      option, [&values, option](const std::string& text) { values[option] = text; }, help);
  refuse_empty(*added);
  return added->group(group_)->type_name(std::string(kind.argument));
}

}  // namespace trapline::cli
