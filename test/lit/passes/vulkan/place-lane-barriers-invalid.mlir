// RUN: g4-opt %s --tile-place-lane-barriers --verify-diagnostics
// RUN: not g4-opt %s --tile-place-lane-barriers 2>&1 | FileCheck %s
// CHECK: error: 'memref.copy' op accesses memory in a way that has no meaning for lanes

exec.kernel @copy : #exec.linear<columns = 32, int8 = false, parts = [<element = f32, rows = 16, columns = 32>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x32xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %begin: index, %end: index):
  %a = memref.alloca() : memref<32xf32>
  %b = memref.alloca() : memref<32xf32>
  // expected-error @+1 {{accesses memory in a way that has no meaning for lanes}}
  memref.copy %a, %b : memref<32xf32> to memref<32xf32>
  exec.end
}
