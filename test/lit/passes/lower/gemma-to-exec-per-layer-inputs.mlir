// RUN: g4-opt %s --lower-gemma-to-exec | FileCheck %s

// Four layers with per-layer inputs; the last two share K/V and everything behind layer 1's keys works on the tail rows.

// Per-layer inputs read the embedding itself, a raw form of the first row chain: in f32, as bf16 weights want it.
// CHECK-DAG: %[[RAW:.*]] = exec.buffer "raw" : <rows, 1 x 32 x f32>
// CHECK: exec.dispatch @row_0 {{.*}}%[[RAW]]
// CHECK: exec.weight table #gguf.part<@per_layer_token_embd.weight, first = 0, rows = 1024, stride = 0> as <element = {{.*}}, rows = 1024, columns = 128>
// Layer 0 is alone in its group: its inputs are the whole result.
// CHECK: %[[PLE0:.*]] = exec.buffer "per_layer_inputs.0" : <rows, 1 x 32 x f32>
// CHECK: exec.dispatch @[[PROJECT:.*]] reads(%{{.*}}, %[[RAW]], {{.*}} writes(%[[PLE0]] : {{.*}} over rows {items_per_block = 1 : i64, {{.*}}tap_names = ["per_layer_inputs0"]

// The tail rows' embedding is looked up through the tail's map.
// CHECK: %[[TAIL:.*]] = exec.slot tail_map[0]
// CHECK: %[[TOKENS:.*]] = exec.slot tokens[0]
// CHECK: exec.dispatch @{{.*}} reads(%{{.*}}, %[[TAIL]], %[[TOKENS]], {{.*}} over tail
// Layers 1 to 3 read their columns of one buffer, so that they share kernels.
// CHECK: %[[PLE1:.*]] = exec.buffer "per_layer_inputs.1" : <tail, 1 x 96 x f32>
// CHECK: exec.dispatch @{{.*}} writes(%[[PLE1]] : {{.*}} over tail {items_per_block = 3 : i64

// Gate, GELU times input, projection, norm and residual of the per-layer inputs are part of the layer's last row chain.
// CHECK: %[[C0:.*]] = exec.columns %[[PLE0]] from 0
// CHECK: exec.weight packed #gguf.part<@blk.0.inp_gate.weight
// CHECK: exec.weight packed #gguf.part<@blk.0.proj.weight
// CHECK: exec.weight vector #gguf.part<@blk.0.post_norm.weight
// CHECK: exec.weight vector #gguf.part<@blk.0.layer_output_scale.weight
// CHECK: exec.dispatch @[[CHAIN:.*]] reads({{.*}}%[[C0]], {{.*}} over rows {{.*}}macs_per_row = 2048 : i64, {{.*}}tap_names = ["h_layer0"]
// CHECK: %[[KV1:.*]] = exec.kv layer 1 window 0 heads 1 dim 64 f16
// CHECK: exec.columns %[[PLE1]] from 0
// CHECK: exec.columns %[[PLE1]] from 32
// CHECK: exec.columns %[[PLE1]] from 64

// Sharing layers have queries only and read the donor's pages.
// CHECK: exec.kernel @[[PROJECT]] : #exec.linear<{{.*}}epilogue = per_layer, tile = 32, rows_per_item = 32, perLayer = <width = 32, firstLayer = 0,
// CHECK: exec.kernel @[[CHAIN]] : #exec.row_kernel<row = <{{.*}}scaled = true, store = true, ple = <gate = <element = q8_0, rows = 32, columns = 32>, projection = <element = q8_0, rows = 32, columns = 32>, stride = 32>,

// RUN: g4-opt %s --lower-gemma-to-exec | FileCheck %s --check-prefix=SHARED
// SHARED: %[[KV0:.*]] = exec.kv layer 0 window 16 heads 1 dim 32 f16
// SHARED: exec.dispatch @attention_{{.*}}%[[KV0]] : {{.*}}layer = 0
// SHARED: %[[KV1:.*]] = exec.kv layer 1 window 0 heads 1 dim 64 f16
// SHARED-NOT: exec.kv layer
// SHARED: exec.dispatch @attention_{{.*}}%[[KV1]] : {{.*}}layer = 1
// SHARED: exec.dispatch @linear_heads_{{[0-9]+}} reads({{.*}} writes(%{{[0-9]+}}, %{{[0-9]+}} : !exec.buffer<tail, 1 x 64 x f32>, !exec.buffer<tail, 1 x 2 x i32>) over tail {{.*}}layer = 2
// SHARED: exec.dispatch @attention_{{.*}}%[[KV0]] : {{.*}}layer = 2
// SHARED: exec.dispatch @linear_heads_{{[0-9]+}} reads({{.*}} writes(%{{[0-9]+}}, %{{[0-9]+}} : !exec.buffer<tail, 1 x 128 x f32>, !exec.buffer<tail, 1 x 2 x i32>) over tail {{.*}}layer = 3
// SHARED: exec.dispatch @attention_{{.*}}%[[KV1]] : {{.*}}layer = 3
// SHARED-NOT: exec.kv layer

gguf.weight @rope_freqs.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @token_embd.weight : !gguf.matrix<1024x32, q8_0> from <file = 0, offset = 0, size = 34816>
gguf.weight @per_layer_token_embd.weight : !gguf.matrix<1024x128, q8_0> from <file = 0, offset = 0, size = 139264>
gguf.weight @per_layer_model_proj.weight : !gguf.matrix<128x32, bf16> from <file = 0, offset = 0, size = 8192>
gguf.weight @per_layer_proj_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128> factor = 0.707106769
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
gguf.weight @blk.0.post_ffw_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.inp_gate.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.0.proj.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.0.post_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.0.layer_output_scale.weight : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @blk.1.attn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.attn_q.weight : !gguf.matrix<128x32, q8_0> from <file = 0, offset = 0, size = 4352>
gguf.weight @blk.1.attn_q_norm.weight : !gguf.matrix<1x64, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @blk.1.attn_k.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.1.attn_v.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.1.attn_k_norm.weight : !gguf.matrix<1x64, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @blk.1.attn_output.weight : !gguf.matrix<32x128, q8_0> from <file = 0, offset = 0, size = 4352>
gguf.weight @blk.1.post_attention_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.ffn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.ffn_gate.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.1.ffn_up.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.1.ffn_down.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.1.post_ffw_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.inp_gate.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.1.proj.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.1.post_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.1.layer_output_scale.weight : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @blk.2.attn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.2.attn_q.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.2.attn_q_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.2.attn_output.weight : !gguf.matrix<32x64, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.2.post_attention_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.2.ffn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.2.ffn_gate.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.2.ffn_up.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.2.ffn_down.weight : !gguf.matrix<32x64, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.2.post_ffw_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.2.inp_gate.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.2.proj.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.2.post_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.2.layer_output_scale.weight : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @blk.3.attn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.3.attn_q.weight : !gguf.matrix<128x32, q8_0> from <file = 0, offset = 0, size = 4352>
gguf.weight @blk.3.attn_q_norm.weight : !gguf.matrix<1x64, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @blk.3.attn_output.weight : !gguf.matrix<32x128, q8_0> from <file = 0, offset = 0, size = 4352>
gguf.weight @blk.3.post_attention_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.3.ffn_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.3.ffn_gate.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.3.ffn_up.weight : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.3.ffn_down.weight : !gguf.matrix<32x64, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @blk.3.post_ffw_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.3.inp_gate.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.3.proj.weight : !gguf.matrix<32x32, q8_0> from <file = 0, offset = 0, size = 1088>
gguf.weight @blk.3.post_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @blk.3.layer_output_scale.weight : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @output_norm.weight : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gemma.model @text attributes {activations = #gemma.activation_type<int8>, context_length = 131072 : i64, eps = 1.0e-6 : f32, experts_used = 0 : i64, hidden = 32 : i64, kv_type = #gemma.kv_element<f16>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 32, ff = 32, experts = 0, expert_ff = 0>, #gemma.layer<kind = global, kv = own, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 64, ff = 32, experts = 0, expert_ff = 0>, #gemma.layer<kind = sliding, kv = shared, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 32, ff = 64, experts = 0, expert_ff = 0>, #gemma.layer<kind = global, kv = shared, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 64, ff = 64, experts = 0, expert_ff = 0>], per_layer_width = 32 : i64, rope_global = #gemma.rope<dim = 64, base = 1.000000e+06 : f64, factors = @rope_freqs.weight>, rope_sliding = #gemma.rope<dim = 32, base = 1.000000e+04 : f64>, softcap = 3.000000e+01 : f32, vocabulary = 1024 : i64, window = 16 : i64} {
^bb0(%arg0: !gemma.rows<body>, %arg1: !gemma.rows<tail>, %arg2: !gemma.rows<logits>):
  %0 = gemma.embed %arg0, @token_embd.weight scale = 5.5 {tap = #gemma.tap<h_embed>} : !gemma.rows<body> -> tensor<?x32xf32>
  %1 = gemma.per_layer_inputs %0, %arg0 table = @per_layer_token_embd.weight projection = <@per_layer_model_proj.weight, first = 0, rows = 32, stride = 0> norm = @per_layer_proj_norm.weight first_layer = 0 layer_count = 1 width = 32 projection_scale = 1.000000e+00 table_scale = 3.99999976 combine_scale = 1.000000e+00 eps = 3.20000036E-5 {layer = 0 : i32, tap = #gemma.tap<per_layer_inputs>} : tensor<?x32xf32>, !gemma.rows<body> -> tensor<?x32xf32>
  %2 = gemma.rms_norm %0 gain @blk.0.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %3:3 = gemma.linear %2, [#gguf.part<@blk.0.attn_q.weight, first = 0, rows = 64, stride = 0>, #gguf.part<@blk.0.attn_k.weight, first = 0, rows = 32, stride = 0>, #gguf.part<@blk.0.attn_v.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>
  %4 = gemma.rms_norm %3#0 gain @blk.0.attn_q_norm.weight groups = 2 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x64xf32>
  %5 = gemma.rope %4, %arg0 kind = sliding heads = 2 {layer = 0 : i32} : tensor<?x64xf32>, !gemma.rows<body>
  %6 = gemma.rms_norm %3#1 gain @blk.0.attn_k_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %7 = gemma.rope %6, %arg0 kind = sliding heads = 1 {layer = 0 : i32} : tensor<?x32xf32>, !gemma.rows<body>
  %8 = gemma.rms_norm %3#2 groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %9 = gemma.kv_append %7, %8, %arg0 {layer = 0 : i32} : tensor<?x32xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 32, window = 16>
  %10 = gemma.attention %5, %9, %arg0 heads = 2 scale = 1.000000e+00 {layer = 0 : i32} : tensor<?x64xf32>, !gemma.kv<heads = 1, dim = 32, window = 16>, !gemma.rows<body>
  %11 = gemma.linear %10, [#gguf.part<@blk.0.attn_output.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32, tap = #gemma.tap<attn_o>} : tensor<?x64xf32> -> tensor<?x32xf32>
  %12 = gemma.rms_norm %11 gain @blk.0.post_attention_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %13 = gemma.add %0, %12 {layer = 0 : i32} : tensor<?x32xf32>
  %14 = gemma.rms_norm %13 gain @blk.0.ffn_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %15:2 = gemma.linear %14, [#gguf.part<@blk.0.ffn_gate.weight, first = 0, rows = 32, stride = 0>, #gguf.part<@blk.0.ffn_up.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>, tensor<?x32xf32>
  %16 = gemma.geglu %15#0, %15#1 {layer = 0 : i32} : tensor<?x32xf32>
  %17 = gemma.linear %16, [#gguf.part<@blk.0.ffn_down.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32, tap = #gemma.tap<mlp>} : tensor<?x32xf32> -> tensor<?x32xf32>
  %18 = gemma.rms_norm %17 gain @blk.0.post_ffw_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %19 = gemma.add %13, %18 {layer = 0 : i32} : tensor<?x32xf32>
  %20 = gemma.linear %19, [#gguf.part<@blk.0.inp_gate.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %21 = gemma.geglu %20, %1 {layer = 0 : i32} : tensor<?x32xf32>
  %22 = gemma.linear %21, [#gguf.part<@blk.0.proj.weight, first = 0, rows = 32, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %23 = gemma.rms_norm %22 gain @blk.0.post_norm.weight groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %24 = gemma.add %19, %23 {layer = 0 : i32} : tensor<?x32xf32>
  %25 = gemma.scale %24 by @blk.0.layer_output_scale.weight {layer = 0 : i32, tap = #gemma.tap<h_layer>} : tensor<?x32xf32>
  %26 = gemma.embed %arg1, @token_embd.weight scale = 5.5 : !gemma.rows<tail> -> tensor<?x32xf32>
  %27 = gemma.per_layer_inputs %26, %arg1 table = @per_layer_token_embd.weight projection = <@per_layer_model_proj.weight, first = 32, rows = 96, stride = 0> norm = @per_layer_proj_norm.weight first_layer = 1 layer_count = 3 width = 32 projection_scale = 1.000000e+00 table_scale = 3.99999976 combine_scale = 1.000000e+00 eps = 3.20000036E-5 {tap = #gemma.tap<per_layer_inputs>} : tensor<?x32xf32>, !gemma.rows<tail> -> tensor<?x96xf32>
  %28 = gemma.slice_layer %27 first_layer = 1 width = 32 {layer = 1 : i32} : tensor<?x96xf32> -> tensor<?x32xf32>
  %29 = gemma.rms_norm %25 gain @blk.1.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %30 = gemma.select_rows %25, %arg1 {layer = 1 : i32} : tensor<?x32xf32>, !gemma.rows<tail>
  %31 = gemma.rms_norm %30 gain @blk.1.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %32 = gemma.linear %31, [#gguf.part<@blk.1.attn_q.weight, first = 0, rows = 128, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x128xf32>
  %33 = gemma.rms_norm %32 gain @blk.1.attn_q_norm.weight groups = 2 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x128xf32>
  %34 = gemma.rope %33, %arg1 kind = global heads = 2 {layer = 1 : i32} : tensor<?x128xf32>, !gemma.rows<tail>
  %35:2 = gemma.linear %29, [#gguf.part<@blk.1.attn_k.weight, first = 0, rows = 64, stride = 0>, #gguf.part<@blk.1.attn_v.weight, first = 0, rows = 64, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>, tensor<?x64xf32>
  %36 = gemma.rms_norm %35#0 gain @blk.1.attn_k_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x64xf32>
  %37 = gemma.rope %36, %arg0 kind = global heads = 1 {layer = 1 : i32} : tensor<?x64xf32>, !gemma.rows<body>
  %38 = gemma.rms_norm %35#1 groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x64xf32>
  %39 = gemma.kv_append %37, %38, %arg0 {layer = 1 : i32} : tensor<?x64xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 64, window = 0>
  %40 = gemma.attention %34, %39, %arg1 heads = 2 scale = 1.000000e+00 {layer = 1 : i32} : tensor<?x128xf32>, !gemma.kv<heads = 1, dim = 64, window = 0>, !gemma.rows<tail>
  %41 = gemma.linear %40, [#gguf.part<@blk.1.attn_output.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32, tap = #gemma.tap<attn_o>} : tensor<?x128xf32> -> tensor<?x32xf32>
  %42 = gemma.rms_norm %41 gain @blk.1.post_attention_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %43 = gemma.add %30, %42 {layer = 1 : i32} : tensor<?x32xf32>
  %44 = gemma.rms_norm %43 gain @blk.1.ffn_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %45:2 = gemma.linear %44, [#gguf.part<@blk.1.ffn_gate.weight, first = 0, rows = 32, stride = 0>, #gguf.part<@blk.1.ffn_up.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>, tensor<?x32xf32>
  %46 = gemma.geglu %45#0, %45#1 {layer = 1 : i32} : tensor<?x32xf32>
  %47 = gemma.linear %46, [#gguf.part<@blk.1.ffn_down.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32, tap = #gemma.tap<mlp>} : tensor<?x32xf32> -> tensor<?x32xf32>
  %48 = gemma.rms_norm %47 gain @blk.1.post_ffw_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %49 = gemma.add %43, %48 {layer = 1 : i32} : tensor<?x32xf32>
  %50 = gemma.linear %49, [#gguf.part<@blk.1.inp_gate.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %51 = gemma.geglu %50, %28 {layer = 1 : i32} : tensor<?x32xf32>
  %52 = gemma.linear %51, [#gguf.part<@blk.1.proj.weight, first = 0, rows = 32, stride = 0>] {layer = 1 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %53 = gemma.rms_norm %52 gain @blk.1.post_norm.weight groups = 1 eps = 1.0e-6 {layer = 1 : i32} : tensor<?x32xf32>
  %54 = gemma.add %49, %53 {layer = 1 : i32} : tensor<?x32xf32>
  %55 = gemma.scale %54 by @blk.1.layer_output_scale.weight {layer = 1 : i32, tap = #gemma.tap<h_layer>} : tensor<?x32xf32>
  %56 = gemma.slice_layer %27 first_layer = 1 width = 32 {layer = 2 : i32} : tensor<?x96xf32> -> tensor<?x32xf32>
  %57 = gemma.rms_norm %55 gain @blk.2.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 2 : i32} : tensor<?x32xf32>
  %58 = gemma.linear %57, [#gguf.part<@blk.2.attn_q.weight, first = 0, rows = 64, stride = 0>] {layer = 2 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>
  %59 = gemma.rms_norm %58 gain @blk.2.attn_q_norm.weight groups = 2 eps = 1.0e-6 {layer = 2 : i32} : tensor<?x64xf32>
  %60 = gemma.rope %59, %arg1 kind = sliding heads = 2 {layer = 2 : i32} : tensor<?x64xf32>, !gemma.rows<tail>
  %61 = gemma.attention %60, %9, %arg1 heads = 2 scale = 1.000000e+00 {layer = 2 : i32} : tensor<?x64xf32>, !gemma.kv<heads = 1, dim = 32, window = 16>, !gemma.rows<tail>
  %62 = gemma.linear %61, [#gguf.part<@blk.2.attn_output.weight, first = 0, rows = 32, stride = 0>] {layer = 2 : i32, tap = #gemma.tap<attn_o>} : tensor<?x64xf32> -> tensor<?x32xf32>
  %63 = gemma.rms_norm %62 gain @blk.2.post_attention_norm.weight groups = 1 eps = 1.0e-6 {layer = 2 : i32} : tensor<?x32xf32>
  %64 = gemma.add %55, %63 {layer = 2 : i32} : tensor<?x32xf32>
  %65 = gemma.rms_norm %64 gain @blk.2.ffn_norm.weight groups = 1 eps = 1.0e-6 {layer = 2 : i32} : tensor<?x32xf32>
  %66:2 = gemma.linear %65, [#gguf.part<@blk.2.ffn_gate.weight, first = 0, rows = 64, stride = 0>, #gguf.part<@blk.2.ffn_up.weight, first = 0, rows = 64, stride = 0>] {layer = 2 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>, tensor<?x64xf32>
  %67 = gemma.geglu %66#0, %66#1 {layer = 2 : i32} : tensor<?x64xf32>
  %68 = gemma.linear %67, [#gguf.part<@blk.2.ffn_down.weight, first = 0, rows = 32, stride = 0>] {layer = 2 : i32, tap = #gemma.tap<mlp>} : tensor<?x64xf32> -> tensor<?x32xf32>
  %69 = gemma.rms_norm %68 gain @blk.2.post_ffw_norm.weight groups = 1 eps = 1.0e-6 {layer = 2 : i32} : tensor<?x32xf32>
  %70 = gemma.add %64, %69 {layer = 2 : i32} : tensor<?x32xf32>
  %71 = gemma.linear %70, [#gguf.part<@blk.2.inp_gate.weight, first = 0, rows = 32, stride = 0>] {layer = 2 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %72 = gemma.geglu %71, %56 {layer = 2 : i32} : tensor<?x32xf32>
  %73 = gemma.linear %72, [#gguf.part<@blk.2.proj.weight, first = 0, rows = 32, stride = 0>] {layer = 2 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %74 = gemma.rms_norm %73 gain @blk.2.post_norm.weight groups = 1 eps = 1.0e-6 {layer = 2 : i32} : tensor<?x32xf32>
  %75 = gemma.add %70, %74 {layer = 2 : i32} : tensor<?x32xf32>
  %76 = gemma.scale %75 by @blk.2.layer_output_scale.weight {layer = 2 : i32, tap = #gemma.tap<h_layer>} : tensor<?x32xf32>
  %77 = gemma.slice_layer %27 first_layer = 1 width = 32 {layer = 3 : i32} : tensor<?x96xf32> -> tensor<?x32xf32>
  %78 = gemma.rms_norm %76 gain @blk.3.attn_norm.weight groups = 1 eps = 1.0e-6 {layer = 3 : i32} : tensor<?x32xf32>
  %79 = gemma.linear %78, [#gguf.part<@blk.3.attn_q.weight, first = 0, rows = 128, stride = 0>] {layer = 3 : i32} : tensor<?x32xf32> -> tensor<?x128xf32>
  %80 = gemma.rms_norm %79 gain @blk.3.attn_q_norm.weight groups = 2 eps = 1.0e-6 {layer = 3 : i32} : tensor<?x128xf32>
  %81 = gemma.rope %80, %arg1 kind = global heads = 2 {layer = 3 : i32} : tensor<?x128xf32>, !gemma.rows<tail>
  %82 = gemma.attention %81, %39, %arg1 heads = 2 scale = 1.000000e+00 {layer = 3 : i32} : tensor<?x128xf32>, !gemma.kv<heads = 1, dim = 64, window = 0>, !gemma.rows<tail>
  %83 = gemma.linear %82, [#gguf.part<@blk.3.attn_output.weight, first = 0, rows = 32, stride = 0>] {layer = 3 : i32, tap = #gemma.tap<attn_o>} : tensor<?x128xf32> -> tensor<?x32xf32>
  %84 = gemma.rms_norm %83 gain @blk.3.post_attention_norm.weight groups = 1 eps = 1.0e-6 {layer = 3 : i32} : tensor<?x32xf32>
  %85 = gemma.add %76, %84 {layer = 3 : i32} : tensor<?x32xf32>
  %86 = gemma.rms_norm %85 gain @blk.3.ffn_norm.weight groups = 1 eps = 1.0e-6 {layer = 3 : i32} : tensor<?x32xf32>
  %87:2 = gemma.linear %86, [#gguf.part<@blk.3.ffn_gate.weight, first = 0, rows = 64, stride = 0>, #gguf.part<@blk.3.ffn_up.weight, first = 0, rows = 64, stride = 0>] {layer = 3 : i32} : tensor<?x32xf32> -> tensor<?x64xf32>, tensor<?x64xf32>
  %88 = gemma.geglu %87#0, %87#1 {layer = 3 : i32} : tensor<?x64xf32>
  %89 = gemma.linear %88, [#gguf.part<@blk.3.ffn_down.weight, first = 0, rows = 32, stride = 0>] {layer = 3 : i32, tap = #gemma.tap<mlp>} : tensor<?x64xf32> -> tensor<?x32xf32>
  %90 = gemma.rms_norm %89 gain @blk.3.post_ffw_norm.weight groups = 1 eps = 1.0e-6 {layer = 3 : i32} : tensor<?x32xf32>
  %91 = gemma.add %85, %90 {layer = 3 : i32} : tensor<?x32xf32>
  %92 = gemma.linear %91, [#gguf.part<@blk.3.inp_gate.weight, first = 0, rows = 32, stride = 0>] {layer = 3 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %93 = gemma.geglu %92, %77 {layer = 3 : i32} : tensor<?x32xf32>
  %94 = gemma.linear %93, [#gguf.part<@blk.3.proj.weight, first = 0, rows = 32, stride = 0>] {layer = 3 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %95 = gemma.rms_norm %94 gain @blk.3.post_norm.weight groups = 1 eps = 1.0e-6 {layer = 3 : i32} : tensor<?x32xf32>
  %96 = gemma.add %91, %95 {layer = 3 : i32} : tensor<?x32xf32>
  %97 = gemma.scale %96 by @blk.3.layer_output_scale.weight {layer = 3 : i32, tap = #gemma.tap<h_layer>} : tensor<?x32xf32>
  %98 = gemma.rms_norm %97 gain @output_norm.weight groups = 1 eps = 1.0e-6 {tap = #gemma.tap<h_norm>} : tensor<?x32xf32>
  %99 = gemma.select_rows %98, %arg2 : tensor<?x32xf32>, !gemma.rows<logits>
  %100 = gemma.logits %99, @token_embd.weight softcap = 3.000000e+01 : tensor<?x32xf32> -> tensor<?x1024xf32>
  gemma.return %100, %98 : tensor<?x1024xf32>, tensor<?x32xf32>
}
