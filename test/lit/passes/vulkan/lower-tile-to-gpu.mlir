// RUN: g4-opt %s --lower-tile-to-gpu | FileCheck %s

// Strips become one element in each lane, scratch workgroup memory, weights dwords; the item is the workgroup's number.
// CHECK: module attributes {gpu.container_module}
// CHECK: gpu.module @kernels
// CHECK-LABEL: gpu.func @scale
// CHECK-SAME: (%[[COUNT:.*]]: memref<?xi32>, %[[X:.*]]: memref<?x32xf32>, %{{.*}}: memref<?xi32>, %[[OUT:.*]]: memref<?x16xf32>) kernel
// CHECK-SAME: known_block_size = array<i32: 16, 1, 1>
exec.kernel @scale : #exec.linear<columns = 32, int8 = false, parts = [<element = q4_0, rows = 16, columns = 32>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x32xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %begin: index, %end: index):
  // CHECK-DAG: %[[LANE:.*]] = gpu.thread_id x
  // CHECK-DAG: %[[ITEM:.*]] = gpu.block_id x
  // CHECK-DAG: %[[REDUCE:.*]] = memref.alloc() : memref<16xf32, #gpu.address_space<workgroup>>
  // CHECK-DAG: %[[SCRATCH:.*]] = memref.alloc() : memref<1x16xf32, #gpu.address_space<workgroup>>
  %scratch = memref.alloca() : memref<1x16xf32>
  %c0 = arith.constant 0 : index
  %half = arith.constant dense<5.000000e-01> : vector<16xf32>
  %lanes = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
  // CHECK: %[[NUMBER:.*]] = arith.index_cast %[[LANE]] : index to i32
  // CHECK: arith.addi %{{.*}}, %[[LANE]] : index
  // CHECK: %[[A:.*]] = memref.load %[[X]]
  %a = vector.load %x[%begin, %c0] : memref<?x32xf32>, vector<16xf32>
  // CHECK: %[[F:.*]] = arith.sitofp %[[NUMBER]] : i32 to f32
  // CHECK: %[[B:.*]] = arith.mulf %[[A]], %[[F]] : f32
  %f = arith.sitofp %lanes : vector<16xi32> to vector<16xf32>
  %b = arith.mulf %a, %f : vector<16xf32>
  // CHECK: memref.store %[[B]], %[[REDUCE]][%[[LANE]]]
  // CHECK: gpu.barrier
  // CHECK-COUNT-16: memref.load %[[REDUCE]]
  // CHECK-COUNT-14: arith.addf
  // CHECK: %[[SUM:.*]] = arith.addf
  %s = tile.reduce sum %b : vector<16xf32> -> f32
  // A broadcast is the scalar itself.
  // CHECK: %[[V:.*]] = arith.mulf %[[SUM]], %{{.*}} : f32
  %sum = vector.broadcast %s : f32 to vector<16xf32>
  %v = arith.mulf %sum, %half : vector<16xf32>
  // CHECK: memref.store %[[V]], %[[SCRATCH]]
  vector.store %v, %scratch[%c0, %c0] : memref<1x16xf32>, vector<16xf32>
  // CHECK: gpu.barrier
  tile.barrier
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[V]]) -> (f32)
  // CHECK: math.fma
  %block = tile.load_quant %w[%begin, %c0] columns = 32 : memref<?xi8> -> !tile.block<q4_0>
  %dot = tile.dot_f32 %block, %x[%c0, %c0] acc %v : !tile.block<q4_0>, memref<?x32xf32>
  // CHECK: memref.store %{{.*}}, %[[OUT]]
  // CHECK: gpu.return
  vector.store %dot, %out[%begin, %c0] : memref<?x16xf32>, vector<16xf32>
  exec.end
}
// CHECK-NOT: vector<
// CHECK-NOT: tile.
