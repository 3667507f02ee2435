// RUN: g4-opt %s --lower-gemma-to-exec="max-rows=64 max-logit-rows=8" | FileCheck %s
// RUN: g4-opt %s --lower-gemma-to-exec | FileCheck %s --check-prefix=DEFAULT

// Two dense layers; the last is pruned: its query and all after it work on the tail rows.

// The model's facts stay for the artifact's header.
// CHECK: exec.program @step attributes {max_logit_rows = 8 : i64, max_rows = 64 : i64, max_tail_rows = 64 : i64, model = {activations = #gemma.activation_type<int8>, {{.*}}vocabulary = 1024
// DEFAULT: exec.program @step attributes {max_logit_rows = 64 : i64, max_rows = 512 : i64, max_tail_rows = 512 : i64
// CHECK-NOT: gemma.embed

// Start: the embedding of all rows, and the first norm in the form that its reader wants.
// CHECK-DAG: %[[COUNT:.*]] = exec.slot counts[0]
// CHECK-DAG: %[[MAP:.*]] = exec.slot row_map[0]
// CHECK-DAG: %[[TOKENS:.*]] = exec.slot tokens[0]
// CHECK-DAG: %[[TABLE:.*]] = exec.weight packed #gguf.part<@token_embd.weight, first = 0, rows = 1024, stride = 0> as <element = q8_0, rows = 1024, columns = 32>
// CHECK-DAG: %[[H:.*]] = exec.buffer "h" : <rows, 1 x 32 x f32>
// CHECK-DAG: %[[GAIN:.*]] = exec.weight vector #gguf.part<@blk.0.attn_norm.weight
// CHECK-DAG: %[[XQ:.*]] = exec.buffer "x.0.q" : <rows, 1 x 32 x i8>
// CHECK-DAG: %[[XS:.*]] = exec.buffer "x.0.scale" : <rows, 1 x 1 x f32>
// CHECK-DAG: %[[XU:.*]] = exec.buffer "x.0.sums" : <rows, 1 x 2 x i32>
// CHECK: exec.dispatch @[[EMBED:.*]] reads(%[[COUNT]], %[[MAP]], %[[TOKENS]], %[[TABLE]], %[[GAIN]] : {{.*}} writes(%[[H]], %[[XQ]], %[[XS]], %[[XU]] :
// CHECK-SAME: over rows {items_per_block = 1 : i64, layer = -1 : i64, macs_per_row = 0 : i64, rows_per_item = 4 : i64, tap_names = ["h_embed"], tap_operands = array<i64: 0>}

// Query, key and value are one dispatch: an item is a head; norms, rotation and the page write are its epilogue.
// CHECK-DAG: %[[Q:.*]] = exec.buffer "q.0" : <rows, 1 x 64 x f32>
// CHECK-DAG: %[[ARRIVALS:.*]] = exec.buffer "arrivals.0" : <rows, 1 x 2 x i32>
// CHECK-DAG: %[[KV:.*]] = exec.kv layer 0 window 16 heads 1 dim 32 f16
// CHECK-DAG: exec.slot rope_sliding[0]
// CHECK-DAG: exec.slot blocks_sliding[0]
// CHECK-DAG: exec.slot counts[3]
// CHECK: exec.dispatch @[[HEADS:.*]] reads(%{{.*}}, %[[XQ]], %[[XS]], %[[XU]], {{.*}} writes(%[[Q]], %[[ARRIVALS]], %[[KV]] : !exec.buffer<rows, 1 x 64 x f32>, !exec.buffer<rows, 1 x 2 x i32>, !exec.kv)
// CHECK-SAME: over rows {items_per_block = 4 : i64, layer = 0 : i64, macs_per_row = 4096 : i64, rows_per_item = 32 : i64

// CHECK-DAG: %[[AQ:.*]] = exec.buffer "attention.0.q" : <rows, 1 x 64 x i8>
// Segments of up to sixteen rows: a window of sixteen lies in two of them at most, and a row has two query heads.
// CHECK: %[[PARTS:.*]] = exec.buffer "parts.0" : <single, 64 x 48 x f32>
// CHECK: exec.dispatch @[[ATTENTION:.*]] reads({{.*}}, %[[Q]], %[[KV]] : {{.*}} writes(%[[PARTS]], %[[ARRIVALS]], %[[AQ]],
// CHECK-SAME: over rows {items_per_block = 2 : i64, layer = 0 : i64
// CHECK: %[[O:.*]] = exec.buffer "y.0" : <rows, 1 x 32 x f32>
// CHECK: exec.dispatch @linear_3 reads({{.*}}%[[AQ]], {{.*}} writes(%[[O]] : {{.*}}tap_names = ["attn_o0"], tap_operands = array<i64: 0>

// The attention's residual and the MLP's norm are the prologue of gate and up: no row dispatch stands between.
// CHECK-NOT: exec.dispatch
// CHECK-DAG: %[[H0:.*]] = exec.buffer "h.0" : <rows, 1 x 32 x f32>
// CHECK-DAG: %[[FF:.*]] = exec.buffer "ff.0.q" : <rows, 1 x 64 x i8>
// CHECK: exec.dispatch @[[GEGLU:.*]] reads(%{{.*}}, %[[H]], %[[O]], {{.*}} writes(%[[H0]], %[[FF]],
// CHECK-SAME: over rows {items_per_block = 2 : i64, layer = 0 : i64, macs_per_row = 4096 : i64, rows_per_item = 16 : i64
// CHECK: %[[Y:.*]] = exec.buffer "y.0" : <rows, 1 x 32 x f32>
// CHECK: exec.dispatch @linear_5 reads({{.*}}%[[FF]], {{.*}} writes(%[[Y]] :

// The layer's end: residual, scale, the next layer's norm.
// CHECK: exec.weight vector #gguf.part<@blk.0.layer_output_scale.weight
// CHECK: %[[H1:.*]] = exec.buffer "h.0" : <rows, 1 x 32 x f32>
// CHECK: %[[X1:.*]] = exec.buffer "x.1.q" : <rows, 1 x 32 x i8>
// CHECK: exec.dispatch @[[END:.*]] reads(%{{.*}}, %[[H0]], %[[Y]], {{.*}} writes(%[[H1]], %[[X1]],
// CHECK-SAME: over rows {{.*}}tap_names = ["h_layer0"], tap_operands = array<i64: 0>

// Query, keys and values are two dispatches, on the tail and on all rows. The query's gathers the tail rows' stream as
// its prologue, so that the two need no barrier between them.
// CHECK-DAG: %[[TM:.*]] = exec.slot tail_map[0]
// CHECK-DAG: %[[TH:.*]] = exec.buffer "h.1" : <tail, 1 x 32 x f32>
// CHECK-DAG: %[[Q1:.*]] = exec.buffer "q.1" : <tail, 1 x 128 x f32>
// CHECK: exec.dispatch @[[SELECT:.*]] reads(%{{.*}}, %[[TM]], %[[H1]], {{.*}} writes(%[[TH]], %[[Q1]], %[[ARRIVALS1:.*]] : {{.*}} over tail {items_per_block = 2 : i64
// CHECK-DAG: exec.slot rope_global[0]
// CHECK-DAG: exec.slot blocks_global[0]
// CHECK-DAG: exec.slot counts[4]
// CHECK-DAG: %[[KV1:.*]] = exec.kv layer 1 window 0 heads 1 dim 64 f16
// CHECK: exec.dispatch @linear_heads_8 reads(%{{.*}}, %[[X1]], {{.*}} writes(%[[KV1]] : !exec.kv) over rows {items_per_block = 2 : i64
// A whole context: 32 segments.
// CHECK: %[[PARTS1:.*]] = exec.buffer "parts.1" : <single, 1024 x 80 x f32>
// CHECK: exec.dispatch @attention_9 reads({{.*}}, %[[Q1]], %[[KV1]] : {{.*}} writes(%[[PARTS1]], %[[ARRIVALS1]], {{.*}} over tail {items_per_block = 32 : i64
// CHECK: exec.dispatch @linear_geglu_11 reads(%{{.*}}, %[[TH]], {{.*}} over tail

// The final norm is an output, in f32; the logits' rows of it are gathered and quantised for the tied head.
// CHECK: %[[HIDDEN:.*]] = exec.buffer "x" : <tail, 1 x 32 x f32>
// CHECK: exec.dispatch @row_13 {{.*}} over tail {{.*}}tap_names = ["h_layer1", "h_norm"], tap_operands = array<i64: 0, 1>
// CHECK: exec.slot logit_map[0]
// CHECK: exec.dispatch @row_14 reads(%{{.*}}, %{{.*}}, %[[HIDDEN]] : {{.*}} over logits
// CHECK: exec.weight packed #gguf.part<@token_embd.weight, first = 0, rows = 1024, stride = 0>
// CHECK: %[[LOGITS:.*]] = exec.buffer "logits" : <logits, 1 x 1024 x f32>
// CHECK: %[[MAXIMA:.*]] = exec.buffer "logit_maxima" : <logits, 1 x 16 x f32>
// CHECK: exec.dispatch @linear_logits_15 {{.*}} writes(%[[LOGITS]], %[[MAXIMA]] : {{.*}} over logits {items_per_block = 16 : i64
// CHECK-NEXT: exec.return %[[LOGITS]], %[[HIDDEN]], %[[MAXIMA]] ["logits", "hidden", "logit_maxima"]

// The kernels, each for its shapes.
// CHECK: exec.kernel @[[EMBED]] : #exec.row_kernel<row = <hidden = 32, int8 = true, {{.*}}source = embed, add = none, scaled = false, store = true, embed = <element = q8_0, rows = 1024, columns = 32>, embedScale = 5.500000e+00 : f32, norms = [#exec.norm<normalize = true, gain = true, forms = <f32 = false, q8 = true>>]>>
// CHECK: exec.kernel @[[HEADS]] : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>, <element = q4_0, rows = 32, columns = 32>, <element = q4_0, rows = 32, columns = 32>], epilogue = heads, tile = 32, rows_per_item = 32, heads = <dim = 32, heads = 2, kvHeads = 1, query = true, key = true, value = true, kvElement = f16,
// CHECK: exec.kernel @[[ATTENTION]] : #exec.attention<heads = 2, kvHeads = 1, dim = 32, window = 16, kvElement = f16, scale = 1.000000e+00 : f32, forms = <f32 = false, q8 = true>>
// CHECK: exec.kernel @[[GEGLU]] : #exec.linear<{{.*}}epilogue = geglu, tile = 32, rows_per_item = 16, row = <hidden = 32, {{.*}}source = buffer, add = normed, scaled = false, store = true, {{.*}}>, out = <f32 = false, q8 = true>>
// CHECK: exec.kernel @[[END]] : #exec.row_kernel<{{.*}}add = normed, scaled = true, store = true,
// CHECK: exec.kernel @[[SELECT]] : #exec.linear<{{.*}}rows_per_item = 16, row = <hidden = 32, {{.*}}source = gather, add = none, scaled = false, store = true, {{.*}}>, heads = <dim = 64,
// CHECK: exec.kernel @linear_logits_15 : #exec.linear<{{.*}}epilogue = logits, tile = 64, rows_per_item = 32, softcap = 3.000000e+01 : f32>
// CHECK-NOT: gemma.model

gguf.weight @rope_freqs.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @token_embd.weight : !gguf.matrix<1024x32, q8_0> from <file = 0, offset = 0, size = 34816>
gguf.weight @blk.0.attn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.attn_q.weight : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.0.attn_q_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.attn_k.weight : !gguf.matrix<32x32, q4_0> from <file = 0, offset = 0, size = 576>
gguf.weight @blk.0.attn_v.weight : !gguf.matrix<32x32, q4_0> from <file = 0, offset = 0, size = 576>
gguf.weight @blk.0.attn_k_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.attn_output.weight : !gguf.matrix<32x64, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.0.post_attention_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.ffn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.ffn_gate.weight : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.0.ffn_up.weight : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.0.ffn_down.weight : !gguf.matrix<32x64, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.0.post_ffw_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.layer_output_scale.weight : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @blk.1.attn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.attn_q.weight : !gguf.matrix<128x32, q4_0> from <file = 0, offset = 0, size = 2304>
gguf.weight @blk.1.attn_q_norm.weight : !gguf.matrix<1x64, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @blk.1.attn_k.weight : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.1.attn_v.weight : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.1.attn_k_norm.weight : !gguf.matrix<1x64, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @blk.1.attn_output.weight : !gguf.matrix<32x128, q4_0> from <file = 0, offset = 0, size = 2304>
gguf.weight @blk.1.post_attention_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.ffn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.ffn_gate.weight : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.1.ffn_up.weight : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.1.ffn_down.weight : !gguf.matrix<32x64, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @blk.1.post_ffw_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.layer_output_scale.weight : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @output_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gemma.model @text attributes {activations = #gemma.activation_type<int8>, context_length = 131072 : i64, eps = 1.0e-6 : f32, experts_used = 0 : i64, hidden = 32 : i64, kv_type = #gemma.kv_element<f16>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 32, ff = 64, experts = 0, expert_ff = 0>, #gemma.layer<kind = global, kv = own, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 64, ff = 64, experts = 0, expert_ff = 0>], per_layer_width = 0 : i64, rope_global = #gemma.rope<dim = 64, base = 1.000000e+06 : f64, factors = @rope_freqs.weight>, rope_sliding = #gemma.rope<dim = 32, base = 1.000000e+04 : f64>, softcap = 3.000000e+01 : f32, vocabulary = 1024 : i64, window = 16 : i64} {
^bb0(%arg0: !gemma.rows<body>, %arg1: !gemma.rows<tail>, %arg2: !gemma.rows<logits>):
  %0 = gemma.embed %arg0, @token_embd.weight scale = 5.5 {tap = #gemma.tap<h_embed>} : !gemma.rows<body> -> tensor<?x32xf32>
  %1 = gemma.rms_norm %0 gain @blk.0.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %2:3 = gemma.linear %1, [#gguf.part<@blk.0.attn_q.weight, first = 0, rows = 64, stride = 0>, #gguf.part<@blk.0.attn_k.weight, first = 0, rows = 32, stride = 0>, #gguf.part<@blk.0.attn_v.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>
  %3 = gemma.rms_norm %2#0 gain @blk.0.attn_q_norm.weight groups = 2 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x64xf32>
  %4 = gemma.rope %3, %arg0 kind = sliding heads = 2 {layer = 0 : i32} : tensor<?x64xf32>, !gemma.rows<body>
  %5 = gemma.rms_norm %2#1 gain @blk.0.attn_k_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %6 = gemma.rope %5, %arg0 kind = sliding heads = 1 {layer = 0 : i32} : tensor<?x32xf32>, !gemma.rows<body>
  %7 = gemma.rms_norm %2#2 groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %8 = gemma.kv_append %6, %7, %arg0 {layer = 0 : i32} : tensor<?x32xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 32, window = 16>
  %9 = gemma.attention %4, %8, %arg0 heads = 2 scale = 1.000000e+00 {layer = 0 : i32} : tensor<?x64xf32>, !gemma.kv<heads = 1, dim = 32, window = 16>, !gemma.rows<body>
  %10 = gemma.linear %9, [#gguf.part<@blk.0.attn_output.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32, tap = #gemma.tap<attn_o>} : tensor<?x64xf32> -> tensor<?x32xf32>
  %11 = gemma.rms_norm %10 gain @blk.0.post_attention_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %12 = gemma.add %0, %11 {layer = 0 : i32} : tensor<?x32xf32>
  %13 = gemma.rms_norm %12 gain @blk.0.ffn_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %14:2 = gemma.linear %13, [#gguf.part<@blk.0.ffn_gate.weight, first = 0, rows = 64, stride = 0>, #gguf.part<@blk.0.ffn_up.weight, first = 0, rows = 64, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>, tensor<?x64xf32>
  %15 = gemma.geglu %14#0, %14#1 {layer = 0 : i32} : tensor<?x64xf32>
  %16 = gemma.linear %15, [#gguf.part<@blk.0.ffn_down.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32, tap = #gemma.tap<mlp>} : tensor<?x64xf32> -> tensor<?x32xf32>
  %17 = gemma.rms_norm %16 gain @blk.0.post_ffw_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %18 = gemma.add %12, %17 {layer = 0 : i32} : tensor<?x32xf32>
  %19 = gemma.scale %18 by @blk.0.layer_output_scale.weight {layer = 0 : i32, tap = #gemma.tap<h_layer>} : tensor<?x32xf32>
  %20 = gemma.rms_norm %19 gain @blk.1.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %21 = gemma.select_rows %19, %arg1 {layer = 1 : i32} : tensor<?x32xf32>, !gemma.rows<tail>
  %22 = gemma.rms_norm %21 gain @blk.1.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %23 = gemma.linear %22, [#gguf.part<@blk.1.attn_q.weight, first = 0, rows = 128, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x128xf32>
  %24 = gemma.rms_norm %23 gain @blk.1.attn_q_norm.weight groups = 2 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x128xf32>
  %25 = gemma.rope %24, %arg1 kind = global heads = 2 {layer = 1 : i32} : tensor<?x128xf32>, !gemma.rows<tail>
  %26:2 = gemma.linear %20, [#gguf.part<@blk.1.attn_k.weight, first = 0, rows = 64, stride = 0>, #gguf.part<@blk.1.attn_v.weight, first = 0, rows = 64, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>, tensor<?x64xf32>
  %27 = gemma.rms_norm %26#0 gain @blk.1.attn_k_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x64xf32>
  %28 = gemma.rope %27, %arg0 kind = global heads = 1 {layer = 1 : i32} : tensor<?x64xf32>, !gemma.rows<body>
  %29 = gemma.rms_norm %26#1 groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x64xf32>
  %30 = gemma.kv_append %28, %29, %arg0 {layer = 1 : i32} : tensor<?x64xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 64, window = 0>
  %31 = gemma.attention %25, %30, %arg1 heads = 2 scale = 1.000000e+00 {layer = 1 : i32} : tensor<?x128xf32>, !gemma.kv<heads = 1, dim = 64, window = 0>, !gemma.rows<tail>
  %32 = gemma.linear %31, [#gguf.part<@blk.1.attn_output.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32, tap = #gemma.tap<attn_o>} : tensor<?x128xf32> -> tensor<?x32xf32>
  %33 = gemma.rms_norm %32 gain @blk.1.post_attention_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %34 = gemma.add %21, %33 {layer = 1 : i32} : tensor<?x32xf32>
  %35 = gemma.rms_norm %34 gain @blk.1.ffn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %36:2 = gemma.linear %35, [#gguf.part<@blk.1.ffn_gate.weight, first = 0, rows = 64, stride = 0>, #gguf.part<@blk.1.ffn_up.weight, first = 0, rows = 64, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>, tensor<?x64xf32>
  %37 = gemma.geglu %36#0, %36#1 {layer = 1 : i32} : tensor<?x64xf32>
  %38 = gemma.linear %37, [#gguf.part<@blk.1.ffn_down.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32, tap = #gemma.tap<mlp>} : tensor<?x64xf32> -> tensor<?x32xf32>
  %39 = gemma.rms_norm %38 gain @blk.1.post_ffw_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %40 = gemma.add %34, %39 {layer = 1 : i32} : tensor<?x32xf32>
  %41 = gemma.scale %40 by @blk.1.layer_output_scale.weight {layer = 1 : i32, tap = #gemma.tap<h_layer>} : tensor<?x32xf32>
  %42 = gemma.rms_norm %41 gain @output_norm.weight groups = 1 eps = 1.0e-6 {tap = #gemma.tap<h_norm>} : tensor<?x32xf32>
  %43 = gemma.select_rows %42, %arg2 : tensor<?x32xf32>, !gemma.rows<logits>
  %44 = gemma.logits %43, @token_embd.weight softcap = 3.000000e+01 : tensor<?x32xf32> -> tensor<?x1024xf32>
  gemma.return %44, %42 : tensor<?x1024xf32>, tensor<?x32xf32>
}
