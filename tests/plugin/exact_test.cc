// The plugin's records against the truth: a guest whose calls are known from its source
// (tests/guest/plugin/guest.c), on three architectures, four optimisations and two QEMUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugin/qemu_run.h"
#include "tests/support/require.h"

namespace trapline::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Follows from guest.h and guest.c alone.
const std::map<std::string, std::uint64_t> kTrueCalls{{"guest_main", 1},
                                                      {"small_a", 1},
                                                      {"small_b", 2},
                                                      {"fib", 1973},
                                                      {"recurse", 3001},
                                                      {"is_even", 1501},
                                                      {"is_odd", 1500},
                                                      {"ping", 1501},
                                                      {"pong", 1500},
                                                      {"tail_first", 100},
                                                      {"tail_middle", 100},
                                                      {"tail_last", 100},
                                                      {"call_pointers", 1},
                                                      {"add_one", 100},
                                                      {"add_two", 100},
                                                      {"add_leaf", 100},
                                                      {"jump_once", 50},
                                                      {"jump_out", 250},
                                                      {"machine_setjmp", 50},
                                                      {"machine_longjmp", 50},
                                                      {"machine_exception", 10},
                                                      {"exception_entry", 10},
                                                      {"handle_exception", 10},
                                                      {"machine_scratch", 30},
                                                      {"machine_user", 1},
                                                      {"user_main", 1},
                                                      {"user_leaf", 7},
                                                      {"machine_system_call", 5},
                                                      {"system_call_entry", 6},
                                                      {"handle_system_call", 5},
                                                      {"work_until_ticks", 1},
                                                      {"work_leaf", 400000},
                                                      {"work_pointed", 200000},
                                                      {"timer_entry", 20},
                                                      {"handle_timer", 20},
                                                      {"leaf", 165},
                                                      {"second_main", 1},
                                                      {"second_work", 40},
                                                      {"second_leaf", 40},
                                                      {"machine_exit", 1}};

class ExactTest
    : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {
 protected:
  std::string version() const { return std::get<0>(GetParam()); }
  std::string arch() const { return std::get<1>(GetParam()); }
  std::string variant() const { return std::get<2>(GetParam()); }
};

TEST_P(ExactTest, EveryFunctionIsCountedAsOftenAsItIsCalled) {
  TRAPLINE_REQUIRE(!qemu_folder(version()).empty(), "scripts/fetch qemu" + version());
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  const Output output = run(guest_command(
      version(), arch(), variant(), "out=" + data + ",symbols=" + guest_path(arch(), variant())));
  EXPECT_EQ(output.exit_code(), arch() == "x86_64" ? 1 : 0) << output.err;
  const auto calls = reported_calls(data);
  for (const auto& [name, count] : kTrueCalls) {
    const auto found = calls.find(name);
    EXPECT_EQ(found == calls.end() ? 0 : found->second, count) << name;
  }
  EXPECT_EQ(calls.count("machine_scratch.cold"), 0u);
  EXPECT_THAT(imbalances(data), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, ExactTest,
                         ::testing::Combine(::testing::Values("10", "11"),
                                            ::testing::Values("x86_64", "aarch64", "riscv64"),
                                            ::testing::Values("O0", "O1", "O2", "O2-nofp")),
                         [](const auto& test) {
                           std::string name = std::string("Qemu") + std::get<0>(test.param) + "_" +
                                              std::get<1>(test.param) + "_" +
                                              std::get<2>(test.param);
                           std::erase(name, '-');
                           return name;
                         });

class TreeTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(TreeTest, ReplayShowsTheTrueTreeOfASmallCase) {
  const auto [version, arch] = GetParam();
  TRAPLINE_REQUIRE(!qemu_folder(version).empty(), std::string("scripts/fetch qemu") + version);
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  const Output output =
      run(guest_command(version, arch, "O2",
                        "out=" + data + ",symbols=" + guest_path(arch, "O2") +
                            ",include=small_*,include=jump_*,include=machine_*jmp,include=handle_s*"
                            ",include=user_*,include=machine_system_call"));
  const Output replay = run({"uftrace", "replay", "--no-pager", "-f", "none", "-d", data});
  // small_a calls small_b twice; the first jump leaves five frames at once.
  const std::string expected =
      "small_a() {\n"
      "  small_b();\n"
      "  small_b();\n"
      "} /* small_a */\n"
      "jump_once() {\n"
      "  machine_setjmp();\n"
      "  jump_out() {\n"
      "    jump_out() {\n"
      "      jump_out() {\n"
      "        jump_out() {\n"
      "          jump_out() {\n"
      "            machine_longjmp();\n"
      "          } /* jump_out */\n"
      "        } /* jump_out */\n"
      "      } /* jump_out */\n"
      "    } /* jump_out */\n"
      "  } /* jump_out */\n"
      "} /* jump_once */\n";
  std::string text;
  for (std::size_t at = 0; at < replay.out.size();) {
    const std::size_t end = std::min(replay.out.find('\n', at), replay.out.size());
    const std::string line = replay.out.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && !line.starts_with('#')) text += line + "\n";
  }
  EXPECT_EQ(text.substr(0, expected.size()), expected) << output.err;
  const std::string call =
      "    machine_system_call() {\n"
      "      handle_system_call();\n"
      "    } /* machine_system_call */\n";
  EXPECT_NE(
      text.find("    user_leaf();\n" + call + call + call + call + call + "  } /* user_main */\n"),
      text.npos)
      << text.substr(text.size() - std::min<std::size_t>(text.size(), 1500));
}

TEST_P(TreeTest, UserModeNestsInTheFunctionThatEnteredItAndEndsWithIt) {
  const auto [version, arch] = GetParam();
  TRAPLINE_REQUIRE(!qemu_folder(version).empty(), std::string("scripts/fetch qemu") + version);
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  for (const char* contexts : {"vcpu", "privilege", "stack"}) {
    const Output output = run(guest_command(
        version, arch, "O1",
        "out=" + data + ",symbols=" + guest_path(arch, "O1") + ",contexts=" + contexts +
            ",include=guest_main,include=machine_user,include=user_main,include=work_until_ticks"));
    const std::string replay =
        run({"uftrace", "replay", "--no-pager", "-f", "none", "-d", data}).out;
    EXPECT_THAT(imbalances(data), IsEmpty()) << contexts;
    if (contexts != std::string("vcpu")) {
      EXPECT_NE(replay.find("user_main();"), replay.npos) << contexts << replay;
      continue;
    }
    EXPECT_NE(replay.find("guest_main() {\n"
                          "  machine_user() {\n"
                          "    user_main();\n"
                          "  } /* machine_user */\n"
                          "  work_until_ticks();\n"
                          "} /* guest_main */\n"),
              replay.npos)
        << replay << output.err;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TreeTest,
                         ::testing::Combine(::testing::Values("10", "11"),
                                            ::testing::Values("x86_64", "aarch64", "riscv64")),
                         [](const auto& test) {
                           return std::string("Qemu") + std::get<0>(test.param) + "_" +
                                  std::get<1>(test.param);
                         });

}  // namespace
}  // namespace trapline::test
