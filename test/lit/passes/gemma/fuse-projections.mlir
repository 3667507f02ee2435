// RUN: g4-opt %s --gemma-fuse-projections | FileCheck %s

gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @q : !gguf.matrix<16x16, f32> from <file = 0, offset = 0, size = 1024>
gguf.weight @kv : !gguf.matrix<16x16, f32> from <file = 0, offset = 0, size = 1024>
gguf.weight @v : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @down : !gguf.matrix<16x16, f32> from <file = 0, offset = 0, size = 1024>
// CHECK-LABEL: gemma.model @fuse
gemma.model @fuse attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  // Three projections of one value become one, in their order, whether the file stores k and v in one tensor or in two.
  // CHECK: %[[QKV:.*]]:3 = gemma.linear %[[E:.*]], [#gguf.part<@q, first = 0, rows = 16, stride = 0>, #gguf.part<@kv, first = 0, rows = 8, stride = 0>, #gguf.part<@kv, first = 8, rows = 8, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x16xf32>, tensor<?x8xf32>, tensor<?x8xf32>
  // CHECK: gemma.kv_append %[[QKV]]#1, %[[QKV]]#2
  // CHECK: gemma.attention %[[QKV]]#0
  %q = gemma.linear %e, [#gguf.part<@q, first = 0, rows = 16, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x16xf32>
  %k = gemma.linear %e, [#gguf.part<@kv, first = 0, rows = 8, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x8xf32>
  %v = gemma.linear %e, [#gguf.part<@kv, first = 8, rows = 8, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x8xf32>
  %kv = gemma.kv_append %k, %v, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  %at = gemma.attention %q, %kv, %rows heads = 2 scale = 1.0 {layer = 0 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  // Does not fire: different values, another layer, a tapped result.
  // CHECK: gemma.linear %{{.*}}, [#gguf.part<@down, first = 0, rows = 16, stride = 0>] {layer = 0 : i32} :
  // CHECK: gemma.linear %{{.*}}, [#gguf.part<@q, first = 0, rows = 16, stride = 0>] {layer = 1 : i32} :
  // CHECK: gemma.linear %{{.*}}, [#gguf.part<@down, first = 0, rows = 16, stride = 0>] {layer = 0 : i32, tap = #gemma.tap<mlp>} :
  %o = gemma.linear %at, [#gguf.part<@down, first = 0, rows = 16, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x16xf32>
  %z = gemma.linear %at, [#gguf.part<@q, first = 0, rows = 16, stride = 0>] {layer = 1 : i32} : tensor<?x16xf32> -> tensor<?x16xf32>
  %m = gemma.linear %at, [#gguf.part<@down, first = 0, rows = 16, stride = 0>] {layer = 0 : i32, tap = #gemma.tap<mlp>} : tensor<?x16xf32> -> tensor<?x16xf32>
  %a0 = gemma.add %o, %z : tensor<?x16xf32>
  %a1 = gemma.add %a0, %m : tensor<?x16xf32>
  %t = gemma.select_rows %a1, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}
