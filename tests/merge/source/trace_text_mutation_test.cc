// Damaged texts: events in order of time or a clean error, in bounded time.
#include "merge/source/open_recording.h"
#include "tests/merge/source/read_mutations.h"
#include "tests/support/open_by_path.h"

namespace trapline::trace_text {
namespace {

using test::data_path;
using test::Mutator;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kMutations = 100;
#else
constexpr std::uint64_t kMutations = 400;
#endif
constexpr std::size_t kLines = 600;

// The first lines of a recording, as trace-cmd prints them, and where each begins.
struct Printed {
  std::string text;
  std::vector<std::uint64_t> lines;
};
Printed printed(const std::string& recording, const std::string& form) {
  Printed as;
  as.text =
      test::output_of("trace-cmd report " + form + " -i " + data_path(recording) + " 2>/dev/null");
  std::size_t at = 0;
  for (; at < as.text.size() && as.lines.size() < kLines; at = as.text.find('\n', at) + 1)
    as.lines.push_back(at);
  as.text.resize(at);
  return as;
}

class TraceTextMutations : public ::testing::TestWithParam<std::string> {};

TEST_P(TraceTextMutations, GiveEventsInOrderOrAnError) {
  for (const char* form : {"-t", "-R"}) {
    const Printed whole = printed(GetParam(), form);
    Mutator mutator(whole.text, whole.lines);
    SCOPED_TRACE(form);
    const std::uint64_t opened = test::read_mutations(
        mutator, kMutations, [](const std::string& path) { return open_trace_text(path, ""); },
        [](Source& source, const Event* event) {
          if (event == nullptr) {
            EXPECT_TRUE(source.status());
            return;
          }
          EXPECT_FALSE(source.event_name(*event).empty());
          (void)source.event_text(*event);
        });
    EXPECT_GT(opened, kMutations * 9 / 10);
  }
}
INSTANTIATE_TEST_SUITE_P(All, TraceTextMutations,
                         ::testing::Values("box/demo-ioctl.dat", "box/demo-arm64.dat",
                                           "svm-2vcpu-lost.dat", "riscv64/linux.dat",
                                           "vmx/demo-7.3.dat"),
                         test::test_name);

}  // namespace
}  // namespace trapline::trace_text
