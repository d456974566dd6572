#include "merge/cli/usage_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "merge/cli/help.h"

namespace trapline::cli {
namespace {

// The message of a command with options of each kind for `words`.
std::string message(std::vector<std::string> words) {
  CLI::App app;
  app.require_subcommand(1);
  CLI::App* command = app.add_subcommand("run", "");
  const OptionGroup rest(*command, kRest);
  int pid = 0;
  unsigned count = 0;
  std::optional<double> share;
  std::string file, format, around, trigger;
  command->add_option("recording", file)->required();
  rest.add("--pid", pid, "PID", "")->transform(in_range(1, 99));
  rest.add("--count", count, "", "");
  rest.add("--share", share, "", "")->transform(in_range(50.0, 99.99));
  rest.add("--format", format, "", "")->check(one_of({"text", "json"}));
  auto* on = rest.add("--on", trigger, "EXPR", "");
  rest.add("--around", around, "TIME", "")->needs(on);
  rest.add("--since", around, "TIME", "")->excludes(on);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, words, error);
  }
  return "no fault";
}

TEST(UsageErrorTest, SaysWhatIsWrongWithAValue) {
  EXPECT_EQ(message({"run", "a", "--pid", "7", "--count", "0", "--share", "50"}), "no fault");
  EXPECT_EQ(message({"run", "a", "--pid", "100"}),
            "--pid: 100 is out of range; give a number from 1 to 99");
  for (const char* pid : {"0x64", "99999999999999999999"})
    EXPECT_EQ(message({"run", "a", "--pid", pid}),
              std::string("--pid: ") + pid + " is out of range; give a number from 1 to 99");
  for (const char* share : {"1e2", "nan"})
    EXPECT_EQ(
        message({"run", "a", "--share", share}),
        std::string("--share: ") + share + " is out of range; give a number from 50 to 99.99");
  EXPECT_EQ(message({"run", "a", "--pid", "x"}), "--pid: 'x' is not a number");
  EXPECT_EQ(message({"run", "a", "--count", "10ms"}), "--count: '10ms' is not a number");
  EXPECT_EQ(message({"run", "a", "--count=-1"}), "--count: -1 is out of range; give 0 or more");
  EXPECT_EQ(message({"run", "a", "--share", "12.5"}),
            "--share: 12.5 is out of range; give a number from 50 to 99.99");
  EXPECT_EQ(message({"run", "a", "--format", "xml"}),
            "--format: unknown 'xml'; there are text, json");
}

TEST(UsageErrorTest, RefusesAnEmptyValue) {
  const std::string fault = ": the value is empty; give one, or leave the option out";
  for (const char* option : {"--pid", "--count", "--share", "--format", "--on", "--since"})
    EXPECT_EQ(message({"run", "a", option, ""}), option + fault);
}

TEST(UsageErrorTest, SaysWhatIsWrongWithOptionsAndWords) {
  const std::string usage = " (trapline run --help prints the usage)";
  EXPECT_EQ(message({"run"}), "run: no RECORDING was given" + usage);
  EXPECT_EQ(message({"run", "a", "b"}), "run: unexpected argument 'b'" + usage);
  EXPECT_EQ(message({"run", "a", "--pid"}), "--pid has no value; give --pid PID");
  EXPECT_EQ(message({"run", "a", "--on", "x", "--on", "y"}),
            "--on was given 2 times; give it once");
  EXPECT_EQ(message({"run", "a", "--around", "1s"}), "--around needs --on; add --on EXPR");
  EXPECT_EQ(message({"run", "a", "--since", "1s", "--on", "x"}),
            "--on and --since exclude each other; give one of them");
  EXPECT_EQ(message({"run", "a", "--cuont", "1"}),
            "run: there is no option --cuont, did you mean --count? (trapline run --help lists "
            "them)");
}

TEST(OptionGroupTest, RareOptionsAreLeftToHelpAll) {
  CLI::App app;
  CLI::App* command = app.add_subcommand("run", "");
  bool often = false, seldom = false;
  const OptionGroup output(*command, kOutput);
  output.flag("--often", often, "");
  output.rare().flag("--seldom", seldom, "");
  arrange_help(app);
  const std::string help = command->help(), all = command->help("", CLI::AppFormatMode::All);
  EXPECT_NE(help.find("--often"), std::string::npos);
  EXPECT_EQ(help.find("--seldom"), std::string::npos);
  EXPECT_NE(all.find("--seldom"), std::string::npos);
  EXPECT_EQ(all.find(kRareMark), std::string::npos);
  EXPECT_NE(help.find("--help-all"), std::string::npos);
}

}  // namespace
}  // namespace trapline::cli
