#include "plugin/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/sandbox.h"

namespace trapline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

TEST(AcceleratorTest, EachWayToNameOneIsUnderstood) {
  EXPECT_THAT(accelerators_of(Words{"qemu", "-m", "64"}), IsEmpty());
  EXPECT_THAT(accelerators_of(Words{"qemu", "-enable-kvm"}), ElementsAre("kvm"));
  EXPECT_THAT(accelerators_of(Words{"qemu", "--enable-kvm"}), ElementsAre("kvm"));
  EXPECT_THAT(accelerators_of(Words{"qemu", "-accel", "tcg,thread=multi"}), ElementsAre("tcg"));
  EXPECT_THAT(accelerators_of(Words{"qemu", "-accel", "accel=kvm"}), ElementsAre("kvm"));
  EXPECT_THAT(accelerators_of(Words{"qemu", "-accel", "kvm", "-accel", "tcg"}),
              ElementsAre("kvm", "tcg"));
  EXPECT_THAT(accelerators_of(Words{"qemu", "-M", "q35,accel=kvm:tcg,smm=off"}),
              ElementsAre("kvm", "tcg"));
  EXPECT_THAT(accelerators_of(Words{"qemu", "-machine", "accel=tcg"}), ElementsAre("tcg"));
  EXPECT_THAT(accelerators_of(Words{"qemu", "-M", "kvm"}), IsEmpty());
  EXPECT_THAT(accelerators_of(Words{"qemu", "-accel"}), IsEmpty());
}

TEST(SandboxTest, ChildrenAreDeniedWhereTheCommandLineSaysSo) {
  EXPECT_FALSE(denies_children(Words{"qemu", "-m", "64"}));
  EXPECT_FALSE(denies_children(Words{"qemu", "-sandbox", "on"}));
  EXPECT_FALSE(denies_children(Words{"qemu", "-sandbox"}));
  EXPECT_TRUE(denies_children(
      Words{"qemu", "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"}));
  EXPECT_TRUE(denies_children(Words{"qemu", "--sandbox", "on,spawn=deny"}));
  EXPECT_TRUE(denies_children(Words{"qemu", "-readconfig", "vm.conf"}));
  EXPECT_FALSE(children_are_denied());  // of this process
}

}  // namespace
}  // namespace trapline
