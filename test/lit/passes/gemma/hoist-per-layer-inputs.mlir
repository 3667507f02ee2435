// RUN: g4-opt %s --gemma-hoist-per-layer-inputs | FileCheck %s

gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @gain : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @q : !gguf.matrix<16x16, f32> from <file = 0, offset = 0, size = 1024>
gguf.weight @k : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @pl_table : !gguf.matrix<8x48, f32> from <file = 0, offset = 0, size = 1536>
gguf.weight @pl_proj : !gguf.matrix<48x16, f32> from <file = 0, offset = 0, size = 3072>
gguf.weight @pl_norm : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
// CHECK-LABEL: gemma.model @two_sets
gemma.model @two_sets attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 16, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = own, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = own, kv_source = 2, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  // CHECK: %[[ALL:.*]] = gemma.per_layer_inputs %[[E:.*]], %{{.*}} projection = <@pl_proj, first = 0, rows = 32, stride = 0> {{.*}} first_layer = 0 layer_count = 2 width = 16 {{.*}} {tap = #gemma.tap<per_layer_inputs>} : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x32xf32>
  // CHECK: %[[P0:.*]] = gemma.slice_layer %[[ALL]] first_layer = 0 width = 16 {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x16xf32>
  // CHECK: gemma.add %[[E]], %[[P0]]
  // CHECK: %[[P1:.*]] = gemma.slice_layer %[[ALL]] first_layer = 0 width = 16 {layer = 1 : i32}
  // CHECK: gemma.add %{{.*}}, %[[P1]]
  // Does not fire: one layer alone on the tail rows.
  // CHECK: gemma.per_layer_inputs {{.*}} first_layer = 2 layer_count = 1 {{.*}} {layer = 2 : i32} : tensor<?x16xf32>, !gemma.rows<tail>
  // CHECK-NOT: gemma.slice_layer
  %p0 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 0, rows = 16, stride = 0> norm = @pl_norm first_layer = 0 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 0 : i32, tap = #gemma.tap<per_layer_inputs>}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %a0 = gemma.add %e, %p0 : tensor<?x16xf32>
  %p1 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 16, rows = 16, stride = 0> norm = @pl_norm first_layer = 1 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 1 : i32, tap = #gemma.tap<per_layer_inputs>}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %a1 = gemma.add %a0, %p1 : tensor<?x16xf32>
  %et = gemma.embed %tail, @table scale = 4.0 : !gemma.rows<tail> -> tensor<?x16xf32>
  %p2 = gemma.per_layer_inputs %et, %tail table = @pl_table
    projection = <@pl_proj, first = 32, rows = 16, stride = 0> norm = @pl_norm first_layer = 2 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 2 : i32}
    : tensor<?x16xf32>, !gemma.rows<tail> -> tensor<?x16xf32>
  %at = gemma.select_rows %a1, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %a2 = gemma.add %at, %p2 : tensor<?x16xf32>
  %x = gemma.select_rows %a2, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %a2 : tensor<?x8xf32>, tensor<?x16xf32>
}

// Does not fire: layers that do not follow each other, and ops that disagree.
// CHECK-LABEL: gemma.model @apart
// CHECK: gemma.per_layer_inputs {{.*}} first_layer = 0 layer_count = 1
// CHECK: gemma.per_layer_inputs {{.*}} first_layer = 2 layer_count = 1
// CHECK-NOT: gemma.slice_layer
gemma.model @apart attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 16, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = own, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = own, kv_source = 2, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %p0 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 0, rows = 16, stride = 0> norm = @pl_norm first_layer = 0 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 0 : i32}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %a0 = gemma.add %e, %p0 : tensor<?x16xf32>
  %p1 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 32, rows = 16, stride = 0> norm = @pl_norm first_layer = 2 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 2 : i32}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %a1 = gemma.add %a0, %p1 : tensor<?x16xf32>
  %t = gemma.select_rows %a1, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}

// CHECK-LABEL: gemma.model @unlike
// CHECK: gemma.per_layer_inputs {{.*}} first_layer = 0 layer_count = 1
// CHECK: gemma.per_layer_inputs {{.*}} first_layer = 1 layer_count = 1
// CHECK-NOT: gemma.slice_layer
gemma.model @unlike attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 16, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = own, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = own, kv_source = 2, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %p0 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 0, rows = 16, stride = 0> norm = @pl_norm first_layer = 0 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 0 : i32}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %a0 = gemma.add %e, %p0 : tensor<?x16xf32>
  %p1 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 16, rows = 16, stride = 0> norm = @pl_norm first_layer = 1 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.25 eps = 2.0e-6 {layer = 1 : i32}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %a1 = gemma.add %a0, %p1 : tensor<?x16xf32>
  %t = gemma.select_rows %a1, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}
