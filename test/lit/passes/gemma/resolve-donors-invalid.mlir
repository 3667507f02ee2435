// RUN: g4-opt %s --gemma-resolve-donors -split-input-file -verify-diagnostics
// RUN: not g4-opt %s --gemma-resolve-donors -split-input-file 2>&1 | FileCheck %s

// CHECK: has no donor
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = global, kv = shared, kv_source = -1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %k = gemma.linear %e, [#gguf.part<@table, first = 0, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x8xf32>
  %kv0 = gemma.kv_append %k, %k, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  // expected-error@+1 {{has no donor: no global layer before layer 1 writes K/V}}
  %kv1 = gemma.kv_shared {layer = 1 : i32} : !gemma.kv<heads = 1, dim = 8, window = 0>
  %h1 = gemma.attention %e, %kv1, %rows heads = 2 scale = 1.0 {layer = 1 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 0>, !gemma.rows<body>
  %t = gemma.select_rows %h1, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// CHECK: expects
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = shared, kv_source = -1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %k = gemma.linear %e, [#gguf.part<@table, first = 0, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x8xf32>
  %kv0 = gemma.kv_append %k, %k, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  // expected-error@+1 {{expects '!gemma.kv<heads = 2, dim = 8, window = 4>', but its donor, layer 0, writes '!gemma.kv<heads = 1, dim = 8, window = 4>'}}
  %kv1 = gemma.kv_shared {layer = 1 : i32} : !gemma.kv<heads = 2, dim = 8, window = 4>
  %h1 = gemma.attention %e, %kv1, %rows heads = 2 scale = 1.0 {layer = 1 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 2, dim = 8, window = 4>, !gemma.rows<body>
  %t = gemma.select_rows %h1, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// CHECK: is part of layer 7
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %k = gemma.linear %e, [#gguf.part<@table, first = 0, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x8xf32>
  %kv0 = gemma.kv_append %k, %k, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  // expected-error@+1 {{is part of layer 7, but the model has 1}}
  %kv7 = gemma.kv_shared {layer = 7 : i32} : !gemma.kv<heads = 1, dim = 8, window = 4>
  %h0 = gemma.attention %e, %kv7, %rows heads = 2 scale = 1.0 {layer = 0 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  %t = gemma.select_rows %h0, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}
