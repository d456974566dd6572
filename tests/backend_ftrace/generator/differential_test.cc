// Every backend prints what printf prints: one program, the same calls, all backends at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backend_ftrace/simpletrace/reader.h"
#include "backend_ftrace/tracetool/event_text.h"
#include "tests/support/instance.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Which line differs says more than two long texts.
void expect_same(const std::vector<std::string>& got, const std::vector<std::string>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], wanted[i]) << "line " << i + 1;
}

class DifferentialTest : public ::testing::Test {
 protected:
  void run(const std::string& environment, const std::string& before = {}) {
    const std::string command =
        before + environment + " TRAPLINE_LOG=" + (folder_ / "log.txt").string() + " " +
        DIFFERENTIAL_DRIVER + " " + (folder_ / "expected.txt").string() + " " +
        (folder_ / "expected-simple.txt").string() + " " + (folder_ / "syslog.txt").string() +
        " > " + (folder_ / "stdout.txt").string() + " 9> /dev/null 2> " +
        (folder_ / "stderr.txt").string();
    ASSERT_EQ(std::system(command.c_str()), 0) << contents(folder_ / "stderr.txt");
    expected_ = lines_of(contents(folder_ / "expected.txt"));
    ASSERT_GT(expected_.size(), 200u);
  }
  std::vector<std::string> simple_lines() {
    std::vector<std::string> lines;
    auto events = tracetool::read_trace_events(DIFFERENTIAL_EVENTS);
    auto reader = simpletrace::Reader::open((folder_ / "simple.bin").string(), *events);
    if (!reader) {
      ADD_FAILURE() << reader.error().message;
      return lines;
    }
    simpletrace::Record record;
    while (true) {
      const auto more = reader->next(record);
      if (!more) ADD_FAILURE() << more.error().message;
      if (!more || !*more) break;
      EXPECT_FALSE(record.dropped);
      std::string line = std::string(record.name) + " ";
      if (record.event != nullptr) tracetool::append_text(*record.event, record.values, line);
      lines.push_back(line);
    }
    EXPECT_EQ(reader->undecoded(), 0u);
    EXPECT_EQ(reader->cut_bytes(), 0u);
    return lines;
  }

  test::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  std::vector<std::string> expected_;
};

TEST_F(DifferentialTest, LogAndSyslogPrintWhatPrintfPrints) {
  run("TRAPLINE_FTRACE_FD=9");
  expect_same(lines_of(contents(folder_ / "log.txt")), expected_);
  expect_same(lines_of(contents(folder_ / "syslog.txt")), expected_);
  EXPECT_THAT(contents(folder_ / "stdout.txt"), ::testing::StartsWith("openlog NULL 1 1\n"));
}

TEST_F(DifferentialTest, TheLogsPrefixIsThreadAndTime) {
  run("TRAPLINE_FTRACE_FD=9 TRAPLINE_LOG_PREFIX=1");
  const auto lines = lines_of(contents(folder_ / "log.txt"));
  ASSERT_EQ(lines.size(), expected_.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto colon = lines[i].find(':');
    ASSERT_NE(colon, std::string::npos);
    EXPECT_EQ(lines[i].substr(colon + 1), expected_[i]);
    EXPECT_THAT(lines[i].substr(0, colon), ::testing::MatchesRegex("[0-9]+@[0-9]+\\.[0-9]+"));
  }
}

TEST_F(DifferentialTest, FtraceTextReachesTheKernelAndIsReadBackAsValues) {
  TRAPLINE_REQUIRE(test::Instance::usable(), "needs root and tracefs at /sys/kernel/tracing");
  const test::Instance instance;
  ASSERT_FALSE(instance.name().empty());
  run("TRAPLINE_FTRACE_INSTANCE=" + instance.name());
  std::vector<std::string> lines;
  for (const auto& marker : instance.markers()) lines.push_back(marker.text);
  expect_same(lines, expected_);
  // The way back: what was printed is parsed, printed again, and must be the same text.
  const auto declared = tracetool::Declarations::read(DIFFERENTIAL_EVENTS);
  tracetool::MarkerParser parser(&*declared);
  tracetool::ParsedMarker parsed;
  for (const std::string& line : lines) {
    ASSERT_TRUE(parser.parse(line, parsed)) << line;
    ASSERT_TRUE(parsed.matched) << line;
    bool complete = true;
    for (std::size_t i = 0; i < parsed.count; ++i) {
      complete = complete && parsed.values[i].kind != tracetool::ValueKind::kAbsent;
    }
    if (!complete) continue;  // a width that is not printed cannot come back
    std::string again = parsed.event->name + " ";
    tracetool::append_text(*parsed.event, parsed.values, again);
    EXPECT_EQ(again, line);
  }
}

TEST_F(DifferentialTest, TheSimpleFileReadsBackAsWritten) {
  run("TRAPLINE_FTRACE_FD=9 TRAPLINE_TRACE_FILE=" + (folder_ / "simple.bin").string());
  // A string that is printed by %p is text in the file: its address is not recorded.
  auto got = simple_lines();
  auto wanted = lines_of(contents(folder_ / "expected-simple.txt"));
  const auto printed_by_p = [](const std::string& line) {
    return line.starts_with("string_pointer ");
  };
  std::erase_if(got, printed_by_p);
  std::erase_if(wanted, printed_by_p);
  expect_same(got, wanted);
}

// One line of babeltrace2 as "NAME ARGS" in the event's own format:
//   [TIME] (DELTA) host provider:NAME: { cpu_id = 1 }, { a = -1, s = "text" }
std::string printed(const std::string& line, const tracetool::EventFile& events) {
  const std::string marker = " trapline:";
  const auto name_at = line.find(marker);
  const auto fields_at = line.find("}, { ");
  if (name_at == std::string::npos || fields_at == std::string::npos) return "unreadable: " + line;
  const auto begin = name_at + marker.size();
  const std::string name = line.substr(begin, line.find(':', begin) - begin);
  const auto event = std::find_if(events.events.begin(), events.events.end(),
                                  [&](const auto& each) { return each.name == name; });
  if (event == events.events.end()) return "unknown: " + name;
  std::vector<tracetool::Value> values;
  std::vector<std::string> texts(event->arguments.size());
  std::size_t at = fields_at + 5;
  for (std::size_t i = 0; i < event->arguments.size(); ++i) {
    at = line.find(" = ", at) + 3;
    tracetool::Value value;
    value.kind = tracetool::ValueKind::kSigned;
    if (line[at] == '"') {
      for (++at; line[at] != '"'; ++at) {
        if (line[at] == '\\') ++at;
        texts[i] += line[at];
      }
      value.kind = tracetool::ValueKind::kString;
      value.text = texts[i];
    } else if (line[at] == '-') {
      value.bits = static_cast<std::uint64_t>(std::stoll(line.substr(at)));
    } else {
      value.bits = std::stoull(line.substr(at), nullptr, 0);
    }
    values.push_back(value);
  }
  std::string text = name + " ";
  tracetool::append_text(*event, values, text);
  return text;
}

TEST_F(DifferentialTest, LttngRecordsTheArgumentsThatPrintfPrints) {
  TRAPLINE_REQUIRE(std::system("command -v lttng lttng-sessiond babeltrace2 > /dev/null") == 0,
                   "needs lttng-tools and babeltrace2");
  const std::string pid_file = (folder_ / "sessiond.pid").string();
  const std::string session = "trapline-" + std::to_string(::getpid());
  const auto lttng = [](const std::string& command) {
    return std::system(("lttng -n " + command + " > /dev/null 2>&1").c_str());
  };
  // Where a session daemon runs already, this one says so and ends, and that one serves.
  (void)!std::system(
      ("lttng-sessiond --daemonize --no-kernel --pidfile=" + pid_file + " > /dev/null 2>&1")
          .c_str());
  ASSERT_EQ(lttng("create " + session + " --output=" + (folder_ / "ust").string()), 0);
  // One small event per call: nothing may be lost, so the buffers hold everything.
  EXPECT_EQ(lttng("enable-channel -u -s " + session + " --subbuf-size=2M --num-subbuf=4 big"), 0);
  EXPECT_EQ(lttng("enable-event -u -s " + session + " -c big 'trapline:*'"), 0);
  EXPECT_EQ(lttng("start " + session), 0);
  // Of this driver alone: other tests run it, too. The shell becomes the driver.
  run("exec env TRAPLINE_FTRACE_FD=9 LTTNG_UST_REGISTER_TIMEOUT=10000",
      "lttng -n track -u -s " + session + " --vpid=$$ > /dev/null && ");
  EXPECT_EQ(lttng("stop " + session), 0);
  EXPECT_EQ(lttng("destroy " + session), 0);
  // Ended before the folder is removed, where the daemon has its files.
  if (const std::string text = contents(pid_file); !text.empty()) {
    const auto pid = static_cast<pid_t>(std::stol(text));
    ::kill(pid, SIGTERM);
    for (int i = 0; i < 6000 && fs::exists(pid_file); ++i) ::usleep(10'000);
  }
  const std::string text = (folder_ / "ust.txt").string();
  ASSERT_EQ(std::system(("babeltrace2 " + (folder_ / "ust").string() + " > " + text).c_str()), 0);
  const auto events = tracetool::read_trace_events(DIFFERENTIAL_EVENTS);
  std::vector<std::string> got;
  for (const std::string& line : lines_of(contents(text))) got.push_back(printed(line, *events));
  // A string that is printed by %p is text in the trace: its address is not recorded.
  const auto printed_by_p = [](const std::string& line) {
    return line.starts_with("string_pointer ");
  };
  std::erase_if(got, printed_by_p);
  std::erase_if(expected_, printed_by_p);
  // LTTng-UST 2.13 writes "(null)" for NULL and for some empty strings, whatever the width.
  const auto plain = [](std::vector<std::string>& lines) {
    std::erase_if(lines, [](const std::string& line) {
      return line.starts_with("star ") || line.starts_with("string_width ");
    });
    for (std::string& line : lines) {
      for (auto at = line.find("(null)"); at != std::string::npos; at = line.find("(null)")) {
        line.erase(at, 6);
      }
    }
  };
  plain(got);
  plain(expected_);
  expect_same(got, expected_);
}

// TRAPLINE_QEMU_SOURCE, else what scripts/fetch has of it.
std::string qemu_source() {
  if (const char* named = std::getenv("TRAPLINE_QEMU_SOURCE")) return named;
  const std::string fetch = TRAPLINE_SOURCE_DIR "/scripts/fetch qemu10-scripts 2>/dev/null";
  FILE* pipe = ::popen(fetch.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string folder(4096, '\0');
  folder.resize(std::fread(folder.data(), 1, folder.size(), pipe));
  ::pclose(pipe);
  return folder.substr(0, folder.find('\n'));
}

TEST_F(DifferentialTest, QemusOwnReaderPrintsTheSimpleFileAsWeDo) {
  const std::string qemu = qemu_source();
  TRAPLINE_REQUIRE(fs::exists(qemu + "/scripts/simpletrace.py"),
                   "needs QEMU's scripts/simpletrace.py (scripts/fetch qemu10-scripts)");
  run("TRAPLINE_FTRACE_FD=9 TRAPLINE_TRACE_FILE=" + (folder_ / "simple.bin").string());
  // QEMU's tool knows neither tcg nor vcpu events any more, nor 'long long'.
  const std::string merged = (folder_ / "events").string();
  std::string plain;
  for (const std::string& line : lines_of(contents(DIFFERENTIAL_EVENTS))) {
    if (line.starts_with("tcg ")) {
      plain += "translated_trans(int a) \"\"\ntranslated_exec(int a, uint32_t b) \"\"\n";
    } else if (line.starts_with("vcpu tcg ")) {
      plain +=
          "both_trans(void * __cpu, uint64_t a) \"\"\n"
          "both_exec(void * __cpu, uint64_t a, uint64_t b) \"\"\n";
    } else if (line.starts_with("vcpu ")) {
      plain += "on_cpu(void * __cpu, int a) \"\"\n";
    } else if (line.starts_with("multi_line")) {
      plain += "multi_line(int a, int b) \"\"\n";
    } else if (!line.starts_with(" ")) {
      plain += line + "\n";
    }
  }
  std::ofstream(merged) << plain;
  const std::string file = (folder_ / "simple.bin").string();
  const std::string theirs = (folder_ / "theirs.txt").string();
  const std::string ours = (folder_ / "ours.txt").string();
  ASSERT_EQ(std::system(("/usr/bin/env python3 " + qemu + "/scripts/simpletrace.py " + merged +
                         " " + file + " > " + theirs)
                            .c_str()),
            0);
  ASSERT_EQ(std::system((std::string(TRAPLINE_BINARY_DIR) + "/merge/trapline print " + file +
                         " --events " DIFFERENTIAL_EVENTS " > " + ours)
                            .c_str()),
            0);
  expect_same(lines_of(contents(ours)), lines_of(contents(theirs)));
}

// Run by a user, with root's rights: the user must not choose which of root's files it writes.
TEST_F(DifferentialTest, ASetuidProgramTakesNothingFromItsEnvironment) {
  TRAPLINE_REQUIRE(::geteuid() == 0, "needs root");
  const fs::path program = folder_ / "setuid", victim = folder_ / "victim";
  fs::copy_file(DIFFERENTIAL_DRIVER, program);
  fs::permissions(folder_, fs::perms{0711});
  fs::permissions(program, fs::perms{04755});
  std::ofstream(victim) << "root's\n";
  fs::permissions(victim, fs::perms{0600});
  const std::string name = victim.string();
  const std::string command =
      "env TRAPLINE_EVENTS='*' TRAPLINE_TRACE_FILE=" + name + " TRAPLINE_LOG=" + name +
      " TRAPLINE_MONITOR=" + name + " setpriv --reuid 65534 --regid 65534 --clear-groups " +
      program.string() + " /dev/null /dev/null /dev/null > /dev/null 2>&1 9>&1";
  (void)!std::system(command.c_str());
  EXPECT_EQ(contents(victim), "root's\n");
}

}  // namespace
}  // namespace trapline
