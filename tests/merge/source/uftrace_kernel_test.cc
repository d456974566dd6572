// The kernel's function graph in a uftrace directory: the header's text, and pages that are
// damaged.
#include "merge/source/uftrace/kernel_functions.h"
#include "tests/support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

namespace trapline {
namespace {

namespace fs = std::filesystem;

std::string real_folder() {
  return std::string(TRAPLINE_SOURCE_DIR) + "/tests/merge/kernel-calls/uftrace.data";
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class UftraceKernelTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::copy_file(real_folder() + "/kernel_header", folder_ + "/kernel_header");
    pages_ = read(real_folder() + "/kernel-cpu0.dat");
    ASSERT_GT(pages_.size(), 4 * 4096u);
  }
  // Writes the pages and reads them to the end.
  std::vector<CpuItem> calls() {
    std::ofstream(folder_ + "/kernel-cpu3.dat", std::ios::binary) << pages_;
    auto readers = KernelCallReader::open_all(folder_);
    EXPECT_TRUE(readers);
    std::vector<CpuItem> all;
    if (!readers || readers->empty()) return all;
    while (true) {
      auto call = readers->front().next();
      EXPECT_TRUE(call);
      if (!call || !*call) break;
      all.push_back(**call);
    }
    damaged_ = readers->front().damaged();
    losses_ = readers->front().take_losses();
    return all;
  }
  test::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
  std::string pages_;
  bool damaged_ = false;
  LossCounts losses_;
};

TEST(KernelFormatTest, TakesIdsAndOffsetsFromTheText) {
  const auto parsed = KernelFormat::parse("kernel_header", read(real_folder() + "/kernel_header"));
  ASSERT_TRUE(parsed && *parsed);
  const KernelFormat* format = &**parsed;
  EXPECT_EQ(format->page_size, 4096u);
  EXPECT_EQ(format->formats->type(events::funcgraph_entry), 11);
  EXPECT_EQ(format->formats->type(events::funcgraph_exit), 10);
  const kernel_events::Schema& exit = format->formats->schemas()[10];
  EXPECT_EQ(exit.fields[0].offset, 8u);
  EXPECT_EQ(exit.fields[1].offset, 16u);
}

bool is_none(std::string_view header) {
  const auto format = KernelFormat::parse("kernel_header", header);
  return format && !*format;
}

TEST(KernelFormatTest, WithoutAFunctionGraphOrOfOtherMachinesThereIsNone) {
  std::string text = read(real_folder() + "/kernel_header");
  EXPECT_TRUE(is_none(""));
  std::string big = text;
  big.replace(big.find("ENDIAN: LE"), 10, "ENDIAN: BE");
  EXPECT_TRUE(is_none(big));
  EXPECT_TRUE(is_none(text.substr(0, text.find("name: funcgraph_exit"))));
  std::string far = text;
  far.replace(far.find("offset:8;\tsize:8;\tsigned:0;\n\tfield:int depth"), 9, "offset:9999999;");
  EXPECT_TRUE(is_none(far));
}

TEST_F(UftraceKernelTest, EveryFunctionIsEnteredAndLeftInOrder) {
  const auto all = calls();
  EXPECT_FALSE(damaged_);
  EXPECT_GT(all.size(), 600u);
  std::uint64_t last = 0;
  for (const CpuItem& call : all) {
    EXPECT_EQ(call.cpu, 3);
    EXPECT_GE(call.time, last);
    EXPECT_LE(call.depth, 1u);
    EXPECT_EQ(call.function >> 63, 1u);
    last = call.time;
  }
}

TEST_F(UftraceKernelTest, AFileThatWasCutOffEndsThereAndIsDamaged) {
  const std::size_t whole = calls().size();
  pages_.resize(pages_.size() - 100);
  EXPECT_LT(calls().size(), whole);
  EXPECT_TRUE(damaged_);
}

TEST_F(UftraceKernelTest, LossesAreCounted) {
  std::uint64_t commit = 0;
  std::memcpy(&commit, pages_.data() + 4096 + 8, 8);
  commit |= std::uint64_t{1} << 31;
  std::memcpy(pages_.data() + 4096 + 8, &commit, 8);
  (void)calls();
  EXPECT_EQ(losses_.gaps, 1u);
  EXPECT_EQ(losses_.gaps_uncounted, 1u);
}

TEST_F(UftraceKernelTest, APageFromThePastIsALoss) {
  const std::size_t whole = calls().size();
  pages_ += pages_.substr(0, 4096);
  EXPECT_EQ(calls().size(), whole);
  EXPECT_EQ(losses_.gaps_uncounted, 1u);
}

TEST_F(UftraceKernelTest, AfterADamagedPageTheNextOnesAreRead) {
  const std::size_t whole = calls().size();
  const std::string good = pages_;
  pages_ = good.substr(0, 4096);
  const std::size_t first = calls().size();
  pages_ = good;
  std::memset(pages_.data() + 8, 0xff, 8);  // a length that cannot be
  EXPECT_EQ(calls().size(), whole - first);
  EXPECT_EQ(losses_.gaps_uncounted, 1u);
  EXPECT_FALSE(damaged_);
}

TEST_F(UftraceKernelTest, DamageEndsTheFileNeverTheProgram) {
  const std::string good = pages_;
  const std::size_t whole = calls().size();
  std::mt19937 random(7);
  int damaged = 0;
  for (int i = 0; i < 300; ++i) {
    pages_ = good;
    for (int changes = 0; changes < 20; ++changes) {
      pages_[random() % pages_.size()] = static_cast<char>(random());
    }
    // What can be read is of the file's CPU and in order, and no more than its bytes can hold.
    std::uint64_t last = 0;
    const auto read = calls();
    EXPECT_LE(read.size(), pages_.size() / 8);
    for (const CpuItem& call : read) {
      EXPECT_EQ(call.cpu, 3);
      EXPECT_GE(call.time, last);
      last = call.time;
    }
    damaged += damaged_ || losses_.gaps > 0 || read.size() != whole ? 1 : 0;
  }
  EXPECT_GT(damaged, 100);
}

}  // namespace
}  // namespace trapline
