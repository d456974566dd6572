// All events of the installed trace-events-all; see all_events.sh.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "backend_ftrace/tracetool/event_format.h"
#include "backend_ftrace/tracetool/trace_events.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> bytes{};
  while (pipe != nullptr) {
    const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), pipe);
    if (got == 0) break;
    output.append(bytes.data(), got);
  }
  if (pipe != nullptr) ::pclose(pipe);
  while (output.ends_with('\n')) output.pop_back();
  return output;
}

// The trace-events-all of QEMU 10: TRAPLINE_TRACE_EVENTS_ALL, else the QEMU that scripts/fetch
// unpacks, else an installed one.
std::string trace_events_all() {
  if (const char* path = std::getenv("TRAPLINE_TRACE_EVENTS_ALL")) return path;
  const fs::path fetch = fs::path(TRAPLINE_SOURCE_DIR) / "scripts/fetch";
  if (fs::exists(fetch)) {
    const fs::path root = output_of(fetch.string() + " qemu10 2>/dev/null");
    if (!root.empty() && fs::exists(root)) {
      const std::string found = output_of("find " + root.string() + " -name trace-events-all");
      if (!found.empty()) return found.substr(0, found.find('\n'));
    }
  }
  const fs::path installed = "/usr/share/qemu/trace-events-all";
  return fs::exists(installed) ? installed.string() : "";
}

constexpr const char* kWhy = "needs QEMU's trace-events-all (scripts/fetch qemu10)";

TEST(AllEvents, EveryOneIsReadFoundByItsNameAndEveryFormatCompiled) {
  const std::string path = trace_events_all();
  TRAPLINE_REQUIRE(!path.empty(), kWhy);
  const auto file = tracetool::read_trace_events(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->errors.empty()) << file->errors[0].text();
  EXPECT_GT(file->events.size(), 5000u);
  const auto declared = tracetool::Declarations::read(path);
  ASSERT_TRUE(declared) << declared.error().message;
  EXPECT_EQ(declared->size(), file->events.size());
  tracetool::MarkerParser parser(&*declared);
  tracetool::ParsedMarker parsed;
  for (const auto& event : file->events) {
    ASSERT_TRUE(parser.parse(event.name + " nonsense", parsed)) << event.name;
    EXPECT_EQ(parsed.event->name, event.name);
    EXPECT_EQ(parsed.event->format.source, event.format.source) << event.name;
    EXPECT_EQ(parsed.event->arguments.size(), event.arguments.size()) << event.name;
  }
}

TEST(AllEvents, EveryBackendCompilesWithoutAWarningLinksAndPrintsRight) {
  const std::string path = trace_events_all();
  TRAPLINE_REQUIRE(!path.empty(), kWhy);
  const test::TemporaryFolder work;
  const std::string command =
      std::string(TRAPLINE_SOURCE_DIR) + "/tests/backend_ftrace/generator/all_events.sh " + path +
      " " TRACETOOL " " MAKE_DRIVER " " LIBRARY " " TRAPLINE_SOURCE_DIR "/backend_ftrace/include " +
      work.path() + " " TRAPLINE_BINARY_DIR;
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace trapline
