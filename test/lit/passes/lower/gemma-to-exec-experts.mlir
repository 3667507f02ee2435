// RUN: g4-opt %s --lower-gemma-to-exec | FileCheck %s

// Two layers of six experts, two used; layer 1 has no value projection: its values are its keys.

// The row after the attention's residual is normed for the MLP and for the experts, and chooses.
// CHECK-DAG: %[[X:.*]] = exec.buffer "x.0.q" : <rows, 1 x 32 x i8>
// CHECK-DAG: %[[PROB:.*]] = exec.buffer "router_prob.0" : <rows, 1 x 6 x f32>
// CHECK-DAG: %[[IDX:.*]] = exec.buffer "router_idx.0" : <rows, 1 x 2 x i32>
// CHECK-DAG: %[[W:.*]] = exec.buffer "router_w.0" : <rows, 1 x 2 x f32>
// CHECK-DAG: exec.slot forced_experts[0]
// CHECK-DAG: exec.slot counts[5]
// CHECK: exec.dispatch @[[ROUTE:row_.*]] reads({{.*}} writes({{.*}}%[[PROB]], %[[IDX]], %[[W]] : {{.*}}macs_per_row = 192 : i64, {{.*}}tap_names = ["router_prob0", "router_idx0", "router_w0"]
// The dense MLP.
// CHECK: exec.dispatch @linear_geglu_{{.*}} writes(%[[FF:.*]], %{{.*}}, %{{.*}} :
// CHECK: %[[Y:.*]] = exec.buffer "y.0" : <rows, 1 x 32 x f32>
// CHECK: exec.dispatch @linear_{{[0-9]+}} {{.*}} writes(%[[Y]] :
// Pairs are sorted by one item over the whole step; `order` has two entries a row, `tiles` room for one tile a pair.
// CHECK-DAG: %[[ORDER:.*]] = exec.buffer "order.0" : <rows, 2 x 1 x i32>
// CHECK-DAG: %[[TILES:.*]] = exec.buffer "tiles.0" : <rows, 8 x 1 x i32>
// CHECK: exec.dispatch @[[SORT:.*]] reads(%[[COUNT:.*]], %[[IDX]] : {{.*}} writes(%[[ORDER]], %[[TILES]] : {{.*}} over single {items_per_block = 1 : i64
// Gate and up are two parts of each expert's stack, down is whole.
// CHECK-DAG: %[[EFF:.*]] = exec.buffer "expert_ff.0.q" : <rows, 2 x 32 x i8>
// CHECK-DAG: exec.weight packed #gguf.part<@blk.0.ffn_gate_up_exps.weight, first = 0, rows = 32, stride = 64> as <element = q8_0, rows = 192, columns = 32>
// CHECK-DAG: exec.weight packed #gguf.part<@blk.0.ffn_gate_up_exps.weight, first = 32, rows = 32, stride = 64> as <element = q8_0, rows = 192, columns = 32>
// CHECK: exec.dispatch @[[UP:.*]] reads(%[[COUNT]], %[[ORDER]], %[[TILES]], {{.*}} writes(%[[EFF]], {{.*}} over rows {items_per_block = 2 : i64, layer = 0 : i64, macs_per_row = 4096 : i64, rows_per_item = 1 : i64
// CHECK: %[[E:.*]] = exec.buffer "experts.0" : <rows, 2 x 32 x f32>
// CHECK: exec.dispatch @[[DOWN:.*]] reads(%[[COUNT]], %[[ORDER]], %[[TILES]], %[[EFF]], {{.*}}, %[[W]] : {{.*}} writes(%[[E]] : {{.*}} over rows {items_per_block = 2 : i64, layer = 0 : i64, macs_per_row = 2048 : i64
// Both results are summed, each with its norm, in the layer's last row chain.
// CHECK: exec.dispatch @[[SUM:.*]] reads({{.*}}%[[Y]], {{.*}}%[[E]], {{.*}} over rows {{.*}}tap_names = ["h_layer0"]

// Keys alone: one part, values from it.
// CHECK: %[[KV1:.*]] = exec.kv layer 1 window 0 heads 1 dim 64 f16
// CHECK: exec.dispatch @[[KEYS:.*]] reads({{.*}} writes(%[[KV1]] : !exec.kv) over rows {items_per_block = 1 : i64
// Another layer's forced choices are another plane of the slot: 512 rows of two.
// CHECK: exec.slot forced_experts[1024]

// CHECK: exec.kernel @[[ROUTE]] : #exec.row_kernel<{{.*}}add = normed, {{.*}}route = <router = <element = f32, rows = 6, columns = 32>, used = 2>,
// CHECK: exec.kernel @[[SORT]] : #exec.sort_experts<experts = 6, used = 2, tileRows = 32>
// CHECK: exec.kernel @[[UP]] : #exec.experts<experts = 6, used = 2, tile_rows = 32, int8 = true, parts = [<element = q8_0, rows = 192, columns = 32>, <element = q8_0, rows = 192, columns = 32>], tile = 32, out = <f32 = false, q8 = true>>
// CHECK: exec.kernel @[[DOWN]] : #exec.experts<experts = 6, used = 2, tile_rows = 32, int8 = true, parts = [<element = q8_0, rows = 192, columns = 32>], tile = 32>
// CHECK: exec.kernel @[[SUM]] : #exec.row_kernel<{{.*}}add = experts, scaled = true, store = true, expertsUsed = 2,
// CHECK: exec.kernel @[[KEYS]] : #exec.linear<{{.*}}heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = true, value = false, kvElement = f16,

gguf.weight @rope_freqs.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @token_embd.weight : !gguf.matrix<1024x32, q8_0> from <file = 0, offset = 0, size = 34816>
gguf.weight @blk.0.attn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.attn_q.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.0.attn_q_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.attn_k.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.0.attn_v.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.0.attn_k_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.attn_output.weight : !gguf.matrix<32x64, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.0.post_attention_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.ffn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.ffn_gate.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.0.ffn_up.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.0.ffn_down.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.0.post_ffw_norm_1.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.ffn_gate_inp.weight : !gguf.matrix<6x32, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @blk.0.ffn_gate_inp.scale : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128> factor = 0.176776692
gguf.weight @blk.0.ffn_down_exps.scale : !gguf.matrix<1x6, f32> from <file = 0, offset = 0, size = 24>
gguf.weight @blk.0.pre_ffw_norm_2.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.ffn_gate_up_exps.weight : !gguf.matrix<384x32, q8_0> from <file = 0, offset = 0, size = 13056>
gguf.weight @blk.0.ffn_down_exps.weight : !gguf.matrix<192x32, q8_0> from <file = 0, offset = 0, size = 6528>
gguf.weight @blk.0.post_ffw_norm_2.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.post_ffw_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.layer_output_scale.weight : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @blk.1.attn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.attn_q.weight : !gguf.matrix<128x32, q8_0> from <file = 0, offset = 0, size = 4352>
gguf.weight @blk.1.attn_q_norm.weight : !gguf.matrix<1x64, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @blk.1.attn_k.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.1.attn_k_norm.weight : !gguf.matrix<1x64, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @blk.1.attn_output.weight : !gguf.matrix<32x128, q8_0> from <file = 0, offset = 0, size = 4352>
gguf.weight @blk.1.post_attention_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.ffn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.ffn_gate.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.1.ffn_up.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.1.ffn_down.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.1.post_ffw_norm_1.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.ffn_gate_inp.weight : !gguf.matrix<6x32, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @blk.1.ffn_gate_inp.scale : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128> factor = 0.176776692
gguf.weight @blk.1.ffn_down_exps.scale : !gguf.matrix<1x6, f32> from <file = 0, offset = 0, size = 24>
gguf.weight @blk.1.pre_ffw_norm_2.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.ffn_gate_up_exps.weight : !gguf.matrix<384x32, q8_0> from <file = 0, offset = 0, size = 13056>
gguf.weight @blk.1.ffn_down_exps.weight : !gguf.matrix<192x32, q8_0> from <file = 0, offset = 0, size = 6528>
gguf.weight @blk.1.post_ffw_norm_2.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.post_ffw_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.layer_output_scale.weight : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @output_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gemma.model @text attributes {activations = #gemma.activation_type<int8>, context_length = 131072 : i64, eps = 1.0e-6 : f32, experts_used = 2 : i64, hidden = 32 : i64, kv_type = #gemma.kv_element<f16>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 32, ff = 32, experts = 6, expert_ff = 32>, #gemma.layer<kind = global, kv = own, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 64, ff = 32, experts = 6, expert_ff = 32>], per_layer_width = 0 : i64, rope_global = #gemma.rope<dim = 64, base = 1.000000e+06 : f64, factors = @rope_freqs.weight>, rope_sliding = #gemma.rope<dim = 32, base = 1.000000e+04 : f64>, softcap = 3.000000e+01 : f32, vocabulary = 1024 : i64, window = 16 : i64} {
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
  %14:2 = gemma.linear %13, [#gguf.part<@blk.0.ffn_gate.weight, first = 0, rows = 32, stride = 0>, #gguf.part<@blk.0.ffn_up.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>, tensor<?x32xf32>
  %15 = gemma.geglu %14#0, %14#1 {layer = 0 : i32} : tensor<?x32xf32>
  %16 = gemma.linear %15, [#gguf.part<@blk.0.ffn_down.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32, tap = #gemma.tap<mlp>} : tensor<?x32xf32> -> tensor<?x32xf32>
  %17 = gemma.rms_norm %16 gain @blk.0.post_ffw_norm_1.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %18 = gemma.rms_norm %12 gain @blk.0.pre_ffw_norm_2.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %ids, %weights = gemma.route %12 router = @blk.0.ffn_gate_inp.weight scale = @blk.0.ffn_gate_inp.scale expert_scale = @blk.0.ffn_down_exps.scale experts = 6 used = 2 input_scale = 1.000000e+00 eps = 1.0e-6 {layer = 0 : i32, tap = #gemma.tap<router>} : tensor<?x32xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  %19 = gemma.experts %18, %ids, %weights gate = <@blk.0.ffn_gate_up_exps.weight, first = 0, rows = 32, stride = 64> up = <@blk.0.ffn_gate_up_exps.weight, first = 32, rows = 32, stride = 64> down = <@blk.0.ffn_down_exps.weight, first = 0, rows = 32, stride = 32> experts = 6 {layer = 0 : i32} : tensor<?x32xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %20 = gemma.rms_norm %19 gain @blk.0.post_ffw_norm_2.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %21 = gemma.add %17, %20 {layer = 0 : i32} : tensor<?x32xf32>
  %22 = gemma.rms_norm %21 gain @blk.0.post_ffw_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %23 = gemma.add %12, %22 {layer = 0 : i32} : tensor<?x32xf32>
  %24 = gemma.scale %23 by @blk.0.layer_output_scale.weight {layer = 0 : i32, tap = #gemma.tap<h_layer>} : tensor<?x32xf32>
  %25 = gemma.rms_norm %24 gain @blk.1.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %26 = gemma.select_rows %24, %arg1 {layer = 1 : i32} : tensor<?x32xf32>, !gemma.rows<tail>
  %27 = gemma.rms_norm %26 gain @blk.1.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %28 = gemma.linear %27, [#gguf.part<@blk.1.attn_q.weight, first = 0, rows = 128, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x128xf32>
  %29 = gemma.rms_norm %28 gain @blk.1.attn_q_norm.weight groups = 2 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x128xf32>
  %30 = gemma.rope %29, %arg1 kind = global heads = 2 {layer = 1 : i32} : tensor<?x128xf32>, !gemma.rows<tail>
  %31 = gemma.linear %25, [#gguf.part<@blk.1.attn_k.weight, first = 0, rows = 64, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>
  %32 = gemma.rms_norm %31 gain @blk.1.attn_k_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x64xf32>
  %33 = gemma.rope %32, %arg0 kind = global heads = 1 {layer = 1 : i32} : tensor<?x64xf32>, !gemma.rows<body>
  %34 = gemma.rms_norm %31 groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x64xf32>
  %35 = gemma.kv_append %33, %34, %arg0 {layer = 1 : i32} : tensor<?x64xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 64, window = 0>
  %36 = gemma.attention %30, %35, %arg1 heads = 2 scale = 1.000000e+00 {layer = 1 : i32} : tensor<?x128xf32>, !gemma.kv<heads = 1, dim = 64, window = 0>, !gemma.rows<tail>
  %37 = gemma.linear %36, [#gguf.part<@blk.1.attn_output.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32, tap = #gemma.tap<attn_o>} : tensor<?x128xf32> -> tensor<?x32xf32>
  %38 = gemma.rms_norm %37 gain @blk.1.post_attention_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %39 = gemma.add %26, %38 {layer = 1 : i32} : tensor<?x32xf32>
  %40 = gemma.rms_norm %39 gain @blk.1.ffn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %41:2 = gemma.linear %40, [#gguf.part<@blk.1.ffn_gate.weight, first = 0, rows = 32, stride = 0>, #gguf.part<@blk.1.ffn_up.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>, tensor<?x32xf32>
  %42 = gemma.geglu %41#0, %41#1 {layer = 1 : i32} : tensor<?x32xf32>
  %43 = gemma.linear %42, [#gguf.part<@blk.1.ffn_down.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32, tap = #gemma.tap<mlp>} : tensor<?x32xf32> -> tensor<?x32xf32>
  %44 = gemma.rms_norm %43 gain @blk.1.post_ffw_norm_1.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %45 = gemma.rms_norm %39 gain @blk.1.pre_ffw_norm_2.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %ids_0, %weights_1 = gemma.route %39 router = @blk.1.ffn_gate_inp.weight scale = @blk.1.ffn_gate_inp.scale expert_scale = @blk.1.ffn_down_exps.scale experts = 6 used = 2 input_scale = 1.000000e+00 eps = 1.0e-6 {layer = 1 : i32, tap = #gemma.tap<router>} : tensor<?x32xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  %46 = gemma.experts %45, %ids_0, %weights_1 gate = <@blk.1.ffn_gate_up_exps.weight, first = 0, rows = 32, stride = 64> up = <@blk.1.ffn_gate_up_exps.weight, first = 32, rows = 32, stride = 64> down = <@blk.1.ffn_down_exps.weight, first = 0, rows = 32, stride = 32> experts = 6 {layer = 1 : i32} : tensor<?x32xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %47 = gemma.rms_norm %46 gain @blk.1.post_ffw_norm_2.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %48 = gemma.add %44, %47 {layer = 1 : i32} : tensor<?x32xf32>
  %49 = gemma.rms_norm %48 gain @blk.1.post_ffw_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %50 = gemma.add %39, %49 {layer = 1 : i32} : tensor<?x32xf32>
  %51 = gemma.scale %50 by @blk.1.layer_output_scale.weight {layer = 1 : i32, tap = #gemma.tap<h_layer>} : tensor<?x32xf32>
  %52 = gemma.rms_norm %51 gain @output_norm.weight groups = 1 eps = 1.0e-6 {tap = #gemma.tap<h_norm>} : tensor<?x32xf32>
  %53 = gemma.select_rows %52, %arg2 : tensor<?x32xf32>, !gemma.rows<logits>
  %54 = gemma.logits %53, @token_embd.weight softcap = 3.000000e+01 : tensor<?x32xf32> -> tensor<?x1024xf32>
  gemma.return %54, %52 : tensor<?x1024xf32>, tensor<?x32xf32>
}
