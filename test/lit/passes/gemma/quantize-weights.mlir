// What gemma-quantize makes of weights: the type changes, the place in the file and the type there stay.
// RUN: g4-opt %s --gemma-quantize="quantize=q4_k" | FileCheck %s --check-prefix=Q4_K
// RUN: g4-opt %s --gemma-quantize="quantize=Q8_0" | FileCheck %s --check-prefix=Q8_0
// RUN: g4-opt %s --gemma-quantize | FileCheck %s --check-prefix=NONE
// Rules go before the defaults; without --quantize all else stays.
// RUN: echo "ffn_up q5_1 # a comment" > %t.rules
// RUN: echo "^blk\\.0\\.attn keep" >> %t.rules
// RUN: g4-opt %s --gemma-quantize="quantize=q4_0 rules=%t.rules" | FileCheck %s --check-prefix=RULES
// RUN: echo "attn_v q6_k" > %t.only
// RUN: g4-opt %s --gemma-quantize="rules=%t.only" | FileCheck %s --check-prefix=ONLY
// A second time decides anew, from what is stored.
// RUN: g4-opt %s --gemma-quantize="quantize=q4_0" --gemma-quantize="quantize=bf16" | FileCheck %s --check-prefix=AGAIN

// RUN: not g4-opt %s --gemma-quantize="quantize=q3_x" 2>&1 | FileCheck %s --check-prefix=BAD-TYPE
// RUN: not g4-opt %s --gemma-quantize="rules=%t.none" 2>&1 | FileCheck %s --check-prefix=NO-FILE
// RUN: echo "nothing_like_it q4_0" > %t.unused
// RUN: not g4-opt %s --gemma-quantize="rules=%t.unused" 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: echo "odd q4_0" > %t.odd
// RUN: not g4-opt %s --gemma-quantize="rules=%t.odd" 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not g4-opt %s --gemma-quantize="quantize=q4_0 imatrix=%t.none" 2>&1 | FileCheck %s --check-prefix=NO-FILE

// BAD-TYPE: error: 'q3_x' is no type to quantise to: mxfp4, q4_0, {{.*}}, f32
// NO-FILE: error: {{.*}}.none{{.*}}: No such file
// UNUSED: error: {{.*}}.unused:1: no matrix of the model matches 'nothing_like_it'
// ODD: error: {{.*}}.odd:1: 'odd.weight' has rows of 48, which are no multiple of q4_0's block of 32

// Embeddings, and V of the layers that matter most, get more bits; rows of 64 fall back.
// Q4_K: @token_embd.weight : !gguf.matrix<8x256, q6_k> from <file = 0, offset = 0, size = 4096> stored = bf16
// Q4_K: @blk.0.attn_q.weight : !gguf.matrix<8x256, q4_k> {{.*}} stored = bf16
// Q4_K: @blk.0.attn_v.weight : !gguf.matrix<8x256, q6_k> {{.*}} stored = bf16
// Q4_K: @blk.0.ffn_up.weight : !gguf.matrix<8x64, q5_0> {{.*}} stored = f32
// Q4_K: @output_norm.weight : !gguf.matrix<1x256, f32> from <file = 0, offset = 0, size = 1024>{{$}}
// Q4_K: @odd.weight : !gguf.matrix<8x48, f32> {{.*}} size = 1536>{{$}}
// Q4_K: gemma.model @text attributes {activations =

// Q8_0: @token_embd.weight : !gguf.matrix<8x256, q8_0> {{.*}} stored = bf16
// Q8_0: @blk.0.ffn_up.weight : !gguf.matrix<8x64, q8_0> {{.*}} stored = f32

// NONE-NOT: stored

// RULES: @token_embd.weight : !gguf.matrix<8x256, q6_k> {{.*}} stored = bf16
// RULES: @blk.0.attn_q.weight : !gguf.matrix<8x256, bf16> {{.*}} size = 4096>{{$}}
// RULES: @blk.0.attn_v.weight : !gguf.matrix<8x256, bf16> {{.*}} size = 4096>{{$}}
// RULES: @blk.0.ffn_up.weight : !gguf.matrix<8x64, q5_1> {{.*}} stored = f32

// ONLY: @token_embd.weight : !gguf.matrix<8x256, bf16> {{.*}} size = 4096>{{$}}
// ONLY: @blk.0.attn_v.weight : !gguf.matrix<8x256, q6_k> {{.*}} stored = bf16

// AGAIN: @token_embd.weight : !gguf.matrix<8x256, bf16> from <file = 0, offset = 0, size = 4096>{{$}}
// AGAIN: @blk.0.ffn_up.weight : !gguf.matrix<8x64, bf16> {{.*}} stored = f32
module {
  gguf.weight @token_embd.weight : !gguf.matrix<8x256, bf16> from <file = 0, offset = 0, size = 4096>
  gguf.weight @blk.0.attn_q.weight : !gguf.matrix<8x256, bf16> from <file = 0, offset = 4096, size = 4096>
  gguf.weight @blk.0.attn_v.weight : !gguf.matrix<8x256, bf16> from <file = 0, offset = 8192, size = 4096>
  gguf.weight @blk.0.ffn_up.weight : !gguf.matrix<8x64, f32> from <file = 0, offset = 12288, size = 2048>
  gguf.weight @output_norm.weight : !gguf.matrix<1x256, f32> from <file = 0, offset = 0, size = 1024>
  gguf.weight @odd.weight : !gguf.matrix<8x48, f32> from <file = 0, offset = 0, size = 1536>
  gemma.model @text attributes {hidden = 256, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
      experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
      rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
      layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
  ^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
    %e = gemma.embed %rows, @token_embd.weight scale = 16.0 : !gemma.rows<body> -> tensor<?x256xf32>
    %t = gemma.select_rows %e, %tail : tensor<?x256xf32>, !gemma.rows<tail>
    %x = gemma.select_rows %t, %logits : tensor<?x256xf32>, !gemma.rows<logits>
    %l = gemma.logits %x, @token_embd.weight softcap = 30.0 : tensor<?x256xf32> -> tensor<?x8xf32>
    gemma.return %l, %t : tensor<?x8xf32>, tensor<?x256xf32>
  }
}
