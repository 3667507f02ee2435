// RUN: g4-opt %s --lower-tile-to-cpu=isa=dotprod | FileCheck %s --check-prefixes=CHECK,DOT --implicit-check-not=llvm.x86 --implicit-check-not=tile.
// RUN: g4-opt %s --lower-tile-to-cpu=isa=i8mm | FileCheck %s --check-prefixes=CHECK,I8MM --implicit-check-not=llvm.x86 --implicit-check-not=tile.

// Sixteen rows are four vectors. One row of activations: a product for each of the eight code vectors of four rows; sixteen
// columns of activations are loaded at once, and each dword of them goes to all lanes.
// CHECK-LABEL: func.func @q4_0(
// CHECK: vector.load {{.*}} : memref<?x32xi8>, vector<16xi8>
// CHECK: vector.shuffle %[[X:.*]], %[[X]] [0, 0, 0, 0] : vector<4xi32>, vector<4xi32>
// CHECK-COUNT-32: llvm.call_intrinsic "llvm.aarch64.neon.sdot.v4i32.v16i8"({{.*}}) : (vector<4xi32>, vector<16xi8>, vector<16xi8>) -> vector<4xi32>
// CHECK-NOT: llvm.aarch64
// Codes are unsigned: the zero point is taken off with the activations' sums.
// CHECK: arith.constant 8 : i32
// CHECK: return
func.func @q4_0(%w: memref<?xi8>, %q: memref<?x32xi8>, %scale: memref<?x1xf32>, %sums: memref<?x2xi32>, %row: index, %acc: vector<16xf32>) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %c0] columns = 32 : memref<?xi8> -> !tile.block<q4_0>
  %r = tile.dot %b, %q, %scale, %sums[%row, %c0] acc %acc : !tile.block<q4_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  return %r : vector<16xf32>
}

// Signed codes go in as they are.
// CHECK-LABEL: func.func @q8_0(
// CHECK-NOT: arith.xori
// CHECK-COUNT-32: llvm.aarch64.neon.sdot
// CHECK-NOT: arith.constant 128 : i32
// CHECK: return
func.func @q8_0(%w: memref<?xi8>, %q: memref<?x32xi8>, %scale: memref<?x1xf32>, %sums: memref<?x2xi32>, %row: index, %acc: vector<16xf32>) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %c0] columns = 32 : memref<?xi8> -> !tile.block<q8_0>
  %r = tile.dot %b, %q, %scale, %sums[%row, %c0] acc %acc : !tile.block<q8_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  return %r : vector<16xf32>
}

// A table of sixteen values is one instruction.
// CHECK-LABEL: func.func @iq4_nl(
// CHECK: llvm.call_intrinsic "llvm.aarch64.neon.tbl1.v16i8"({{.*}}) : (vector<16xi8>, vector<16xi8>) -> vector<16xi8>
// CHECK: llvm.aarch64.neon.sdot
// CHECK: return
func.func @iq4_nl(%w: memref<?xi8>, %q: memref<?x32xi8>, %scale: memref<?x1xf32>, %sums: memref<?x2xi32>, %row: index, %acc: vector<16xf32>) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %c0] columns = 32 : memref<?xi8> -> !tile.block<iq4_nl>
  %r = tile.dot %b, %q, %scale, %sums[%row, %c0] acc %acc : !tile.block<iq4_nl>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  return %r : vector<16xf32>
}

// Four rows of activations: with `smmla`, two rows of weights times two of activations, eight columns deep. Each pair of
// code vectors is put together once, and the sums are taken apart in the end.
// CHECK-LABEL: func.func @four(
// DOT-COUNT-128: llvm.aarch64.neon.sdot
// DOT-NOT: llvm.aarch64
// I8MM: %[[LOW:.*]] = vector.shuffle %{{.*}} [0, 4, 1, 5] : vector<4xi32>, vector<4xi32>
// I8MM: llvm.call_intrinsic "llvm.aarch64.neon.smmla.v4i32.v16i8"({{.*}}) : (vector<4xi32>, vector<16xi8>, vector<16xi8>) -> vector<4xi32>
// I8MM: vector.shuffle %{{.*}} [2, 6, 3, 7] : vector<4xi32>, vector<4xi32>
// I8MM-COUNT-7: llvm.aarch64.neon.smmla
// I8MM: vector.shuffle %{{.*}} [0, 2, 4, 6] : vector<4xi32>, vector<4xi32>
// I8MM: vector.shuffle %{{.*}} [1, 3, 5, 7] : vector<4xi32>, vector<4xi32>
// I8MM-COUNT-56: llvm.aarch64.neon.smmla
// I8MM-NOT: llvm.aarch64
// CHECK: return
func.func @four(%w: memref<?xi8>, %q: memref<?x32xi8>, %scale: memref<?x1xf32>, %sums: memref<?x2xi32>, %m: index, %n: index, %o: index, %p: index, %acc: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %c0] columns = 32 : memref<?xi8> -> !tile.block<q4_0>
  %r = tile.dot %b, %q, %scale, %sums[%m, %c0] acc %acc : !tile.block<q4_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  %s = tile.dot %b, %q, %scale, %sums[%n, %c0] acc %acc : !tile.block<q4_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  %t = tile.dot %b, %q, %scale, %sums[%o, %c0] acc %acc : !tile.block<q4_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  %u = tile.dot %b, %q, %scale, %sums[%p, %c0] acc %acc : !tile.block<q4_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  return %r, %s, %t, %u : vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>
}
