// RUN: not g4-opt %s --lower-exec-to-tile=split-attention=false --tile-schedule-contractions --tile-place-lane-barriers --lower-tile-to-gpu 2>&1 | FileCheck %s
// CHECK: error: 'tile.hadamard' op is not built for this target yet: no quantised K/V (q8_0, q4_0)
// CHECK-NOT: error:
exec.kernel @attention : #exec.attention<heads = 2, kvHeads = 1, dim = 64, window = 16, kvElement = q8_0, scale = 1.0 : f32,
  forms = <f32 = true, q8 = false>> {}
