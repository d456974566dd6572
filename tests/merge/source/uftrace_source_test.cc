// uftrace directories, against uftrace itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>

#include "merge/session/open.h"
#include "merge/source/open_recording.h"
#include "tests/merge/source/uftrace_dump.h"
#include "tests/plugin/qemu_run.h"
#include "tests/support/open_by_path.h"
#include "tests/support/require.h"
#include "tests/support/source_clock.h"
#include "tests/support/temporary_folder.h"

namespace trapline::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kNewer = fs::path(TRAPLINE_TEST_DATA).parent_path() / "merge/source/uftrace-0.19";
const fs::path kQemus = fs::path(TRAPLINE_TEST_DATA).parent_path() / "merge/source/uftrace-qemu";

constexpr const char* kProgram = R"(
#include <string.h>
__attribute__((noinline)) long mix(long a, void *p) { return a * 7 + (long)strlen(p); }
__attribute__((noinline)) const char *name(const char *s) { return s + 1; }
int main(void) {
  long sum = 0;
  for (int i = 0; i < 2000; i++) sum += mix(i, "text") + name("hello")[0];
  return sum == 1;
})";

// "TIME TID entry|exit NAME ADDRESS DEPTH" of each record.
std::vector<std::string> lines_of(Source& source) {
  std::vector<std::string> lines;
  Event event;
  while (source.next(event) == Read::kEvent) {
    const auto* call = std::get_if<GuestCall>(&event.payload);
    if (call == nullptr || call->function == 0) continue;  // 0: off the CPU
    const std::uint64_t ns = event.at.ns();
    lines.push_back(fmt::format(
        "{}.{:09} {} {} {} {:x} {}", ns / 1'000'000'000, ns % 1'000'000'000,
        static_cast<int>(event.thread), call->entry ? "entry" : "exit",
        call->name.empty() ? fmt::format("<{:x}>", call->function) : std::string(call->name),
        call->function, call->depth));
  }
  return lines;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The arguments and the return values in uftrace's replay, each in its order.
struct Values {
  std::vector<std::string> calls, returns;
};
Values values_in_replay(const std::string& replay) {
  Values values;
  const std::regex call("\\| +(\\w+\\(.+\\))( \\{|;| = )"), back("\\)?\\}?( = [^;]+);");
  std::istringstream text(replay);
  std::smatch match;
  for (std::string line; std::getline(text, line);) {
    if (line.find("/* linux:") != line.npos) continue;
    if (std::regex_search(line, match, call)) values.calls.push_back(match[1]);
    if (std::regex_search(line, match, back)) values.returns.push_back(match[1]);
  }
  return values;
}
Values values_of(Source& source) {
  Values values;
  Event event;
  while (source.next(event) == Read::kEvent) {
    const auto* call = std::get_if<GuestCall>(&event.payload);
    if (call == nullptr || event.raw.empty()) continue;
    const std::string text = source.event_text(event);
    if (call->entry) {
      values.calls.push_back(text);
    } else {
      values.returns.push_back(text.substr(call->name.size()));
    }
  }
  return values;
}

class UftraceRecord : public ::testing::Test {
 protected:
  void record(const std::vector<std::string>& options, const char* program = kProgram) {
    std::ofstream(folder_ / "t.c") << program;
    ASSERT_EQ(run({"cc", "-O1", "-pg", "-o", folder_ / "t", folder_ / "t.c"}).exit_code(), 0);
    std::vector<std::string> command{"uftrace", "record", "--no-pager", "-d", path_};
    command.insert(command.end(), options.begin(), options.end());
    command.push_back(folder_ / "t");
    ASSERT_EQ(run(command).exit_code(), 0);
  }
  void expect_same_as_dump() {
    const auto expected = dumped(path_);
    ASSERT_GT(expected.size(), 8000u);
    auto source = open_uftrace(path_);
    ASSERT_TRUE(source) << source.error().message;
    const auto lines = lines_of(**source);
    ASSERT_EQ(lines.size(), expected.size());
    for (std::size_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i], expected[i]) << i;
    EXPECT_EQ((*source)->counters().damaged_events, 0u);
  }
  TemporaryFolder folder_;
  std::string path_ = folder_ / "data";
};

TEST_F(UftraceRecord, RecordsAreThoseOfUftraceDump) {
  record({});
  expect_same_as_dump();
  auto source = open_uftrace(path_);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->info().clock, "mono");
  EXPECT_EQ(kind_of_source(path_), SourceKind::kUftrace);
}

TEST_F(UftraceRecord, ArgumentsAndReturnValuesArePassedOver) {
  record(
      {"-A", "mix@arg1,arg2/x64", "-R", "mix@retval", "-A", "name@arg1/s", "-R", "name@retval/s"});
  expect_same_as_dump();
}

TEST_F(UftraceRecord, ArgumentsAndReturnValuesAreThoseOfUftraceReplay) {
  record({"-A", "mix@arg1,arg2/s",
          "-R", "mix@retval/i64",
          "-A", "^nam.$@arg1/s",
          "-R", "name@retval/s",
          "-A", "real@fparg1,fparg2/32",
          "-R", "real@retval/f64",
          "-A", "small@arg1/c,arg2/i16,arg3/x32",
          "-A", "small@arg4/u8",
          "-R", "small@retval/i32",
          "-A", "large@arg1,arg2/u,arg3/p"},
         R"(
__attribute__((noipa)) long mix(long a, const char *p) { return a * 7 + (p ? p[0] : 0); }
__attribute__((noipa)) const char *name(const char *s) { __asm__ volatile(""); return s + 1; }
__attribute__((noipa)) double real(double d, float f) { __asm__ volatile(""); return d / 2 + f; }
__attribute__((noipa)) int small(char c, short s, unsigned u, unsigned char b) {
  __asm__ volatile("");
  return c + s - (int)u + b;
}
__attribute__((noipa)) void large(long a, long b, void *p) { __asm__ volatile("" ::"r"(a), "r"(b), "r"(p)); }
int main(void) {
  volatile long sum = 0;
  for (int i = 0; i < 200; i++) {
    sum += mix(-i, i % 3 ? "text" : "") + name("hello \" there")[0];
    real(i, 1.5f);
    small((char)('a' + i % 26), (short)-i, 7u << i % 28, (unsigned char)i);
    large(i * 999L, i, (void *)(0x1000L * i));
  }
  sum += mix(1, 0);
  return 0;
})");
  const Values expected =
      values_in_replay(run({"uftrace", "replay", "--no-pager", "-d", path_}).out);
  auto source = open_uftrace(path_);
  ASSERT_TRUE(source) << source.error().message;
  const Values values = values_of(**source);
  ASSERT_EQ(values.calls.size(), 1001u);
  ASSERT_EQ(values.returns.size(), 801u);
  EXPECT_EQ(values.calls, expected.calls);
  EXPECT_EQ(values.returns, expected.returns);
}

TEST(UftraceDirectory, ADirectoryOfANewerUftraceIsReadAsItReadsIt) {
  const fs::path& path = kNewer;
  const std::string dump = text_of(path / "dump.txt");
  auto source = open_uftrace(path);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(lines_of(**source), calls_in_dump(dump));
  EXPECT_EQ((*source)->counters().damaged_events, 0u);
  source = open_uftrace(path);
  const Values values = values_of(**source),
               expected = values_in_replay(text_of(path / "replay.txt"));
  EXPECT_EQ(values.calls, expected.calls);
  EXPECT_EQ(values.returns, expected.returns);
  EXPECT_EQ(values.calls.size(), 6u);
}

TEST(UftraceDirectory, ThatOfQemusOwnPluginIsOnTheWallClock) {
  auto source = open_uftrace(kQemus);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->info().clock, "real");
  auto lines = lines_of(**source);
  auto expected = dumped(kQemus);  // one task after the other
  EXPECT_EQ(expected.size(), 569u);
  std::sort(lines.begin(), lines.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(lines, expected);
  EXPECT_EQ((*source)->counters().damaged_events, 0u);
}

// As first merged, QEMU's plugin popped its stack before it wrote the return; where it gave its
// stack up (all its returns have one stamp, and calls of the same stamp follow) the depths were
// equal.
void write_returns_one_less(const fs::path& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto words = [&file](std::streamoff at) {
    std::array<std::uint64_t, 2> read{};
    file.clear();
    file.seekg(at);
    file.read(reinterpret_cast<char*>(read.data()), sizeof read);
    return read;
  };
  const auto size = static_cast<std::streamoff>(fs::file_size(path));
  for (std::streamoff at = 0; at < size; at += 16) {
    auto [time, data] = words(at);
    const bool given_up = at + 16 < size && words(at + 16)[0] == time;
    if ((data & 3) != 1 || given_up) continue;
    data -= 1u << 6;
    file.clear();
    file.seekp(at + 8);
    file.write(reinterpret_cast<const char*>(&data), sizeof data);
  }
}

TEST(UftraceDirectory, CallsAreCountedAsUftraceDoesWhateverDepthReturnsHave) {
  const TemporaryFolder folder;
  const fs::path first = folder / "first-form";
  fs::copy(kQemus, first);
  write_returns_one_less(first / "100.dat");
  write_returns_one_less(first / "200.dat");
  EXPECT_NE(dumped(first), dumped(kQemus));
  const auto report = [](const fs::path& path) {
    return run({"uftrace", "report", "--no-pager", "-d", path.string()}).out;
  };
  EXPECT_EQ(report(first), report(kQemus));
  auto source = open_uftrace(first), later_form = open_uftrace(kQemus);
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_TRUE(later_form) << later_form.error().message;
  EXPECT_EQ(lines_of(**source), lines_of(**later_form));
}

TEST(UftraceDirectory, ItsIntervalIsKnownBeforeItIsRead) {
  for (const fs::path& path :
       {kQemus, kQemus.parent_path().parent_path() / "tcg/both.trapline/uftrace.data"}) {
    auto source = open_uftrace(path);
    ASSERT_TRUE(source) << source.error().message;
    const auto range = (*source)->range();
    ASSERT_TRUE(range) << path;
    std::optional<Timestamp> first;
    Timestamp last;
    for (Event event; (*source)->next(event) == Read::kEvent; last = event.at) {
      if (!first) first = event.at;
    }
    EXPECT_EQ(range->first, *first) << path;
    EXPECT_EQ(range->second, last) << path;
  }
  // The last bytes may be a value.
  auto with_values = open_uftrace(kNewer);
  ASSERT_TRUE(with_values) << with_values.error().message;
  EXPECT_FALSE((*with_values)->range());
}

TEST(UftraceDirectory, TimeOffTheCpuIsACallAsUftraceShowsIt) {
  const fs::path& path = kNewer;
  std::vector<std::string> expected;
  std::istringstream dump(text_of(path / "dump.txt"));
  const std::regex change("^(\\d+\\.\\d+) .*linux:sched-(in|out)( \\(pre-empted\\))?");
  std::smatch match;
  for (std::string line; std::getline(dump, line);) {
    if (std::regex_search(line, match, change)) {
      expected.push_back(fmt::format("{} {}{}", match[1].str(), match[2].str(), match[3].str()));
    }
  }
  ASSERT_GT(expected.size(), 100u);
  // The first change is an end: nothing was recorded before it.
  if (expected.front().find(" in") != std::string::npos) expected.erase(expected.begin());
  auto source = open_uftrace(path);
  ASSERT_TRUE(source);
  std::vector<std::string> changes;
  Event event;
  std::uint64_t last = 0;
  while ((*source)->next(event) == Read::kEvent) {
    EXPECT_GE(event.at.ns(), last);
    last = event.at.ns();
    const auto* call = std::get_if<GuestCall>(&event.payload);
    if (call == nullptr || call->function != 0) continue;
    const bool preempted = call->name == "linux:schedule (pre-empted)";
    EXPECT_TRUE(preempted || call->name == "linux:schedule");
    changes.push_back(fmt::format("{}.{:09} {}{}", last / 1'000'000'000, last % 1'000'000'000,
                                  call->entry ? "out" : "in",
                                  call->entry && preempted ? " (pre-empted)" : ""));
  }
  EXPECT_EQ(changes, expected);
}

TEST_F(UftraceRecord, ASwitchFileThatIsCutOffIsReadUpToTheCutAndCounted) {
  fs::copy(kNewer, path_);
  const auto count = [&] {
    auto source = open_uftrace(path_);
    EXPECT_TRUE(source);
    Event event;
    std::size_t changes = 0;
    while ((*source)->next(event) == Read::kEvent) {
      const auto* call = std::get_if<GuestCall>(&event.payload);
      changes += call != nullptr && call->function == 0;
    }
    EXPECT_TRUE((*source)->status());
    return std::pair(changes, (*source)->counters().damaged_events);
  };
  const auto whole = count();
  const fs::path file = fs::path(path_) / "perf-cpu1.dat";
  fs::resize_file(file, fs::file_size(file) / 2 + 3);
  const auto cut = count();
  EXPECT_EQ(whole.second, 0u);
  EXPECT_EQ(cut.second, 1u);
  EXPECT_LT(cut.first, whole.first);
  EXPECT_GT(cut.first, whole.first / 3);
  std::ofstream(file) << std::string(100, '\0');  // a record of no size
  EXPECT_EQ(count(), std::pair(std::size_t{0}, std::uint64_t{1}));
}

TEST_F(UftraceRecord, KernelDataIsNamedWhereItIsLeftOut) {
  record({});
  std::ofstream(path_ + "/extern.dat") << "something";
  std::ofstream(path_ + "/kernel-cpu0.dat") << "something";
  auto source = open_uftrace(path_);
  ASSERT_TRUE(source);
  const auto facts = (*source)->facts();
  EXPECT_THAT(facts.back().second, HasSubstr("kernel-cpu0.dat"));
  EXPECT_THAT(facts.back().second, HasSubstr("extern.dat"));
}

TEST_F(UftraceRecord, ADirectoryThatIsCutOffIsReadUpToTheCut) {
  record({});
  const auto whole = dumped(path_);
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".dat") && !name.starts_with("perf")) {
      fs::resize_file(entry.path(), fs::file_size(entry.path()) / 32 * 16 + 5);
    }
  }
  auto source = open_uftrace(path_);
  ASSERT_TRUE(source);
  const auto lines = lines_of(**source);
  ASSERT_EQ(lines.size(), whole.size() / 2);
  EXPECT_EQ(lines.back(), whole[lines.size() - 1]);
  EXPECT_TRUE((*source)->status());
  EXPECT_EQ((*source)->counters().damaged_events, 1u);
}

TEST_F(UftraceRecord, DamageIsAnErrorOrIsCountedNeverACrash) {
  record({"-A", "name@arg1/s"});
  for (const auto& entry : fs::directory_iterator(path_)) {  // small: the program's own files
    const std::string name = entry.path().filename();
    if (name.ends_with(".dbg") || name.starts_with("lib") || name.starts_with("ld-")) {
      fs::remove(entry.path());
    } else if (name.ends_with(".dat")) {
      fs::resize_file(entry.path(), std::min<std::uintmax_t>(fs::file_size(entry.path()), 4096));
    }
  }
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path_)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string& path = files[random() % files.size()];
    std::ifstream in(path, std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    if (good.empty()) continue;
    std::string bad = good;
    for (unsigned k = 0; k < 1 + random() % 8; ++k)
      bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    std::ofstream(path, std::ios::binary) << bad;
    auto source = open_uftrace(path_);
    std::uint64_t last = 0;
    if (source) {
      Event event;
      while ((*source)->next(event) == Read::kEvent) {
        ASSERT_GE(event.at.ns(), last) << i;
        last = event.at.ns();
        (void)(*source)->event_text(event);
        (void)(*source)->comm(event.thread);
      }
    } else {
      EXPECT_FALSE(source.error().message.empty());
    }
    std::ofstream(path, std::ios::binary) << good;
  }
}

TEST(Uftrace, ThePluginsDirectoryHasItsVcpusAndClock) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "QEMU cannot load a plugin with a sanitizer in it";
#endif
  const std::string qemu = qemu_folder("10");
  TRAPLINE_REQUIRE(!qemu.empty(), "QEMU 10 cannot be had");
  TemporaryFolder folder;
  const std::string path = folder / "data";
  const Output output =
      run(guest_command("10", "x86_64", "O2",
                        "out=" + path + ",include=small_*,symbols=" + guest_path("x86_64", "O2")),
          120);
  ASSERT_TRUE(fs::exists(path + "/info")) << output.err;
  auto source = open_source(path, {});
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->info().clock, "mono");
  Event event;
  std::uint64_t last = 0, calls = 0;
  while ((*source)->next(event) == Read::kEvent) {
    ASSERT_GE(event.at.ns(), last);
    last = event.at.ns();
    const auto* call = std::get_if<GuestCall>(&event.payload);
    ASSERT_NE(call, nullptr);
    EXPECT_THAT(std::string(call->name), HasSubstr("small_"));
    EXPECT_THAT(call->vcpu, ::testing::AnyOf(0, 1));
    ++calls;
  }
  EXPECT_EQ(calls, dumped(path).size());
  // Its sync records relate it to the host's wall clock.
  const clocks::SourceClock clock = clock_with_syncs(path);
  clocks::SourceClock real;
  real.path = "qemu.log";
  real.clock = "real";
  const auto related = clocks::align(std::vector{clock, real});
  ASSERT_TRUE(related) << related.error().message;
  EXPECT_LT(related->sources[1].one_boot_error_ns.value(), 50'000u);
}

}  // namespace
}  // namespace trapline::test
