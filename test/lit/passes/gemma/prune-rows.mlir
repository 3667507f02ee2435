// RUN: g4-opt %s --gemma-prune-rows | FileCheck %s

// Layer 1 is the last that writes K/V. Its query and everything after it is computed on the tail rows.
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @gain : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @q : !gguf.matrix<16x16, f32> from <file = 0, offset = 0, size = 1024>
gguf.weight @k : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @pl_table : !gguf.matrix<8x48, f32> from <file = 0, offset = 0, size = 1536>
gguf.weight @pl_proj : !gguf.matrix<48x16, f32> from <file = 0, offset = 0, size = 3072>
gguf.weight @pl_norm : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
// CHECK-LABEL: gemma.model @sharing
gemma.model @sharing attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 16, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = own, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>,
      #gemma.layer<kind = sliding, kv = shared, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  // CHECK: ^bb0(%[[ROWS:.*]]: !gemma.rows<body>, %[[TAIL:.*]]: !gemma.rows<tail>, %[[LOGITS:.*]]: !gemma.rows<logits>):
  // CHECK: %[[E:.*]] = gemma.embed %[[ROWS]]
  // Layer 0 stays as it is.
  // CHECK: gemma.attention %{{.*}}, %{{.*}}, %[[ROWS]] {{.*}} {layer = 0 : i32}
  // CHECK: gemma.per_layer_inputs %[[E]], %[[ROWS]] {{.*}} first_layer = 0
  // CHECK: %[[H:.*]] = gemma.add {{.*}} {layer = 0 : i32}
  // The norm that K/V needs on all rows and the query on the tail rows is computed twice; the stream is selected once.
  // CHECK: %[[X:.*]] = gemma.rms_norm %[[H]] gain @gain {{.*}} {layer = 1 : i32}
  // CHECK: %[[HT:.*]] = gemma.select_rows %[[H]], %[[TAIL]] {layer = 1 : i32}
  // CHECK: %[[XT:.*]] = gemma.rms_norm %[[HT]] gain @gain {{.*}} {layer = 1 : i32}
  // CHECK: %[[Q:.*]] = gemma.linear %[[XT]], [#gguf.part<@q
  // CHECK: %[[QR:.*]] = gemma.rope %[[Q]], %[[TAIL]]
  // CHECK: %[[K:.*]] = gemma.linear %[[X]], [#gguf.part<@k
  // CHECK: %[[KR:.*]] = gemma.rope %[[K]], %[[ROWS]]
  // CHECK: %[[KV:.*]] = gemma.kv_append %[[KR]], %[[K]], %[[ROWS]] {layer = 1 : i32}
  // CHECK: %[[A:.*]] = gemma.attention %[[QR]], %[[KV]], %[[TAIL]]
  // CHECK: gemma.add %[[HT]], %[[A]]
  // The embedding is looked up again for the tail's per-layer inputs.
  // CHECK: %[[ET:.*]] = gemma.embed %[[TAIL]]
  // CHECK: gemma.per_layer_inputs %[[ET]], %[[TAIL]] {{.*}} first_layer = 1
  // CHECK-NOT: gemma.select_rows
  // CHECK: gemma.attention %{{.*}}, %[[KV]], %[[TAIL]] {{.*}} {layer = 2 : i32}
  // CHECK: gemma.per_layer_inputs %[[ET]], %[[TAIL]] {{.*}} first_layer = 2
  // CHECK: %[[OUT:.*]] = gemma.add {{.*}} {layer = 2 : i32}
  // CHECK: gemma.select_rows %[[OUT]], %[[LOGITS]]
  // CHECK-NOT: gemma.select_rows
  %x0 = gemma.rms_norm %e gain @gain groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x16xf32>
  %q0 = gemma.linear %x0, [#gguf.part<@q, first = 0, rows = 16, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x16xf32>
  %qr0 = gemma.rope %q0, %rows kind = sliding heads = 2 {layer = 0 : i32} : tensor<?x16xf32>, !gemma.rows<body>
  %k0 = gemma.linear %x0, [#gguf.part<@k, first = 0, rows = 8, stride = 0>] {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x8xf32>
  %kr0 = gemma.rope %k0, %rows kind = sliding heads = 1 {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body>
  %kv0 = gemma.kv_append %kr0, %k0, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  %at0 = gemma.attention %qr0, %kv0, %rows heads = 2 scale = 1.0 {layer = 0 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  %h0 = gemma.add %e, %at0 {layer = 0 : i32} : tensor<?x16xf32>
  %p0 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 0, rows = 16, stride = 0> norm = @pl_norm first_layer = 0 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 0 : i32}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %o0 = gemma.add %h0, %p0 {layer = 0 : i32} : tensor<?x16xf32>
  %x1 = gemma.rms_norm %o0 gain @gain groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x16xf32>
  %q1 = gemma.linear %x1, [#gguf.part<@q, first = 0, rows = 16, stride = 0>] {layer = 1 : i32} : tensor<?x16xf32> -> tensor<?x16xf32>
  %qr1 = gemma.rope %q1, %rows kind = sliding heads = 2 {layer = 1 : i32} : tensor<?x16xf32>, !gemma.rows<body>
  %k1 = gemma.linear %x1, [#gguf.part<@k, first = 0, rows = 8, stride = 0>] {layer = 1 : i32} : tensor<?x16xf32> -> tensor<?x8xf32>
  %kr1 = gemma.rope %k1, %rows kind = sliding heads = 1 {layer = 1 : i32} : tensor<?x8xf32>, !gemma.rows<body>
  %kv1 = gemma.kv_append %kr1, %k1, %rows {layer = 1 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  %at1 = gemma.attention %qr1, %kv1, %rows heads = 2 scale = 1.0 {layer = 1 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  %h1 = gemma.add %o0, %at1 {layer = 1 : i32} : tensor<?x16xf32>
  %p1 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 16, rows = 16, stride = 0> norm = @pl_norm first_layer = 1 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 1 : i32}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %o1 = gemma.add %h1, %p1 {layer = 1 : i32} : tensor<?x16xf32>
  %x2 = gemma.rms_norm %o1 gain @gain groups = 1 eps = 1.0e-6 {layer = 2 : i32} : tensor<?x16xf32>
  %q2 = gemma.linear %x2, [#gguf.part<@q, first = 0, rows = 16, stride = 0>] {layer = 2 : i32} : tensor<?x16xf32> -> tensor<?x16xf32>
  %qr2 = gemma.rope %q2, %rows kind = sliding heads = 2 {layer = 2 : i32} : tensor<?x16xf32>, !gemma.rows<body>
  %at2 = gemma.attention %qr2, %kv1, %rows heads = 2 scale = 1.0 {layer = 2 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  %h2 = gemma.add %o1, %at2 {layer = 2 : i32} : tensor<?x16xf32>
  %p2 = gemma.per_layer_inputs %e, %rows table = @pl_table
    projection = <@pl_proj, first = 32, rows = 16, stride = 0> norm = @pl_norm first_layer = 2 layer_count = 1
    width = 16 projection_scale = 0.5 table_scale = 4.0 combine_scale = 0.5 eps = 2.0e-6 {layer = 2 : i32}
    : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x16xf32>
  %o2 = gemma.add %h2, %p2 {layer = 2 : i32} : tensor<?x16xf32>
  %t = gemma.select_rows %o2, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}

// Does not fire: only the embedding is left to select, and it is looked up on the tail rows at once.
// CHECK-LABEL: gemma.model @nothing
// CHECK: ^bb0(%{{.*}}: !gemma.rows<body>, %[[TAIL:.*]]: !gemma.rows<tail>, %[[LOGITS:.*]]: !gemma.rows<logits>):
// CHECK-NEXT: %[[E:.*]] = gemma.embed %[[TAIL]]
// CHECK-NEXT: %[[X:.*]] = gemma.select_rows %[[E]], %[[LOGITS]]
// CHECK-NEXT: %[[L:.*]] = gemma.logits %[[X]]
// CHECK-NEXT: gemma.return %[[L]], %[[E]]
gemma.model @nothing attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
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

// A second run changes nothing.
// RUN: g4-opt %s --gemma-prune-rows > %t.once
// RUN: g4-opt %s --gemma-prune-rows --gemma-prune-rows | diff %t.once -
