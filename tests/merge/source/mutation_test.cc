// Damaged recordings: events or a clean error, never a crash, a hang or memory
// without bound. A crash fails the test's own process: no death test hides it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>

#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/merge/source/mutate.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/open_by_path.h"

namespace trapline::trace_dat {
namespace {

using trapline::test::contents;
using trapline::test::data_path;
using trapline::test::Mutator;
using trapline::test::TemporaryFile;

constexpr std::uint64_t kAll = ~std::uint64_t{0};
constexpr std::uint64_t kFirst = 10'000;  // of every second pair of mutations, to save time
constexpr double kMostSeconds = 20;       // of processor time, one file, children included
constexpr long kMostKiB = 256 << 10;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMemoryCounts = false;
constexpr std::uint64_t kMutations = 40;  // each takes ten times as long
#else
constexpr bool kMemoryCounts = true;
constexpr std::uint64_t kMutations = 200;
#endif

double cpu_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    }
  }
  return seconds;
}
long most_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Where headers, sections and pages begin.
std::vector<std::uint64_t> points_of(const std::string& path) {
  std::vector<std::uint64_t> points{0, 0, 0};
  const auto file = File::open(path);
  const auto layout = file ? read_layout(*file) : Result<Layout>(fail("no file"));
  if (!layout) return points;
  for (const Extent& extent : {layout->kallsyms, layout->cmdlines}) {
    points.push_back(extent.offset - 16);           // version 7: its section header
    points.push_back(extent.offset + extent.size);  // after kallsyms, printk
  }
  for (const Buffer& buffer : layout->buffers) {
    for (const CpuPages& cpu : buffer.cpus) {
      points.push_back(cpu.pages.offset);
      if (cpu.pages.compression != Compression::kNone) continue;
      for (std::uint64_t at = 0; at < cpu.pages.size; at += 16 * buffer.page_size) {
        points.push_back(cpu.pages.offset + at);
      }
    }
  }
  // Version 7: option sections and buffers' headers, by the numbers that lead to them.
  const std::string bytes = contents(path);
  const auto words = bytes.find("zstd");
  if (words != std::string::npos && words + 20 < bytes.size()) {
    std::uint64_t options = 0;
    std::memcpy(&options, bytes.data() + bytes.find('\0', words + 5) + 1, sizeof options);
    for (int i = 0; i < 4; ++i) points.push_back(options + static_cast<std::uint64_t>(i) * 48);
  }
  points.push_back(bytes.size() - 200);
  return points;
}

class Mutations : public ::testing::TestWithParam<std::string> {
 protected:
  // Reads the file to its end, its first error or `most` events, and asks for texts as the timeline
  // does.
  void read(const std::string& path, std::uint64_t most) {
    auto source = open_trace_dat(path, {});
    if (!source) {
      expect_clean(source.error(), path);
      return;
    }
    Event event;
    std::uint64_t count = 0;
    std::uint64_t sum = 0;
    while (count < most && (*source)->next(event) == Read::kEvent) {
      for (const std::byte byte : event.raw) sum += static_cast<std::uint64_t>(byte);
      if (++count < 4000 && count % 16 == 0) {
        sum += (*source)->event_text(event).size() + (*source)->event_name(event).size();
      }
    }
    EXPECT_NE(sum, 1u);  // the bytes are read
    if (!(*source)->status()) expect_clean((*source)->status().error(), path);
    events_ += count;
  }
  static void expect_clean(const Error& error, const std::string& path) {
    EXPECT_NE(error.kind, ErrorKind::kUsage) << error.message;
    EXPECT_THAT(error.message, ::testing::HasSubstr(path));
    EXPECT_LT(error.message.size(), 1000u);
  }

  std::uint64_t events_ = 0;
};
INSTANTIATE_TEST_SUITE_P(, Mutations, ::testing::ValuesIn(trapline::test::recordings()),
                         trapline::test::test_name);

TEST_P(Mutations, GiveEventsOrACleanError) {
  // Compressed pages hide behind zstd: half of the damage goes to an uncompressed copy.
  const TemporaryFile plain("");
  const std::string packed = data_path(GetParam());
  trapline::test::output_of("trace-cmd convert --file-version 6 --compression none -i " + packed +
                            " -o " + plain.path() + " 2>&1");
  std::array<Mutator, 2> mutators = {Mutator(contents(packed), points_of(packed)),
                                     Mutator(contents(plain.path()), points_of(plain.path()))};
  for (std::uint64_t seed = 0; seed < kMutations; ++seed) {
    plain.write(mutators[seed % 2].mutated(seed));
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const double start = cpu_seconds();
    read(plain.path(), seed % 4 < 2 ? kAll : kFirst);
    EXPECT_LT(cpu_seconds() - start, kMostSeconds);
  }
  if (kMemoryCounts) {
    EXPECT_LT(most_kib(), kMostKiB);
  }
  EXPECT_GT(events_, 10'000u);  // some files are only damaged at a place that hurts nothing
}

}  // namespace
}  // namespace trapline::trace_dat
