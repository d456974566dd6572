#include "merge/source/kernel_events/kernel_symbols.h"

#include <gtest/gtest.h>

namespace trapline::kernel_events {
namespace {

TEST(KernelSymbolsTest, AFunctionIsNamedByItsBeginOrTheTracersCallRightAfterIt) {
  const KernelSymbols symbols(
      "ffffffffc0001000 t kvm_second\t[kvm]\n"
      "ffffffffc0000010 T kvm_first\t[kvm]\n");
  EXPECT_EQ(symbols.function_at(0xffffffffc0000010), "kvm_first");
  EXPECT_EQ(symbols.function_at(0xffffffffc0001004), "kvm_second");
}

TEST(KernelSymbolsTest, NoFunctionIsNamedByAnotherThatBeginsBeforeIt) {
  const KernelSymbols symbols("ffffffffc0000010 T kvm_first\n");
  EXPECT_EQ(symbols.function_at(0xffffffffc0000031), "");
  EXPECT_EQ(symbols.function_at(0xffffffffc000000f), "");
}

TEST(KernelSymbolsTest, LinesThatAreNoFunctionsAreLeftOut) {
  const KernelSymbols symbols(
      "0000000000000000 T hidden\nffffffffc0000010 d data\nrubbish\n"
      "ffffffffc0000010 T\nffffffffc0000010 T ok");
  EXPECT_EQ(symbols.function_at(0), "");
  EXPECT_EQ(symbols.function_at(0xffffffffc0000010), "ok");
}

TEST(KernelSymbolsTest, OfSeveralNamesTheFirstIsTaken) {
  const KernelSymbols symbols("ffff0010 T one\nffff0010 T two\n");
  EXPECT_EQ(symbols.function_at(0xffff0010), "one");
}

}  // namespace
}  // namespace trapline::kernel_events
