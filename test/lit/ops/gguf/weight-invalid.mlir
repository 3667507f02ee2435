// RUN: g4-opt %s -split-input-file -verify-diagnostics

// weight_c1
// expected-error@+1 {{has extents of 9215 bytes, but '!gguf.matrix<64x256, q4_k>' takes 9216}}
gguf.weight @w : !gguf.matrix<64x256, q4_k> from <file = 0, offset = 0, size = 9215>

// -----

// weight_c2: a matrix
// expected-error@+1 {{has a factor, but '!gguf.matrix<2x16, f32>' is not one row of floats}}
gguf.weight @w : !gguf.matrix<2x16, f32> from <file = 0, offset = 0, size = 128> factor = 0.5

// -----

// weight_c2: quantised
// expected-error@+1 {{has a factor, but '!gguf.matrix<1x32, q8_0>' is not one row of floats}}
gguf.weight @w : !gguf.matrix<1x32, q8_0> from <file = 0, offset = 0, size = 34> factor = 0.5

// -----

// weight_c3
// expected-error@+1 {{has no bytes: expected at least one extent}}
"gguf.weight"() {sym_name = "w", type = !gguf.matrix<1x16, f32>, extents = []} : () -> ()

// -----

// weight_c4
// expected-error@+1 {{has factor 0.0}}
gguf.weight @w : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64> factor = 0.0

// -----

// weight_c4
// expected-error@+1 {{expected a finite number other than 0}}
gguf.weight @w : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64> factor = 0x7F800000

// -----

// weight_c5
// expected-error@+1 {{has a scale, but only matrices take one: it has one row}}
gguf.weight @w : !gguf.matrix<1x32, q8_0> from <file = 0, offset = 0, size = 34> scale = @s
gguf.weight @s : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>

// -----

// weight_c6: no such weight
module {
  // expected-error@+1 {{has the scale @s, which is no weight}}
  gguf.weight @w : !gguf.matrix<2x64, nvfp4> from <file = 0, offset = 0, size = 72> scale = @s
}

// -----

// weight_c6: not f32
module {
  // expected-error@+1 {{has the scale @s of '!gguf.matrix<1x1, f16>', expected one row of plain f32}}
  gguf.weight @w : !gguf.matrix<2x64, nvfp4> from <file = 0, offset = 0, size = 72> scale = @s
  gguf.weight @s : !gguf.matrix<1x1, f16> from <file = 0, offset = 0, size = 2>
}

// -----

// weight_c6: a scale for each of three experts, but two rows
module {
  // expected-error@+1 {{has 2 rows, which 3 scales do not divide}}
  gguf.weight @w : !gguf.matrix<2x64, nvfp4> from <file = 0, offset = 0, size = 72> scale = @s
  gguf.weight @s : !gguf.matrix<1x3, f32> from <file = 0, offset = 0, size = 12>
}

// -----

// matrix_c1
// expected-error@+1 {{a matrix of 0 rows and 16 columns is empty}}
func.func private @f(!gguf.matrix<0x16, f32>)

// -----

// matrix_c2
// expected-error@+1 {{48 columns are not a multiple of q4_0's block of 32}}
func.func private @f(!gguf.matrix<2x48, q4_0>)

// -----

// expected-error@+1 {{expected rows x columns, found 3 sizes}}
func.func private @f(!gguf.matrix<2x48x2, f32>)

// -----

// extent_c1
// expected-error@+1 {{file 0, offset 0, size 0 is no range of bytes}}
gguf.weight @w : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 0>

// -----

// extent_c1
// expected-error@+1 {{file 0, offset -1, size 64 is no range of bytes}}
gguf.weight @w : !gguf.matrix<1x16, f32> from <file = 0, offset = -1, size = 64>

// -----

// part_c1
// expected-error@+1 {{rows [-1, 3) of @w are no range}}
func.func private @f() attributes {part = #gguf.part<@w, first = -1, rows = 4, stride = 0>}

// -----

// part_c1
// expected-error@+1 {{rows [0, 0) of @w are no range}}
func.func private @f() attributes {part = #gguf.part<@w, first = 0, rows = 0, stride = 0>}

// -----

// part_c2
// expected-error@+1 {{stride 7 is less than the part's end 8}}
func.func private @f() attributes {part = #gguf.part<@w, first = 4, rows = 4, stride = 7>}

// -----

// weight_c1: the size is that of the stored bytes
// expected-error@+1 {{has extents of 144 bytes, but '!gguf.matrix<1x256, q4_k>' stored as bf16 takes 512}}
gguf.weight @w : !gguf.matrix<1x256, q4_k> from <file = 0, offset = 0, size = 144> stored = bf16

// -----

// weight_c7: nothing to convert
// expected-error@+1 {{is stored as q4_k, but that is its type}}
gguf.weight @w : !gguf.matrix<1x256, q4_k> from <file = 0, offset = 0, size = 144> stored = q4_k

// -----

// weight_c7: rows of half a block
// expected-error@+1 {{has 128 columns, no multiple of q4_k's block}}
gguf.weight @w : !gguf.matrix<2x128, f16> from <file = 0, offset = 0, size = 144> stored = q4_k

// -----

// weight_c7: a factor
// expected-error@+1 {{is stored as bf16, but has a factor}}
gguf.weight @w : !gguf.matrix<1x256, f32> from <file = 0, offset = 0, size = 512> factor = 0.5 stored = bf16
