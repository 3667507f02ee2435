// RUN: g4-opt %s --exec-pack-weights -verify-diagnostics
// RUN: not g4-opt %s --exec-pack-weights 2>&1 | FileCheck %s

// CHECK: error: 'exec.weight' op has no packed layout for q3_k
gguf.weight @w : !gguf.matrix<16x256, q3_k> from <file = 0, offset = 0, size = 1760>
exec.program @step attributes {max_rows = 8, max_tail_rows = 8, max_logit_rows = 8, model = {}} {
  // expected-error@+1 {{has no packed layout for q3_k}}
  %w = exec.weight packed #gguf.part<@w, first = 0, rows = 16, stride = 0> as <element = q3_k, rows = 16, columns = 256>
  exec.return []
}
