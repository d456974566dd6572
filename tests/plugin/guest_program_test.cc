#include "plugin/guest_program.h"

#include <elf.h>
#include <gmock/gmock.h>

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "backend_ftrace/base/result.h"

namespace trapline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// This test's own file stands for the program's.
class GuestProgramTest : public testing::Test {
 protected:
  GuestProgramTest() {
    std::array<char, PATH_MAX> real{};
    path_ = ::realpath("/proc/self/exe", real.data());
    std::ifstream(path_, std::ios::binary).read(reinterpret_cast<char*>(&header_), sizeof header_);
  }
  // A page of it at `start` on the host.
  [[nodiscard]] std::string mapped(std::uint64_t start, const char* protection) const {
    return fmt::format("{:x}-{:x} {} 00000000 fe:00 42    {}\n", start, start + 4096, protection,
                       path_);
  }

  static constexpr std::uint64_t kBase = 0x10000000;
  static constexpr std::uint64_t kPlace = 0x555555554000;  // in the program's addresses
  std::string path_;
  Elf64_Ehdr header_{};
};

TEST_F(GuestProgramTest, ItsEntryTellsTheBaseAndSoWhereItLies) {
  const std::array<std::string, 3> words{"qemu-x86_64", "-strace", path_};
  const auto found = find_guest_program(
      "7000-8000 rw-p 00000000 00:00 0 [heap]\n" + mapped(kPlace + kBase, "r--p"), words,
      kPlace + header_.e_entry);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base, kBase);
  EXPECT_EQ(found->file, (SymbolFileSpec{path_, kPlace}));
}

TEST_F(GuestProgramTest, WhatTheHostExecutesIsNotTheProgram) {
  const std::array<std::string, 2> words{"qemu-x86_64", path_};
  const std::string maps = mapped(kPlace + kBase, "r--p") + mapped(0x7f0000001000, "r-xp");
  EXPECT_FALSE(find_guest_program(mapped(kPlace, "r-xp"), words, kPlace + header_.e_entry));
  EXPECT_THAT(files_of_program(maps, kBase), ElementsAre(SymbolFileSpec{path_, kPlace}));
}

TEST_F(GuestProgramTest, AnotherEntryOrAnotherNameIsNoProgram) {
  const std::string maps = mapped(kPlace, "r--p");
  const std::array<std::string, 2> words{"qemu-x86_64", path_}, others{"qemu-x86_64", "/bin/sh"};
  EXPECT_FALSE(find_guest_program(maps, words, kPlace + header_.e_entry + 4));
  EXPECT_FALSE(find_guest_program(maps, others, kPlace + header_.e_entry));
  EXPECT_THAT(files_of_program("1-2 r--p 0 0:0 1 /etc/passwd\nnonsense\n", 0), IsEmpty());
}

}  // namespace
}  // namespace trapline
