// RUN: g4-opt %s --tile-place-lane-barriers --split-input-file | FileCheck %s

// A barrier stands between what lanes write and what all read, and before the next write; none between strips.
// CHECK-LABEL: exec.kernel @straight
exec.kernel @straight : #exec.linear<columns = 32, int8 = false, parts = [<element = f32, rows = 16, columns = 32>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x32xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %begin: index, %end: index):
  %scratch = memref.alloca() : memref<1x32xf32>
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  // CHECK: vector.load
  // CHECK-NEXT: vector.store
  // CHECK-NEXT: vector.load
  // CHECK-NEXT: vector.store
  %a = vector.load %x[%c0, %c0] : memref<?x32xf32>, vector<16xf32>
  vector.store %a, %scratch[%c0, %c0] : memref<1x32xf32>, vector<16xf32>
  %b = vector.load %scratch[%c0, %c0] : memref<1x32xf32>, vector<16xf32>
  vector.store %b, %scratch[%c0, %c16] : memref<1x32xf32>, vector<16xf32>
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: memref.store
  // CHECK-NEXT: memref.store
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: memref.load
  %s = memref.load %scratch[%c0, %c16] : memref<1x32xf32>
  memref.store %s, %scratch[%c0, %c0] : memref<1x32xf32>
  memref.store %s, %scratch[%c0, %c16] : memref<1x32xf32>
  %t = memref.load %scratch[%c0, %c0] : memref<1x32xf32>
  // A barrier that is there is enough, and other memory needs none.
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: vector.store
  // CHECK-NEXT: memref.load %arg0
  // CHECK-NEXT: exec.end
  tile.barrier
  vector.store %b, %scratch[%c0, %c0] : memref<1x32xf32>, vector<16xf32>
  %n = memref.load %count[%c0] : memref<?xi32>
  exec.end
}

// -----

// A loop whose accesses need one takes its barrier before it, a loop that follows itself inside. A reduction is a
// barrier for others, and the next reduction's lanes wait until its sixteen values were read.
// CHECK-LABEL: exec.kernel @loops
exec.kernel @loops : #exec.linear<columns = 32, int8 = false, parts = [<element = f32, rows = 16, columns = 32>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x32xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %begin: index, %end: index):
  %scratch = memref.alloca() : memref<1x32xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  // CHECK: vector.store
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: scf.for
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: memref.store %{{.*}}, %arg3
  // CHECK-NEXT: }
  %a = vector.load %x[%c0, %c0] : memref<?x32xf32>, vector<16xf32>
  vector.store %a, %scratch[%c0, %c0] : memref<1x32xf32>, vector<16xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %s = memref.load %scratch[%c0, %i] : memref<1x32xf32>
    memref.store %s, %out[%c0, %i] : memref<?x16xf32>
  }
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: scf.for
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: vector.store
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: }
  scf.for %i = %c0 to %c16 step %c1 {
    vector.store %a, %scratch[%c0, %c0] : memref<1x32xf32>, vector<16xf32>
    %s = memref.load %scratch[%c0, %i] : memref<1x32xf32>
  }
  // CHECK-NEXT: tile.reduce
  // CHECK-NEXT: vector.store
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: tile.reduce
  // CHECK-NEXT: exec.end
  %r = tile.reduce sum %a : vector<16xf32> -> f32
  vector.store %a, %scratch[%c0, %c0] : memref<1x32xf32>, vector<16xf32>
  %t = tile.reduce sum %a : vector<16xf32> -> f32
  exec.end
}
