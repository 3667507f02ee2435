// RUN: g4-opt %s -split-input-file -verify-diagnostics
// One function for each constraint, named after its label.

func.func @load_quant_c1(%w: memref<?xi8>, %i: index) {
  // expected-error@+1 {{has 96 columns, but q4_k packs 256 at a time}}
  %b = tile.load_quant %w[%i, %i] columns = 96 : memref<?xi8> -> !tile.block<q4_k>
  return
}

// -----

func.func @load_quant_c1_float(%w: memref<?xi8>, %i: index) {
  // expected-error@+1 {{has 48 columns, but f32 packs 32 at a time}}
  %b = tile.load_quant %w[%i, %i] columns = 48 : memref<?xi8> -> !tile.block<f32>
  return
}

// -----

func.func @load_quant_memref(%w: memref<?xf32>, %i: index) {
  // expected-error@+1 {{operand #0 must be 1D memref of 8-bit signless integer values, but got 'memref<?xf32>'}}
  %b = tile.load_quant %w[%i, %i] columns = 32 : memref<?xf32> -> !tile.block<q4_0>
  return
}

// -----

func.func @dot_c1(%b: !tile.block<bf16>, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %i: index, %acc: vector<16xf32>) {
  // expected-error@+1 {{has int8 activations for weights of bf16}}
  %s = tile.dot %b, %q, %scale, %sums[%i, %i] acc %acc : !tile.block<bf16>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  return
}

// -----

func.func @dot_c2_columns(%b: !tile.block<q4_0>, %q: memref<?x48xi8>, %scale: memref<?x1xf32>, %sums: memref<?x3xi32>, %i: index, %acc: vector<16xf32>) {
  // expected-error@+1 {{has 1 scales and 3 sums for 48 columns}}
  %s = tile.dot %b, %q, %scale, %sums[%i, %i] acc %acc : !tile.block<q4_0>, memref<?x48xi8>, memref<?x1xf32>, memref<?x3xi32>
  return
}

// -----

func.func @dot_c2_scale(%b: !tile.block<q4_0>, %q: memref<?x64xi8>, %scale: memref<?x4xf32>, %sums: memref<?x4xi32>, %i: index, %acc: vector<16xf32>) {
  // expected-error@+1 {{has 4 scales and 4 sums for 64 columns}}
  %s = tile.dot %b, %q, %scale, %sums[%i, %i] acc %acc : !tile.block<q4_0>, memref<?x64xi8>, memref<?x4xf32>, memref<?x4xi32>
  return
}

// -----

func.func @dot_c2_sums(%b: !tile.block<q4_0>, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x2xi32>, %i: index, %acc: vector<16xf32>) {
  // expected-error@+1 {{has 2 scales and 2 sums for 64 columns}}
  %s = tile.dot %b, %q, %scale, %sums[%i, %i] acc %acc : !tile.block<q4_0>, memref<?x64xi8>, memref<?x2xf32>, memref<?x2xi32>
  return
}

// -----

func.func @dot_f32_c1(%b: !tile.block<q4_0>, %x: memref<?x48xf32>, %i: index, %acc: vector<16xf32>) {
  // expected-error@+1 {{reads blocks of 32 from rows of 48 columns}}
  %s = tile.dot_f32 %b, %x[%i, %i] acc %acc : !tile.block<q4_0>, memref<?x48xf32>
  return
}

// -----

func.func @dequant_c1(%b: !tile.block<q4_0>, %to: memref<16x32xf32>) {
  // expected-error@+1 {{writes 32 strips of 16 to 'memref<16x32xf32>'}}
  tile.dequant %b, %to : !tile.block<q4_0>, memref<16x32xf32>
  return
}

// -----

func.func @reduce_c1(%v: vector<16xf32>) {
  // expected-error@+1 {{reduces 'f32' but gives 'i32'}}
  %r = tile.reduce sum %v : vector<16xf32> -> i32
  return
}

// -----

func.func @reduce_strip(%v: vector<8xf32>) {
  // expected-error@+1 {{operand #0 must be vector of 32-bit float values of length 16 or vector of 32-bit signless integer values of length 16}}
  %r = tile.reduce sum %v : vector<8xf32> -> f32
  return
}

// -----

func.func @contract_c1(%w: memref<?xi8>, %i: index, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %x: memref<?x64xf32>, %to: memref<8x16xf32>) {
  // expected-error@+1 {{has 64 columns, but q4_k packs 256 at a time}}
  tile.contract %w[%i] !tile.block<q4_k> columns = 64 with %x rows %i + %i into %to : memref<?xi8>, memref<8x16xf32>, memref<?x64xf32>
  return
}

// -----

func.func @contract_c2(%w: memref<?xi8>, %i: index, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %x: memref<?x64xf32>, %to: memref<8x16xf32>) {
  // expected-error@+1 {{reads f32, or codes, scales and sums, of 64 columns}}
  tile.contract %w[%i] !tile.block<q4_0> columns = 64 with %q, %scale rows %i + %i into %to : memref<?xi8>, memref<8x16xf32>, memref<?x64xi8>, memref<?x2xf32>
  return
}

// -----

func.func @contract_c2_columns(%w: memref<?xi8>, %i: index, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %x: memref<?x64xf32>, %to: memref<8x16xf32>) {
  // expected-error@+1 {{reads f32, or codes, scales and sums, of 32 columns}}
  tile.contract %w[%i] !tile.block<q4_0> columns = 32 with %x rows %i + %i into %to : memref<?xi8>, memref<8x16xf32>, memref<?x64xf32>
  return
}

// -----

func.func @contract_c3(%w: memref<?xi8>, %i: index, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %x: memref<?x64xf32>, %to: memref<8x16xf32>) {
  // expected-error@+1 {{has int8 activations for weights of f16}}
  tile.contract %w[%i] !tile.block<f16> columns = 64 with %q, %scale, %sums rows %i + %i into %to : memref<?xi8>, memref<8x16xf32>, memref<?x64xi8>, memref<?x2xf32>, memref<?x4xi32>
  return
}

// -----

func.func @contract_c4(%w: memref<?xi8>, %i: index, %q: memref<?x64xi8>, %scale: memref<?x2xf32>, %sums: memref<?x4xi32>, %x: memref<?x64xf32>, %to: memref<16x8xf32>) {
  // expected-error@+1 {{writes strips of 16 to 'memref<16x8xf32>'}}
  tile.contract %w[%i] !tile.block<q4_0> columns = 64 with %x rows %i + %i into %to : memref<?xi8>, memref<16x8xf32>, memref<?x64xf32>
  return
}

// -----

func.func @contract_c5(%w: memref<?xi8>, %i: index, %x: memref<?x64xf32>, %to: memref<15x16xf32>) {
  // expected-error@+1 {{has sums of 15 rows for 2 groups}}
  tile.contract %w[%i] groups = 2 !tile.block<q4_0> columns = 64 with %x rows %i + %i into %to : memref<?xi8>, memref<15x16xf32>, memref<?x64xf32>
  return
}

// -----

func.func @decode_c1(%b: !tile.block<q4_0>, %panel: memref<8x576xi8>, %i: index) {
  // expected-error@+1 {{decodes what is no packed block}}
  tile.decode %b, %panel[%i] : !tile.block<q4_0>, memref<8x576xi8>
  return
}

// -----

func.func @decode_c2(%w: memref<?xi8>, %panel: memref<8x576xi8>, %i: index) {
  %b = tile.load_quant %w[%i, %i] columns = 256 : memref<?xi8> -> !tile.block<q4_k>
  // expected-error@+1 {{has slots of 576 bytes for decoded blocks of q4_k}}
  tile.decode %b, %panel[%i] : !tile.block<q4_k>, memref<8x576xi8>
  return
}

// -----

func.func @load_decoded_c1(%panel: memref<8x576xi8>, %i: index) {
  // expected-error@+1 {{has slots of 576 bytes for decoded blocks of bf16}}
  %b = tile.load_decoded %panel[%i] : memref<8x576xi8> -> !tile.block<bf16>
  return
}
