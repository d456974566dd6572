// Files below a folder that somebody else can write into as well.
#include "backend_ftrace/base/folder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backend_ftrace/base/text_file.h"
#include "tests/support/require.h"
#include "tests/support/temporary_folder.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    fs::create_directories(temporary_ / "in/raw");
    fs::create_directories(temporary_ / "out");
    std::ofstream(outside_) << "outside";
  }
  [[nodiscard]] Folder folder() const { return *Folder::open(temporary_ / "in"); }
  void link(const std::string& name, const std::string& to) const {
    fs::create_symlink(to, temporary_ / ("in/" + name));
  }
  [[nodiscard]] std::string text(const std::string& path) const {
    return read_text(path).value_or("none");
  }

  test::TemporaryFolder temporary_;
  const std::string outside_ = temporary_ / "out/file";
};

TEST_F(FolderTest, MakesReplacesReadsAndRemovesFilesBelowIt) {
  const Folder in = folder();
  ASSERT_TRUE(in.replace("raw/a", "one"));
  ASSERT_TRUE(in.replace("raw/a", "two", 0600, Durable::kYes));
  EXPECT_EQ(in.read("raw/a").value_or(""), "two");
  EXPECT_EQ(in.look_at("raw/a")->st_mode & 07777, 0600u);
  EXPECT_FALSE(in.create("raw/a")) << "it is there";
  ASSERT_TRUE(in.rename("raw/a", "b"));
  EXPECT_TRUE(in.has_file("b"));
  EXPECT_THAT(*in.names(), UnorderedElementsAre("raw", "b"));
  EXPECT_TRUE(in.remove("b"));
  EXPECT_TRUE(in.remove("b")) << "there is none";
  EXPECT_TRUE(in.remove_tree("raw"));
  EXPECT_TRUE(in.names()->empty());
  EXPECT_TRUE(in.sync());
}

TEST_F(FolderTest, FilesGrowChangePlacesAndMove) {
  const Folder in = folder();
  for (const char* const more : {"one ", "two"}) {
    const auto file = in.open_to_append("grows");
    ASSERT_TRUE(file && write_all(file->get(), more, "grows"));
  }
  ASSERT_TRUE(in.replace("other", "other"));
  ASSERT_TRUE(in.exchange("grows", "other"));
  EXPECT_EQ(in.read("other").value_or(""), "one two");
  EXPECT_EQ(in.read("grows").value_or(""), "other");
  const Folder out = *Folder::open(temporary_ / "out");
  ASSERT_TRUE(in.replace("file", "here"));
  EXPECT_FALSE(in.move_to(out, "file")) << "there is one";
  ASSERT_TRUE(in.move_to(out, "other"));
  EXPECT_EQ(text(temporary_ / "out/other"), "one two");
  EXPECT_EQ(text(outside_), "outside");
}

TEST_F(FolderTest, MissingFoldersAreMade) {
  ASSERT_TRUE(Folder::open_or_make(temporary_ / "in/a/b/"));
  EXPECT_TRUE(fs::is_directory(temporary_ / "in/a/b"));
  EXPECT_TRUE(Folder::open_or_make(temporary_ / "in/a/b"));
  std::ofstream(temporary_ / "in/file") << "file";
  EXPECT_FALSE(Folder::open_or_make(temporary_ / "in/file/below"));
}

TEST_F(FolderTest, OnlyALinkThatIsRootsIsFollowedForRoot) {
  const Folder in = folder();
  link("link", outside_);
  EXPECT_EQ(in.followed("link"), outside_);
  EXPECT_EQ(in.followed("raw"), std::nullopt);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::lchown((temporary_ / "in/link").c_str(), 65534, 65534), 0);
  EXPECT_EQ(in.followed("link"), std::nullopt) << "somebody else's";
  link("roots", outside_);
  fs::permissions(temporary_ / "in", fs::perms::all);
  EXPECT_EQ(in.followed("roots"), std::nullopt) << "others could swap it";
}

TEST_F(FolderTest, ALinkLeadsNowhere) {
  const Folder in = folder();
  link("file", outside_);
  link("file.new", outside_);
  link("folder", temporary_ / "out");
  EXPECT_FALSE(in.open_file("file", O_RDONLY));
  EXPECT_FALSE(in.read("folder/file"));
  EXPECT_FALSE(in.create("folder/other"));
  EXPECT_FALSE(in.replace("folder/file", "ours"));
  EXPECT_FALSE(in.rename("folder/file", "stolen"));
  EXPECT_FALSE(in.remove("folder/file"));
  EXPECT_FALSE(in.open_folder("folder"));
  EXPECT_FALSE(in.has_file("file"));
  EXPECT_FALSE(in.has_folder("folder"));
  ASSERT_TRUE(in.replace("file", "ours")) << "the link itself is replaced";
  EXPECT_TRUE(in.has_file("file"));
  ASSERT_TRUE(in.remove_tree("folder"));
  EXPECT_EQ(text(outside_), "outside");
  EXPECT_FALSE(fs::exists(temporary_ / "out/other"));
}

TEST_F(FolderTest, ATreeIsRemovedWithItsLinksAndNotWhatTheyLeadTo) {
  const Folder in = folder();
  fs::create_directories(temporary_ / "in/raw/below");
  link("raw/below/link", temporary_ / "out");
  ASSERT_TRUE(in.remove_tree("raw"));
  EXPECT_FALSE(in.has("raw"));
  EXPECT_EQ(text(outside_), "outside");
}

TEST_F(FolderTest, NamesLeadNowhereAboveIt) {
  const Folder in = folder();
  for (const std::string name : {"../out/file", "raw/../../out/file", "/etc/passwd", ""}) {
    EXPECT_FALSE(in.open_file(name, O_RDONLY)) << name;
    EXPECT_FALSE(in.replace(name, "ours")) << name;
    EXPECT_FALSE(in.remove(name)) << name;
  }
  EXPECT_FALSE(in.remove("..")) << "nor the folder itself";
  EXPECT_EQ(text(outside_), "outside");
}

TEST_F(FolderTest, WhatCannotBeLookedAtIsNotTakenForMissing) {
  const Folder in = folder();
  ASSERT_TRUE(in.replace("raw/file", "ours"));
  EXPECT_TRUE(in.finds("raw").value());
  EXPECT_TRUE(in.finds("raw/file").value());
  EXPECT_FALSE(in.finds("raw/other").value());
  EXPECT_FALSE(in.finds("raw/file/below").value());
  const std::string long_name(300, 'x');
  EXPECT_FALSE(in.has(long_name));
  EXPECT_THAT(in.finds(long_name).error().message, HasSubstr("File name too long"));
}

TEST_F(FolderTest, AFifoIsRefusedWithoutAWait) {
  ASSERT_EQ(::mkfifo((temporary_ / "in/fifo").c_str(), 0600), 0);
  const auto file = folder().open_file("fifo", O_RDONLY);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("fifo: not a file"));
}

// What somebody else's folder does to root; the user is nobody's in particular.
class RootsFolderTest : public FolderTest {
 protected:
  static constexpr uid_t kUser = 54321;
  void SetUp() override {
    TRAPLINE_REQUIRE(::geteuid() == 0, "needs root");
    ASSERT_EQ(::chmod(temporary_.path().c_str(), 0755), 0);
    ASSERT_EQ(::chown((temporary_ / "in").c_str(), kUser, kUser), 0);
    ASSERT_EQ(::chown((temporary_ / "in/raw").c_str(), kUser, kUser), 0);
  }
  const Identity user_{kUser, kUser, {}};
};

TEST_F(RootsFolderTest, FilesAreMadeWithTheRightsOfItsIdentity) {
  const auto in = Folder::open(temporary_ / "in", user_);
  ASSERT_TRUE(in) << in.error().message;
  ASSERT_TRUE(in->replace("raw/a", "text"));
  EXPECT_EQ(in->look_at("raw/a")->st_uid, kUser);
  EXPECT_EQ(in->make_folder("b")->status().st_gid, kUser);
  ASSERT_EQ(::chmod((temporary_ / "out").c_str(), 0700), 0);
  EXPECT_FALSE(Folder::open(temporary_ / "out", user_)->create("a"));
  EXPECT_EQ(acting_uid(), 0u);
  const auto out = Folder::open(temporary_ / "out");
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(::geteuid(), 0u);
}

TEST_F(RootsFolderTest, RootFollowsLinksThatOnlyRootCanHaveMade) {
  fs::create_symlink(temporary_ / "out", temporary_ / "roots");
  EXPECT_TRUE(Folder::open(temporary_ / "roots"));
  link("roots", temporary_ / "out");
  const auto in_his = Folder::open(temporary_ / "in/roots");
  ASSERT_FALSE(in_his) << "he can replace it";
  EXPECT_THAT(in_his.error().message, HasSubstr("a link is in the way"));
  EXPECT_FALSE(replace_file(temporary_ / "in/roots/file", "ours"));
  EXPECT_EQ(text(outside_), "outside");
}

TEST_F(RootsFolderTest, NoFileOrLinkOfAnotherUserIsReplaced) {
  ASSERT_EQ(::chown((temporary_ / "in").c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod((temporary_ / "in").c_str(), 01777), 0);
  const std::string file = temporary_ / "in/file";
  const std::string beside = temporary_ / fmt::format("in/.trapline.{}.new", ::getpid());
  for (const std::string& his : {file, file + ".new", beside}) {
    std::ofstream(his) << "his";
    ASSERT_EQ(::chown(his.c_str(), kUser, kUser), 0);
  }
  EXPECT_FALSE(replace_file(file, "ours")) << "the name beside it is taken";
  ASSERT_EQ(::unlink(beside.c_str()), 0);
  const auto replaced = replace_file(file, "ours");
  ASSERT_FALSE(replaced);
  EXPECT_THAT(replaced.error().message, HasSubstr("file: belongs to user 54321"));
  EXPECT_FALSE(fs::exists(beside));
  ASSERT_TRUE(replace_file(temporary_ / "in/other", "ours"));
  EXPECT_EQ(text(file) + text(file + ".new"), "hishis");
  link("link", outside_);
  ASSERT_EQ(::lchown((temporary_ / "in/link").c_str(), kUser, kUser), 0);
  const auto followed = replace_file(temporary_ / "in/link", "ours");
  ASSERT_FALSE(followed);
  EXPECT_THAT(followed.error().message, HasSubstr("a link is in the way"));
  EXPECT_EQ(text(outside_), "outside");
}

// As the folder of node_exporter's textfile collector.
TEST_F(RootsFolderTest, AFileOfTheFoldersOwnerIsReplacedAndStaysHis) {
  const std::string file = temporary_ / "in/file";
  const std::string left = temporary_ / fmt::format("in/.trapline.{}.new", ::getpid());
  for (const std::string& his : {file, left}) {
    std::ofstream(his) << "his";
    ASSERT_EQ(::chown(his.c_str(), kUser, kUser), 0);
  }
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  const auto replaced = replace_file(file, "ours");
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_EQ(text(file), "ours");
  const auto status = folder().look_at("file");
  EXPECT_EQ(status->st_uid, kUser);
  EXPECT_EQ(status->st_gid, kUser);
  EXPECT_EQ(status->st_mode & 0777, 0640u);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(RootsFolderTest, WhyALinkOfRootsIsNotFollowedIsSaid) {
  link("link", outside_);
  const auto why = [this](uid_t user, mode_t mode) {
    EXPECT_EQ(::chown((temporary_ / "in").c_str(), user, kUser), 0);
    EXPECT_EQ(::chmod((temporary_ / "in").c_str(), mode), 0);
    const auto replaced = replace_file(temporary_ / "in/link", "ours");
    return replaced ? std::string() : replaced.error().message;
  };
  EXPECT_THAT(why(0, 02775), HasSubstr("is in the way in a folder that its group can write into;"));
  EXPECT_THAT(why(0, 0777), HasSubstr("is in the way in a folder that everybody can write into;"));
  EXPECT_THAT(why(kUser, 0755), HasSubstr("is in the way in a folder that is not root's;"));
  EXPECT_EQ(text(outside_), "outside");
  EXPECT_EQ(why(0, 0755), "");
}

TEST_F(RootsFolderTest, ASecondNameOfAFileIsNotWritten) {
  fs::create_hard_link(outside_, temporary_ / "in/file");
  const auto file = folder().open_file("file", O_RDWR);
  ASSERT_FALSE(file);
  EXPECT_TRUE(folder().open_file("file", O_RDONLY));
}

TEST_F(RootsFolderTest, AFileToCopyIsReadWithTheUsersRightsOrFromRootsFolders) {
  ASSERT_EQ(::chmod(outside_.c_str(), 0600), 0);
  link("secret", outside_);
  EXPECT_FALSE(open_named_file(temporary_ / "in/secret", user_));
  ASSERT_EQ(::chmod((temporary_ / "out").c_str(), 0755), 0);
  EXPECT_TRUE(open_named_file(outside_, user_)) << "all above it is root's";
  ASSERT_EQ(::chmod((temporary_ / "out").c_str(), 0777), 0);
  EXPECT_FALSE(open_named_file(outside_, user_)) << "others can put a file there";
}

}  // namespace
}  // namespace trapline
