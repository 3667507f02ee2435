// RUN: g4-opt %s --exec-deduplicate-kernels | FileCheck %s
// A second run changes nothing.
// RUN: g4-opt %s --exec-deduplicate-kernels > %t.once
// RUN: g4-opt %s --exec-deduplicate-kernels --exec-deduplicate-kernels | diff %t.once -

// The first of equal kernels stays. One that differs in a window, and one with a body, stay too: only specifications
// are compared.
// CHECK: exec.kernel @attention_0 : {{.*}} window = 16,
// CHECK: exec.kernel @attention_1 : {{.*}} window = 0,
// CHECK-NOT: exec.kernel @attention_2
// CHECK: exec.kernel @sort_0
// CHECK: exec.kernel @sort_1
// CHECK-NOT: exec.kernel
exec.kernel @attention_0 : #exec.attention<heads = 1, kvHeads = 1, dim = 32, window = 16, kvElement = f16, scale = 1.0 : f32, forms = <f32 = true, q8 = false>> {}
exec.kernel @attention_1 : #exec.attention<heads = 1, kvHeads = 1, dim = 32, window = 0, kvElement = f16, scale = 1.0 : f32, forms = <f32 = true, q8 = false>> {}
exec.kernel @attention_2 : #exec.attention<heads = 1, kvHeads = 1, dim = 32, window = 16, kvElement = f16, scale = 1.0 : f32, forms = <f32 = true, q8 = false>> {}
exec.kernel @sort_0 : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {}
exec.kernel @sort_1 : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {
^bb0(%count: memref<?xi32>, %idx: memref<?x1xi32>, %order: memref<?xi32>, %tiles: memref<?xi32>, %begin: index, %end: index):
  exec.end
}

// Dispatches of a kernel that went run the one that stayed; nothing else of them changes.
// CHECK: exec.program @step
// CHECK: exec.dispatch @attention_0 {{.*}}layer = 0
// CHECK: exec.dispatch @attention_1 {{.*}}layer = 1
// CHECK: exec.dispatch @attention_0 {{.*}}layer = 2
// CHECK: exec.dispatch @sort_1
exec.program @step attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %s = exec.slot row_map[0]
  %kv = exec.kv layer 0 window 16 heads 1 dim 32 f16
  %q = exec.buffer "q" : !exec.buffer<rows, 1 x 32 x f32>
  %out = exec.buffer "out" : !exec.buffer<rows, 1 x 32 x f32>
  %parts = exec.buffer "parts" : !exec.buffer<single, 32 x 48 x f32>
  %arrivals = exec.buffer "arrivals" : !exec.buffer<rows, 1 x 1 x i32>
  exec.dispatch @attention_0 reads(%s, %s, %s, %s, %s, %s, %q, %kv : !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.kv)
    writes(%parts, %arrivals, %out : !exec.buffer<single, 32 x 48 x f32>, !exec.buffer<rows, 1 x 1 x i32>, !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 1, items_per_block = 2, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.dispatch @attention_1 reads(%s, %s, %s, %s, %s, %s, %q, %kv : !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.kv)
    writes(%parts, %arrivals, %out : !exec.buffer<single, 32 x 48 x f32>, !exec.buffer<rows, 1 x 1 x i32>, !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 1, items_per_block = 32, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.dispatch @attention_2 reads(%s, %s, %s, %s, %s, %s, %q, %kv : !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.kv)
    writes(%parts, %arrivals, %out : !exec.buffer<single, 32 x 48 x f32>, !exec.buffer<rows, 1 x 1 x i32>, !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 1, items_per_block = 2, layer = 2, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  %idx = exec.buffer "idx" : !exec.buffer<rows, 1 x 1 x i32>
  %order = exec.buffer "order" : !exec.buffer<rows, 1 x 1 x i32>
  %tiles = exec.buffer "tiles" : !exec.buffer<rows, 4 x 1 x i32>
  exec.dispatch @sort_1 reads(%s, %idx : !exec.slot, !exec.buffer<rows, 1 x 1 x i32>)
    writes(%order, %tiles : !exec.buffer<rows, 1 x 1 x i32>, !exec.buffer<rows, 4 x 1 x i32>) over single {rows_per_item = 1, items_per_block = 1, layer = 3, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}
