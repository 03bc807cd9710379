// Tests of the PTX instructions that kernels use, against NVIDIA's ISA.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/ptx/instructions.h"
#include "shardproof/tests/gpu/ptx/memory_checks.h"
#include "shardproof/tests/gpu/ptx/ptx.h"

namespace shardproof::ptx {
namespace {

// Runs one instruction with constant operands and returns its result, stored as `type`.
uint64_t result_of(const std::string& instruction, const std::string& type) {
  Module module(".version 9.0\n.target sm_90\n.entry k(.param .u64 k_param_0)\n{\n" +
                std::string(".reg .b64 %rd<2>;\n.reg .b32 %r<9>;\n.reg .pred %p<2>;\n") +
                "ld.param.u64 %rd1, [k_param_0];\n" + instruction + ";\n" + "st.global." + type +
                " [%rd1], %r1;\nret;\n}\n");
  uint64_t result = 0, address = reinterpret_cast<uint64_t>(&result);
  run_threads(*module.find("k"), {reinterpret_cast<const std::byte*>(&address)}, {}, {}, nullptr);
  return result;
}

std::string literal(float x) { return fmt::format("0f{:08X}", std::bit_cast<uint32_t>(x)); }
std::string literal(double x) { return fmt::format("0d{:016X}", std::bit_cast<uint64_t>(x)); }

float f32(const std::string& instruction) {
  return std::bit_cast<float>(static_cast<uint32_t>(result_of(instruction, "b32")));
}

TEST(Ptx, Integers_Wrap_AndShiftsSaturate) {
  EXPECT_EQ(result_of("add.s32 %r1, 0x7fffffff, 1", "u32"), 0x80000000U);
  EXPECT_EQ(result_of("mul.hi.u64 %r1, -1, -1", "u64"), ~uint64_t{1});
  EXPECT_EQ(result_of("mul.wide.s32 %r1, -3, 0x40000000", "u64"), uint64_t(-3) << 30);
  EXPECT_EQ(result_of("shl.b32 %r1, 1, 32", "u32"), 0U);
  EXPECT_EQ(result_of("shr.s32 %r1, -8, 99", "u32"), 0xffffffffU);
  EXPECT_EQ(result_of("shr.u16 %r1, -1, 12", "u16"), 15U);
  EXPECT_EQ(result_of("rem.s64 %r1, -7, 3", "u64"), uint64_t(-1));
  EXPECT_EQ(result_of("bfe.u32 %r1, 0xabcd, 4, 8", "u32"), 0xbcU);
  EXPECT_EQ(result_of("bfe.s32 %r1, 0xf0, 4, 4", "u32"), 0xffffffffU);
  EXPECT_EQ(result_of("prmt.b32 %r1, 0x33221100, 0x77665544, 0x3340U", "u32"), 0x33334400U);
  EXPECT_EQ(result_of("prmt.b32 %r1, 0x33229100, 0, 0x0009", "u32"), 0x000000ffU);
  EXPECT_EQ(result_of("shf.l.wrap.b32 %r1, 0x80000001, 2, 33", "u32"), 5U);
}

TEST(Ptx, Carry_PassesToNextInstruction) {
  EXPECT_EQ(result_of("add.cc.u32 %r2, -1, 1; addc.u32 %r1, 5, 0", "u32"), 6U);
  EXPECT_EQ(result_of("sub.cc.u32 %r2, 0, 1; subc.u32 %r1, 5, 0", "u32"), 4U);
  EXPECT_EQ(result_of("mad.lo.cc.u32 %r2, -1, 2, 2; madc.hi.u32 %r1, -1, 2, 0", "u32"), 2U);
}

TEST(Ptx, Conversions_Saturate) {
  const std::string nan = literal(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(result_of("cvt.rzi.s64.f32 %r1, " + literal(1e30F), "u64"), ~uint64_t{0} >> 1);
  EXPECT_EQ(result_of("cvt.rzi.s64.f32 %r1, " + nan, "u64"), uint64_t{1} << 63);
  EXPECT_EQ(result_of("cvt.rzi.s32.f32 %r1, " + nan, "u32"), 0U);
  EXPECT_EQ(result_of("cvt.rni.s32.f64 %r1, " + literal(2.5), "u32"), 2U);
  EXPECT_EQ(result_of("cvt.rmi.s32.f64 %r1, " + literal(-2.5), "u32"), 0xfffffffdU);
  EXPECT_EQ(result_of("cvt.u32.u64 %r1, 0x1234567890", "u64"), 0x34567890U);
  EXPECT_EQ(result_of("cvt.s16.s8 %r1, 0x80; cvt.s32.s16 %r1, %r1", "u32"), 0xffffff80U);
  EXPECT_EQ(f32("cvt.rn.f32.s64 %r1, 16777217"), 16777216.0F);
  EXPECT_EQ(f32("cvt.sat.f32.f32 %r1, " + nan), 0.0F);
}

TEST(Ptx, Floats_RoundOnce_AndSkipNan) {
  const std::string nan = literal(std::numeric_limits<float>::quiet_NaN()), one = literal(1.0F);
  EXPECT_EQ(f32("min.f32 %r1, " + nan + ", " + one), 1.0F);
  EXPECT_TRUE(std::signbit(f32("min.f32 %r1, 0f00000000, 0f80000000")));
  const float tiny = std::ldexp(1.0F, -30);
  EXPECT_LT(f32("fma.rm.f32 %r1, " + one + ", " + one + ", " + literal(-tiny)), 1.0F);
  EXPECT_EQ(f32("fma.rn.f32 %r1, " + one + ", " + one + ", " + literal(-tiny)), 1.0F);
  for (const auto& [how, truth] : {std::pair("neu", 1),
                                   {"ne", 0},
                                   {"ltu", 1},
                                   {"lt", 0},
                                   {"nan", 1},
                                   {"num", 0},
                                   {"equ", 1},
                                   {"eq", 0}})
    EXPECT_EQ(
        result_of(fmt::format("setp.{}.f32 %p1, {}, {}; selp.b32 %r1, 1, 0, %p1", how, nan, one),
                  "u32"),
        static_cast<uint64_t>(truth))
        << how;
}

TEST(Ptx, LoopsCallsAndLocalMemory_Run) {
  // Adds 2 * i for all i below the number of threads.
  Module module(R"(
.version 9.0
.target sm_90
.global .align 4 .b8 factors[4] = {9, 2, 7, 0};
.func (.param .b32 func_retval0) twice(.param .b32 twice_param_0)
{
.reg .b32 %r<4>;
.reg .b64 %rd<2>;
ld.param.u32 %r1, [twice_param_0];
mov.u64 %rd1, factors;
ld.global.u8 %r2, [%rd1+1]; // 2
mul.lo.s32 %r3, %r1, %r2;
st.param.b32 [func_retval0], %r3;
ret;
}
.visible .entry sums(
.param .align 8 .b8 sums_param_0[16]
)
{
.local .align 8 .b8 __local_depot0[8];
.reg .pred %p<2>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
mov.u64 %rd1, __local_depot0;
ld.param.u64 %rd2, [sums_param_0+8];
mov.u32 %r1, %tid.x;
mov.b32 %r2, 0;
mov.b32 %r4, 0;
bra.uni $test;
$again:
{
.param .b32 param0;
st.param.b32 [param0], %r2;
.param .b32 retval0;
call.uni (retval0), twice, (param0);
ld.param.b32 %r3, [retval0];
}
add.s32 %r4, %r4, %r3;
add.s32 %r2, %r2, 1;
$test:
setp.le.u32 %p1, %r2, %r1;
@%p1 bra $again;
st.local.v2.b32 [%rd1], {%r4, %r1};
ld.local.u64 %rd3, [%rd1];
mul.wide.u32 %rd4, %r1, 8;
add.s64 %rd5, %rd2, %rd4;
st.global.u64 [%rd5], %rd3;
ret;
}
)");
  uint64_t results[5] = {};
  const uint64_t argument[2] = {0, reinterpret_cast<uint64_t>(results)};
  const Function* kernel = module.find("sums");
  ASSERT_NE(kernel, nullptr);
  run_threads(*kernel, {reinterpret_cast<const std::byte*>(argument)}, {}, {5}, nullptr);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(results[i], i << 32 | i * (i + 1));
}

// Runs four threads of a body on `memory`. Register %rd3 holds the address of the thread's own
// element of 4 bytes, %rd1 that of the first, %r1 the thread's number.
void watched(const std::string& body, const std::array<uint32_t, 4>& memory) {
  Module module(
      ".version 9.0\n.target sm_90\n.entry k(.param .u64 k_param_0)\n{\n"
      ".reg .b64 %rd<9>;\n.reg .b32 %r<9>;\nld.param.u64 %rd1, [k_param_0];\n"
      "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n" +
      body + "ret;\n}\n");
  const auto* const start = reinterpret_cast<const std::byte*>(memory.data());
  const Allocation all{start, start + sizeof(memory)};
  Watch watch("k", [all](const std::byte* at) {
    return at >= all.first && at < all.second ? all : Allocation();
  });
  const auto address = reinterpret_cast<uint64_t>(start);
  run_threads(*module.find("k"), {reinterpret_cast<const std::byte*>(&address)}, {}, {4}, &watch);
}

TEST(PtxDeathTest, MemoryErrors_EndTheProgram) {
  const std::array<uint32_t, 4> memory{1, 2, 3, 4};
  watched("ld.global.u32 %r2, [%rd3];\nst.global.u32 [%rd3], %r2;\n", memory);
  watched("st.global.u32 [%rd1], 7;\n", memory);  // all threads write the same value
  EXPECT_DEATH(watched("ld.global.u32 %r2, [%rd3+4];\n", memory), "not all allocated");
  EXPECT_DEATH(watched("ld.global.u32 %r2, [%rd3+1];\n", memory), "not aligned");
  EXPECT_DEATH(watched("ld.global.v2.u32 {%r2, %r3}, [%rd3];\n", memory), "not ");
  EXPECT_DEATH(watched("st.global.u32 [%rd1], %r1;\n", memory), "writes another value than thread");
  EXPECT_DEATH(watched("ld.global.u32 %r2, [%rd1];\nst.global.u32 [%rd3], 9;\n", memory),
               "what (another )?thread");
}

TEST(Ptx, UnknownInstruction_IsRefused) {
  for (const char* text :
       {"bar.sync 0", "ld.shared.u32 %r1, [%r2]", "atom.global.add.u32 %r1, [%r2], 1",
        "add.f128 %r1, %r1, %r1", "add.s32 %r1, %r99, 1"})
    EXPECT_THROW(result_of(text, "u32"), Error) << text;
}

}  // namespace
}  // namespace shardproof::ptx
