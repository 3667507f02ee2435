// RUN: g4-opt %s | g4-opt | FileCheck %s

gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @factors : !gguf.matrix<1x8, f32> from <file = 0, offset = 0, size = 32>

// CHECK: gemma.model @text attributes {activations = #gemma.activation_type<int8>, context_length = 64 : i64
// CHECK-SAME: kv_type = #gemma.kv_element<f16>
// CHECK-SAME: #gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>
// CHECK-SAME: #gemma.layer<kind = sliding, kv = shared, kv_source = -1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>
// CHECK-SAME: rope_global = #gemma.rope<dim = 16, base = 1.000000e+06 : f64, factors = @factors>
// CHECK-SAME: rope_sliding = #gemma.rope<dim = 8, base = 1.000000e+04 : f64>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6, factors = @factors>,
    layer_facts = [
      #gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = shared, kv_source = -1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>],
    activations = #gemma.activation_type<int8>, kv_type = #gemma.kv_element<f16>} {
// CHECK: ^bb0(%{{.*}}: !gemma.rows<body>, %{{.*}}: !gemma.rows<tail>, %{{.*}}: !gemma.rows<logits>):
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  // CHECK: gemma.return %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x16xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}
