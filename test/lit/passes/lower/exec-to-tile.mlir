// RUN: g4-opt %s --lower-exec-to-tile --canonicalize --cse | FileCheck %s
// Kernels that have a body keep it: a module printed in this stage goes through unchanged.
// RUN: g4-opt %s --lower-exec-to-tile > %t.once
// RUN: g4-opt %t.once --lower-exec-to-tile | diff %t.once -

// All of these are elementwise on strips of sixteen: no other width, no shuffle, no lane taken out.
// RUN: g4-opt %s --lower-exec-to-tile | FileCheck %s --check-prefix=STRIPS --implicit-check-not=vector.shuffle --implicit-check-not=vector.extract --implicit-check-not=vector.insert --implicit-check-not=vector.transfer --implicit-check-not=vector.contract --implicit-check-not=vector.reduction --implicit-check-not=memref.subview --implicit-check-not="vector<{{[02-9]}}" --implicit-check-not="vector<1{{[0-57-9]}}" --implicit-check-not="vector<16x16"
// STRIPS: exec.kernel @linear
// STRIPS: exec.kernel @experts

// For a target whose items cannot hand results to each other: whole rows only.
// RUN: g4-opt %s --lower-exec-to-tile=split-attention=false | FileCheck %s --check-prefix=UNSPLIT --implicit-check-not=memref.atomic_rmw
// UNSPLIT: exec.kernel @attention

// Work items [begin, end), three to a block of eight rows (40 outputs are three tiles of 16), as blocks and items of a block;
// how the rows of a block share weights is left to tile-schedule-contractions.
// CHECK: exec.kernel @linear : {{.*}} {
// CHECK-NEXT: ^bb0(%[[COUNT:.*]]: memref<?xi32>, %[[Q:.*]]: memref<?x64xi8>, %[[SCALE:.*]]: memref<?x2xf32>, %[[SUMS:.*]]: memref<?x4xi32>, %[[W:.*]]: memref<?xi8>, %[[OUT:.*]]: memref<?x48xf32>, %[[BEGIN:.*]]: index, %[[END:.*]]: index):
// CHECK: %[[PRODUCTS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x16xf32>
// CHECK: %[[ROWS32:.*]] = memref.load %[[COUNT]][%c0]
// CHECK: %[[ROWS:.*]] = arith.index_cast %[[ROWS32]]
// CHECK: %[[FIRST:.*]] = arith.divui %[[BEGIN]], %c3
// CHECK: scf.for %[[BLOCK:.*]] = %[[FIRST]] to %{{.*}} step %c1 {
// CHECK: %[[ROW0:.*]] = arith.muli %[[BLOCK]], %c8
// CHECK: %[[LEFT:.*]] = arith.subi %[[ROWS]], %[[ROW0]]
// CHECK: %[[N:.*]] = arith.minui %[[LEFT]], %c8
// CHECK: scf.for %[[ITEM:.*]] = %{{.*}} to %{{.*}} step %c1 {
// CHECK: %[[COLUMN:.*]] = arith.muli %[[ITEM]], %c16
// CHECK: tile.contract %[[W]][%[[ITEM]]] !tile.block<q4_0> columns = 64 with %[[Q]], %[[SCALE]], %[[SUMS]] rows %[[ROW0]] + %[[N]] into %[[PRODUCTS]]
// CHECK: scf.for %[[M:.*]] = %c0 to %[[N]] step %c1 {
// CHECK: %[[STRIP:.*]] = vector.load %[[PRODUCTS]][%[[M]], %c0]
// CHECK: %[[ROW:.*]] = arith.addi %[[ROW0]], %[[M]]
// CHECK: vector.store %[[STRIP]], %[[OUT]][%[[ROW]], %[[COLUMN]]] : memref<?x48xf32>, vector<16xf32>
// CHECK: exec.end
exec.kernel @linear : #exec.linear<columns = 64, int8 = true, parts = [<element = q4_0, rows = 40, columns = 64>],
  epilogue = store, tile = 16, rows_per_item = 8> {}

// A scale multiplies the sums.
// CHECK: exec.kernel @scaled
// CHECK-NEXT: ^bb0(%{{.*}}: memref<?xi32>, %{{.*}}: memref<?x64xi8>, %{{.*}}: memref<?x2xf32>, %{{.*}}: memref<?x4xi32>, %[[W:.*]]: memref<?xi8>, %[[S:.*]]: memref<?xf32>, %[[OUT:.*]]: memref<?x48xf32>,
// CHECK: tile.contract %[[W]]{{.*}} into %[[SUMS:[^ ]*]] :
// CHECK: %[[SCALE:.*]] = memref.load %[[S]][%c0] : memref<?xf32>
// CHECK: %[[LANES:.*]] = vector.broadcast %[[SCALE]] : f32 to vector<16xf32>
// CHECK: scf.for %[[M:.*]] =
// CHECK: %[[SUM:.*]] = vector.load %[[SUMS]][%[[M]], %c0]
// CHECK: %[[SCALED:.*]] = arith.mulf %[[SUM]], %[[LANES]] : vector<16xf32>
// CHECK: vector.store %[[SCALED]], %[[SUMS]][%[[M]], %c0]
// CHECK: vector.store %{{.*}}, %[[OUT]]
exec.kernel @scaled : #exec.linear<columns = 64, int8 = true, parts = [<element = q4_0, rows = 40, columns = 64, scales = 1>],
  epilogue = store, tile = 16, rows_per_item = 1> {}

// Floats are multiplied with f32 activations, also when others are int8. Of a tile of logits the largest is stored
// too; a NaN counts as infinity.
// CHECK: exec.kernel @floats
// CHECK-NEXT: ^bb0(%{{.*}}: memref<?xi32>, %[[X:.*]]: memref<?x64xf32>, %[[W:.*]]: memref<?xi8>, %[[OUT:.*]]: memref<?x64xf32>, %[[MAXIMA:.*]]: memref<?x2xf32>,
// CHECK-DAG: %[[INFINITY:.*]] = arith.constant dense<0x7F800000> : vector<16xf32>
// CHECK-DAG: %[[LEAST:.*]] = arith.constant dense<0xFF800000> : vector<16xf32>
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c1 {
// CHECK: scf.for %[[ITEM:.*]] = %{{.*}} to %{{.*}} step %c1 {
// CHECK: %[[FIRST:.*]] = arith.muli %[[ITEM]], %c32
// CHECK: tile.contract %[[W]][%{{.*}}] groups = 2 !tile.block<bf16> columns = 64 with %[[X]] rows
// CHECK: vector.store %{{.*}}, %[[OUT]]
// CHECK: scf.for %[[M:.*]] = %c0 to
// CHECK: %[[ROW:.*]] = arith.addi %{{.*}}, %[[M]]
// CHECK: %[[STRIP:.*]] = scf.for %[[K:.*]] = %c0 to %c32 step %c16 iter_args(%[[BEFORE:.*]] = %[[LEAST]])
// CHECK: %[[COLUMN:.*]] = arith.addi %[[FIRST]], %[[K]]
// CHECK: %[[V:.*]] = vector.load %[[OUT]][%[[ROW]], %[[COLUMN]]]
// CHECK: %[[NAN:.*]] = arith.cmpf uno, %[[V]], %[[V]]
// CHECK: %[[COUNTED:.*]] = arith.select %[[NAN]], %[[INFINITY]], %[[V]]
// CHECK: %[[LARGER:.*]] = arith.maxnumf %[[BEFORE]], %[[COUNTED]]
// CHECK: scf.yield %[[LARGER]]
// CHECK: %[[LARGEST:.*]] = tile.reduce max %[[STRIP]]
// CHECK: memref.store %[[LARGEST]], %[[MAXIMA]][%[[ROW]], %[[ITEM]]]
exec.kernel @floats : #exec.linear<columns = 64, int8 = true, parts = [<element = bf16, rows = 64, columns = 64>],
  epilogue = logits, tile = 32, rows_per_item = 8, softcap = 30.0 : f32> {}

// Two query heads share the strips of keys and the vectors of values.
// CHECK: exec.kernel @attention
// CHECK-NEXT: ^bb0(%{{.*}}: memref<?xi32>, %[[MAP:.*]]: memref<?xi32>, %[[POSITIONS:.*]]: memref<?xi32>, %[[SEQUENCES:.*]]: memref<?xi32>, %[[BLOCKS:.*]]: memref<?xi32>, %[[STRIDE:.*]]: memref<?xi32>, %[[Q:.*]]: memref<?x64xf32>, %[[KV:.*]]: memref<?xf16>, %[[PARTS:.*]]: memref<?x48xf32>, %[[ARRIVALS:.*]]: memref<?x2xi32>, %[[OUT:.*]]: memref<?x64xf32>, %[[BEGIN:.*]]: index, %[[END:.*]]: index):
// CHECK-DAG: %[[MASKED:.*]] = arith.constant dense<-1.000000e+30> : vector<16xf32>
// Of up to sixteen rows each item is a segment: a window of sixteen spans two, and one head of two takes the last first.
// CHECK: %[[SPLIT:.*]] = arith.cmpi ule, %{{.*}}, %c16 : index
// CHECK: scf.for %[[ITEM:.*]] = %[[BEGIN]] to %[[END]]
// CHECK: %[[ROW:.*]] = arith.divui %[[ITEM]], %c2
// CHECK: %[[REST:.*]] = arith.remui %[[ITEM]], %c2
// CHECK: %[[NUMBER:.*]] = arith.subi %c1, %[[REST]]
// The row's position and sequence are found through the map; keys are those of [position - 15, position].
// CHECK: memref.load %[[MAP]][%[[ROW]]]
// CHECK: memref.load %[[POSITIONS]]
// CHECK: %[[UPPER:.*]] = arith.addi %{{.*}}, %c1
// CHECK: %[[CLAMPED:.*]] = arith.maxui %[[UPPER]], %c16
// CHECK: %[[LOWER:.*]] = arith.subi %[[CLAMPED]], %c16
// Segments, here of one page each, by absolute position: the first with a key that is seen, to the row's own.
// CHECK: %[[FIRST:.*]] = arith.divui %[[LOWER]], %c64
// CHECK: %[[LAST:.*]] = arith.divui %{{.*}}, %c64
// A row with one segment is no item's part.
// CHECK: %[[COUNT:.*]] = arith.subi %[[LAST]], %[[FIRST]]
// CHECK: %[[MINE:.*]] = arith.addi %[[FIRST]], %[[NUMBER]]
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %[[NUMBER]], %c0
// CHECK: %[[SEVERAL:.*]] = arith.cmpi ugt, %[[COUNT]], %c1
// CHECK: %[[IS_SPLIT:.*]] = arith.andi %[[SPLIT]], %[[SEVERAL]]
// CHECK: %[[THERE:.*]] = arith.cmpi ult, %[[NUMBER]], %[[COUNT]]
// CHECK: %[[PART:.*]] = arith.andi %[[IS_SPLIT]], %[[THERE]]
// CHECK: %[[WHOLE:.*]] = arith.select %[[IS_SPLIT]], %false, %[[IS_FIRST]] : i1
// CHECK-DAG: %[[NEXT:.*]] = arith.addi %[[MINE]], %c1
// CHECK-DAG: %[[ALL:.*]] = arith.select %[[WHOLE]], %[[LAST]], %[[MINE]]
// CHECK: %[[UNTIL:.*]] = arith.select %[[PART]], %[[NEXT]], %[[ALL]]
// CHECK: scf.for %[[SEGMENT:.*]] = %[[MINE]] to %[[UNTIL]] step %c1 {
// CHECK: memref.load %[[SEQUENCES]]
// CHECK: scf.for %[[PAGE:.*]] = %{{.*}} to %{{.*}} step %c1 {
// CHECK: memref.load %[[BLOCKS]]
// Scores: sixteen keys at a time, dimension by dimension; those outside the window are replaced, whatever they are.
// CHECK: %[[GE:.*]] = arith.cmpi sge
// CHECK: %[[LT:.*]] = arith.cmpi slt
// CHECK: %[[INSIDE:.*]] = arith.andi %[[GE]], %[[LT]] : vector<16xi1>
// CHECK: %[[SCORES:.*]]:2 = scf.for %{{.*}} = %c0 to %c32 step %c1
// CHECK: memref.prefetch %[[KV]]
// CHECK: vector.load %[[KV]]{{.*}} : memref<?xf16>, vector<16xf16>
// CHECK-COUNT-2: math.fma
// CHECK: arith.select %[[INSIDE]], %[[SCORES]]#0, %[[MASKED]]
// CHECK: arith.select %[[INSIDE]], %[[SCORES]]#1, %[[MASKED]]
// CHECK: tile.barrier
// Running maximum and sum of each head.
// CHECK: tile.reduce max
// CHECK: tile.reduce sum
// CHECK: tile.barrier
// Values: only keys that are seen are read at all.
// CHECK: scf.for %[[D:.*]] = %c0 to %c32 step %c16 {
// CHECK: %[[SUMS:.*]]:2 = scf.for %{{.*}} = %[[FROM:.*]] to %[[TO:.*]] step %c1 iter_args
// CHECK: memref.prefetch %[[KV]]
// CHECK: vector.load %[[KV]]
// CHECK-COUNT-2: math.fma
// A part is written; an item that does the whole row folds it.
// CHECK: scf.if %[[PART]] {
// CHECK: memref.store %{{.*}}, %[[PARTS]][%[[TO:.*]], %c32]
// CHECK: memref.store %{{.*}}, %[[PARTS]][%[[TO]], %c33]
// CHECK: vector.store %{{.*}}, %[[PARTS]][%[[TO]], %{{.*}}]
// CHECK: } else {
// CHECK-NOT: %[[PARTS]]
// CHECK: math.fma
// Then the part is counted, and who counts the last one folds them all in order. No part is read before.
// CHECK: %[[DONE:.*]] = scf.if %[[PART]] -> (i1) {
// CHECK-NOT: %[[PARTS]]
// CHECK: %[[BEFORE:.*]] = memref.atomic_rmw addi %c1_i32, %[[ARRIVALS]][%[[ROW]], %{{.*}}]
// CHECK: %[[IS_LAST:.*]] = arith.cmpi eq
// CHECK: scf.if %[[IS_LAST]] {
// CHECK: scf.for %{{.*}} = %c0 to %[[COUNT]] step %c1 {
// CHECK: memref.load %[[PARTS]][%[[FROM:.*]], %c32]
// CHECK: memref.load %[[PARTS]][%[[FROM]], %c33]
// CHECK: vector.load %[[PARTS]][%[[FROM]], %{{.*}}]
// CHECK: scf.yield %[[IS_LAST]]
// CHECK: } else {
// CHECK: scf.yield %[[WHOLE]]
// CHECK: scf.if %[[DONE]] {
// CHECK: arith.divf
// CHECK: vector.store %{{.*}}, %[[OUT]]
// CHECK: exec.end
exec.kernel @attention : #exec.attention<heads = 2, kvHeads = 1, dim = 32, window = 16, kvElement = f16, scale = 1.0 : f32,
  forms = <f32 = true, q8 = false>> {}

// Residual, norm and int8 form of four rows at a time; scales and sums of each block of 32.
// CHECK: exec.kernel @row
// CHECK-NEXT: ^bb0(%{{.*}}: memref<?xi32>, %[[STREAM:.*]]: memref<?x32xf32>, %[[Y:.*]]: memref<?x32xf32>, %[[GAIN:.*]]: memref<?xf32>, %[[STREAM1:.*]]: memref<?x32xf32>, %[[Q:.*]]: memref<?x32xi8>, %[[SCALE:.*]]: memref<?x1xf32>, %[[SUMS:.*]]: memref<?x2xi32>, %{{.*}}: index, %{{.*}}: index):
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<4x32xf32>
// CHECK: vector.load %[[STREAM]]
// CHECK: vector.load %[[Y]]
// CHECK: tile.reduce sum
// CHECK: math.sqrt
// CHECK: vector.load %[[GAIN]]
// CHECK: vector.store %{{.*}}, %[[STREAM1]]
// CHECK: tile.reduce sum
// CHECK: tile.reduce max
// CHECK: memref.store %{{.*}}, %[[SCALE]]
// CHECK: math.roundeven
// CHECK: %[[SUM:.*]] = tile.reduce sum %{{.*}} : vector<16xi32> -> i32
// CHECK: memref.store %[[SUM]], %[[SUMS]]
// CHECK: arith.trunci %{{.*}} : vector<16xi32> to vector<16xi8>
// CHECK: vector.store %{{.*}}, %[[Q]]
exec.kernel @row : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = normed,
  scaled = false, store = true, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// The embedding is one lane of the packed head's group of sixteen rows; the token is found through the map.
// CHECK: exec.kernel @embed
// CHECK-NEXT: ^bb0(%{{.*}}: memref<?xi32>, %[[MAP:.*]]: memref<?xi32>, %[[TOKENS:.*]]: memref<?xi32>, %[[TABLE:.*]]: memref<?xi8>,
// CHECK: %[[ROW32:.*]] = memref.load %[[MAP]]
// CHECK: %[[ROW:.*]] = arith.index_cast %[[ROW32]]
// CHECK: %[[TOKEN32:.*]] = memref.load %[[TOKENS]][%[[ROW]]]
// CHECK: %[[TOKEN:.*]] = arith.index_cast %[[TOKEN32]]
// CHECK: %[[GROUP:.*]] = arith.divui %[[TOKEN]], %c16
// CHECK: %[[LANE:.*]] = arith.remui %[[TOKEN]], %c16
// CHECK: tile.load_quant %[[TABLE]][%[[GROUP]], %{{.*}}] columns = 256
// CHECK: tile.dequant %{{.*}}, %[[BLOCK:.*]] : <q6_k>, memref<32x16xf32>
// CHECK: tile.barrier
// CHECK: memref.load %[[BLOCK]][%{{.*}}, %[[LANE]]]
exec.kernel @embed : #exec.row_kernel<row = <hidden = 256, int8 = true, eps = 1.0e-6 : f32, source = embed, add = none,
  scaled = false, store = true, embed = <element = q6_k, rows = 64, columns = 256>, embedScale = 16.0 : f32, norms = []>> {}

// A prologue is computed by every thread for itself, in scratch; the one with the block's first item stores the stream.
// CHECK: exec.kernel @prologue
// CHECK: %[[X:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x32xi8>
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0
// CHECK: scf.if %[[FIRST]] {
// CHECK: vector.store %{{.*}} : memref<?x32xf32>
// CHECK: vector.store %{{.*}}, %[[X]]
// CHECK: tile.barrier
// CHECK: tile.contract %{{.*}} with %[[X]],{{.*}} rows %c0 +
// CHECK: tile.contract %{{.*}} with %[[X]],{{.*}} rows %c0 +
exec.kernel @prologue : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>,
  <element = q4_0, rows = 64, columns = 32>], epilogue = geglu, tile = 32, rows_per_item = 8,
  row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = normed, scaled = false, store = true,
    norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>,
  out = <f32 = true, q8 = false>> {}

// Keys go to their lane of a strip, values to their row; both to the page of the row's position.
// CHECK: exec.kernel @heads
// CHECK-NEXT: ^bb0({{.*}}, %[[KV:[^:]*]]: memref<?xbf16>, %{{[^:]*}}: index, %{{[^:]*}}: index):
// CHECK: arith.trunci %{{.*}} : i32 to i16
// CHECK: memref.store %{{.*}}, %[[KV]]
// CHECK: vector.store %{{.*}}, %[[KV]]{{.*}} : memref<?xbf16>, vector<16xbf16>
exec.kernel @heads : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>],
  epilogue = heads, tile = 64, rows_per_item = 32, heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = true,
  value = false, kvElement = bf16, eps = 1.0e-6 : f32>> {}

// Quantised pages: keys are rotated in blocks of 64 (two strips of 16 twice as far apart each time), then each block of 32 becomes
// codes and an f16 scale. A key's codes go to their lane byte by byte, a value's to their row.
// CHECK: exec.kernel @quantised
// CHECK-NEXT: ^bb0({{.*}}, %[[KV:[^:]*]]: memref<?xi8>, %[[SCALES:[^:]*]]: memref<?xf16>, %{{[^:]*}}: index, %{{[^:]*}}: index):
// CHECK-COUNT-4: tile.hadamard
// CHECK: scf.for %{{.*}} = %c0 to %c2 step %c1
// CHECK: tile.reduce max
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: memref.store %{{.*}}, %[[SCALES]]
// CHECK: memref.store %{{.*}}, %[[KV]]{{.*}} : memref<?xi8>
// CHECK-COUNT-4: tile.hadamard
// CHECK: memref.store %{{.*}}, %[[SCALES]]
// CHECK-COUNT-2: vector.store %{{.*}}, %[[KV]]{{.*}} : memref<?xi8>, vector<16xi8>
exec.kernel @quantised : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>],
  epilogue = heads, tile = 64, rows_per_item = 32, heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = true,
  value = false, kvElement = q8_0, eps = 1.0e-6 : f32>> {}

// Attention over them: codes of a block are summed before the keys' scales are multiplied; the values' scales go into the
// weights; the result is rotated back before it is written. Four-bit codes: low halves, then high halves of bytes.
// CHECK: exec.kernel @quantised_attention
// CHECK-NEXT: ^bb0({{.*}}, %[[KV:[^:]*]]: memref<?xi8>, %[[SCALES:[^:]*]]: memref<?xf16>, %{{[^:]*}}: memref<?x48xf32>, %{{[^:]*}}: memref<?x2xi32>, %[[OUT:[^:]*]]: memref<?x64xf32>, %{{[^:]*}}: index, %{{[^:]*}}: index):
// CHECK: scf.for %{{.*}} = %c0 to %c16 step %c1
// CHECK: vector.load %[[KV]]{{.*}} : memref<?xi8>, vector<16xi8>
// CHECK: arith.andi
// CHECK: arith.shrui
// CHECK-COUNT-4: math.fma
// CHECK: vector.load %[[SCALES]]{{.*}} : memref<?xf16>, vector<16xf16>
// CHECK-COUNT-2: math.fma
// CHECK: tile.reduce max
// CHECK: vector.load %[[SCALES]]
// CHECK: vector.load %[[KV]]
// CHECK-COUNT-2: tile.hadamard
// CHECK: vector.store %{{.*}}, %[[OUT]]
exec.kernel @quantised_attention : #exec.attention<heads = 2, kvHeads = 1, dim = 32, window = 16, kvElement = q4_0, scale = 1.0 : f32,
  forms = <f32 = true, q8 = false>> {}

// Sorting by counting: histogram, offsets, places in the order of pairs, tiles. No sum of floats anywhere.
// CHECK: exec.kernel @sort
// CHECK-NOT: arith.addf
// CHECK: exec.end
exec.kernel @sort : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {}

// The grid has two items for each of three pairs, the list as many for each tile that the sort made: [begin, end) of the one is
// [begin tiles / pairs, end tiles / pairs) of the other.
// CHECK: exec.kernel @experts
// CHECK-NEXT: ^bb0(%[[COUNT:.*]]: memref<?xi32>, %[[ORDER:.*]]: memref<?xi32>, %[[TILES:.*]]: memref<?xi32>, {{.*}}%[[BEGIN:[a-z0-9]*]]: index, %[[END:[a-z0-9]*]]: index):
// CHECK: %[[N32:.*]] = memref.load %[[TILES]][%c0]
// CHECK: %[[N:.*]] = arith.index_cast %[[N32]]
// CHECK: %[[ROWS32:.*]] = memref.load %[[COUNT]][%c0]
// CHECK: %[[ROWS:.*]] = arith.index_cast %[[ROWS32]]
// CHECK: %[[PAIRS:.*]] = arith.muli %[[ROWS]], %c3
// CHECK: %[[AT:.*]] = arith.muli %[[BEGIN]], %[[N]]
// CHECK: %[[FIRST:.*]] = arith.divui %[[AT]], %[[PAIRS]]
// CHECK: %[[TO:.*]] = arith.muli %[[END]], %[[N]]
// CHECK: %[[STOP:.*]] = arith.divui %[[TO]], %[[PAIRS]]
// CHECK: scf.for %[[ITEM:.*]] = %[[FIRST]] to %[[STOP]] step %c1 {
// CHECK: arith.divui %[[ITEM]], %c2
// The rows of a tile are those of its pairs.
// CHECK: memref.load %[[ORDER]]
// CHECK: memref.store %{{.*}}, %[[MAP:.*]][%{{.*}}] : memref<4xi32>
// CHECK: tile.contract {{.*}} rows %c0 + %{{.*}} map %[[MAP]] : memref<4xi32> into
exec.kernel @experts : #exec.experts<experts = 4, used = 3, tile_rows = 4, int8 = true,
  parts = [<element = q8_0, rows = 128, columns = 32>], tile = 16> {}
