// RUN: g4-opt %s --exec-place-barriers -split-input-file | FileCheck %s
// A second run changes nothing.
// RUN: g4-opt %s --exec-place-barriers -split-input-file > %t.once
// RUN: g4-opt %s --exec-place-barriers --exec-place-barriers -split-input-file | diff %t.once -

// Read after write.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @raw
exec.program @raw attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.dispatch @copy {{.*}}layer = 0
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.barrier
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 1
  exec.dispatch @copy reads(%count, %b : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%c : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.return
  exec.return []
}

// -----

// Write after read.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @war
exec.program @war attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.dispatch @copy {{.*}}layer = 0
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.barrier
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 1
  exec.dispatch @copy reads(%count, %c : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%a : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.return
  exec.return []
}

// -----

// Write after write.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @waw
exec.program @waw attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.dispatch @copy {{.*}}layer = 0
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%c : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.barrier
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 1
  exec.dispatch @copy reads(%count, %b : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%c : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.return
  exec.return []
}

// -----

// Does not fire: dispatches that read one buffer and write others run at the same time, and one barrier ends the phase of
// all three.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @independent
exec.program @independent attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  %d = exec.buffer "d" : !exec.buffer<rows, 1 x 32 x f32>
  %e = exec.buffer "e" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.dispatch @copy {{.*}}layer = 0
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 1
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%c : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 2
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%d : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 2, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.barrier
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 3
  exec.dispatch @copy reads(%count, %c : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%e : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 3, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 4
  exec.dispatch @copy reads(%count, %d : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%a : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 4, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.return
  exec.return []
}

// -----

// Columns of a buffer are the buffer.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @columns
exec.program @columns attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  %part = exec.columns %b from 16 : !exec.buffer<rows, 1 x 32 x f32> -> !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.dispatch @copy {{.*}}layer = 0
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.barrier
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 1
  exec.dispatch @copy reads(%count, %part : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%c : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.return
  exec.return []
}

// -----

// Barriers that are there are placed anew: the useless one goes, the missing one comes.
exec.kernel @copy : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = true, norms = []>> {}
// CHECK-LABEL: exec.program @old
exec.program @old attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %count = exec.slot counts[0]
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  %c = exec.buffer "c" : !exec.buffer<rows, 1 x 32 x f32>
  %d = exec.buffer "d" : !exec.buffer<rows, 1 x 32 x f32>
  // CHECK: exec.dispatch @copy {{.*}}layer = 0
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%b : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.barrier
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 1
  exec.dispatch @copy reads(%count, %a : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%c : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.barrier
  // CHECK-NEXT: exec.dispatch @copy {{.*}}layer = 2
  exec.dispatch @copy reads(%count, %b : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>) writes(%d : !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 4, items_per_block = 1, layer = 2, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.return
  exec.return []
}

// -----

// Pages of a layer are one thing, whichever operation names them; pages of two layers are not.
exec.kernel @heads : #exec.linear<columns = 32, int8 = false, parts = [<element = f32, rows = 32, columns = 32>], epilogue = heads, tile = 32, rows_per_item = 32, heads = <dim = 32, heads = 1, kvHeads = 1, query = false, key = true, value = false, kvElement = f16, eps = 1.0e-6 : f32>> {}
exec.kernel @attention : #exec.attention<heads = 1, kvHeads = 1, dim = 32, window = 16, kvElement = f16, scale = 1.0 : f32, forms = <f32 = true, q8 = false>> {}
gguf.weight @w : !gguf.matrix<32x32, f32> from <file = 0, offset = 0, size = 4096>
// CHECK-LABEL: exec.program @pages
exec.program @pages attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  %s = exec.slot counts[0]
  %rope = exec.slot rope_sliding[0]
  %pa = exec.buffer "pa" : !exec.buffer<single, 32 x 48 x f32>
  %pb = exec.buffer "pb" : !exec.buffer<single, 32 x 48 x f32>
  %na = exec.buffer "na" : !exec.buffer<rows, 1 x 1 x i32>
  %nb = exec.buffer "nb" : !exec.buffer<rows, 1 x 1 x i32>
  %x = exec.buffer "x" : !exec.buffer<rows, 1 x 32 x f32>
  %q = exec.buffer "q" : !exec.buffer<rows, 1 x 32 x f32>
  %a = exec.buffer "a" : !exec.buffer<rows, 1 x 32 x f32>
  %b = exec.buffer "b" : !exec.buffer<rows, 1 x 32 x f32>
  %w = exec.weight packed #gguf.part<@w, first = 0, rows = 32, stride = 0> as <element = f32, rows = 32, columns = 32>
  %gain = exec.weight vector #gguf.part<@w, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  %kv0 = exec.kv layer 0 window 16 heads 1 dim 32 f16
  %again = exec.kv layer 0 window 16 heads 1 dim 32 f16
  %kv1 = exec.kv layer 1 window 16 heads 1 dim 32 f16
  // CHECK: exec.dispatch @heads
  exec.dispatch @heads reads(%s, %x, %w, %s, %rope, %gain, %s, %s, %s, %s : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight, !exec.slot, !exec.slot, !exec.weight, !exec.slot, !exec.slot, !exec.slot, !exec.slot)
    writes(%kv0 : !exec.kv) over rows {rows_per_item = 32, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.dispatch @attention
  exec.dispatch @attention reads(%s, %s, %s, %s, %s, %s, %q, %kv1 : !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.kv)
    writes(%pa, %na, %a : !exec.buffer<single, 32 x 48 x f32>, !exec.buffer<rows, 1 x 1 x i32>, !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 1, items_per_block = 2, layer = 1, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.barrier
  // CHECK-NEXT: exec.dispatch @attention
  exec.dispatch @attention reads(%s, %s, %s, %s, %s, %s, %q, %again : !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.kv)
    writes(%pb, %nb, %b : !exec.buffer<single, 32 x 48 x f32>, !exec.buffer<rows, 1 x 1 x i32>, !exec.buffer<rows, 1 x 32 x f32>) over rows {rows_per_item = 1, items_per_block = 2, layer = 2, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.barrier
  // CHECK-NEXT: exec.dispatch @heads
  exec.dispatch @heads reads(%s, %x, %w, %s, %rope, %gain, %s, %s, %s, %s : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight, !exec.slot, !exec.slot, !exec.weight, !exec.slot, !exec.slot, !exec.slot, !exec.slot)
    writes(%again : !exec.kv) over rows {rows_per_item = 32, items_per_block = 1, layer = 3, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  // CHECK-NEXT: exec.return
  exec.return []
}
