#include "backend_ftrace/tracetool/declarations.h"

#include <gtest/gtest.h>

namespace trapline::tracetool {
namespace {

TEST(Declarations, AnEventIsParsedWhenItIsAskedFor) {
  const Declarations declared(
      "# comment\n\nfirst(int a) \"%d\"\nvcpu second(const char *s,\n  int b)\n  \"'%s' \"\n"
      "  \"%d\"\nthird(void)\n");
  EXPECT_EQ(declared.size(), 3u);
  const auto second = declared.find("second");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->arguments.size(), 3u);  // with the CPU
  EXPECT_EQ(second->format.source, "\"cpu=%p \" \"'%s' \" \"%d\"");
  EXPECT_TRUE(declared.find("third"));
  EXPECT_FALSE(declared.find("secon"));
  EXPECT_FALSE(declared.find(""));
  EXPECT_FALSE(Declarations().find("first"));
}

TEST(Declarations, ATcgEventIsFoundAsItsTwo) {
  const Declarations declared("tcg vcpu e(TCGv_i32 a, int b) \"%d\", \"%x %d\"\n");
  EXPECT_EQ(declared.size(), 2u);
  ASSERT_TRUE(declared.find("e_trans") && declared.find("e_exec"));
  EXPECT_TRUE(declared.find("e_trans")->tcg_translation);
  EXPECT_EQ(declared.find("e_exec")->arguments.size(), 3u);
  EXPECT_FALSE(declared.find("e"));
}

TEST(Declarations, OneInErrorHidesNeitherItsNamesakeNorTheNextOne) {
  const Declarations declared("a(float x) \"%f\"\nb(int x\nc(int x) \"%d\"\na(int y) \"%d\"");
  ASSERT_TRUE(declared.find("a"));
  EXPECT_EQ(declared.find("a")->arguments[0].name, "y");
  EXPECT_FALSE(declared.find("b"));
  EXPECT_FALSE(declared.find("float"));
}

}  // namespace
}  // namespace trapline::tracetool
