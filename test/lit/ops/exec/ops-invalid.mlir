// RUN: g4-opt %s -split-input-file -verify-diagnostics
// The programs below differ from a right one in one thing, which the program's name says.

// expected-error@+1 {{has room for 4 rows, 8 tail rows and 2 logit rows: each holds the next}}
exec.program @program_c1 attributes {max_rows = 4, max_tail_rows = 8, max_logit_rows = 2, model = {}} {
  exec.return []
}

// -----

exec.program @return_c1 attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  // expected-error@+1 {{has 1 outputs and 2 names}}
  exec.return %h ["logits", "hidden"] : !exec.buffer<rows, 1 x 32 x f32>
}

// -----

// expected-error@+1 {{a buffer of 0 x 32 elements a row}}
func.func @buffer_c1(%x: !exec.buffer<rows, 0 x 32 x f32>) { return }

// -----

// expected-error@+1 {{a buffer of 'f16', expected f32, i32 or i8}}
func.func @buffer_c2(%x: !exec.buffer<rows, 1 x 32 x f16>) { return }

// -----

func.func @columns_c1(%x: !exec.buffer<rows, 1 x 64 x f32>) {
  // expected-error@+1 {{gives '!exec.buffer<rows, 1 x 32 x f32>' of '!exec.buffer<rows, 1 x 64 x f32>': rows stay as far apart}}
  %y = exec.columns %x from 32 : !exec.buffer<rows, 1 x 64 x f32> -> !exec.buffer<rows, 1 x 32 x f32>
  return
}

// -----

func.func @columns_c2(%x: !exec.buffer<rows, 1 x 64 x f32>) {
  // expected-error@+1 {{starts at column 64 of 64}}
  %y = exec.columns %x from 64 : !exec.buffer<rows, 1 x 64 x f32> -> !exec.buffer<rows, 1 x 64 x f32>
  return
}

// -----

func.func @weight_c1() {
  // expected-error@+1 {{part is not a #gguf.part}}
  %w = exec.weight packed 1 : i32 as <element = f32, rows = 1, columns = 32>
  return
}

// -----

func.func @weight_c2() {
  // expected-error@+1 {{stores 24x32 of a part of 16 rows}}
  %w = exec.weight packed #gguf.part<@w, first = 0, rows = 16, stride = 16> as <element = f32, rows = 24, columns = 32>
  return
}

// -----

func.func @weight_c3() {
  // expected-error@+1 {{has only half of a place in the artifact}}
  %w = "exec.weight"() <{storage = #exec<storage packed>, part = #gguf.part<@w, first = 0, rows = 16, stride = 0>,
    matrix = #exec.matrix<element = f32, rows = 16, columns = 32>, offset = 64 : i64}> : () -> !exec.weight
  return
}

// -----

func.func @kv_c1() {
  // expected-error@+1 {{has 0 heads of 32 in layer 1 with a window of 16}}
  %kv = exec.kv layer 1 window 16 heads 0 dim 32 f16
  return
}

// -----

func.func @kv_c2() {
  // expected-error@+1 {{has no pages of q5_0 for heads of 32}}
  %kv = exec.kv layer 1 window 16 heads 1 dim 32 q5_0
  return
}

// -----

func.func @kv_c2_dim() {
  // expected-error@+1 {{has no pages of q8_0 for heads of 48}}
  %kv = exec.kv layer 1 window 16 heads 1 dim 48 q8_0
  return
}

// -----

func.func @slot_c1() {
  // expected-error@+1 {{attribute 'index' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %s = exec.slot counts[-1]
  return
}

// -----

// expected-error@+1 {{body takes 3 arguments, its signature has 4 and two for the work items}}
exec.kernel @kernel_c2 : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {
^bb0(%count: memref<?xi32>, %begin: index, %end: index):
  exec.end
}

// -----

// expected-error@+1 {{body's argument 1 is 'memref<?x2xi32>', its signature says 'memref<?x1xi32>'}}
exec.kernel @kernel_c3 : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {
^bb0(%count: memref<?xi32>, %idx: memref<?x2xi32>, %order: memref<?xi32>, %tiles: memref<?xi32>, %begin: index, %end: index):
  exec.end
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c1 attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  // expected-error@+1 {{no kernel named @other}}
  exec.dispatch @other reads(%count, %h, %y, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c2 attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  // expected-error@+1 {{reads 3 and writes 1 operands, but @row reads 4 and writes 1}}
  exec.dispatch @row reads(%count, %h, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c3_columns attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  %z = exec.buffer "z" : !exec.buffer<rows, 1 x 64 x f32>
  // expected-error-re@+1 {{passes {{.*}} as 'y', which is 'memref<?x32xf32>'}}
  exec.dispatch @row reads(%count, %h, %z, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 64 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c3_element attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  %z = exec.buffer "z" : !exec.buffer<rows, 1 x 32 x i32>
  // expected-error-re@+1 {{passes {{.*}} as 'stream', which is 'memref<?x32xf32>'}}
  exec.dispatch @row reads(%count, %z, %y, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x i32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c3_weight attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  %z = exec.weight packed #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  // expected-error-re@+1 {{passes {{.*}} as 'post_norm', which is 'memref<?xf32>'}}
  exec.dispatch @row reads(%count, %h, %y, %z : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c3_slot attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  %z = exec.slot rope_global[0]
  // expected-error-re@+1 {{passes {{.*}} as 'count', which is 'memref<?xi32>'}}
  exec.dispatch @row reads(%z, %h, %y, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c3_kv attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  %z = exec.kv layer 0 window 0 heads 1 dim 32 f16
  // expected-error-re@+1 {{passes {{.*}} as 'post_norm', which is 'memref<?xf32>'}}
  exec.dispatch @row reads(%count, %h, %y, %z : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.kv) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c4 attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  // expected-error@+1 {{has 2 items for 4 rows, but @row has 1 for 4}}
  exec.dispatch @row reads(%count, %h, %y, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 2, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c4_rows attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  // expected-error@+1 {{has 1 items for 8 rows, but @row has 1 for 4}}
  exec.dispatch @row reads(%count, %h, %y, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 8, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c5 attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  // expected-error@+1 {{taps written operand 1 of 1}}
  exec.dispatch @row reads(%count, %h, %y, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64: 1>, tap_names = ["t"]}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
exec.program @dispatch_c5_names attributes {max_rows = 8, max_tail_rows = 4, max_logit_rows = 2, model = {}} {
  %count = exec.slot counts[0]
  %h = exec.buffer "h" : !exec.buffer<rows, 1 x 32 x f32>
  %y = exec.buffer "y" : !exec.buffer<rows, 1 x 32 x f32>
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32>
  // expected-error@+1 {{has 1 tapped operands and 0 names}}
  exec.dispatch @row reads(%count, %h, %y, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64: 0>, tap_names = []}
  exec.return []
}

// -----

exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = false, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = []>> {}
func.func @dispatch_c6(%count: !exec.slot, %h: !exec.buffer<rows, 1 x 32 x f32>, %y: !exec.buffer<rows, 1 x 32 x f32>, %gain: !exec.weight) {
  // expected-error@+1 {{expects parent op 'exec.program'}}
  exec.dispatch @row reads(%count, %h, %y, %gain : !exec.slot, !exec.buffer<rows, 1 x 32 x f32>, !exec.buffer<rows, 1 x 32 x f32>, !exec.weight) writes(%y : !exec.buffer<rows, 1 x 32 x f32>) over rows
    {rows_per_item = 4, items_per_block = 1, layer = 0, macs_per_row = 0, tap_operands = array<i64>, tap_names = []}
  return
}
