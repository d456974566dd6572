// output=ftrace and output=both: calls as text in a tracefs instance of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/sync.h"
#include "plugin/format/directory.h"
#include "tests/plugin/qemu_run.h"
#include "tests/support/require.h"

namespace trapline::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class Instance {
 public:
  Instance()
      : path_("/sys/kernel/tracing/instances/trapline-plugin-" + std::to_string(::getpid())) {
    std::error_code error;
    std::filesystem::create_directory(path_, error);
    made_ = !error;
  }
  ~Instance() {
    if (made_) ::rmdir(path_.c_str());
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  explicit operator bool() const { return made_; }
  void set(const std::string& file, const std::string& value) const {
    std::ofstream(path_ + "/" + file) << value;
  }
  [[nodiscard]] std::string name() const { return std::filesystem::path(path_).filename(); }
  [[nodiscard]] std::vector<std::string> markers() const {
    std::ifstream trace(path_ + "/trace");
    std::vector<std::string> texts;
    for (std::string line; std::getline(trace, line);)
      if (const auto at = line.find("tracing_mark_write: "); at != line.npos)
        texts.push_back(line.substr(at + 20));
    return texts;
  }

 private:
  std::string path_;
  bool made_ = false;
};

// The identity in sync.txt.
std::string run_of(const std::string& data) {
  std::ifstream file(data + "/sync.txt");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("# run: ")) return line.substr(7);
  return "";
}

// "E 0x1000" and "X 0x1000", in order, by task: of the directory, and of the markers, whose
// addresses it has the low 48 bits of.
using CallsByTask = std::map<std::uint32_t, std::vector<std::string>>;

std::string call_text(bool entry, std::uint64_t address) {
  return fmt::format("{} {:#x}", entry ? 'E' : 'X', address & Record::kAddressMask);
}

CallsByTask calls_in_directory(const std::string& path) {
  CallsByTask calls;
  const auto directory = DataDirectory::open(path);
  if (!directory) throw std::runtime_error(directory.error().message);
  for (const std::uint32_t tid : directory->tids()) {
    auto reader = directory->records(tid);
    if (!reader) throw std::runtime_error(reader.error().message);
    for (auto record = reader->next(); record && *record; record = reader->next()) {
      calls[tid].push_back(
          call_text((*record)->type() == RecordType::kEntry, (*record)->address()));
    }
  }
  return calls;
}

CallsByTask calls_in_markers(const std::vector<std::string>& markers) {
  CallsByTask calls;
  for (const std::string& text : markers) {
    std::istringstream words(text);
    std::string prefix, kind, vcpu, depth, word;
    words >> prefix >> kind >> vcpu >> depth >> word;
    if ((kind != "E" && kind != "X") || !depth.starts_with("d=")) continue;
    auto task = static_cast<std::uint32_t>((std::stoul(vcpu.substr(3)) + 1) * 100);
    if (word.starts_with("t=")) {
      task = static_cast<std::uint32_t>(std::stoul(word.substr(2)));
      words >> word;
    }
    calls[task].push_back(call_text(kind == "E", std::stoull(word, nullptr, 16)));
  }
  return calls;
}

class MarkerTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MarkerTest, SelectedCallsAreMarkersOneEachBetweenTwoSyncSeries) {
  Instance instance;
  TRAPLINE_REQUIRE(bool(instance), "tracefs and root");
  TRAPLINE_REQUIRE(!qemu_folder(GetParam()).empty(),
                   std::string("scripts/fetch qemu") + GetParam());
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  const Output output =
      run(guest_command(GetParam(), "x86_64", "O2",
                        "out=" + data + ",symbols=" + guest_path("x86_64", "O2") +
                            ",output=both,include=small_*,instance=" + instance.name()));
  std::vector<std::string> calls, rest;
  std::size_t syncs = 0;
  for (const std::string& text : instance.markers()) {
    if (parse_sync(text))
      ++syncs;
    else
      (matches("trapline: ? cpu? d=*", text) ? calls : rest).push_back(text);
  }
  EXPECT_EQ(syncs, 2 * (kSyncTries + 1)) << output.err;
  // The run's records, with the identity that the directory has as well.
  ASSERT_EQ(rest.size(), 4u);
  const std::string id = run_of(data);
  EXPECT_TRUE(
      matches("trapline: calls 1 begin run=" + id + " pid=* arch=x86_64 contexts=vcpu output=both",
              rest[0]))
      << rest[0];
  const std::string pid = id.substr(0, id.find('-'));
  EXPECT_THAT((std::vector(rest.begin() + 1, rest.begin() + 3)),
              UnorderedElementsAre("trapline: V cpu0 pid=" + pid, "trapline: V cpu1 pid=" + pid));
  EXPECT_EQ(rest[3], "trapline: calls 1 end run=" + id + " written=6 lost=0");
  EXPECT_THAT(output.err, HasSubstr("12 records, 0 lost (6 and 0 of them markers)"));
  // trapline: E|X cpuN d=DEPTH 0xADDRESS NAME
  ASSERT_EQ(calls.size(), 6u);
  const char* expected[] = {"E cpu0 d=0 0x* small_a", "E cpu0 d=1 0x* small_b",
                            "X cpu0 d=1 0x* small_b", "E cpu0 d=1 0x* small_b",
                            "X cpu0 d=1 0x* small_b", "X cpu0 d=0 0x* small_a"};
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_TRUE(matches(std::string("trapline: ") + expected[i], calls[i])) << calls[i];
  const std::map<std::string, std::uint64_t> both{{"small_a", 1}, {"small_b", 2}};
  EXPECT_EQ(reported_calls(data), both);
}

TEST_P(MarkerTest, WhereTasksAreNotVcpusEachCallSaysItsTask) {
  Instance instance;
  TRAPLINE_REQUIRE(bool(instance), "tracefs and root");
  TRAPLINE_REQUIRE(!qemu_folder(GetParam()).empty(),
                   std::string("scripts/fetch qemu") + GetParam());
  (void)run(guest_command(
      GetParam(), "x86_64", "O2",
      "symbols=" + guest_path("x86_64", "O2") +
          ",output=ftrace,contexts=privilege,include=user_*,instance=" + instance.name()));
  const auto texts = instance.markers();
  EXPECT_THAT(texts, Contains("trapline: T t=103 cpu0 Ring3"));
  const auto of_leaf = [&](const std::string& kind) {
    return std::count_if(texts.begin(), texts.end(), [&](const std::string& text) {
      return matches("trapline: " + kind + " cpu0 d=2 t=103 0x* user_leaf", text);
    });
  };
  EXPECT_EQ(of_leaf("E"), 7);
  EXPECT_EQ(of_leaf("X"), 7);
}

TEST_P(MarkerTest, TheMarkersAreTheDirectorysRecordsCallByCall) {
  for (const char* contexts : {"vcpu", "privilege"}) {
    Instance instance;
    TRAPLINE_REQUIRE(bool(instance), "tracefs and root");
    TRAPLINE_REQUIRE(!qemu_folder(GetParam()).empty(),
                     std::string("scripts/fetch qemu") + GetParam());
    TemporaryFolder folder;
    const std::string data = folder / "uftrace.data";
    const Output output =
        run(guest_command(GetParam(), "x86_64", "O2",
                          "out=" + data + ",symbols=" + guest_path("x86_64", "O2") +
                              ",output=both,include=small_*,include=user_*,contexts=" + contexts +
                              ",instance=" + instance.name()));
    const CallsByTask markers = calls_in_markers(instance.markers());
    EXPECT_EQ(markers, calls_in_directory(data)) << contexts << output.err;
    std::size_t calls = 0;
    for (const auto& [task, of_task] : markers) calls += of_task.size();
    EXPECT_GE(calls, 22u) << contexts;  // small_a, two small_b, user_main, seven user_leaf
  }
}

TEST_P(MarkerTest, WithoutADirectoryAnEarlierRecordingIsNotTouched) {
  Instance instance;
  TRAPLINE_REQUIRE(bool(instance), "tracefs and root");
  TRAPLINE_REQUIRE(!qemu_folder(GetParam()).empty(),
                   std::string("scripts/fetch qemu") + GetParam());
  TemporaryFolder folder;
  const std::string data = folder / "uftrace.data";
  const std::string guest = "out=" + data + ",symbols=" + guest_path("x86_64", "O2");
  (void)run(guest_command(GetParam(), "x86_64", "O2", guest + ",include=fib"));
  const std::map<std::string, std::uint64_t> fib{{"fib", 1973}};
  ASSERT_EQ(reported_calls(data), fib);
  const std::string id = run_of(data);
  const std::string ftrace = ",output=ftrace,include=small_*,instance=" + instance.name();
  const Output output = run(guest_command(GetParam(), "x86_64", "O2", guest + ftrace));
  EXPECT_THAT(output.err, HasSubstr("6 records, 0 lost (6 and 0 of them markers)"));
  EXPECT_EQ(run_of(data), id);
  EXPECT_EQ(reported_calls(data), fib);
  // Nor is one made.
  const std::string fresh = "out=" + folder / "new" + ",symbols=" + guest_path("x86_64", "O2");
  (void)run(guest_command(GetParam(), "x86_64", "O2", fresh + ftrace));
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST_P(MarkerTest, MarkersThatTheKernelDoesNotTakeAreLostAndToldOnce) {
  Instance instance;
  TRAPLINE_REQUIRE(bool(instance), "tracefs and root");
  TRAPLINE_REQUIRE(!qemu_folder(GetParam()).empty(),
                   std::string("scripts/fetch qemu") + GetParam());
  instance.set("tracing_on", "0");
  const Output output =
      run(guest_command(GetParam(), "x86_64", "O2",
                        "symbols=" + guest_path("x86_64", "O2") +
                            ",output=ftrace,include=small_*,instance=" + instance.name()));
  EXPECT_EQ(output.exit_code(), 1) << output.err;  // the guest's own end
  EXPECT_THAT(output.err, HasSubstr(": 0 records, 6 lost (0 and 6 of them markers)"));
  const auto told = output.err.find("does not take markers: Bad file descriptor (tracing_on of");
  ASSERT_NE(told, std::string::npos) << output.err;
  EXPECT_EQ(output.err.find("does not take markers", told + 1), std::string::npos);
}

// What `trapline record` tells its command: where the marker is.
TEST_P(MarkerTest, TheEnvironmentNamesTheInstance) {
  Instance instance;
  TRAPLINE_REQUIRE(bool(instance), "tracefs and root");
  TRAPLINE_REQUIRE(!qemu_folder(GetParam()).empty(),
                   std::string("scripts/fetch qemu") + GetParam());
  auto command =
      guest_command(GetParam(), "x86_64", "O2",
                    "symbols=" + guest_path("x86_64", "O2") + ",output=ftrace,include=small_*");
  command.insert(command.begin(), {"env", "TRAPLINE_FTRACE_INSTANCE=" + instance.name()});
  const Output output = run(command);
  EXPECT_THAT(output.err, HasSubstr("6 records, 0 lost"));
  EXPECT_THAT(instance.markers(), Contains(StartsWith("trapline: E cpu0 d=0 0x")));
}

INSTANTIATE_TEST_SUITE_P(Qemu, MarkerTest, ::testing::Values("10", "11"));

}  // namespace
}  // namespace trapline::test
