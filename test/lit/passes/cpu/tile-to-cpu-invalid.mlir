// RUN: g4-opt %s --lower-tile-to-cpu -verify-diagnostics -split-input-file
// RUN: not g4-opt %s --lower-tile-to-cpu -split-input-file 2>&1 | FileCheck %s

// CHECK: error: 'exec.kernel' op has no body: run lower-exec-to-tile first
// expected-error@+1 {{has no body: run lower-exec-to-tile first}}
exec.kernel @sort : #exec.sort_experts<experts = 2, used = 1, tileRows = 4> {}

// -----

// A block is decoded where its last reader is: all must be in one list of operations.
// CHECK: error: 'tile.load_quant' op is read in another block than its own
func.func @elsewhere(%w: memref<?xi8>, %x: memref<?x32xf32>, %i: index, %acc: vector<16xf32>) -> vector<16xf32> {
  // expected-error@+1 {{is read in another block than its own}}
  %b = tile.load_quant %w[%i, %i] columns = 32 : memref<?xi8> -> !tile.block<q4_0>
  %r = scf.for %k = %i to %i step %i iter_args(%a = %acc) -> vector<16xf32> {
    %s = tile.dot_f32 %b, %x[%i, %i] acc %a : !tile.block<q4_0>, memref<?x32xf32>
    scf.yield %s : vector<16xf32>
  }
  return %r : vector<16xf32>
}
