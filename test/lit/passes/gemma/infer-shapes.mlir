// RUN: g4-opt %s --gemma-infer-shapes -split-input-file -verify-diagnostics | FileCheck %s

gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @down : !gguf.matrix<16x64, f32> from <file = 0, offset = 0, size = 4096>

// The weights win: the MLP is 64 wide, and layer 0 has 2 query heads.
// CHECK-LABEL: gemma.model @wrong
// CHECK-SAME: #gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 64, experts = 0, expert_ff = 0>
// expected-warning@+2 {{layer 0: heads is 4, but its weights have 2}}
// expected-warning@+1 {{layer 0: ff is 32, but its weights have 64}}
gemma.model @wrong attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 4, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %k = gemma.linear %e, [#gguf.part<@table, first = 0, rows = 8, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x8xf32>
  %kv = gemma.kv_append %k, %k, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  %a = gemma.attention %e, %kv, %rows heads = 2 scale = 1.0 {layer = 0 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  %g = gemma.linear %a, [#gguf.part<@wide, first = 0, rows = 64, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x64xf32>
  %d = gemma.linear %g, [#gguf.part<@down, first = 0, rows = 16, stride = 0>] {layer = 0 : i32, tap = #gemma.tap<mlp>} : tensor<?x64xf32> -> tensor<?x16xf32>
  %h = gemma.select_rows %d, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}
gguf.weight @wide : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>

// -----

gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>

// Facts that no op speaks about stay, and there is no warning.
// CHECK-LABEL: gemma.model @right
// CHECK-SAME: heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>
gemma.model @right attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}
