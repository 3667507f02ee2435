// Every op, printed and read back.
// RUN: g4-opt %s | g4-opt | FileCheck %s
// RUN: g4-opt %s -mlir-print-op-generic | g4-opt | FileCheck %s

gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @gain : !gguf.matrix<1x8, f32> from <file = 0, offset = 0, size = 32>
gguf.weight @one : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
gguf.weight @qkv : !gguf.matrix<32x16, f32> from <file = 0, offset = 0, size = 2048>
gguf.weight @pl_table : !gguf.matrix<8x12, f32> from <file = 0, offset = 0, size = 384>
gguf.weight @pl_proj : !gguf.matrix<12x16, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @pl_norm : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
gguf.weight @router : !gguf.matrix<4x16, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @router_scale : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @expert_scale : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
gguf.weight @gate_up : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @down : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>

// CHECK-LABEL: @embed
func.func @embed(%rows: !gemma.rows<body>) {
  // CHECK: gemma.embed %{{.*}}, @table scale = 4.000000e+00 {tap = #gemma.tap<h_embed>} : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.embed %rows, @table scale = 4.0 {tap = #gemma.tap<h_embed>} : !gemma.rows<body> -> tensor<?x16xf32>
  return
}

// CHECK-LABEL: @select_rows
func.func @select_rows(%x: tensor<?x16xf32>, %tail: !gemma.rows<tail>) {
  // CHECK: gemma.select_rows %{{.*}}, %{{.*}} : tensor<?x16xf32>, !gemma.rows<tail>
  %t = gemma.select_rows %x, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  return
}

// CHECK-LABEL: @rms_norm
func.func @rms_norm(%x: tensor<?x16xf32>) {
  // CHECK: gemma.rms_norm %{{.*}} gain @gain groups = 2 eps = 9.99999997E-7 {layer = 3 : i32} : tensor<?x16xf32>
  %a = gemma.rms_norm %x gain @gain groups = 2 eps = 1.0e-6 {layer = 3 : i32} : tensor<?x16xf32>
  // CHECK: gemma.rms_norm %{{.*}} groups = 1 eps = 9.99999997E-7 : tensor<?x16xf32>
  %b = gemma.rms_norm %x groups = 1 eps = 1.0e-6 : tensor<?x16xf32>
  return
}

// CHECK-LABEL: @linear
func.func @linear(%x: tensor<?x16xf32>) {
  // CHECK: gemma.linear %{{.*}}, [#gguf.part<@qkv, first = 0, rows = 16, stride = 0>, #gguf.part<@qkv, first = 16, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x16xf32>, tensor<?x8xf32>
  %q, %k = gemma.linear %x, [#gguf.part<@qkv, first = 0, rows = 16, stride = 0>,
    #gguf.part<@qkv, first = 16, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x16xf32>, tensor<?x8xf32>
  return
}

// CHECK-LABEL: @rope
func.func @rope(%x: tensor<?x16xf32>, %rows: !gemma.rows<tail>) {
  // CHECK: gemma.rope %{{.*}}, %{{.*}} kind = sliding heads = 2 : tensor<?x16xf32>, !gemma.rows<tail>
  %a = gemma.rope %x, %rows kind = sliding heads = 2 : tensor<?x16xf32>, !gemma.rows<tail>
  // CHECK: gemma.rope %{{.*}}, %{{.*}} kind = global heads = 1 : tensor<?x16xf32>, !gemma.rows<tail>
  %b = gemma.rope %x, %rows kind = global heads = 1 : tensor<?x16xf32>, !gemma.rows<tail>
  return
}

// CHECK-LABEL: @attention
func.func @attention(%q: tensor<?x16xf32>, %k: tensor<?x8xf32>, %rows: !gemma.rows<body>) {
  // CHECK: gemma.kv_append %{{.*}}, %{{.*}}, %{{.*}} {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  %kv = gemma.kv_append %k, %k, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  // CHECK: gemma.attention %{{.*}}, %{{.*}}, %{{.*}} heads = 2 scale = 1.000000e+00 {layer = 0 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  %a = gemma.attention %q, %kv, %rows heads = 2 scale = 1.0 {layer = 0 : i32}
    : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  // CHECK: gemma.kv_shared {layer = 1 : i32} : !gemma.kv<heads = 1, dim = 8, window = 0>
  %shared = gemma.kv_shared {layer = 1 : i32} : !gemma.kv<heads = 1, dim = 8, window = 0>
  return
}

// CHECK-LABEL: @elementwise
func.func @elementwise(%x: tensor<?x16xf32>) {
  // CHECK: gemma.geglu %{{.*}}, %{{.*}} : tensor<?x16xf32>
  %a = gemma.geglu %x, %x : tensor<?x16xf32>
  // CHECK: gemma.add %{{.*}}, %{{.*}} : tensor<?x16xf32>
  %b = gemma.add %x, %x : tensor<?x16xf32>
  // CHECK: gemma.scale %{{.*}} by @one {layer = 2 : i32, tap = #gemma.tap<h_layer>} : tensor<?x16xf32>
  %c = gemma.scale %x by @one {layer = 2 : i32, tap = #gemma.tap<h_layer>} : tensor<?x16xf32>
  return
}

// CHECK-LABEL: @per_layer_inputs
func.func @per_layer_inputs(%e: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // CHECK: gemma.per_layer_inputs %{{.*}}, %{{.*}} table = @pl_table projection = <@pl_proj, first = 4, rows = 8, stride = 0> norm = @pl_norm first_layer = 1 layer_count = 2 width = 4 projection_scale = 2.500000e-01 table_scale = 2.000000e+00 combine_scale = 5.000000e-01 eps = 9.99999997E-7 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x8xf32>
  %p = gemma.per_layer_inputs %e, %rows table = @pl_table projection = <@pl_proj, first = 4, rows = 8, stride = 0>
    norm = @pl_norm first_layer = 1 layer_count = 2 width = 4 projection_scale = 0.25 table_scale = 2.0
    combine_scale = 0.5 eps = 1.0e-6 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x8xf32>
  // CHECK: gemma.slice_layer %{{.*}} first_layer = 1 width = 4 {layer = 2 : i32} : tensor<?x8xf32> -> tensor<?x4xf32>
  %s = gemma.slice_layer %p first_layer = 1 width = 4 {layer = 2 : i32} : tensor<?x8xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: @experts
func.func @experts(%x: tensor<?x16xf32>) {
  // CHECK: gemma.route %{{.*}} router = @router scale = @router_scale expert_scale = @expert_scale experts = 4 used = 2 input_scale = 2.500000e-01 eps = 9.99999997E-7 : tensor<?x16xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  %ids, %w = gemma.route %x router = @router scale = @router_scale expert_scale = @expert_scale experts = 4 used = 2
    input_scale = 0.25 eps = 1.0e-6 : tensor<?x16xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  // CHECK: gemma.experts %{{.*}}, %{{.*}}, %{{.*}} gate = <@gate_up, first = 0, rows = 8, stride = 16> up = <@gate_up, first = 8, rows = 8, stride = 16> down = <@down, first = 0, rows = 16, stride = 16> experts = 4 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %y = gemma.experts %x, %ids, %w gate = <@gate_up, first = 0, rows = 8, stride = 16>
    up = <@gate_up, first = 8, rows = 8, stride = 16> down = <@down, first = 0, rows = 16, stride = 16>
    experts = 4 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// CHECK-LABEL: @logits
func.func @logits(%h: tensor<?x16xf32>) {
  // CHECK: gemma.logits %{{.*}}, @table softcap = 3.000000e+01 : tensor<?x16xf32> -> tensor<?x8xf32>
  %l = gemma.logits %h, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}
