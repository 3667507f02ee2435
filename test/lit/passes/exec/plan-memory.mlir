// RUN: g4-opt %s --exec-plan-memory -split-input-file | FileCheck %s
// A second run changes nothing.
// RUN: g4-opt %s --exec-plan-memory -split-input-file > %t.once
// RUN: g4-opt %s --exec-plan-memory --exec-plan-memory -split-input-file | diff %t.once -

// Eight rows of 32 f32 are 1024 bytes. `a` is dead when `c` is first written, a phase later: they share bytes, and so do
// `b` and `d`.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @reuse
// CHECK-SAME: arena_bytes = 2048 : i64,{{.*}} peak_live_bytes = 2048 : i64
exec.program @reuse attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  // CHECK: exec.buffer "a" at 1024 :
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "b" at 0 :
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "c" at 1024 :
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "d" at 0 :
  %d = exec.buffer "d" : !exec.buffer<rows, 1 x 32 x f32>
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.barrier
  exec.dispatch @copy reads(%count, %b : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%c : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.barrier
  exec.dispatch @copy reads(%count, %c : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%d : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 2, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

// Dispatches of one phase run at the same time: `a` is dead after the first, but nothing may take its place before the
// barrier.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @phase
// CHECK-SAME: arena_bytes = 4096 : i64,{{.*}} peak_live_bytes = 4096 : i64
exec.program @phase attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  // CHECK: exec.buffer "a" at 0 :
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "b" at 1024 :
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "c" at 2048 :
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "d" at 3072 :
  %d = exec.buffer "d" : !exec.buffer<rows, 1 x 32 x f32>
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.dispatch @copy reads(%count, %c : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%d : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

// An output lives to the end, also when nothing in the program reads it; a buffer that nothing uses has no place.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @output
// CHECK-SAME: arena_bytes = 3072 : i64,{{.*}} peak_live_bytes = 3072 : i64
exec.program @output attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  // CHECK: exec.buffer "a" at 1024 :
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "b" at 0 :
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "c" at 1024 :
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "d" at 2048 :
  %d = exec.buffer "d" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "unused" :
  %unused = exec.buffer "unused" : !exec.buffer<rows, 1 x 32 x f32>
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.barrier
  exec.dispatch @copy reads(%count, %c : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%d : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return %b ["b"] : !exec.buffer<rows, 1 x 32 x f32>
}

// -----

// Columns keep their buffer alive.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @columns
// CHECK-SAME: arena_bytes = 3072 : i64,{{.*}} peak_live_bytes = 3072 : i64
exec.program @columns attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  // CHECK: exec.buffer "a" at 1024 :
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "b" at 0 :
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "c" at 1024 :
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "d" at 2048 :
  %d = exec.buffer "d" : !exec.buffer<rows, 1 x 32 x f32>
  %part = exec.columns %b from 16 : !exec.buffer<rows, 1 x 32 x f32> -> !exec.buffer<rows, 1 x 32 x f32>
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.barrier
  exec.dispatch @copy reads(%count, %c : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%d : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.dispatch @copy reads(%count, %part : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%d : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 2, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

// A buffer has room for its set: 8 rows, 4 tail rows or 2 logit rows, the row of `single`, and for every copy; sizes are
// rounded up to 128 bytes, so that no two share a cache line.
exec.kernel @gather : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = gather, add = none, scaled = false, store = true, norms = []>> {}
exec.kernel @sort : #exec.sort_experts<experts = 2, used = 2, tileRows = 4> {}
// CHECK-LABEL: exec.program @sets
// CHECK-SAME: arena_bytes = 1920 : i64,{{.*}} peak_live_bytes = 1920 : i64
exec.program @sets attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  // CHECK: exec.buffer "rows" at 0 : <rows
  %rows = exec.buffer "rows" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.buffer "tail" at 1024 : <tail
  %tail = exec.buffer "tail" : !exec.buffer<tail, 1 x 32 x f32>
  // CHECK: exec.buffer "idx" at 1536 : <logits
  %idx = exec.buffer "idx" : !exec.buffer<logits, 1 x 2 x i32>
  // CHECK: exec.buffer "order" at 1664 : <logits
  %order = exec.buffer "order" : !exec.buffer<logits, 2 x 8 x i32>
  // CHECK: exec.buffer "tiles" at 1792 : <single
  %tiles = exec.buffer "tiles" : !exec.buffer<single, 4 x 8 x i32>
  exec.dispatch @gather reads(%count, %count, %rows : !exec.slot, !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%tail : !exec.buffer<tail, 1 x 32 x f32>) over tail {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.dispatch @sort reads(%count, %idx : !exec.slot, !exec.buffer<logits, 1 x 2 x i32>) writes(%order, %tiles : !exec.buffer<logits, 2 x 8 x i32>, !exec.buffer<single, 4 x 8 x i32>) over single {rows_per_item = 1, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}
