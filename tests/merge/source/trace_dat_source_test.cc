// Whole recordings, and files that say something of their times and losses.
#include "merge/source/trace_dat/trace_dat_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <map>
#include <set>
#include <tuple>

#include "backend_ftrace/base/text.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/open_by_path.h"

namespace trapline::trace_dat {
namespace {

using trapline::test::data_path;

struct Hole {
  std::uint64_t from, to;
};
struct Stream {
  std::vector<std::uint64_t> events;  // when they were
  std::vector<Hole> holes;
  SourceCounters counters;
};

std::unique_ptr<TraceDatSource> open(const std::string& path,
                                     std::optional<std::uint64_t> tsc_khz = {}) {
  auto source = open_trace_dat(path, tsc_khz);
  EXPECT_TRUE(source) << source.error().message;
  return source ? std::move(*source) : nullptr;
}

Stream drain_all(std::unique_ptr<Source> source) {
  Stream stream;
  if (!source) return stream;
  Event event;
  while (source->next(event) == Read::kEvent) {
    if (const auto* lost = std::get_if<Lost>(&event.payload)) {
      EXPECT_EQ(event.at, lost->from);
      stream.holes.push_back({lost->from.ns(), lost->to.ns()});
    } else {
      stream.events.push_back(event.at.ns());
    }
  }
  EXPECT_TRUE(source->status()) << source->status().error().message;
  EXPECT_EQ(source->progress(), 1);
  stream.counters = source->counters();
  return stream;
}

Stream drain(const std::string& name, std::optional<std::uint64_t> tsc_khz = {}) {
  return drain_all(open(data_path(name), tsc_khz));
}

class Recordings : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, Recordings, ::testing::ValuesIn(trapline::test::recordings()),
                         trapline::test::test_name);

TEST_P(Recordings, TheRangeIsThatOfTheEvents) {
  auto source = open_trace_dat(data_path(GetParam()), {});
  ASSERT_TRUE(source) << source.error().message;
  const auto range = (*source)->range();
  std::uint64_t first = ~std::uint64_t{0}, last = 0;
  for (Event event; (*source)->next(event) == Read::kEvent;) {
    first = std::min(first, event.at.ns());
    last = std::max(last, event.at.ns());
  }
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first.ns(), first);
  EXPECT_EQ(range->second.ns(), last);
}

TEST_P(Recordings, EventsComeInOrderOfTimeAndHolesBeforeWhatFollowsThem) {
  const auto source = open(data_path(GetParam()));
  ASSERT_TRUE(source);
  Event event;
  Timestamp last;
  std::map<std::uint32_t, Timestamp> last_of_cpu;
  std::map<std::uint32_t, Lost> open_hole;
  while (source->next(event) == Read::kEvent) {
    if (const auto* lost = std::get_if<Lost>(&event.payload)) {
      EXPECT_EQ(lost->from, last_of_cpu[event.cpu]);
      EXPECT_FALSE(open_hole.contains(event.cpu));
      open_hole[event.cpu] = *lost;
      continue;
    }
    ASSERT_GE(event.at, last);
    last = event.at;
    last_of_cpu[event.cpu] = event.at;
    if (const auto found = open_hole.find(event.cpu); found != open_hole.end()) {
      EXPECT_EQ(found->second.to, event.at);
      open_hole.erase(found);
    }
  }
  EXPECT_TRUE(open_hole.empty());
}

// {time, CPU, type}, a loss in its place with a type of its own; those of `types`, if any.
using Place = std::tuple<std::uint64_t, std::uint32_t, int>;
constexpr int kLossType = -1;

std::vector<Place> places(Source& source, const std::set<int>& types = {}) {
  std::vector<Place> places;
  for (Event event; source.next(event) == Read::kEvent;) {
    const int type = std::holds_alternative<Lost>(event.payload) ? kLossType : event.type;
    if (types.empty() || types.contains(type)) places.emplace_back(event.at.ns(), event.cpu, type);
  }
  return places;
}

TEST_P(Recordings, EventsThatAreNotSelectedAreCountedAndChangeNoOther) {
  const auto all = open(data_path(GetParam())), some = open(data_path(GetParam()));
  ASSERT_TRUE(all && some);
  some->select(EventClass::kExits);
  const std::vector<Place> selected = places(*some);
  std::set<int> types{kLossType};
  for (const auto& [at, cpu, type] : selected) types.insert(type);
  EXPECT_EQ(selected, places(*all, types));
  EXPECT_EQ(some->event_counts(), all->event_counts());
  EXPECT_EQ(some->counters().events, all->counters().events);
  EXPECT_EQ(some->counters().gaps, all->counters().gaps);
  EXPECT_EQ(some->counters().first, all->counters().first);
  EXPECT_EQ(some->counters().last, all->counters().last);
}

TEST(TraceDatSource, TheLossRecordingsHaveTheirHoles) {
  const Stream one = drain("svm-lost.dat");
  EXPECT_EQ(one.counters.gaps, 2u);
  EXPECT_EQ(one.counters.gaps_uncounted, 0u);
  EXPECT_EQ(one.counters.lost_events, 345u);
  const Stream two = drain("svm-2vcpu-lost.dat");
  EXPECT_EQ(two.counters.gaps, 15u);
  EXPECT_EQ(two.counters.gaps_uncounted, 3u);
}

// As where the recorder's disk was full, or no page was free: no page has a mark.
TEST(TraceDatSource, LossesThatCpustatAloneTellsAreCounted) {
  for (const char* name : {"svm-mono.dat", "box/demo-v6.dat", "svm-lost.dat"})
    EXPECT_EQ(drain(name).counters.lost_unplaced, 0u) << name;
  const auto with = [](const std::string& name, std::string_view what, std::string_view instead) {
    std::string bytes = trapline::test::contents(data_path(name));
    const auto at = bytes.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    if (at != std::string::npos) bytes.replace(at, what.size(), instead);
    const trapline::test::TemporaryFile file(bytes);
    const Stream stream = drain_all(open(file.path()));
    EXPECT_EQ(stream.holes.size(), drain(name).holes.size());
    return stream.counters.lost_unplaced;
  };
  for (const char* name : {"svm-mono.dat", "box/demo-v6.dat"}) {
    EXPECT_EQ(with(name, "\noverrun: 0\n", "\noverrun: 7\n"), 7u) << name;
    EXPECT_EQ(with(name, "\ndropped events: 0\n", "\ndropped events: 9\n"), 9u) << name;
  }
  // The pages tell of 345.
  EXPECT_EQ(with("svm-lost.dat", "\noverrun: 345\n", "\noverrun: 355\n"), 10u);
  EXPECT_EQ(with("svm-lost.dat", "\noverrun: 345\n", "\noverrun: 145\n"), 0u);
}

TEST(TraceDatSource, EventsOfACpuWithoutDataAreLost) {
  std::string bytes = trapline::test::contents(data_path("svm-linux-2vcpu.dat"));
  // The table's offset and size of CPU 1's data.
  const std::uint64_t entry[] = {1343488, 337817};
  const std::string_view place(reinterpret_cast<const char*>(entry), sizeof entry);
  const auto at = bytes.find(place);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at + sizeof entry[0], sizeof entry[1], sizeof entry[1], '\0');
  const trapline::test::TemporaryFile file(bytes);
  const Stream stream = drain_all(open(file.path()));
  EXPECT_EQ(stream.counters.lost_unplaced, 53'550u);
  EXPECT_LT(stream.events.size(), drain("svm-linux-2vcpu.dat").events.size());
}

// trace-cmd's options DATE, in microseconds, and OFFSET, in nanoseconds, in place of UNAME.
TEST(TraceDatSource, AnOptionsOffsetMovesEveryTime) {
  const Stream plain = drain("svm-lost.dat");
  for (const auto& [option, text] : {std::pair{'\1', "-1000"}, {'\7', "-1000000"}}) {
    std::string bytes = trapline::test::contents(data_path("svm-lost.dat"));
    constexpr std::size_t kHeader = 6, kUnameSize = 41;
    const auto at = bytes.find(std::string_view("\5\0\x29\0\0\0Linux ", kHeader + 6));
    ASSERT_NE(at, std::string::npos);
    bytes[at] = option;
    std::string body(text);
    body.resize(kUnameSize, '\0');
    bytes.replace(at + kHeader, kUnameSize, body);
    const trapline::test::TemporaryFile file(bytes);
    const Stream moved = drain_all(open(file.path()));
    ASSERT_EQ(plain.events.size(), moved.events.size());
    EXPECT_EQ(plain.events.front() - 1'000'000, moved.events.front());
    EXPECT_EQ(plain.events.back() - 1'000'000, moved.events.back());
    ASSERT_EQ(plain.holes.size(), moved.holes.size());
    EXPECT_EQ(plain.holes[1].from - 1'000'000, moved.holes[1].from);
    EXPECT_EQ(plain.holes[1].to - 1'000'000, moved.holes[1].to);
  }
}

TEST(TraceDatSource, CyclesStayCyclesUntilAFrequencyIsGiven) {
  const auto cycles = open(data_path("box/demo-tsc.dat"));
  ASSERT_TRUE(cycles);
  EXPECT_TRUE(cycles->info().cycles);
  EXPECT_EQ(cycles->info().clock, "x86-tsc");
  const Stream raw = drain("box/demo-tsc.dat");
  const Stream ns = drain("box/demo-tsc.dat", 2'000'000);
  ASSERT_EQ(raw.events.size(), ns.events.size());
  EXPECT_EQ(raw.events.front() / 2, ns.events.front());
  EXPECT_EQ(raw.events.back() / 2, ns.events.back());
  const auto refused = open_trace_dat(data_path("svm-mono.dat"), 2'000'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("mono"));
}

// Two blocks of two pages and one of one, of a big-endian machine with pages of 64 KiB; with the
// larger buffer a thread decompresses them.
TEST(PageReader, BlocksOfABigEndianMachineAreRead) {
  constexpr std::uint32_t kPage = 65536;
  std::string bytes;
  const auto put = [&bytes](std::uint32_t number) {
    number = byte_swapped(number);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  put(3);
  char filled = 'a';
  for (const std::uint32_t pages : {2u, 2u, 1u}) {
    std::string plain;
    for (std::uint32_t i = 0; i < pages; ++i) plain.append(kPage, filled++);
    std::string packed(::compressBound(plain.size()), '\0');
    uLongf size = packed.size();
    ASSERT_EQ(::compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                         reinterpret_cast<const Bytef*>(plain.data()), plain.size()),
              Z_OK);
    put(static_cast<std::uint32_t>(size));
    put(static_cast<std::uint32_t>(plain.size()));
    bytes.append(packed.data(), size);
  }
  const trapline::test::TemporaryFile whole(bytes), part(bytes.substr(0, bytes.size() - 1));
  for (const auto* one : {&whole, &part}) {
    const auto file = File::open(one->path());
    ASSERT_TRUE(file);
    const Extent data{0, file->size(), Compression::kZlib, one == &part};
    const WholeBlocks blocks = whole_blocks(*file, data, std::endian::big);
    EXPECT_EQ(blocks.count, one == &part ? 2u : 3u);
    EXPECT_EQ(blocks.all, one != &part);
    for (const std::size_t buffer : {kPage, 2 * kPage}) {
      PageReader reader(*file, data, kPage, buffer, std::endian::big);
      char expected = 'a';
      for (auto page = reader.next(); page && !page->empty(); page = reader.next()) {
        EXPECT_EQ(page->size(), kPage);
        EXPECT_EQ(static_cast<char>(page->back()), expected++);
        EXPECT_EQ(reader.peek().size(), expected == (one == &part ? 'e' : 'f') ? 0 : kPage);
      }
      EXPECT_EQ(expected, one == &part ? 'e' : 'f');
    }
  }
}

TEST(TraceDatSource, TraitsTellTheWitnesses) {
  const auto capabilities = [](const std::string& name) {
    const auto source = open(data_path(name));
    return source ? source->capabilities() : Capabilities{};
  };
  const Capabilities ioctl = capabilities("box/demo-ioctl.dat");
  EXPECT_TRUE(ioctl.kvm_exit && ioctl.run_ioctl && ioctl.reload && ioctl.sched_switch &&
              ioctl.wakeups && ioctl.markers);
  const Capabilities six = capabilities("box/demo-v6.dat");
  EXPECT_TRUE(six.kvm_exit && six.kvm_userspace_exit && six.sched_switch);
  EXPECT_FALSE(six.run_ioctl || six.reload || six.wakeups || six.markers);
  const Capabilities open_ended = capabilities("box/demo-userspace-open.dat");
  EXPECT_TRUE(open_ended.any_kvm && open_ended.kvm_userspace_exit);
  EXPECT_FALSE(open_ended.kvm_exit || open_ended.reload || open_ended.sched_switch);
  const Capabilities none = capabilities("box/no-kvm.dat");
  EXPECT_TRUE(none.sched_switch && none.wakeups);
  EXPECT_FALSE(none.any_kvm || none.kvm_exit || none.kvm_userspace_exit);
  const Capabilities arm = capabilities("arm64/kvm-arm64-mono.dat");
  EXPECT_TRUE(arm.kvm_exit && arm.reload);
  EXPECT_FALSE(arm.run_ioctl);
}

TEST(TraceDatSource, ReasonNamesComeFromTheRecording) {
  const auto svm = open(data_path("svm-mono.dat"));
  ASSERT_TRUE(svm);
  EXPECT_EQ(svm->reason_name({0x7b, kIsaSvm}), "io");
  EXPECT_EQ(svm->reason_name({0x78, kIsaSvm}), "hlt");
  EXPECT_EQ(svm->reason_name({0xffffffff, kIsaSvm}), "invalid_guest_state");
  EXPECT_EQ(svm->reason_name({30, kIsaVmx}), "IO_INSTRUCTION");
  EXPECT_EQ(svm->reason_name({0x80000000 | 33, kIsaVmx}), "INVALID_STATE FAILED_VMENTRY");
  EXPECT_EQ(svm->reason_name({0x7777, kIsaSvm}), "0x7777");
  EXPECT_EQ(svm->reasons().vmx.size(), 62u);
  EXPECT_EQ(svm->reasons().svm.size(), 108u);
  EXPECT_EQ(svm->reason_name({2, ExitReason::kIsaUserspace}), "KVM_EXIT_IO");
  const auto arm = open(data_path("arm64/kvm-arm64-mono.dat"));
  ASSERT_TRUE(arm);
  EXPECT_EQ(arm->reason_name({2, kIsaArm64, 0x24}), "DABT_LOW");
  EXPECT_EQ(arm->reason_name({0, kIsaArm64}), "IRQ");
  EXPECT_EQ(arm->reasons().arm64_class.size(), 34u);
}

// trace-cmd split writes no TRACECLOCK.
TEST(TraceDatClock, IsTheBuffersWhereTheFileHasNoTraceClock) {
  using namespace std::string_view_literals;
  std::string bytes = trapline::test::contents(data_path("svm-mono.dat"));
  const auto of_buffer = bytes.rfind("\0mono\0"sv);
  ASSERT_NE(of_buffer, std::string::npos);
  bytes.replace(of_buffer, 5, "\0boot"sv);
  const trapline::test::TemporaryFile both(bytes);
  EXPECT_EQ(open(both.path())->info().clock, "mono");
  const auto option = bytes.find("\4\0C\0\0\0local global"sv);
  ASSERT_NE(option, std::string::npos);
  bytes[option] = '\x7f';  // an option that is passed over
  const trapline::test::TemporaryFile split(bytes);
  EXPECT_EQ(open(split.path())->info().clock, "boot");
}

}  // namespace
}  // namespace trapline::trace_dat
