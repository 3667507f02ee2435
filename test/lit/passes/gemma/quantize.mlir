// RUN: g4-opt %s --gemma-quantize | FileCheck %s --check-prefix=DEFAULT
// RUN: g4-opt %s --gemma-quantize="activations=f32 kv=f32" | FileCheck %s --check-prefix=EXACT
// RUN: g4-opt %s --gemma-quantize="activations=int8 kv=bf16" | FileCheck %s --check-prefix=BF16
// RUN: not g4-opt %s --gemma-quantize="activations=int4" 2>&1 | FileCheck %s --check-prefix=BAD-ACTIVATIONS
// RUN: g4-opt %s --gemma-quantize="kv=q8_0" | FileCheck %s --check-prefix=Q8_0
// RUN: g4-opt %s --gemma-quantize="kv=q4_0" | FileCheck %s --check-prefix=Q4_0
// RUN: not g4-opt %s --gemma-quantize="kv=q4_k" 2>&1 | FileCheck %s --check-prefix=BAD-KV
// RUN: not g4-opt %s --gemma-quantize="activations=f32" 2>&1 | FileCheck %s --check-prefix=MIXED

// DEFAULT: gemma.model @text attributes {activations = #gemma.activation_type<int8>, {{.*}}kv_type = #gemma.kv_element<f16>
// EXACT: gemma.model @text attributes {activations = #gemma.activation_type<f32>, {{.*}}kv_type = #gemma.kv_element<f32>
// BF16: gemma.model @text attributes {activations = #gemma.activation_type<int8>, {{.*}}kv_type = #gemma.kv_element<bf16>
// BAD-ACTIVATIONS: error: activations are 'int4', expected int8 or f32
// Q8_0: kv_type = #gemma.kv_element<q8_0>
// Q4_0: kv_type = #gemma.kv_element<q4_0>
// BAD-KV: error: K/V is 'q4_k', expected f32, f16, bf16, q8_0 or q4_0
// MIXED: error: f32 activations need f32 K/V, but K/V is f16
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %t = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}
