// A vector that something else reads too is left as it is.
// RUN: g4-opt %s --gemma-fold-constants | FileCheck %s

// CHECK: gguf.weight @router_scale : {{.*}} size = 64>{{$}}
// CHECK: gemma.route {{.*}} input_scale = 2.500000e-01
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @router : !gguf.matrix<4x16, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @router_scale : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @shared_scale : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @expert_scale : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
gguf.weight @gate_up : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @down : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
gguf.weight @pl_table : !gguf.matrix<8x48, f32> from <file = 0, offset = 0, size = 1536>
gguf.weight @pl_proj : !gguf.matrix<48x16, f32> from <file = 0, offset = 0, size = 3072>
gguf.weight @pl_norm : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 2, per_layer_width = 0, softcap = 30.0 : f32,
    rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 8, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 4, expert_ff = 8>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %ids0, %w0 = gemma.route %e router = @router scale = @router_scale expert_scale = @expert_scale experts = 4 used = 2
    input_scale = 0.25 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x16xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  %ex0 = gemma.experts %e, %ids0, %w0 gate = <@gate_up, first = 0, rows = 8, stride = 16>
    up = <@gate_up, first = 8, rows = 8, stride = 16> down = <@down, first = 0, rows = 16, stride = 16>
    experts = 4 {layer = 0 : i32} : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %n = gemma.rms_norm %ex0 gain @router_scale groups = 1 eps = 1.0e-6 : tensor<?x16xf32>
  %t = gemma.select_rows %n, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %t, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %t : tensor<?x8xf32>, tensor<?x16xf32>
}
