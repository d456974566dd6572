// The decoders against bytes that an assembler made.
#include "plugin/arch/architecture.h"

#include <gtest/gtest.h>

#include <vector>

namespace trapline {
namespace {

using Bytes = std::vector<std::uint8_t>;

const auto decode_x86_64 = architecture("x86_64") -> decode;
const auto decode_aarch64 = architecture("aarch64") -> decode;
const auto decode_riscv64 = architecture("riscv64") -> decode;

TEST(DecodeX86Test, CallsReturnsAndTheRest) {
  const auto flow = [](Bytes bytes) { return decode_x86_64(bytes, 0x1000).flow; };
  EXPECT_EQ(flow({0xe8, 0x00, 0x01, 0x00, 0x00}), Flow::kCall);
  EXPECT_EQ(decode_x86_64(Bytes{0xe8, 0xfb, 0xff, 0xff, 0xff}, 0x1000).target, 0x1000u);
  EXPECT_EQ(decode_x86_64(Bytes{0xe8, 0x00, 0x01}, 0x1000).target, 0x1103u);  // 16-bit code
  EXPECT_EQ(flow({0xe8, 0x07, 0x00, 0x00, 0x00}), Flow::kNearCall);           // retpoline
  EXPECT_EQ(flow({0xe8, 0x00, 0x00, 0x00, 0x00}), Flow::kNearCall);           // where am I
  EXPECT_EQ(flow({0xff, 0xd0}), Flow::kCallRegister);
  EXPECT_EQ(decode_x86_64(Bytes{0x41, 0xff, 0xd3}, 0).reg, 11);
  EXPECT_EQ(flow({0x3e, 0xff, 0xd2}), Flow::kCallRegister);  // notrack
  EXPECT_EQ(flow({0xff, 0x14, 0xc5, 0, 0, 0, 0}), Flow::kCallMemory);
  EXPECT_EQ(flow({0xff, 0x18}), Flow::kCallFar);
  EXPECT_EQ(flow({0x9a, 0x34, 0x12, 0x00, 0xf0}), Flow::kCallFar);
  EXPECT_EQ(flow({0xff, 0x20}), Flow::kOther);  // jmp
  EXPECT_EQ(flow({0xc3}), Flow::kReturn);
  EXPECT_EQ(flow({0xf3, 0xc3}), Flow::kReturn);
  EXPECT_EQ(flow({0xc2, 0x08, 0x00}), Flow::kReturn);
  EXPECT_EQ(flow({0x48, 0xcb}), Flow::kReturnFar);
  EXPECT_EQ(flow({0x48, 0xcf}), Flow::kInterruptReturn);
  EXPECT_EQ(flow({0x0f, 0x05}), Flow::kSystemCall);
  EXPECT_EQ(flow({0x48, 0x0f, 0x07}), Flow::kSystemReturn);
  EXPECT_EQ(flow({0x40}), Flow::kOther);  // inc eax in 32-bit code
  EXPECT_EQ(flow({}), Flow::kOther);
  EXPECT_EQ(flow({0x66}), Flow::kOther);
  EXPECT_EQ(flow({0xff}), Flow::kOther);
}

TEST(DecodeX86Test, TheMagicNoOpAndNoOtherNoOp) {
  const Bytes magic{0x0f, 0x1f, 0x84, 0x00, 0x54, 0x52, 0x4c, 0x4e};
  EXPECT_EQ(decode_x86_64(magic, 0x1000).flow, Flow::kSync);
  Bytes plain = magic;
  plain[7] = 0;
  EXPECT_EQ(decode_x86_64(plain, 0x1000).flow, Flow::kOther);
  Bytes prefixed{0x66};
  prefixed.insert(prefixed.end(), magic.begin(), magic.end());
  EXPECT_EQ(decode_x86_64(prefixed, 0x1000).flow, Flow::kOther);
}

Bytes word(std::uint32_t w) {
  return {static_cast<std::uint8_t>(w), static_cast<std::uint8_t>(w >> 8),
          static_cast<std::uint8_t>(w >> 16), static_cast<std::uint8_t>(w >> 24)};
}

TEST(DecodeAarch64Test, CallsReturnsAndTheRest) {
  const auto flow = [](std::uint32_t w) { return decode_aarch64(word(w), 0x1000).flow; };
  EXPECT_EQ(flow(0x94000010), Flow::kCall);                            // bl
  EXPECT_EQ(decode_aarch64(word(0x97ffffff), 0x1000).target, 0xffcu);  // bl .-4
  EXPECT_EQ(flow(0xd63f0100), Flow::kCallRegister);                    // blr x8
  EXPECT_EQ(decode_aarch64(word(0xd63f0100), 0).reg, 8);
  EXPECT_EQ(flow(0xd63f0900), Flow::kCallRegister);  // blraaz x8
  EXPECT_EQ(flow(0xd73f0901), Flow::kCallRegister);  // blraa x8, x1
  EXPECT_EQ(flow(0xd61f0100), Flow::kOther);         // br x8
  EXPECT_EQ(flow(0xd65f03c0), Flow::kReturn);        // ret
  EXPECT_EQ(flow(0xd65f0bff), Flow::kReturn);        // retaa
  EXPECT_EQ(flow(0xd69f03e0), Flow::kInterruptReturn);
  EXPECT_EQ(flow(0xd69f0bff), Flow::kInterruptReturn);    // eretaa
  EXPECT_EQ(flow(0xd4000001), Flow::kSystemCall);         // svc
  EXPECT_EQ(flow(0xa9bf7bfd), Flow::kSaveReturnAddress);  // stp x29, x30, [sp, #-16]!
  EXPECT_EQ(flow(0xf81f0ffe), Flow::kSaveReturnAddress);  // str x30, [sp, #-16]!
  EXPECT_EQ(flow(0xf2ca899f), Flow::kSync);               // movk xzr, #0x544c, lsl #32
  EXPECT_EQ(flow(0xf2ca8980), Flow::kOther);              // movk x0, #0x544c, lsl #32
  EXPECT_EQ(flow(0xa90153f3), Flow::kOther);              // stp x19, x20, [sp, #16]
  EXPECT_EQ(flow(0x9100005f), Flow::kSetStackPointer);    // mov sp, x2
  EXPECT_EQ(flow(0x910083ff), Flow::kOther);              // add sp, sp, #32
  EXPECT_EQ(flow(0x910003fd), Flow::kOther);              // mov x29, sp
}

TEST(DecodeRiscvTest, CallsReturnsAndTheRest) {
  const auto flow = [](std::uint32_t w) { return decode_riscv64(word(w), 0x1000).flow; };
  const auto half = [](std::uint16_t h) {
    return decode_riscv64(Bytes{static_cast<std::uint8_t>(h), static_cast<std::uint8_t>(h >> 8)},
                          0x1000);
  };
  EXPECT_EQ(flow(0x100000ef), Flow::kCall);  // jal ra, .+256
  EXPECT_EQ(decode_riscv64(word(0xff9ff0ef), 0x1000).target, 0xff8u);
  EXPECT_EQ(flow(0x1000006f), Flow::kOther);               // j
  EXPECT_EQ(flow(0x000500e7), Flow::kCallRegister);        // jalr a0
  EXPECT_EQ(flow(0x00008067), Flow::kReturn);              // ret
  EXPECT_EQ(flow(0x00050067), Flow::kOther);               // jr a0
  EXPECT_EQ(half(0x8082).flow, Flow::kReturn);             // c.jr ra
  EXPECT_EQ(half(0x9502).flow, Flow::kCallRegister);       // c.jalr a0
  EXPECT_EQ(half(0xe406).flow, Flow::kSaveReturnAddress);  // c.sdsp ra
  EXPECT_EQ(flow(0x00113423), Flow::kSaveReturnAddress);   // sd ra, 8(sp)
  EXPECT_EQ(flow(0x00850113), Flow::kSetStackPointer);     // addi sp, a0, 8
  EXPECT_EQ(flow(0xff010113), Flow::kOther);               // addi sp, sp, -16
  EXPECT_EQ(flow(0x54ca3013), Flow::kSync);                // sltiu zero, s4, 0x54c
  EXPECT_EQ(flow(0x54ca3513), Flow::kOther);               // sltiu a0, s4, 0x54c
  EXPECT_EQ(flow(0x30200073), Flow::kInterruptReturn);     // mret
  EXPECT_EQ(flow(0x00000073), Flow::kSystemCall);          // ecall
}

// Whatever the bytes: a flow of the list, and registers that the architecture has.
TEST(DecodeTest, AnyBytesAreSomething) {
  const auto sound = [](const Instruction& instruction, unsigned registers) {
    return instruction.flow <= Flow::kSync && instruction.reg < registers;
  };
  unsigned state = 7;
  int unsound = 0, calls = 0;
  for (int i = 0; i < 200000; ++i) {
    Bytes bytes(static_cast<std::size_t>(i % 16));
    for (auto& byte : bytes)
      byte = static_cast<std::uint8_t>((state = state * 1103515245 + 12345) >> 16);
    const Instruction x86 = decode_x86_64(bytes, state);
    unsound += !sound(x86, 16) + !sound(decode_aarch64(bytes, state), 32) +
               !sound(decode_riscv64(bytes, state), 32);
    calls += x86.flow == Flow::kCall;
  }
  EXPECT_EQ(unsound, 0);
  EXPECT_GT(calls, 100);  // the bytes are not all of one kind
}

}  // namespace
}  // namespace trapline
