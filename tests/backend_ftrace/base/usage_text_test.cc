#include "backend_ftrace/base/usage_text.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace trapline {
namespace {

// What a program with an option, a command and the command's argument prints for `words`.
std::string message(std::vector<std::string> words) {
  CLI::App app;
  app.require_subcommand(1);
  std::string value;
  CLI::App* command = app.add_subcommand("list", "");
  command->add_option("--pid", value);
  command->add_option("binary", value)->required();
  const std::string first = words.empty() ? "" : words.front();
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return usage_text("prog", first, error.what());
  }
  return "no fault";
}

TEST(UsageTextTest, SaysWhatIsWrongAndWhatPrintsTheUsage) {
  const std::string usage = " (prog --help prints the usage)";
  EXPECT_EQ(message({}), "no command was given" + usage);
  EXPECT_EQ(message({"lst"}), "'lst' is not a command" + usage);
  EXPECT_EQ(message({"--pid"}), "there is no option --pid before the command" + usage);
  EXPECT_EQ(message({"list"}), "binary is missing" + usage);
  EXPECT_EQ(message({"list", "a", "--foo"}), "there is no option --foo" + usage);
  EXPECT_EQ(message({"list", "a", "b"}), "unexpected argument 'b'" + usage);
  EXPECT_EQ(message({"list", "a", "--pid"}), "--pid has no value" + usage);
  EXPECT_EQ(message({"list", "a", "--pid", "1", "--pid", "2"}),
            "--pid was given more than once" + usage);
  EXPECT_EQ(message({"list", "a"}), "no fault");
}

}  // namespace
}  // namespace trapline
