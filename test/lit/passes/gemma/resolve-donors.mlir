// RUN: g4-opt %s --gemma-resolve-donors | FileCheck %s

// The donor is the last layer of the same kind with K/V of its own, also when the kinds come in another order than
// usual: here the layers are sliding, global, sliding, and then one of each shares.
// CHECK-LABEL: gemma.model @order
// CHECK-SAME: #gemma.layer<kind = sliding, kv = shared, kv_source = 2
// CHECK-SAME: #gemma.layer<kind = global, kv = shared, kv_source = 1
// CHECK: %[[KV0:.*]] = gemma.kv_append {{.*}} {layer = 0 : i32}
// CHECK: %[[KV1:.*]] = gemma.kv_append {{.*}} {layer = 1 : i32}
// CHECK: %[[KV2:.*]] = gemma.kv_append {{.*}} {layer = 2 : i32}
// CHECK-NOT: gemma.kv_shared
// CHECK: gemma.attention %{{.*}}, %[[KV2]], %{{.*}} {layer = 3 : i32}
// CHECK: gemma.attention %{{.*}}, %[[KV1]], %{{.*}} {layer = 4 : i32}
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @order attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = global, kv = own, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = own, kv_source = 2, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = shared, kv_source = -1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = global, kv = shared, kv_source = -1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %k = gemma.linear %e, [#gguf.part<@table, first = 0, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x8xf32>
  %kv0 = gemma.kv_append %k, %k, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  %kv1 = gemma.kv_append %k, %k, %rows {layer = 1 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 0>
  %kv2 = gemma.kv_append %k, %k, %rows {layer = 2 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  %kv3 = gemma.kv_shared {layer = 3 : i32} : !gemma.kv<heads = 1, dim = 8, window = 4>
  %h3 = gemma.attention %e, %kv3, %rows heads = 2 scale = 1.0 {layer = 3 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  %kv4 = gemma.kv_shared {layer = 4 : i32} : !gemma.kv<heads = 1, dim = 8, window = 0>
  %h4 = gemma.attention %h3, %kv4, %rows heads = 2 scale = 1.0 {layer = 4 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 0>, !gemma.rows<body>
  %t = gemma.select_rows %h4, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}

// Does not fire: no layer shares.
// CHECK-LABEL: gemma.model @none
// CHECK-SAME: kv_source = 0
// CHECK: %[[OWN:.*]] = gemma.kv_append
// CHECK: gemma.attention %{{.*}}, %[[OWN]]
gemma.model @none attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %k = gemma.linear %e, [#gguf.part<@table, first = 0, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x8xf32>
  %kv0 = gemma.kv_append %k, %k, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  %h0 = gemma.attention %e, %kv0, %rows heads = 2 scale = 1.0 {layer = 0 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  %t = gemma.select_rows %h0, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}
