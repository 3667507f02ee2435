// RUN: g4-opt %s --lower-tile-to-gpu --split-input-file --verify-diagnostics
// RUN: not g4-opt %s --lower-tile-to-gpu --split-input-file 2>&1 | FileCheck %s
// CHECK: error: 'vector.shuffle' op has no meaning for one lane

exec.kernel @reverse : #exec.linear<columns = 32, int8 = false, parts = [<element = f32, rows = 16, columns = 32>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x32xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %begin: index, %end: index):
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : memref<?x32xf32>, vector<16xf32>
  // expected-error @+1 {{has no meaning for one lane}}
  %b = vector.shuffle %a, %a [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0] : vector<16xf32>, vector<16xf32>
  vector.store %b, %out[%c0, %c0] : memref<?x16xf32>, vector<16xf32>
  exec.end
}

// -----

exec.kernel @constant : #exec.linear<columns = 32, int8 = false, parts = [<element = f32, rows = 16, columns = 32>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x32xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %begin: index, %end: index):
  // expected-error @+1 {{is neither the same in all lanes nor the lanes' numbers}}
  %a = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14]> : vector<16xi32>
  exec.end
}

// -----

// expected-error @+1 {{has no body: run lower-exec-to-tile first}}
exec.kernel @empty : #exec.linear<columns = 32, int8 = false, parts = [<element = f32, rows = 16, columns = 32>], epilogue = store, tile = 16, rows_per_item = 4> {}

// -----

exec.kernel @grid : #exec.linear<columns = 256, int8 = false, parts = [<element = iq3_s, rows = 16, columns = 256>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x256xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %begin: index, %end: index):
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<16xf32>
  // expected-error @+1 {{names weights of iq3_s, which lanes cannot decode}}
  %b = tile.load_quant %w[%c0, %c0] columns = 256 : memref<?xi8> -> !tile.block<iq3_s>
  %v = tile.dot_f32 %b, %x[%c0, %c0] acc %zero : !tile.block<iq3_s>, memref<?x256xf32>
  vector.store %v, %out[%c0, %c0] : memref<?x16xf32>, vector<16xf32>
  exec.end
}

// -----

// With the program there, the weight is named.
gguf.weight @blk.0.ffn_down.weight : !gguf.matrix<16x32, iq4_nl> from <file = 0, offset = 0, size = 288>
exec.program @step attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  // expected-error @+1 {{reads @blk.0.ffn_down.weight, which is iq4_nl: the Vulkan target cannot decode it}}
  %w = exec.weight packed #gguf.part<@blk.0.ffn_down.weight, first = 0, rows = 16, stride = 0> as <element = iq4_nl, rows = 16, columns = 32>
  exec.return []
}
