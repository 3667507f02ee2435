// RUN: g4-opt %s --exec-pack-weights -split-input-file | FileCheck %s

// Sizes are those of runtime/module/PackedLayout.h: rows padded to sixteen; for each row and super-block a half-precision
// scale, a minimum where the format has one, and a byte for each sub-scale; then the codes. Places are multiples of 64 in
// the order of first use.
gguf.weight @f32 : !gguf.matrix<40x512, f32> from <file = 0, offset = 0, size = 81920>
gguf.weight @f16 : !gguf.matrix<40x512, f16> from <file = 0, offset = 0, size = 40960>
gguf.weight @bf16 : !gguf.matrix<40x512, bf16> from <file = 0, offset = 0, size = 40960>
gguf.weight @q4_0 : !gguf.matrix<40x512, q4_0> from <file = 0, offset = 0, size = 11520>
gguf.weight @q4_1 : !gguf.matrix<40x512, q4_1> from <file = 0, offset = 0, size = 12800>
gguf.weight @q5_0 : !gguf.matrix<40x512, q5_0> from <file = 0, offset = 0, size = 14080>
gguf.weight @q5_1 : !gguf.matrix<40x512, q5_1> from <file = 0, offset = 0, size = 15360>
gguf.weight @q8_0 : !gguf.matrix<40x512, q8_0> from <file = 0, offset = 0, size = 21760>
gguf.weight @q4_k : !gguf.matrix<40x512, q4_k> from <file = 0, offset = 0, size = 11520>
gguf.weight @q5_k : !gguf.matrix<40x512, q5_k> from <file = 0, offset = 0, size = 14080>
gguf.weight @q6_k : !gguf.matrix<40x512, q6_k> from <file = 0, offset = 0, size = 16800>
// CHECK-LABEL: exec.program @sizes
exec.program @sizes attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  // CHECK: exec.weight packed {{.*}}@f32{{.*}} at 0 size 98304
  %f32 = exec.weight packed #gguf.part<@f32, first = 0, rows = 40, stride = 0> as <element = f32, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@f16{{.*}} at 98304 size 49152
  %f16 = exec.weight packed #gguf.part<@f16, first = 0, rows = 40, stride = 0> as <element = f16, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@bf16{{.*}} at 147456 size 49152
  %bf16 = exec.weight packed #gguf.part<@bf16, first = 0, rows = 40, stride = 0> as <element = bf16, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@q4_0{{.*}} at 196608 size 13824
  %q4_0 = exec.weight packed #gguf.part<@q4_0, first = 0, rows = 40, stride = 0> as <element = q4_0, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@q4_1{{.*}} at 210432 size 15360
  %q4_1 = exec.weight packed #gguf.part<@q4_1, first = 0, rows = 40, stride = 0> as <element = q4_1, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@q5_0{{.*}} at 225792 size 16896
  %q5_0 = exec.weight packed #gguf.part<@q5_0, first = 0, rows = 40, stride = 0> as <element = q5_0, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@q5_1{{.*}} at 242688 size 18432
  %q5_1 = exec.weight packed #gguf.part<@q5_1, first = 0, rows = 40, stride = 0> as <element = q5_1, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@q8_0{{.*}} at 261120 size 26112
  %q8_0 = exec.weight packed #gguf.part<@q8_0, first = 0, rows = 40, stride = 0> as <element = q8_0, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@q4_k{{.*}} at 287232 size 14208
  %q4_k = exec.weight packed #gguf.part<@q4_k, first = 0, rows = 40, stride = 0> as <element = q4_k, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@q5_k{{.*}} at 301440 size 17280
  %q5_k = exec.weight packed #gguf.part<@q5_k, first = 0, rows = 40, stride = 0> as <element = q5_k, rows = 40, columns = 512>
  // CHECK: exec.weight packed {{.*}}@q6_k{{.*}} at 318720 size 20160
  %q6_k = exec.weight packed #gguf.part<@q6_k, first = 0, rows = 40, stride = 0> as <element = q6_k, rows = 40, columns = 512>
  exec.return []
}

// -----

// Equal uses share their bytes: a tied head and embedding table, a gain that two layers read. Another part of the same
// tensor and the same part in another storage do not.
gguf.weight @table : !gguf.matrix<64x32, q4_0> from <file = 0, offset = 0, size = 1152>
gguf.weight @gain : !gguf.matrix<1x32, bf16> from <file = 0, offset = 0, size = 64>
gguf.weight @experts : !gguf.matrix<64x32, q8_0> from <file = 0, offset = 0, size = 2176>
gguf.weight @fp4 : !gguf.matrix<3x64, nvfp4> from <file = 0, offset = 0, size = 108>
// CHECK-LABEL: exec.program @shared
exec.program @shared attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  // CHECK: exec.weight packed {{.*}} at 0 size 1152
  %embedding = exec.weight packed #gguf.part<@table, first = 0, rows = 64, stride = 0> as <element = q4_0, rows = 64, columns = 32>
  // A vector is widened to f32.
  // CHECK: exec.weight vector {{.*}}@gain{{.*}} at 1152 size 128
  %gain0 = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = bf16, rows = 1, columns = 32>
  // CHECK: exec.weight packed {{.*}}rows = 64{{.*}} at 0 size 1152
  %head = exec.weight packed #gguf.part<@table, first = 0, rows = 64, stride = 0> as <element = q4_0, rows = 64, columns = 32>
  // CHECK: exec.weight vector {{.*}}@gain{{.*}} at 1152 size 128
  %gain1 = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = bf16, rows = 1, columns = 32>
  // CHECK: exec.weight packed {{.*}}rows = 16{{.*}} at 1280 size 288
  %part = exec.weight packed #gguf.part<@table, first = 0, rows = 16, stride = 0> as <element = q4_0, rows = 16, columns = 32>
  // As stored, a row of two q4_0 blocks takes 18 bytes each; packed or not.
  // CHECK: exec.weight table {{.*}} at 1600 size 1152
  %stored = exec.weight table #gguf.part<@table, first = 0, rows = 64, stride = 0> as <element = q4_0, rows = 64, columns = 32>
  // A row of nvfp4 is followed by its scale.
  // CHECK: exec.weight table {{.*}}@fp4{{.*}} at 2752 size 120
  %fp4 = exec.weight table #gguf.part<@fp4, first = 0, rows = 3, stride = 0> as <element = nvfp4, rows = 3, columns = 64>
  // All experts' parts: two of sixteen rows.
  // CHECK: exec.weight packed {{.*}}stride = 32{{.*}} at 2880 size 1088
  %stack = exec.weight packed #gguf.part<@experts, first = 16, rows = 16, stride = 32> as <element = q8_0, rows = 32, columns = 32>
  exec.return []
}

// -----

// Existing places are given anew.
gguf.weight @gain : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
// CHECK-LABEL: exec.program @again
exec.program @again attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  // CHECK: exec.weight vector {{.*}} at 0 size 128
  %gain = exec.weight vector #gguf.part<@gain, first = 0, rows = 1, stride = 0> as <element = f32, rows = 1, columns = 32> at 640 size 64
  exec.return []
}
