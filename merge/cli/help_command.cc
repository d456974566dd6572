// trapline help: prints a command's help, or a text about a concept.
#include <fmt/format.h>

#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/pass/reason_kinds.h"

namespace trapline::cli {
namespace {

std::string topics_text() {
  std::string text = "trapline help TOPIC prints a text about:\n\n";
  for (const Topic& topic : topics()) text += fmt::format("  {:<12}{}\n", topic.name, topic.title);
  return text +
         "\ntrapline help COMMAND prints the help of a command; trapline --help lists them.\n";
}

// Returns a topic's text with the kinds of exits in the place of a comment.
std::string with_kinds(std::string_view topic) {
  constexpr std::string_view kPlace = "<!-- kinds -->\n";
  std::string text(topic), kinds;
  for (const ReasonKind& kind : reason_kinds())
    kinds +=
        help_entry(std::string(kind.name), fmt::format("{}: {}", kind.meaning, kind.reasons), 20);
  if (const auto at = text.find(kPlace); at != text.npos) text.replace(at, kPlace.size(), kinds);
  return text;
}

Result<void> print_help(const CLI::App& app, const std::string& name) {
  const auto print = [](std::string_view text) {
    return print_to({}, [text](std::ostream& out) { out << text; });
  };
  if (name.empty()) return print(topics_text());
  std::vector<std::string_view> names;
  for (const Topic& topic : topics()) {
    if (topic.name == name) return print(with_kinds(topic.text));
    names.push_back(topic.name);
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return print(command->help());
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  const auto near = nearest(name, names);
  return fail(ErrorKind::kUsage,
              "'{}' is not a topic and not a command{}; trapline help lists the topics", name,
              near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

}  // namespace

void add_help(CLI::App& app, int& status) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("help", "Print a text about a topic; without one, list the topics");
  std::string all;
  for (const Topic& topic : topics()) all += (all.empty() ? "" : ", ") + std::string(topic.name);
  command->add_option("TOPIC", *name, all + ", or a command");
  on_run(*command, status, name,
         [&app](const std::string& topic) { return print_help(app, topic); });
}

}  // namespace trapline::cli
