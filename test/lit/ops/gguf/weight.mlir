// RUN: g4-opt %s | g4-opt | FileCheck %s

// CHECK: module attributes {gguf.files = ["a.gguf", "b.gguf"]}
module attributes {gguf.files = ["a.gguf", "b.gguf"]} {
  // CHECK: gguf.weight @blk.0.attn_q.weight : !gguf.matrix<64x256, q4_k> from <file = 0, offset = 4096, size = 9216>
  gguf.weight @blk.0.attn_q.weight : !gguf.matrix<64x256, q4_k> from <file = 0, offset = 4096, size = 9216>

  // One range of bytes for each expert.
  // CHECK: gguf.weight @blk.0.ffn_down_exps.weight : !gguf.matrix<4x32, q8_0> from <file = 0, offset = 0, size = 68>, <file = 1, offset = 64, size = 68>
  gguf.weight @blk.0.ffn_down_exps.weight : !gguf.matrix<4x32, q8_0>
    from <file = 0, offset = 0, size = 68>, <file = 1, offset = 64, size = 68>

  // CHECK: gguf.weight @output_norm.weight : !gguf.matrix<1x16, f32> from <file = 0, offset = 64, size = 64> factor = 5.000000e-01
  gguf.weight @output_norm.weight : !gguf.matrix<1x16, f32> from <file = 0, offset = 64, size = 64> factor = 0.5
}

// Every element type, with its block: 256 elements of each.
// CHECK-LABEL: module @types
module @types {
  // CHECK: !gguf.matrix<1x256, f32>
  gguf.weight @f32 : !gguf.matrix<1x256, f32> from <file = 0, offset = 0, size = 1024>
  // CHECK: !gguf.matrix<1x256, f16>
  gguf.weight @f16 : !gguf.matrix<1x256, f16> from <file = 0, offset = 0, size = 512>
  // CHECK: !gguf.matrix<1x256, bf16>
  gguf.weight @bf16 : !gguf.matrix<1x256, bf16> from <file = 0, offset = 0, size = 512>
  // CHECK: !gguf.matrix<1x256, q4_0>
  gguf.weight @q4_0 : !gguf.matrix<1x256, q4_0> from <file = 0, offset = 0, size = 144>
  // CHECK: !gguf.matrix<1x256, q4_1>
  gguf.weight @q4_1 : !gguf.matrix<1x256, q4_1> from <file = 0, offset = 0, size = 160>
  // CHECK: !gguf.matrix<1x256, q5_0>
  gguf.weight @q5_0 : !gguf.matrix<1x256, q5_0> from <file = 0, offset = 0, size = 176>
  // CHECK: !gguf.matrix<1x256, q5_1>
  gguf.weight @q5_1 : !gguf.matrix<1x256, q5_1> from <file = 0, offset = 0, size = 192>
  // CHECK: !gguf.matrix<1x256, q8_0>
  gguf.weight @q8_0 : !gguf.matrix<1x256, q8_0> from <file = 0, offset = 0, size = 272>
  // CHECK: !gguf.matrix<1x256, q2_k>
  gguf.weight @q2_k : !gguf.matrix<1x256, q2_k> from <file = 0, offset = 0, size = 84>
  // CHECK: !gguf.matrix<1x256, q3_k>
  gguf.weight @q3_k : !gguf.matrix<1x256, q3_k> from <file = 0, offset = 0, size = 110>
  // CHECK: !gguf.matrix<1x256, q4_k>
  gguf.weight @q4_k : !gguf.matrix<1x256, q4_k> from <file = 0, offset = 0, size = 144>
  // CHECK: !gguf.matrix<1x256, q5_k>
  gguf.weight @q5_k : !gguf.matrix<1x256, q5_k> from <file = 0, offset = 0, size = 176>
  // CHECK: !gguf.matrix<1x256, q6_k>
  gguf.weight @q6_k : !gguf.matrix<1x256, q6_k> from <file = 0, offset = 0, size = 210>
  // CHECK: !gguf.matrix<1x256, iq2_xxs>
  gguf.weight @iq2_xxs : !gguf.matrix<1x256, iq2_xxs> from <file = 0, offset = 0, size = 66>
  // CHECK: !gguf.matrix<1x256, iq2_xs>
  gguf.weight @iq2_xs : !gguf.matrix<1x256, iq2_xs> from <file = 0, offset = 0, size = 74>
  // CHECK: !gguf.matrix<1x256, iq3_xxs>
  gguf.weight @iq3_xxs : !gguf.matrix<1x256, iq3_xxs> from <file = 0, offset = 0, size = 98>
  // CHECK: !gguf.matrix<1x256, iq1_s>
  gguf.weight @iq1_s : !gguf.matrix<1x256, iq1_s> from <file = 0, offset = 0, size = 50>
  // CHECK: !gguf.matrix<1x256, iq4_nl>
  gguf.weight @iq4_nl : !gguf.matrix<1x256, iq4_nl> from <file = 0, offset = 0, size = 144>
  // CHECK: !gguf.matrix<1x256, iq3_s>
  gguf.weight @iq3_s : !gguf.matrix<1x256, iq3_s> from <file = 0, offset = 0, size = 110>
  // CHECK: !gguf.matrix<1x256, iq2_s>
  gguf.weight @iq2_s : !gguf.matrix<1x256, iq2_s> from <file = 0, offset = 0, size = 82>
  // CHECK: !gguf.matrix<1x256, iq4_xs>
  gguf.weight @iq4_xs : !gguf.matrix<1x256, iq4_xs> from <file = 0, offset = 0, size = 136>
  // CHECK: !gguf.matrix<1x256, iq1_m>
  gguf.weight @iq1_m : !gguf.matrix<1x256, iq1_m> from <file = 0, offset = 0, size = 56>
  // CHECK: !gguf.matrix<1x256, tq1_0>
  gguf.weight @tq1_0 : !gguf.matrix<1x256, tq1_0> from <file = 0, offset = 0, size = 54>
  // CHECK: !gguf.matrix<1x256, tq2_0>
  gguf.weight @tq2_0 : !gguf.matrix<1x256, tq2_0> from <file = 0, offset = 0, size = 66>
  // CHECK: !gguf.matrix<1x256, mxfp4>
  gguf.weight @mxfp4 : !gguf.matrix<1x256, mxfp4> from <file = 0, offset = 0, size = 136>
  // CHECK: !gguf.matrix<1x256, nvfp4>
  gguf.weight @nvfp4 : !gguf.matrix<1x256, nvfp4> from <file = 0, offset = 0, size = 144>
  // CHECK: !gguf.matrix<1x256, q1_0>
  gguf.weight @q1_0 : !gguf.matrix<1x256, q1_0> from <file = 0, offset = 0, size = 36>
  // CHECK: !gguf.matrix<1x256, q2_0>
  gguf.weight @q2_0 : !gguf.matrix<1x256, q2_0> from <file = 0, offset = 0, size = 72>
}

// A scale for the whole weight, and one for each expert.
// CHECK-LABEL: module @scales
module @scales {
  gguf.weight @one.scale : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
  // CHECK: gguf.weight @one : !gguf.matrix<6x64, nvfp4> from <file = 0, offset = 64, size = 216> scale = @one.scale
  gguf.weight @one : !gguf.matrix<6x64, nvfp4> from <file = 0, offset = 64, size = 216> scale = @one.scale
  // CHECK: gguf.weight @other : !gguf.matrix<6x64, q4_0> from <file = 0, offset = 64, size = 216> scale = @one.scale
  gguf.weight @other : !gguf.matrix<6x64, q4_0> from <file = 0, offset = 64, size = 216> scale = @one.scale
  // CHECK: gguf.weight @experts.scale : !gguf.matrix<1x3, f32> from
  gguf.weight @experts.scale : !gguf.matrix<1x3, f32>
    from <file = 0, offset = 0, size = 4>, <file = 0, offset = 32, size = 4>, <file = 0, offset = 64, size = 4>
  // CHECK: gguf.weight @experts : !gguf.matrix<6x64, nvfp4> from <file = 0, offset = 64, size = 216> scale = @experts.scale
  gguf.weight @experts : !gguf.matrix<6x64, nvfp4> from <file = 0, offset = 64, size = 216> scale = @experts.scale
}

// Converted when it is read: the bytes in the file are of another type.
// CHECK-LABEL: module @stored
module @stored {
  // CHECK: gguf.weight @w : !gguf.matrix<4x256, q4_k> from <file = 0, offset = 64, size = 2048> stored = bf16
  gguf.weight @w : !gguf.matrix<4x256, q4_k> from <file = 0, offset = 64, size = 2048> stored = bf16
  gguf.weight @scale : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
  // CHECK: gguf.weight @scaled : !gguf.matrix<6x64, q8_0> from <file = 0, offset = 64, size = 216> scale = @scale stored = nvfp4
  gguf.weight @scaled : !gguf.matrix<6x64, q8_0> from <file = 0, offset = 64, size = 216> scale = @scale stored = nvfp4
}
