// The files that pages are streamed to, and bringing them to the disk.
#include "merge/record/page_files.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "merge/record/disk_sync.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kPage = 4096, kRegion = 1u << 20, kPagesInRegion = kRegion / kPage;

class PageFilesTest : public ::testing::Test {
 protected:
  [[nodiscard]] Result<PageFiles> open(std::uint64_t largest, std::size_t page_size = kPage) const {
    return PageFiles::open(session_, "HEAD", {page_size, 0, 2, "mono", "Linux", "trapline", {}},
                           largest);
  }
  static std::vector<std::byte> page(unsigned number, std::size_t size = kPage) {
    return std::vector<std::byte>(size, static_cast<std::byte>(1 + number % 250));
  }
  [[nodiscard]] std::vector<trace_dat::StreamedPages> on_disk() const {
    const auto stream = session_.open_file(trace_dat::kStream, O_RDONLY);
    return *trace_dat::look_at_pages(session_, *trace_dat::read_start(session_), stream->get());
  }

  test::TemporaryFolder temporary_;
  Folder session_ = [this] {
    fs::create_directories(temporary_ / "raw");
    return std::move(*Folder::open(temporary_.path()));
  }();
};

TEST_F(PageFilesTest, AFullRegionGoesOnInAFileAndIsReadAcross) {
  auto files = open(kRegion);
  ASSERT_TRUE(files);
  TRAPLINE_REQUIRE(files->regions().any(), "needs a file system that closes holes (ext4, xfs)");
  for (unsigned i = 0; i < kPagesInRegion + 2; ++i) ASSERT_TRUE(files->page(1, page(i)));
  EXPECT_THAT(files->sizes(), ElementsAre(0, kRegion + 2 * kPage));
  EXPECT_EQ(files->files().size(), 2u);
  const std::vector<int> all = files->files();  // the file of regions, and the CPU's own
  for (unsigned i = 0; i < 4; ++i) {
    std::vector<std::byte> one(kPage);
    const std::uint64_t at =
        i < 2 ? files->regions().at(1) + kRegion - (2 - i) * kPage : (i - 2) * kPage;
    ASSERT_EQ(::pread(all[i / 2], one.data(), kPage, static_cast<off_t>(at)), kPage);
    EXPECT_EQ(one, page(kPagesInRegion - 2 + i)) << i;
  }
  EXPECT_EQ(on_disk()[1].in_region, kRegion);
  EXPECT_EQ(on_disk()[1].in_file, 2 * kPage);
  EXPECT_EQ(files->cut(1, kRegion - kPage), 3 * kPage);
  EXPECT_EQ(on_disk()[1].in_region, kRegion - kPage);
  EXPECT_EQ(on_disk()[1].in_file, 0u);
}

TEST_F(PageFilesTest, APageOfSeveralBlocksThatIsCutOffIsLeftOut) {
  auto files = open(~std::uint64_t{0}, 65536);
  ASSERT_TRUE(files);
  TRAPLINE_REQUIRE(files->regions().any(), "needs a file system that closes holes (ext4, xfs)");
  ASSERT_TRUE(files->page(0, page(1, 65536)));
  const auto place = files->place(0);
  const auto half = page(2, 32768);
  ASSERT_EQ(::pwrite(place->fd, half.data(), half.size(), static_cast<off_t>(place->offset)),
            32768);
  EXPECT_EQ(on_disk()[0].in_region, 65536u);
}

// A write beyond the limit would end the process with SIGXFSZ.
TEST_F(PageFilesTest, ALimitOnFileSizesIsKept) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{64u << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto files = open(~std::uint64_t{0});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(files);
  EXPECT_FALSE(files->regions().any());
  EXPECT_TRUE(files->page(0, page(1)));
  EXPECT_EQ(on_disk()[0].in_file, kPage);
}

TEST_F(PageFilesTest, NothingIsToldDurableAfterASyncThatFailed) {
  auto files = open(0);
  ASSERT_TRUE(files && files->page(0, page(1)));
  DiskSync sync(std::move(*session_.again()), {});
  sync.ask({files->files(), files->sizes(), {{"text", "small"}}});
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);  // cannot be synced
  const UniqueFd out(pipe[0]), in(pipe[1]);
  while (sync.durable().empty()) ::usleep(1000);
  ASSERT_FALSE(sync.error());
  ASSERT_TRUE(files->page(0, page(2)));
  sync.ask({{in.get()}, files->sizes(), {}});
  while (!sync.error()) ::usleep(1000);
  EXPECT_THAT(sync.error()->message, HasSubstr("could not be brought to the disk"));
  sync.ask({files->files(), files->sizes(), {}});
  sync.stop();
  EXPECT_THAT(sync.durable(), ElementsAre(kPage, 0));
  EXPECT_EQ(*session_.read("text"), "small");
}

TEST_F(PageFilesTest, ASessionThatIsRemovedIsNotDurable) {
  auto files = open(0);
  ASSERT_TRUE(files && files->page(0, page(1)));
  DiskSync sync(std::move(*session_.again()), {});
  ASSERT_TRUE(session_.remove_tree("raw"));
  sync.ask({files->files(), files->sizes(), {}});
  sync.stop();
  ASSERT_TRUE(sync.error());
  EXPECT_THAT(sync.error()->message, HasSubstr("was removed while trapline recorded into it"));
  EXPECT_TRUE(sync.durable().empty());
}

}  // namespace
}  // namespace trapline::record
