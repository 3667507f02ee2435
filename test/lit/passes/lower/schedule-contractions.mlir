// RUN: g4-opt %s --tile-schedule-contractions --canonicalize --cse | FileCheck %s --check-prefix=DIRECT --implicit-check-not=tile.decode --implicit-check-not=tile.contract
// RUN: g4-opt %s --tile-schedule-contractions="panels=true row-tile=8" --canonicalize --cse | FileCheck %s --check-prefix=PANEL --implicit-check-not=tile.contract
// RUN: not g4-opt %s --tile-schedule-contractions="row-tile=6" 2>&1 | FileCheck %s --check-prefix=TILE
// TILE: error: row-tile is 6, no power of two

// Without panels: one row alone, two, or tiles of four rows, each from the packed blocks in order. The last tile computes the last
// row again where it has fewer.
// DIRECT: exec.kernel @int8
// DIRECT: ^bb0(%{{.*}}, %[[Q:.*]]: memref<?x320xi8>, %[[SCALE:.*]]: memref<?x10xf32>, %[[SUMS:.*]]: memref<?x20xi32>, %[[W:.*]]: memref<?xi8>, %[[OUT:.*]]: memref<?x16xf32>, %[[ROW0:.*]]: index, %[[N:.*]]: index):
// DIRECT: %[[ACC:.*]] = memref.alloca
// DIRECT: %[[SINGLE:.*]] = arith.cmpi ule, %[[N]], %c1
// DIRECT: scf.if %[[SINGLE]] {
// DIRECT: %[[ONE:.*]] = scf.for %{{.*}} = %c0 to %c10
// DIRECT-NEXT: tile.load_quant
// DIRECT-NEXT: tile.dot %{{.*}}, %[[Q]], %[[SCALE]], %[[SUMS]][%[[ROW0]], %{{.*}}]
// DIRECT: vector.store %[[ONE]], %[[ACC]][%c0, %c0]
// DIRECT: %[[TWO:.*]] = arith.cmpi ule, %[[N]], %c2
// DIRECT: scf.if %[[TWO]] {
// DIRECT: %[[LAST:.*]] = arith.subi %[[N]], %c1
// DIRECT: scf.for %{{.*}} = %c0 to %[[N]] step %c2 {
// DIRECT-COUNT-2: tile.dot
// DIRECT-NOT: tile.dot
// DIRECT: } else {
// DIRECT: %[[LAST:.*]] = arith.subi %[[N]], %c1
// DIRECT: scf.for %[[M:.*]] = %c0 to %[[N]] step %c4 {
// DIRECT: %[[M3:.*]] = arith.addi %[[M]], %c3
// DIRECT: %[[INSIDE:.*]] = arith.minui %[[M3]], %[[LAST]]
// DIRECT: %[[ROW3:.*]] = arith.addi %[[ROW0]], %[[INSIDE]]
// DIRECT: %[[S:.*]]:4 = scf.for %[[K:.*]] = %c0 to %c10 step %c1 iter_args(%[[A0:.*]] = %{{.*}}, %[[A1:.*]] = %{{.*}}, %[[A2:.*]] = %{{.*}}, %[[A3:.*]] = %{{.*}}) ->
// DIRECT-NEXT: %[[B:.*]] = tile.load_quant %[[W]][%c3, %[[K]]] columns = 320
// DIRECT-NEXT: tile.dot %[[B]], %[[Q]], %[[SCALE]], %[[SUMS]][%{{.*}}, %[[K]]] acc %[[A0]]
// DIRECT-NEXT: tile.dot %[[B]], %[[Q]], %[[SCALE]], %[[SUMS]][%{{.*}}, %[[K]]] acc %[[A1]]
// DIRECT-NEXT: tile.dot %[[B]], %[[Q]], %[[SCALE]], %[[SUMS]][%{{.*}}, %[[K]]] acc %[[A2]]
// DIRECT-NEXT: tile.dot %[[B]], %[[Q]], %[[SCALE]], %[[SUMS]][%[[ROW3]], %[[K]]] acc %[[A3]]
// DIRECT: vector.store %[[S]]#0, %[[ACC]][%[[M]], %c0]
// DIRECT: vector.store %[[S]]#3, %[[ACC]][%[[INSIDE]], %c0]

// With them: up to eight rows from packed blocks, in tiles of two, four or eight; more over panels of at most eight decoded blocks
// (the second has two). The sums wait in memory from panel to panel.
// PANEL: exec.kernel @int8
// PANEL: ^bb0(%{{.*}}, %[[Q:.*]]: memref<?x320xi8>, %[[SCALE:.*]]: memref<?x10xf32>, %[[SUMS:.*]]: memref<?x20xi32>, %[[W:.*]]: memref<?xi8>, %[[OUT:.*]]: memref<?x16xf32>, %[[ROW0:.*]]: index, %[[N:.*]]: index):
// PANEL: %[[PANEL:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x576xi8>
// PANEL: %[[ACC:.*]] = memref.alloca
// PANEL: arith.cmpi ule, %[[N]], %c1
// PANEL: %[[FEW:.*]] = arith.cmpi ule, %[[N]], %c8
// PANEL: scf.if %[[FEW]] {
// PANEL: arith.cmpi ule, %[[N]], %c2
// PANEL: scf.for %{{.*}} = %c0 to %[[N]] step %c2 {
// PANEL-COUNT-2: tile.dot
// PANEL-NOT: tile.dot
// PANEL: } else {
// PANEL: arith.cmpi ule, %[[N]], %c4
// PANEL: scf.for %{{.*}} = %c0 to %[[N]] step %c4 {
// PANEL: tile.load_quant
// PANEL-COUNT-4: tile.dot
// PANEL-NOT: tile.dot
// PANEL: } else {
// PANEL: scf.for %{{.*}} = %c0 to %[[N]] step %c8 {
// PANEL: tile.load_quant
// PANEL-COUNT-8: tile.dot
// PANEL-NOT: tile.dot
// PANEL: } else {
// PANEL: scf.for %[[Z:.*]] = %c0 to %[[N]] step %c1 {
// PANEL-NEXT: vector.store %{{.*}}, %[[ACC]][%[[Z]], %c0]
// PANEL: scf.for %[[FIRST:.*]] = %c0 to %c10 step %c8 {
// PANEL: %[[AFTER:.*]] = arith.addi %[[FIRST]], %c8
// PANEL: %[[LAST:.*]] = arith.minui %[[AFTER]], %c10
// PANEL: scf.for %[[K:.*]] = %[[FIRST]] to %[[LAST]] step %c1 {
// PANEL: %[[B:.*]] = tile.load_quant %[[W]][%c3, %[[K]]] columns = 320
// PANEL: tile.decode %[[B]], %[[PANEL]][%[[SLOT:.*]]] :
// PANEL: scf.for %{{.*}} = %c0 to %[[N]] step %c8 {
// PANEL-COUNT-8: vector.load %[[ACC]]
// PANEL: scf.for %[[K2:.*]] = %[[FIRST]] to %[[LAST]]
// PANEL: %[[D:.*]] = tile.load_decoded %[[PANEL]][%{{.*}}] : memref<8x576xi8> -> <q5_0>
// PANEL-COUNT-8: tile.dot %[[D]], %[[Q]], %[[SCALE]], %[[SUMS]][%{{.*}}, %[[K2]]]
// PANEL-COUNT-8: vector.store %{{.*}}, %[[ACC]]
// PANEL-NOT: tile.dot
exec.kernel @int8 : #exec.linear<columns = 320, int8 = true, parts = [<element = q5_0, rows = 16, columns = 320>], epilogue = store, tile = 16, rows_per_item = 32> {
^bb0(%count: memref<?xi32>, %q: memref<?x320xi8>, %scale: memref<?x10xf32>, %sums: memref<?x20xi32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %first: index, %n: index):
  %acc = memref.alloca() : memref<32x16xf32>
  %c3 = arith.constant 3 : index
  tile.contract %w[%c3] !tile.block<q5_0> columns = 320 with %q, %scale, %sums rows %first + %n into %acc : memref<?xi8>, memref<32x16xf32>, memref<?x320xi8>, memref<?x10xf32>, memref<?x20xi32>
  %v = vector.load %acc[%c3, %c3] : memref<32x16xf32>, vector<16xf32>
  vector.store %v, %out[%c3, %c3] : memref<?x16xf32>, vector<16xf32>
  exec.end
}

// Four bits in one plane, and d alone for a scale: to decode again costs no more than a panel.
// DIRECT: exec.kernel @cheap
// PANEL: exec.kernel @cheap
// PANEL-NOT: memref<8x576xi8>
// PANEL-NOT: tile.decode
// PANEL: scf.for %{{.*}} = %c0 to %{{.*}} step %c8 {
// PANEL: exec.end
exec.kernel @cheap : #exec.linear<columns = 320, int8 = true, parts = [<element = q4_0, rows = 16, columns = 320>], epilogue = store, tile = 16, rows_per_item = 32> {
^bb0(%count: memref<?xi32>, %q: memref<?x320xi8>, %scale: memref<?x10xf32>, %sums: memref<?x20xi32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %first: index, %n: index):
  %acc = memref.alloca() : memref<32x16xf32>
  %c3 = arith.constant 3 : index
  tile.contract %w[%c3] !tile.block<q4_0> columns = 320 with %q, %scale, %sums rows %first + %n into %acc : memref<?xi8>, memref<32x16xf32>, memref<?x320xi8>, memref<?x10xf32>, memref<?x20xi32>
  %v = vector.load %acc[%c3, %c3] : memref<32x16xf32>, vector<16xf32>
  vector.store %v, %out[%c3, %c3] : memref<?x16xf32>, vector<16xf32>
  exec.end
}

// f32: a panel is the values of one block, multiplied column by column, in the order of tile.dot_f32. Rows come from a map.
// DIRECT: exec.kernel @floats
// DIRECT: tile.dot_f32
// PANEL: exec.kernel @floats
// PANEL: ^bb0(%{{.*}}, %[[X:[^:]*]]: memref<?x64xf32>, %[[W:[^:]*]]: memref<?xi8>,
// PANEL: %[[VALUES:.*]] = memref.alloca() {alignment = 64 : i64} : memref<32x16xf32>
// PANEL: scf.for %[[K:.*]] = %c0 to %c2 step %c1 {
// PANEL: %[[B:.*]] = tile.load_quant %[[W]][%c0, %[[K]]]
// PANEL-NEXT: tile.dequant %[[B]], %[[VALUES]]
// PANEL: memref.load %{{.*}}[%{{.*}}] : memref<4xi32>
// PANEL: %[[COLUMN0:.*]] = arith.muli %[[K]], %c32
// PANEL: scf.for %[[C:.*]] = %c0 to %c32 step %c1
// PANEL: %[[WEIGHTS:.*]] = vector.load %[[VALUES]][%[[C]], %c0]
// PANEL: %[[COLUMN:.*]] = arith.addi %[[COLUMN0]], %[[C]]
// PANEL: memref.load %[[X]][%{{.*}}, %[[COLUMN]]]
// PANEL: math.fma %[[WEIGHTS]],
exec.kernel @floats : #exec.linear<columns = 64, int8 = false, parts = [<element = q4_0, rows = 16, columns = 64>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x64xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %first: index, %n: index):
  %acc = memref.alloca() : memref<4x16xf32>
  %map = memref.alloca() : memref<4xi32>
  %c0 = arith.constant 0 : index
  tile.contract %w[%c0] !tile.block<q4_0> columns = 64 with %x rows %first + %n map %map : memref<4xi32> into %acc : memref<?xi8>, memref<4x16xf32>, memref<?x64xf32>
  %v = vector.load %acc[%c0, %c0] : memref<4x16xf32>, vector<16xf32>
  vector.store %v, %out[%c0, %c0] : memref<?x16xf32>, vector<16xf32>
  exec.end
}

// A single row needs no panel.
// PANEL: exec.kernel @single
// PANEL-NOT: memref<8x
// PANEL-NOT: scf.if
// PANEL: tile.load_quant
// PANEL: exec.end
exec.kernel @single : #exec.linear<columns = 64, int8 = false, parts = [<element = q4_0, rows = 16, columns = 64>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %x: memref<?x64xf32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %first: index, %end: index):
  %acc = memref.alloca() : memref<4x16xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  tile.contract %w[%c0] !tile.block<q4_0> columns = 64 with %x rows %first + %c1 into %acc : memref<?xi8>, memref<4x16xf32>, memref<?x64xf32>
  %v = vector.load %acc[%c0, %c0] : memref<4x16xf32>, vector<16xf32>
  vector.store %v, %out[%c0, %c0] : memref<?x16xf32>, vector<16xf32>
  exec.end
}

// Two groups, three apart: one row reads both together, block by block; several rows take one after the other, each with its half of
// the sums.
// PANEL: exec.kernel @groups
// PANEL: ^bb0(%{{.*}}, %[[Q:.*]]: memref<?x64xi8>, %[[SCALE:.*]]: memref<?x2xf32>, %[[SUMS:.*]]: memref<?x4xi32>, %[[W:.*]]: memref<?xi8>, %{{.*}}: memref<?x16xf32>, %[[FIRST:.*]]: index, %[[N:.*]]: index):
// PANEL: %[[ACC:.*]] = memref.alloca() : memref<8x16xf32>
// PANEL: %[[R:.*]]:2 = scf.for %[[K:.*]] = %c0 to %c2 step %c1 iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}})
// PANEL: %[[ONE:.*]] = tile.load_quant %[[W]][%c2, %[[K]]]
// PANEL: %[[S:.*]] = tile.dot %[[ONE]], %[[Q]], %[[SCALE]], %[[SUMS]][%[[FIRST]], %[[K]]] acc %[[A]]
// PANEL: %[[OTHER:.*]] = tile.load_quant %[[W]][%c5, %[[K]]]
// PANEL: %[[T:.*]] = tile.dot %[[OTHER]], %[[Q]], %[[SCALE]], %[[SUMS]][%[[FIRST]], %[[K]]] acc %[[B]]
// PANEL: scf.yield %[[S]], %[[T]]
// PANEL: vector.store %[[R]]#0, %[[ACC]][%c0, %c0]
// PANEL: vector.store %[[R]]#1, %[[ACC]][%c4, %c0]
// PANEL: scf.for %[[J:.*]] = %c0 to %c2 step %c1 {
// PANEL: %[[AWAY:.*]] = arith.muli %[[J]], %c3
// PANEL: %[[GROUP:.*]] = arith.addi %[[AWAY]], %c2
// PANEL: %[[HALF:.*]] = arith.muli %[[J]], %c4
// PANEL: tile.load_quant %[[W]][%[[GROUP]],
// PANEL: %[[AT:.*]] = arith.addi %[[HALF]], %{{.*}}
// PANEL: vector.store %{{.*}}, %[[ACC]][%[[AT]], %c0]
exec.kernel @groups : #exec.linear<columns = 64, int8 = true, parts = [<element = q4_0, rows = 16, columns = 64>], epilogue = store, tile = 16, rows_per_item = 4> {
^bb0(%count: memref<?xi32>, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %w: memref<?xi8>, %out: memref<?x16xf32>, %first: index, %n: index):
  %acc = memref.alloca() : memref<8x16xf32>
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  tile.contract %w[%c2] groups = 2 apart = 3 !tile.block<q4_0> columns = 64 with %q, %scale, %sums rows %first + %n into %acc : memref<?xi8>, memref<8x16xf32>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  %v = vector.load %acc[%c0, %c0] : memref<8x16xf32>, vector<16xf32>
  vector.store %v, %out[%c0, %c0] : memref<?x16xf32>, vector<16xf32>
  exec.end
}
