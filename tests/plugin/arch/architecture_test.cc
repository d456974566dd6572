// What the table says of each architecture, with registers that the test sets.
#include "plugin/arch/architecture.h"
#include "plugin/qemu_api.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace trapline {
namespace {

class ArchitectureTest : public ::testing::Test, public ArchState {
 protected:
  std::optional<std::uint64_t> state(std::size_t index) override {
    const auto found = registers_.find(std::string(arch_->state[index]));
    return found == registers_.end() ? std::nullopt : std::optional(found->second);
  }
  bool read_memory(std::uint64_t, void* to, std::size_t size) override {
    std::memcpy(to, words_, size);
    return true;
  }
  std::string level_of(const char* target, std::map<std::string, std::uint64_t> registers) {
    arch_ = architecture(target);
    registers_ = std::move(registers);
    return arch_->level_name(arch_->level(*this), names_);
  }
  bool vector_at(std::uint64_t address) { return arch_->is_vector(*this, address); }

  const Architecture* arch_ = nullptr;
  LevelNames names_ = LevelNames::kTrapline;
  std::map<std::string, std::uint64_t> registers_;
  std::uint64_t words_[6] = {};
};

TEST_F(ArchitectureTest, LevelsHaveTheNamesOfTheirProcessors) {
  EXPECT_EQ(level_of("x86_64", {{"cs", 0x33}, {"cr0", 0x80000001}}), "Ring3");
  EXPECT_EQ(level_of("x86_64", {{"cs", 0x10}, {"cr0", 0x80000001}}), "Ring0");
  EXPECT_EQ(level_of("i386", {{"cs", 0xf000}, {"cr0", 0x10}}), "Real");
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0x4}}), "EL1");
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0x4}, {"SCR_EL3", 0}}), "S-EL1");
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0x4}, {"SCR_EL3", 1}}), "EL1");
  const std::uint64_t realm = std::uint64_t{1} << 62 | 1;  // NSE and NS
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0x8}, {"SCR_EL3", realm}}), "Realm-EL2");
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0xc}, {"SCR_EL3", 0}}), "EL3");
  EXPECT_EQ(level_of("riscv64", {{"priv", 0}}), "U");
  EXPECT_EQ(level_of("riscv64", {{"priv", 1}}), "S");
  EXPECT_EQ(level_of("riscv64", {{"priv", 3}}), "M");
  names_ = LevelNames::kQemu;
  EXPECT_EQ(level_of("i386", {{"cs", 0xf000}, {"cr0", 0x10}}), "RealMode");
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0x4}}), "NS-EL1");
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0x4}, {"SCR_EL3", 0}}), "S-EL1");
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0x8}, {"SCR_EL3", realm}}), "R-EL2");
  EXPECT_EQ(level_of("aarch64", {{"cpsr", 0xc}, {"SCR_EL3", 0}}), "EL3");
}

TEST_F(ArchitectureTest, HandlersBeginWhereTheirRegistersSay) {
  (void)level_of("aarch64", {{"VBAR_EL1 VBAR", 0x10000}});
  EXPECT_TRUE(vector_at(0x10000));
  EXPECT_TRUE(vector_at(0x10480));
  EXPECT_FALSE(vector_at(0x10484));
  EXPECT_FALSE(vector_at(0x10800));
  (void)level_of("riscv64", {{"stvec", 0x20001}, {"mtvec", 0x30000}});
  EXPECT_TRUE(vector_at(0x20000));
  EXPECT_TRUE(vector_at(0x20014));
  EXPECT_FALSE(vector_at(0x20016));
  EXPECT_TRUE(vector_at(0x30000));
  EXPECT_FALSE(vector_at(0x30004));
  EXPECT_EQ(architecture("x86_64")->is_vector, nullptr);
}

TEST_F(ArchitectureTest, TheFrameThatX86PushesTellsWhereTheHandlerCameFrom) {
  (void)level_of("x86_64", {});
  const std::uint64_t from_user[6] = {0x401000, 0x33, 0x246, 0x7fff0000, 0x2b, 0};
  std::memcpy(words_, from_user, sizeof words_);
  EXPECT_EQ(arch_->interrupted_level(*this, 0), 3);
  const std::uint64_t with_error_code[6] = {4, 0xffffffff81000000, 0x10, 0x2, 0x1000, 0x18};
  std::memcpy(words_, with_error_code, sizeof words_);
  EXPECT_EQ(arch_->interrupted_level(*this, 0), 0);
  const std::uint64_t a_plain_stack[6] = {0x401000, 0x7fff1000, 5, 0x401234, 7, 8};
  std::memcpy(words_, a_plain_stack, sizeof words_);
  EXPECT_EQ(arch_->interrupted_level(*this, 0), -1);
}

TEST_F(ArchitectureTest, AnUnknownOneIsNone) {
  EXPECT_EQ(architecture("sparc"), nullptr);
  EXPECT_EQ(known_architectures(), "x86_64, i386, aarch64, riscv64");
}

TEST(MemoryValueTest, HasTheBytesOfItsSizeOnly) {
  qemu::MemoryValue value{};
  value.data.u64 = 0x8877665544332211;
  using Type = qemu::MemoryValue::Type;
  const std::pair<Type, std::uint64_t> expected[] = {{Type::kU8, 0x11},
                                                     {Type::kU16, 0x2211},
                                                     {Type::kU32, 0x44332211},
                                                     {Type::kU64, value.data.u64}};
  for (const auto& [type, bits] : expected) {
    value.type = type;
    EXPECT_EQ(value.narrow(), bits);
  }
}

}  // namespace
}  // namespace trapline
