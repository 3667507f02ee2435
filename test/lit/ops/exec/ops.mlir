// RUN: g4-opt %s | g4-opt | FileCheck %s
// RUN: g4-opt %s --mlir-print-op-generic | g4-opt | FileCheck %s

gguf.weight @w : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @gain : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
// CHECK: exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 9.99999997E-7 : f32, source = buffer, add = normed, scaled = false, store = true,
// CHECK-SAME: norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {
// CHECK-NEXT: }
exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}
// CHECK: exec.kernel @heads : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>],
// CHECK-SAME: epilogue = heads, tile = 64, rows_per_item = 32, heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = true, value = false, kvElement = f16, eps = 9.99999997E-7 : f32>> {
exec.kernel @heads : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>],
  epilogue = heads, tile = 64, rows_per_item = 32, heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = true,
  value = false, kvElement = f16, eps = 1.0e-6 : f32>> {}
// CHECK: exec.kernel @sort : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {
// CHECK-NEXT: ^bb0(%{{.*}}: memref<?xi32>, %{{.*}}: memref<?x1xi32>, %{{.*}}: memref<?xi32>, %{{.*}}: memref<?xi32>, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT: exec.end
exec.kernel @sort : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {
^bb0(%count: memref<?xi32>, %idx: memref<?x1xi32>, %order: memref<?xi32>, %tiles: memref<?xi32>, %begin: index, %end: index):
  exec.end
}
// CHECK: exec.kernel @geglu : #exec.linear<{{.*}}, epilogue = geglu, tile = 32, rows_per_item = 16, row = <hidden = 32, {{.*}}>, out = <f32 = true, q8 = true>> {
exec.kernel @geglu : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>,
  <element = q4_0, rows = 64, columns = 32>], epilogue = geglu, tile = 32, rows_per_item = 16,
  row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = normed, scaled = false, store = false,
    norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>,
  out = <f32 = true, q8 = true>> {}
// CHECK: exec.kernel @per_layer : #exec.linear<{{.*}}, perLayer = <width = 32, firstLayer = 1, table = <element = q4_0, rows = 8, columns = 96>, projectionScale = 5.000000e-01 : f32, tableScale = 1.000000e+00 : f32, combineScale = 7.500000e-01 : f32, eps = 9.99999997E-7 : f32>> {
exec.kernel @per_layer : #exec.linear<columns = 32, int8 = false, parts = [<element = bf16, rows = 64, columns = 32>],
  epilogue = per_layer, tile = 32, rows_per_item = 32, perLayer = <width = 32, firstLayer = 1,
  table = <element = q4_0, rows = 8, columns = 96>, projectionScale = 0.5 : f32, tableScale = 1.0 : f32,
  combineScale = 0.75 : f32, eps = 1.0e-6 : f32>> {}
// CHECK: exec.kernel @experts : #exec.experts<experts = 2, used = 1, tile_rows = 4, int8 = true, parts = [<element = q8_0, rows = 64, columns = 32>], tile = 16> {
exec.kernel @experts : #exec.experts<experts = 2, used = 1, tile_rows = 4, int8 = true,
  parts = [<element = q8_0, rows = 64, columns = 32>], tile = 16> {}
// CHECK: exec.kernel @attention : #exec.attention<heads = 4, kvHeads = 1, dim = 64, window = 16, kvElement = bf16, scale = 1.000000e+00 : f32, forms = <f32 = true, q8 = false>> {
exec.kernel @attention : #exec.attention<heads = 4, kvHeads = 1, dim = 64, window = 16, kvElement = bf16, scale = 1.0 : f32,
  forms = <f32 = true, q8 = false>> {}

// CHECK: exec.program @step attributes {arena_bytes = 8192 : i64, max_logit_rows = 2 : i64, max_rows = 8 : i64, max_tail_rows = 4 : i64, model = {hidden = 32 : i64}, peak_live_bytes = 4096 : i64} {
exec.program @step attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {hidden = 32},
    arena_bytes = 8192, peak_live_bytes = 4096} {
  // CHECK: %[[COUNT:.*]] = exec.slot counts[1]
  %count = exec.slot counts[1]
  // CHECK: exec.slot row_map[0]
  %map = exec.slot row_map[0]
  // CHECK: exec.slot rope_sliding[0]
  %rope = exec.slot rope_sliding[0]
  %positions = exec.slot positions[0]
  %sequences = exec.slot sequences[0]
  %blocks = exec.slot blocks_sliding[0]
  %stride = exec.slot counts[3]
  // CHECK: %[[H:.*]] = exec.buffer "h" at 1024 : <tail, 1 x 32 x f32>
  %h = exec.buffer "h" at 1024 : !exec.buffer<tail, 1 x 32 x f32>
  // CHECK: %[[WIDE:.*]] = exec.buffer "wide" : <tail, 2 x 32 x f32>
  %wide = exec.buffer "wide" : !exec.buffer<tail, 2 x 32 x f32>
  // CHECK: exec.columns %[[WIDE]] from 16 : <tail, 2 x 32 x f32> -> <tail, 2 x 32 x f32>
  %half = exec.columns %wide from 16 : !exec.buffer<tail, 2 x 32 x f32> -> !exec.buffer<tail, 2 x 32 x f32>
  %out = exec.buffer "out" : !exec.buffer<tail, 1 x 32 x f32>
  %q = exec.buffer "x.q" : !exec.buffer<tail, 1 x 32 x i8>
  %scale = exec.buffer "x.scale" : !exec.buffer<tail, 1 x 1 x f32>
  %sums = exec.buffer "x.sums" : !exec.buffer<tail, 1 x 2 x i32>
  // CHECK: %[[GAIN:.*]] = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32> at 64 size 128
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32> at 64 size 128
  // CHECK: exec.weight packed #gguf.part<@w, first = 0, rows = 64, stride = 0> as <element = q4_0, rows = 64, columns = 32>
  %w = exec.weight packed #gguf.part<@w, first = 0, rows = 64, stride = 0> as <element = q4_0, rows = 64, columns = 32>
  // CHECK: %[[KV:.*]] = exec.kv layer 3 window 16 heads 1 dim 64 f16
  %kv = exec.kv layer 3 window 16 heads 1 dim 64 f16
  // CHECK: exec.dispatch @row reads(%[[COUNT]], %[[H]], %[[H]], %[[GAIN]] : !exec.slot, !exec.buffer<tail, 1 x 32 x f32>, !exec.buffer<tail, 1 x 32 x f32>, !exec.weight)
  // CHECK-SAME: writes(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : !exec.buffer<tail, 1 x 32 x f32>, !exec.buffer<tail, 1 x 32 x i8>, !exec.buffer<tail, 1 x 1 x f32>, !exec.buffer<tail, 1 x 2 x i32>)
  // CHECK-SAME: over tail {items_per_block = 1 : i64, layer = -1 : i64, macs_per_row = 0 : i64, rows_per_item = 4 : i64, tap_names = ["stream"], tap_operands = array<i64: 0>}
  exec.dispatch @row reads(%count, %h, %h, %gain : !exec.slot, !exec.buffer<tail, 1 x 32 x f32>, !exec.buffer<tail, 1 x 32 x f32>, !exec.weight)
    writes(%out, %q, %scale, %sums : !exec.buffer<tail, 1 x 32 x f32>, !exec.buffer<tail, 1 x 32 x i8>, !exec.buffer<tail, 1 x 1 x f32>, !exec.buffer<tail, 1 x 2 x i32>)
    over tail {rows_per_item = 4, items_per_block = 1, layer = -1, macs_per_row = 0, tap_operands = array<i64: 0>, tap_names = ["stream"]}
  // CHECK-NEXT: exec.barrier
  exec.barrier
  // CHECK: exec.dispatch @heads {{.*}} writes(%[[KV]] : !exec.kv) over tail
  exec.dispatch @heads reads(%count, %q, %scale, %sums, %w, %map, %rope, %gain, %positions, %sequences, %blocks, %stride
      : !exec.slot, !exec.buffer<tail, 1 x 32 x i8>, !exec.buffer<tail, 1 x 1 x f32>, !exec.buffer<tail, 1 x 2 x i32>, !exec.weight,
        !exec.slot, !exec.slot, !exec.weight, !exec.slot, !exec.slot, !exec.slot, !exec.slot)
    writes(%kv : !exec.kv) over tail {rows_per_item = 32, items_per_block = 1, layer = 3, macs_per_row = 2048, tap_operands = array<i64>, tap_names = []}
  // CHECK: exec.return %{{.*}}, %{{.*}} ["logits", "hidden"] : !exec.buffer<tail, 1 x 32 x f32>, !exec.buffer<tail, 1 x 32 x f32>
  exec.return %h, %out ["logits", "hidden"] : !exec.buffer<tail, 1 x 32 x f32>, !exec.buffer<tail, 1 x 32 x f32>
}
