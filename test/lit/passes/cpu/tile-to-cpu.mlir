// RUN: g4-opt %s --lower-tile-to-cpu=isa=avx2 | FileCheck %s --check-prefixes=CHECK,AVX2
// RUN: g4-opt %s --lower-tile-to-cpu=isa=avx-vnni | FileCheck %s --check-prefixes=CHECK,VNNI
// RUN: g4-opt %s --lower-tile-to-cpu=isa=avx512-vnni | FileCheck %s --check-prefixes=CHECK,AVX512
// The emulated dot product is plain vector arithmetic: no instruction of any machine.
// RUN: g4-opt %s --lower-tile-to-cpu=isa=emulated | FileCheck %s --check-prefixes=CHECK,EMULATED --implicit-check-not=llvm.x86
// Nothing of the dialects above is left.
// RUN: g4-opt %s --lower-tile-to-cpu=isa=avx2 | FileCheck %s --check-prefix=NONE --implicit-check-not=tile. --implicit-check-not=exec. --implicit-check-not=gguf.
// NONE: func.func @q4_0

// RUN: not g4-opt %s --lower-tile-to-cpu=isa=sse2 2>&1 | FileCheck %s --check-prefix=ISA
// ISA: error: no instruction set named 'sse2': avx2, avx-vnni, avx512-vnni, emulated, dotprod, i8mm

// Sixteen rows of 32 columns are two halves of eight rows in 256 bits, one in 512. Four-bit codes: each stored vector gives
// two of the eight that are multiplied, and eight products of pairs fit an int16 sum.
// CHECK-LABEL: func.func @q4_0(
// CHECK-SAME: %[[W:[^:]*]]: memref<?xi8>, %[[Q:[^:]*]]: memref<?x64xi8>, %[[SCALE:[^:]*]]: memref<?x2xf32>, %[[SUMS:[^:]*]]: memref<?x4xi32>, %[[ROW:[^:]*]]: index, %[[K:[^:]*]]: index, %[[ACC:[^:]*]]: vector<16xf32>)
// What comes seven blocks later is asked for: 288 bytes a block.
// CHECK: arith.constant 2016 : index
// CHECK-COUNT-5: memref.prefetch %[[W]][{{.*}}], read, locality<3>, data
// AVX2-COUNT-16: llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"({{.*}}) : (vector<32xi8>, vector<32xi8>) -> vector<16xi16>
// AVX2-COUNT-2: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"({{.*}}) : (vector<16xi16>, vector<16xi16>) -> vector<8xi32>
// AVX2-NOT: llvm.x86
// VNNI-COUNT-16: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"({{.*}}) : (vector<8xi32>, vector<32xi8>, vector<32xi8>) -> vector<8xi32>
// VNNI-NOT: llvm.x86
// AVX512-COUNT-8: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"({{.*}}) : (vector<16xi32>, vector<64xi8>, vector<64xi8>) -> vector<16xi32>
// AVX512-NOT: llvm.x86
// Each emulated instruction is four products of bytes.
// EMULATED-COUNT-32: arith.muli %{{.*}} : vector<16xi32>
// The zero point is taken off with the activations' sums, exactly; then two rounded steps, the same for every set.
// CHECK: memref.load %[[SUMS]]
// CHECK: memref.load %[[SCALE]][%[[ROW]], %[[K]]]
// CHECK: %[[EIGHT:.*]] = arith.constant 8 : i32
// CHECK: %[[ZERO:.*]] = arith.muli %{{.*}}, %[[EIGHT]] : i32
// CHECK: arith.subi %{{.*}}, %{{.*}} : vector<16xi32>
// CHECK: %[[EXACT:.*]] = arith.sitofp %{{.*}} : vector<16xi32> to vector<16xf32>
// CHECK: %[[D:.*]] = arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK: %[[SCALED:.*]] = arith.mulf %[[EXACT]], %[[D]]
// CHECK: %[[RESULT:.*]] = math.fma %[[SCALED]], %{{.*}}, %[[ACC]]
// CHECK-NEXT: return %[[RESULT]]
gguf.weight @w : !gguf.matrix<16x64, q4_0> from <file = 0, offset = 0, size = 576>
func.func @q4_0(%w: memref<?xi8>, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %row: index, %k: index, %acc: vector<16xf32>) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %k] columns = 64 : memref<?xi8> -> !tile.block<q4_0>
  %r = tile.dot %b, %q, %scale, %sums[%row, %k] acc %acc : !tile.block<q4_0>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  return %r : vector<16xf32>
}

// Signed bytes: |w| times sign(w) x where there is no instruction for them, widened after every product; w + 128 where there is.
// CHECK-LABEL: func.func @q8_0(
// AVX2: math.absi
// AVX2: llvm.call_intrinsic "llvm.x86.avx2.psign.b"
// AVX2-NEXT: llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// AVX2: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// AVX2-NOT: arith.constant 128 : i32
// VNNI: arith.xori
// VNNI: vpdpbusd.256
// VNNI: arith.constant 128 : i32
// AVX512: arith.xori
// AVX512: vpdpbusd.512
// AVX512: arith.constant 128 : i32
// EMULATED: arith.xori
// EMULATED: arith.constant 128 : i32
// CHECK: return
func.func @q8_0(%w: memref<?xi8>, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %row: index, %k: index, %acc: vector<16xf32>) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %k] columns = 64 : memref<?xi8> -> !tile.block<q8_0>
  %r = tile.dot %b, %q, %scale, %sums[%row, %k] acc %acc : !tile.block<q8_0>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  return %r : vector<16xf32>
}

// Rows that share a block decode it once: as many loads of codes for two rows as for one. Five bits: four planes and one of
// fifth bits, and half as many products to a sum.
// CHECK-LABEL: func.func @shared(
// AVX2-COUNT-16: llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// AVX2-NOT: pmadd.ub
// AVX2-COUNT-3: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// CHECK: return %{{.*}}, %{{.*}} : vector<16xf32>, vector<16xf32>
func.func @shared(%w: memref<?xi8>, %q: memref<?x32xi8>, %scale: memref<?x1xf32>, %sums: memref<?x2xi32>, %row: index, %other: index, %acc: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>) {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %c0] columns = 32 : memref<?xi8> -> !tile.block<q5_0>
  %r = tile.dot %b, %q, %scale, %sums[%row, %c0] acc %acc : !tile.block<q5_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  %s = tile.dot %b, %q, %scale, %sums[%other, %c0] acc %acc : !tile.block<q5_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  return %r, %s : vector<16xf32>, vector<16xf32>
}

// f32 activations: one step a column, in order; no byte products whatever the set.
// CHECK-LABEL: func.func @f32(
// CHECK-NOT: llvm.x86
// CHECK-COUNT-32: math.fma
// CHECK-NOT: math.fma
// CHECK: return
func.func @f32(%w: memref<?xi8>, %x: memref<?x32xf32>, %row: index, %acc: vector<16xf32>) -> vector<16xf32> {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %c0] columns = 32 : memref<?xi8> -> !tile.block<q4_0>
  %r = tile.dot_f32 %b, %x[%row, %c0] acc %acc : !tile.block<q4_0>, memref<?x32xf32>
  return %r : vector<16xf32>
}

// Into a panel: eight vectors of codes, one byte each, the scales as f32.
// CHECK-LABEL: func.func @decode(
// AVX2-COUNT-16: vector.store %{{.*}}, %{{.*}} : memref<8x576xi8>, vector<32xi8>
// VNNI-COUNT-16: vector.store %{{.*}}, %{{.*}} : memref<8x576xi8>, vector<32xi8>
// AVX512-COUNT-8: vector.store %{{.*}}, %{{.*}} : memref<8x576xi8>, vector<64xi8>
// CHECK: %[[SCALES:.*]] = vector.bitcast %{{.*}} : vector<16xf32> to vector<64xi8>
// CHECK: %[[AT:.*]] = arith.constant 512 : index
// CHECK: vector.store %[[SCALES]], %{{.*}}[%{{.*}}, %[[AT]]] : memref<8x576xi8>, vector<64xi8>
func.func @decode(%w: memref<?xi8>, %panel: memref<8x576xi8>, %k: index) {
  %c0 = arith.constant 0 : index
  %b = tile.load_quant %w[%c0, %k] columns = 64 : memref<?xi8> -> !tile.block<q4_0>
  tile.decode %b, %panel[%k] : !tile.block<q4_0>, memref<8x576xi8>
  return
}

// Out of it, the rows share each vector of codes as it is loaded: after each, an empty instruction holds the sums of all rows, so
// that no later pass goes row by row. On AVX2 four products of pairs fit an int16 sum.
// CHECK-LABEL: func.func @decoded(
// AVX2: %[[CODES:.*]] = vector.load %{{.*}} : memref<8x576xi8>, vector<32xi8>
// AVX2: pmadd.ub.sw"(%[[CODES]],
// AVX2: pmadd.ub.sw"(%[[CODES]],
// AVX2: %[[SUMS:.*]] = llvm.inline_asm has_side_effects "", "=v,=v,=v,=v,0,1,2,3" %{{.*}} -> !llvm.struct<(vector<16xi16>, vector<16xi16>, vector<16xi16>, vector<16xi16>)>
// AVX2: %[[FIRST:.*]] = llvm.extractvalue %[[SUMS]][0]
// AVX2-COUNT-4: pmadd.ub.sw
// AVX2: llvm.inline_asm
// AVX2-COUNT-4: pmadd.ub.sw
// AVX2: llvm.inline_asm
// AVX2-COUNT-4: pmadd.ub.sw
// AVX2: llvm.inline_asm
// AVX2-COUNT-4: pmadd.wd
// AVX2-COUNT-16: pmadd.ub.sw
// AVX2-COUNT-4: pmadd.wd
// AVX2-NOT: pmadd
// VNNI: %[[CODES:.*]] = vector.load %{{.*}} : memref<8x576xi8>, vector<32xi8>
// VNNI-COUNT-4: vpdpbusd.256
// VNNI: llvm.inline_asm has_side_effects "", "=v,=v,=v,=v,0,1,2,3"
// VNNI-COUNT-28: vpdpbusd.256
// VNNI: llvm.inline_asm
// VNNI-NOT: vpdpbusd
// AVX512-COUNT-2: vpdpbusd.512
// AVX512: llvm.inline_asm has_side_effects "", "=v,=v,0,1" %{{.*}} -> !llvm.struct<(vector<16xi32>, vector<16xi32>)>
// AVX512-COUNT-14: vpdpbusd.512
// AVX512: llvm.inline_asm
// AVX512-NOT: vpdpbusd
// EMULATED-NOT: llvm.inline_asm
// CHECK: return
func.func @decoded(%panel: memref<8x576xi8>, %q: memref<?x32xi8>, %scale: memref<?x1xf32>, %sums: memref<?x2xi32>, %row: index, %other: index, %acc: vector<16xf32>) -> (vector<16xf32>, vector<16xf32>) {
  %c0 = arith.constant 0 : index
  %b = tile.load_decoded %panel[%c0] : memref<8x576xi8> -> !tile.block<q5_0>
  %r = tile.dot %b, %q, %scale, %sums[%row, %c0] acc %acc : !tile.block<q5_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  %s = tile.dot %b, %q, %scale, %sums[%other, %c0] acc %acc : !tile.block<q5_0>, memref<?x32xi8>, memref<?x1xf32>, memref<?x2xi32>
  return %r, %s : vector<16xf32>, vector<16xf32>
}

// Halves, quarters, eighths, pairs.
// CHECK-LABEL: func.func @reduce(
// CHECK: vector.shuffle %{{.*}} [0, 1, 2, 3, 4, 5, 6, 7] : vector<16xf32>
// CHECK: vector.shuffle %{{.*}} [8, 9, 10, 11, 12, 13, 14, 15] : vector<16xf32>
// CHECK: arith.addf %{{.*}} : vector<8xf32>
// CHECK: arith.addf %{{.*}} : vector<4xf32>
// CHECK: arith.addf %{{.*}} : vector<2xf32>
// CHECK: arith.addf %{{.*}} : vector<1xf32>
// CHECK: vector.extract %{{.*}}[0]
// CHECK: arith.maxsi %{{.*}} : vector<8xi32>
func.func @reduce(%v: vector<16xf32>, %n: vector<16xi32>) -> (f32, i32) {
  tile.barrier
  %r = tile.reduce sum %v : vector<16xf32> -> f32
  %m = tile.reduce max %n : vector<16xi32> -> i32
  return %r, %m : f32, i32
}

// A kernel becomes a function with the runtime's signature: addresses are loaded from the list of buffers. The program goes.
// CHECK-LABEL: func.func @sort(
// CHECK-SAME: %[[BUFFERS:[^:]*]]: !llvm.ptr, %[[BEGIN:[^:]*]]: i64, %[[END:[^:]*]]: i64) {
// CHECK: %[[SLOT:.*]] = llvm.getelementptr %[[BUFFERS]][0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK: %[[ADDRESS:.*]] = llvm.load %[[SLOT]] : !llvm.ptr -> !llvm.ptr
// CHECK: llvm.insertvalue %[[ADDRESS]]
// CHECK: builtin.unrealized_conversion_cast {{.*}} to memref<?xi32>
// CHECK: builtin.unrealized_conversion_cast {{.*}} to memref<?x1xi32>
// CHECK: arith.index_cast %[[BEGIN]] : i64 to index
// CHECK: arith.index_cast %[[END]] : i64 to index
// CHECK: return
exec.kernel @sort : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {
^bb0(%count: memref<?xi32>, %idx: memref<?x1xi32>, %order: memref<?xi32>, %tiles: memref<?xi32>, %begin: index, %end: index):
  scf.for %i = %begin to %end step %begin {
    %c = memref.load %count[%i] : memref<?xi32>
    memref.store %c, %order[%i] : memref<?xi32>
  }
  exec.end
}
exec.program @step attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  exec.return []
}

// The Walsh-Hadamard matrix: four stages, each a strip with signs plus itself with the elements of each pair exchanged.
// CHECK-LABEL: func.func @hadamard(
// CHECK-SAME: %[[V:[^:]*]]: vector<16xf32>)
// CHECK: vector.shuffle %[[V]], %[[V]] [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14]
// CHECK: math.fma
// CHECK: vector.shuffle %{{.*}} [2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13]
// CHECK: math.fma
// CHECK: vector.shuffle %{{.*}} [4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11]
// CHECK: math.fma
// CHECK: vector.shuffle %{{.*}} [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7]
// CHECK: %[[H:.*]] = math.fma
// CHECK: return %[[H]]
func.func @hadamard(%v: vector<16xf32>) -> vector<16xf32> {
  %h = tile.hadamard %v
  return %h : vector<16xf32>
}
