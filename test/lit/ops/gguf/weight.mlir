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
}
