#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "backend_ftrace/base/text_file.h"
#include "plugin/format/directory.h"
#include "plugin/format/directory_writer.h"
#include "plugin/record_buffer.h"
#include "tests/plugin/qemu_run.h"
#include "tests/support/require.h"

namespace trapline::test {
namespace {

using ::testing::ElementsAre;

TEST(RecordTest, NoFieldSpillsIntoItsNeighbour) {
  const Record record(RecordType::kExit, 7, 5000, ~std::uint64_t{0});
  EXPECT_EQ(record.depth(), 1023u);
  EXPECT_EQ(record.address(), 0xffffffffffffu);
  EXPECT_EQ(record.type(), RecordType::kExit);
  EXPECT_TRUE(record.valid());
  EXPECT_FALSE(record.has_payload());
}

class DirectoryTest : public ::testing::Test {
 protected:
  void make() {
    UftraceInfo info;
    info.features = kOurFeatures;
    info.exename = "qemu";
    auto made = DirectoryWriter::create(path_, info);
    ASSERT_TRUE(made) << made.error().message;
    writer_.emplace(std::move(*made));
    ASSERT_TRUE(writer_->write_symbols({{{"guest.sym",
                                          "0000000000000000 T main\n0000000000000100 T work\n"
                                          "0000000000000200 ? __sym_end\n"}},
                                        {{0x400000, 0x401000, "r-xp", "/vm/guest", ""}}}));
    ASSERT_TRUE(writer_->add_task(100, "cpu0", 1'000'000'000));
  }
  void append(std::initializer_list<Record> records, const std::string& more = "") {
    auto fd = writer_->open_data(100);
    ASSERT_TRUE(fd);
    for (const Record& record : records)
      ASSERT_EQ(write_bytes(fd->get(), {reinterpret_cast<const char*>(&record), sizeof record}), 0);
    ASSERT_EQ(write_bytes(fd->get(), more), 0);
  }
  std::vector<std::uint64_t> times(std::uint64_t* dropped = nullptr) {
    auto directory = DataDirectory::open(path_);
    EXPECT_TRUE(directory) << directory.error().message;
    auto reader = directory->records(100);
    std::vector<std::uint64_t> out;
    for (auto next = reader->next(); next && *next; next = reader->next())
      out.push_back((*next)->time());
    if (dropped != nullptr) *dropped = reader->dropped_bytes();
    return out;
  }
  // What is in the folder that holds the directory.
  std::size_t names_beside() const {
    const std::filesystem::directory_iterator all(folder_.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  TemporaryFolder folder_;
  std::string path_ = folder_ / "data";
  std::optional<DirectoryWriter> writer_;
};

TEST_F(DirectoryTest, UftraceReadsWhatWasWritten) {
  make();
  append({{RecordType::kEntry, 2'000'000'000, 0, 0x400000},
          {RecordType::kEntry, 2'000'001'000, 1, 0x400100},
          {RecordType::kExit, 2'000'002'000, 1, 0x400100},
          {RecordType::kExit, 2'000'003'000, 0, 0x400000}});
  const Output replay = run({"uftrace", "replay", "--no-pager", "-d", path_, "-f", "none"});
  EXPECT_EQ(replay.out, "main() {\n  work();\n} /* main */\n") << replay.err;
  EXPECT_EQ(run({"uftrace", "dump", "--chrome", "-d", path_}).exit_code(), 0);
  EXPECT_EQ(run({"uftrace", "graph", "--no-pager", "-d", path_}).exit_code(), 0);
  auto directory = DataDirectory::open(path_);
  ASSERT_TRUE(directory);
  EXPECT_EQ(directory->task_name(100), "cpu0");
  EXPECT_EQ(directory->session_of(100), "0");
  auto symbols = directory->symbols("0");
  ASSERT_TRUE(symbols);
  EXPECT_EQ(symbols->find(0x400105)->name, "work");
}

TEST_F(DirectoryTest, ACutOffRecordIsTheEndAndIsCounted) {
  make();
  append({{RecordType::kEntry, 1, 0, 0x400000}}, "12345");
  std::uint64_t dropped = 0;
  EXPECT_THAT(times(&dropped), ElementsAre(1));
  EXPECT_EQ(dropped, 5u);
}

TEST_F(DirectoryTest, DamageIsSkippedToTheNextRecordAndCounted) {
  make();
  append({{RecordType::kEntry, 5, 0, 0x400000}, Record(1, 0), {RecordType::kExit, 9, 0, 0x400000}});
  std::uint64_t dropped = 0;
  EXPECT_THAT(times(&dropped), ElementsAre(5, 9));
  EXPECT_EQ(dropped, 16u);
}

TEST_F(DirectoryTest, AnEarlierRecordingIsReplacedAndAnythingElseIsRefused) {
  make();
  append({{RecordType::kEntry, 5, 0, 0x400000}});
  make();
  EXPECT_THAT(times(), ElementsAre(5));  // the earlier one, until the new one has begun
  ASSERT_TRUE(writer_->commit());
  EXPECT_FALSE(std::filesystem::exists(path_ + "/100.dat"));
  append({{RecordType::kEntry, 7, 0, 0x400000}});
  EXPECT_THAT(times(), ElementsAre(7));
  EXPECT_EQ(names_beside(), 1u);
  const std::string other = folder_ / "other";
  std::filesystem::create_directory(other);
  std::ofstream(other + "/precious") << "x";
  EXPECT_FALSE(DirectoryWriter::create(other, {}));
  std::ofstream(other + "/info") << "about my files";
  EXPECT_FALSE(DirectoryWriter::create(other, {}));
  std::filesystem::remove(other + "/info");
  std::filesystem::create_directory(other + "/info");
  EXPECT_FALSE(DirectoryWriter::create(other, {}));
  EXPECT_TRUE(std::filesystem::exists(other + "/precious"));
}

TEST_F(DirectoryTest, ANewRecordingThatDoesNotBeginLeavesTheEarlierOne) {
  make();
  append({{RecordType::kEntry, 5, 0, 0x400000}});
  std::ofstream(path_ + "/notes") << "mine";
  make();
  writer_->discard();
  EXPECT_THAT(times(), ElementsAre(5));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/notes"));
  EXPECT_EQ(names_beside(), 1u);
}

TEST_F(DirectoryTest, FilesThatAreOfNoRecordingOutliveTheEarlierOne) {
  make();
  for (const char* name : {"/notes", "/notes.tmp", "/notes.new", "/info.new", "/2.dat.new"})
    std::ofstream(path_ + name) << "mine";
  make();
  ASSERT_TRUE(writer_->commit());
  for (const char* name : {"/notes", "/notes.tmp", "/notes.new"})
    EXPECT_TRUE(std::filesystem::exists(path_ + name)) << name;
  for (const char* name : {"/info.new", "/2.dat.new"})  // a killed writer's
    EXPECT_FALSE(std::filesystem::exists(path_ + name)) << name;
  EXPECT_EQ(names_beside(), 1u);
}

TEST_F(DirectoryTest, ALinkToARecordingStaysALink) {
  make();
  append({{RecordType::kEntry, 5, 0, 0x400000}});
  const std::string link = folder_ / "link";
  std::filesystem::create_symlink(path_, link);
  auto writer = DirectoryWriter::create(link, {});
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->commit());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/100.dat"));
}

// Root's, in a folder whose user changes meanwhile what the name leads to.
TEST_F(DirectoryTest, ALinkThatIsPutInItsPlaceLeadsNowhere) {
  constexpr uid_t kUser = 54321;
  TRAPLINE_REQUIRE(::geteuid() == 0, "needs root");
  namespace fs = std::filesystem;
  const std::string victim = folder_ / "victim", his = folder_ / "his", link = his + "/link";
  fs::create_directory(victim);
  UftraceInfo roots;
  roots.exename = "root's";
  std::ofstream(victim + "/info") << format_info(roots);
  fs::create_directory(his);
  ASSERT_EQ(::chown(his.c_str(), kUser, kUser), 0);
  path_ = his + "/data";
  std::atomic<bool> ended{false};
  std::thread attacker([&] {
    while (!ended) {
      (void)::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
    }
  });
  for (int i = 0; i < 100; ++i) {
    std::error_code swapped;  // while it was removed
    while (!fs::is_empty(his)) {
      for (const auto& left : fs::directory_iterator(his)) fs::remove_all(left.path(), swapped);
    }
    fs::create_directory(path_);
    std::ofstream(path_ + "/info") << format_info({});
    fs::create_directory_symlink(victim, his + "/fresh");
    EXPECT_EQ(::lchown((his + "/fresh").c_str(), kUser, kUser), 0);
    EXPECT_EQ(::rename((his + "/fresh").c_str(), link.c_str()), 0);
    auto made = DirectoryWriter::create(path_, {});
    if (made) (void)made->commit();
  }
  ended = true;
  attacker.join();
  EXPECT_EQ(read_text(victim + "/info").value_or(""), format_info(roots));
  EXPECT_EQ(names_beside(), 2u) << "the victim and his folder";
}

TEST_F(DirectoryTest, TasksHaveTheSessionThatCoversTheirStart) {
  make();
  std::ofstream(path_ + "/task.txt")
      << "SESS timestamp=1.0 pid=1 sid=a exename=\"/bin/x\"\n"
         "SESS timestamp=5.0 pid=1 sid=b exename=\"/bin/y\"\n"
         "TASK timestamp=3.0 tid=10 pid=1\nTASK timestamp=6.0 tid=11 pid=1\n"
         "TASK timestamp=0.5 tid=12 pid=1\nFORK timestamp=7.0 pid=2 ppid=1\n"
         "TASK timestamp=7.0 tid=20 pid=2\nTASK timestamp=8.0 tid=30 pid=3\n";
  const auto directory = DataDirectory::open(path_);
  ASSERT_TRUE(directory) << directory.error().message;
  EXPECT_EQ(directory->session_of(10), "a");
  EXPECT_EQ(directory->session_of(11), "b");
  EXPECT_EQ(directory->session_of(12), "a") << "none covers it: the first";
  EXPECT_EQ(directory->session_of(20), "b") << "a fork has its parent's";
  EXPECT_EQ(directory->session_of(30), "");
  EXPECT_EQ(directory->task_name(11), "x");
  EXPECT_EQ(directory->task_name(20), "");
}

TEST_F(DirectoryTest, InfoIsNotWrittenForEachTaskAndNoTaskIsMissing) {
  make();
  std::size_t written = 0;
  for (std::uint32_t tid = 1000; tid < 5000; ++tid) {
    const auto before = std::filesystem::last_write_time(path_ + "/info");
    ASSERT_TRUE(writer_->add_task(tid, "k-1", 1'000'000'000 + tid));
    written += before != std::filesystem::last_write_time(path_ + "/info");
  }
  EXPECT_LT(written, 120u);
  ASSERT_TRUE(writer_->open_data(4999));
  const auto killed = DataDirectory::open(path_);
  ASSERT_TRUE(killed) << killed.error().message;
  EXPECT_LT(killed->info().tids.size(), 4001u);
  EXPECT_THAT(killed->tids(), ElementsAre(4999)) << "of those with data";
  ASSERT_TRUE(writer_->finish(1));
  EXPECT_EQ(DataDirectory::open(path_)->info().tids.size(), 4001u);
}

TEST_F(DirectoryTest, ASymbolIsFoundInTheBinaryThatStartsNearest) {
  make();
  std::ofstream(path_ + "/sid-1.map")
      << "000000400000-000000401000 r-xp 00000000 00:00 0 /vm/guest\n"
         "000000500000-000000501000 r-xp 00000000 00:00 0 /vm/other\n"
         "000000600000-000000601000 r-xp 00000000 00:00 0 /other/guest\n";
  std::ofstream(path_ + "/other.sym") << "0000000000000010 T other\n0000000000000020 ? __sym_end\n";
  auto directory = DataDirectory::open(path_);
  ASSERT_TRUE(directory);
  const auto symbols = directory->symbols("1");
  ASSERT_TRUE(symbols);
  ASSERT_NE(symbols->find(0x400100), nullptr);
  EXPECT_EQ(symbols->find(0x400100)->name, "work");
  ASSERT_NE(symbols->find(0x500018), nullptr);
  EXPECT_EQ(symbols->find(0x500018)->name, "other");
  EXPECT_EQ(symbols->find(0x500020), nullptr);
  EXPECT_EQ(symbols->find(0x600100), nullptr) << "guest.sym is the first binary's of that name";
  EXPECT_EQ(symbols->find(0x3fffff), nullptr);
}

TEST_F(DirectoryTest, DamagedTextFilesAreErrorsWithTheLine) {
  make();
  std::ofstream(path_ + "/task.txt")
      << "SESS timestamp=1.000000001 pid=1 sid=0 exename=\"a\"\nTASK timestamp=x\n";
  auto directory = DataDirectory::open(path_);
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, ::testing::HasSubstr("task.txt:2"));
  std::ofstream(path_ + "/info") << "Ftrace!";
  EXPECT_FALSE(DataDirectory::open(path_));
}

// A disk that takes only so many records.
class SmallDisk final : public RecordSink {
 public:
  std::size_t append(std::uint32_t, std::span<const Record> records) override {
    const std::size_t count = std::min(room, records.size());
    written.insert(written.end(), records.begin(),
                   records.begin() + static_cast<std::ptrdiff_t>(count));
    room -= count;
    return count * sizeof(Record);
  }
  void release(std::uint32_t) override { ++released; }
  std::size_t room = 0;
  int released = 0;
  std::vector<Record> written;
};

TEST(RecordBufferTest, AfterAFullDiskTheFileIsBalancedAndSaysWhatWasLost) {
  SmallDisk disk;
  disk.room = 3;
  RecordBuffer buffer(1, disk, 64);
  std::uint64_t time = 0, depth = 0;
  const auto enter = [&](std::uint64_t f) { buffer.add(RecordType::kEntry, ++time, depth++, f); };
  const auto leave = [&](std::uint64_t f) { buffer.add(RecordType::kExit, ++time, --depth, f); };
  enter(1), enter(2), enter(3);
  for (int i = 0; i < 200; ++i) enter(4), leave(4);
  leave(3), leave(2), enter(5);
  disk.room = 1000;
  for (int i = 0; i < 40; ++i) enter(6), leave(6);
  leave(5), leave(1);
  buffer.stop();
  std::vector<std::uint64_t> open;
  std::uint64_t lost = 0, last = 0;
  for (const Record& record : disk.written) {
    EXPECT_GE(record.time(), last);
    last = record.time();
    if (record.type() == RecordType::kEntry) open.push_back(record.address());
    if (record.type() == RecordType::kLost) lost += record.address();
    if (record.type() == RecordType::kExit) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), record.address());
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_GT(lost, 300u);
  EXPECT_EQ(buffer.lost(), lost);
  EXPECT_EQ(lost + disk.written.size() -
                static_cast<std::size_t>(
                    std::count_if(disk.written.begin(), disk.written.end(),
                                  [](const Record& r) { return r.type() == RecordType::kLost; })),
            3u + 400 + 3 + 80 + 2);
}

TEST(RecordBufferTest, CallsTooDeepToKeepAreCountedOnce) {
  SmallDisk disk;  // full
  RecordBuffer buffer(1, disk, 64);
  for (std::uint64_t i = 0; i < 300; ++i) buffer.add(RecordType::kEntry, i, i, i);
  disk.room = 1000;
  buffer.flush();
  const auto lost = disk.written.front();
  ASSERT_EQ(lost.type(), RecordType::kLost);
  EXPECT_EQ(buffer.lost(), lost.address());
  EXPECT_EQ(disk.written.size() - 1 + lost.address(), 300u);
  // At the end no record tells it any more.
  disk.room = 0;
  buffer.add(RecordType::kEntry, 300, 300, 300);
  buffer.stop();
  EXPECT_EQ(buffer.lost(), lost.address() + 1);
}

TEST(RecordBufferTest, AnIdleTaskGivesItsBufferBack) {
  SmallDisk disk;
  disk.room = 10;
  RecordBuffer buffer(1, disk);
  buffer.add(RecordType::kEntry, 5, 0, 1);
  buffer.release();
  EXPECT_EQ(disk.released, 1);
  buffer.add(RecordType::kExit, 4, 0, 1);
  buffer.flush();
  EXPECT_EQ(disk.written.back().time(), 5u);  // never before the last one
}

}  // namespace
}  // namespace trapline::test
