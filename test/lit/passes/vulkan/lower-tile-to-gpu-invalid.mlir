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
