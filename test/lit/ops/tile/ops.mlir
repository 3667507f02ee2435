// RUN: g4-opt %s | g4-opt | FileCheck %s
// RUN: g4-opt %s --mlir-print-op-generic | g4-opt | FileCheck %s

// CHECK-LABEL: func.func @all(
// CHECK-SAME: %[[W:[^:]*]]: memref<?xi8>, %[[K:[^:]*]]: memref<?xi8>, %[[Q:[^:]*]]: memref<?x64xi8>, %[[SCALE:[^:]*]]: memref<?x2xf32>, %[[SUMS:[^:]*]]: memref<?x4xi32>,
// CHECK-SAME: %[[X:[^:]*]]: memref<?x512xf32>, %[[I:[^:]*]]: index, %[[J:[^:]*]]: index, %[[ACC:[^:]*]]: vector<16xf32>, %[[N:[^:]*]]: vector<16xi32>)
func.func @all(%w: memref<?xi8>, %k: memref<?xi8>, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>,
    %x: memref<?x512xf32>, %i: index, %j: index, %acc: vector<16xf32>, %n: vector<16xi32>) -> (f32, i32) {
  // CHECK: %[[B:.*]] = tile.load_quant %[[W]][%[[I]], %[[J]]] columns = 64 : memref<?xi8> -> <q4_0>
  %b = tile.load_quant %w[%i, %j] columns = 64 : memref<?xi8> -> !tile.block<q4_0>
  // CHECK: %[[S:.*]] = tile.dot %[[B]], %[[Q]], %[[SCALE]], %[[SUMS]][%[[I]], %[[J]]] acc %[[ACC]] : <q4_0>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  %s = tile.dot %b, %q, %scale, %sums[%i, %j] acc %acc : !tile.block<q4_0>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  // CHECK: %[[C:.*]] = tile.load_quant %[[K]][%[[I]], %[[J]]] columns = 512 : memref<?xi8> -> <q6_k>
  %c = tile.load_quant %k[%i, %j] columns = 512 : memref<?xi8> -> !tile.block<q6_k>
  // CHECK: %[[F:.*]] = tile.dot_f32 %[[C]], %[[X]][%[[I]], %[[J]]] acc %[[S]] : <q6_k>, memref<?x512xf32>
  %f = tile.dot_f32 %c, %x[%i, %j] acc %s : !tile.block<q6_k>, memref<?x512xf32>
  %scratch = memref.alloca() : memref<32x16xf32>
  // CHECK: tile.dequant %[[C]], %{{.*}} : <q6_k>, memref<32x16xf32>
  tile.dequant %c, %scratch : !tile.block<q6_k>, memref<32x16xf32>
  %panel = memref.alloca() : memref<8x576xi8>
  // CHECK: tile.decode %[[B]], %[[PANEL:.*]][%[[I]]] : <q4_0>, memref<8x576xi8>
  tile.decode %b, %panel[%i] : !tile.block<q4_0>, memref<8x576xi8>
  // CHECK: tile.load_decoded %[[PANEL]][%[[J]]] : memref<8x576xi8> -> <q4_0>
  %d = tile.load_decoded %panel[%j] : memref<8x576xi8> -> !tile.block<q4_0>
  // CHECK: tile.contract %[[W]][%[[I]]] !tile.block<q4_0> columns = 64 with %[[Q]], %[[SCALE]], %[[SUMS]] rows %[[I]] + %[[J]] into %[[TO:.*]] : memref<?xi8>, memref<32x16xf32>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  tile.contract %w[%i] !tile.block<q4_0> columns = 64 with %q, %scale, %sums rows %i + %j into %scratch : memref<?xi8>, memref<32x16xf32>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  %map = memref.alloca() : memref<8xi32>
  // CHECK: tile.contract %[[K]][%[[I]]] !tile.block<q6_k> columns = 512 with %[[X]] rows %[[I]] + %[[J]] map %{{.*}} : memref<8xi32> into %[[TO]] : memref<?xi8>, memref<32x16xf32>, memref<?x512xf32>
  tile.contract %k[%i] !tile.block<q6_k> columns = 512 with %x rows %i + %j map %map : memref<8xi32> into %scratch : memref<?xi8>, memref<32x16xf32>, memref<?x512xf32>
  // CHECK: tile.contract %[[K]][%[[I]]] groups = 2 apart = 3 !tile.block<q6_k>
  tile.contract %k[%i] groups = 2 apart = 3 !tile.block<q6_k> columns = 512 with %x rows %i + %j into %scratch : memref<?xi8>, memref<32x16xf32>, memref<?x512xf32>
  // CHECK: tile.barrier
  tile.barrier
  // CHECK: tile.reduce sum %[[F]] : vector<16xf32> -> f32
  %r = tile.reduce sum %f : vector<16xf32> -> f32
  // CHECK: tile.reduce max %[[N]] : vector<16xi32> -> i32
  %m = tile.reduce max %n : vector<16xi32> -> i32
  // CHECK: tile.hadamard %[[F]]{{$}}
  %h = tile.hadamard %f
  return %r, %m : f32, i32
}

// What has no reader goes; what writes memory or orders it stays.
// RUN: g4-opt %s --canonicalize --cse | FileCheck %s --check-prefix=CLEAN
// CLEAN-LABEL: func.func @clean(
// CLEAN-NOT: tile.load_quant
// CLEAN-NOT: tile.reduce
// CLEAN-NOT: tile.hadamard
// CLEAN: tile.barrier
func.func @clean(%w: memref<?xi8>, %i: index, %acc: vector<16xf32>) {
  %b = tile.load_quant %w[%i, %i] columns = 32 : memref<?xi8> -> !tile.block<q8_0>
  %r = tile.reduce sum %acc : vector<16xf32> -> f32
  %h = tile.hadamard %acc
  tile.barrier
  return
}
