// RUN: g4-opt %s --lower-gemma-to-exec -split-input-file -verify-diagnostics
// RUN: not g4-opt %s --lower-gemma-to-exec -split-input-file 2>&1 | FileCheck %s

// CHECK: error: 'gemma.model' op has no activation and K/V types: run gemma-quantize first
gguf.weight @table : !gguf.matrix<64x32, f32> from <file = 0, offset = 0, size = 8192>
gguf.weight @gain : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
// expected-error@+1 {{has no activation and K/V types: run gemma-quantize first}}
gemma.model @text attributes {hidden = 32, vocabulary = 64, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 32, base = 1.0e4>,
    rope_global = #gemma.rope<dim = 32, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 1, kv_heads = 1, head_dim = 32, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x32xf32>
  %t = gemma.select_rows %e, %tail : tensor<?x32xf32>, !gemma.rows<tail>
  %n = gemma.rms_norm %t gain @gain groups = 1 eps = 1.0e-6 : tensor<?x32xf32>
  %x = gemma.select_rows %n, %logits : tensor<?x32xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x32xf32> -> tensor<?x64xf32>
  gemma.return %l, %n : tensor<?x64xf32>, tensor<?x32xf32>
}

// -----

// Keys and values of one layer must come from one projection.
// CHECK: error: 'gemma.linear' op projects a layer's keys but not its values
gguf.weight @table : !gguf.matrix<64x32, f32> from <file = 0, offset = 0, size = 8192>
gguf.weight @gain : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gemma.model @text attributes {activations = #gemma.activation_type<f32>, kv_type = #gemma.kv_element<f32>,
    hidden = 32, vocabulary = 64, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 32, base = 1.0e4>,
    rope_global = #gemma.rope<dim = 32, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 1, kv_heads = 1, head_dim = 32, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x32xf32>
  %x0 = gemma.rms_norm %e gain @gain groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  // expected-error@+1 {{projects a layer's keys but not its values}}
  %k = gemma.linear %x0, [#gguf.part<@table, first = 0, rows = 32, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %kn = gemma.rms_norm %k gain @gain groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %kr = gemma.rope %kn, %rows kind = sliding heads = 1 {layer = 0 : i32} : tensor<?x32xf32>, !gemma.rows<body>
  %v = gemma.linear %x0, [#gguf.part<@table, first = 0, rows = 32, stride = 0>] {layer = 0 : i32} : tensor<?x32xf32> -> tensor<?x32xf32>
  %vn = gemma.rms_norm %v groups = 1 eps = 1.0e-6 {layer = 0 : i32} : tensor<?x32xf32>
  %kv = gemma.kv_append %kr, %vn, %rows {layer = 0 : i32} : tensor<?x32xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 32, window = 4>
  %t = gemma.select_rows %e, %tail : tensor<?x32xf32>, !gemma.rows<tail>
  %n = gemma.rms_norm %t gain @gain groups = 1 eps = 1.0e-6 : tensor<?x32xf32>
  %x = gemma.select_rows %n, %logits : tensor<?x32xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x32xf32> -> tensor<?x64xf32>
  gemma.return %l, %n : tensor<?x64xf32>, tensor<?x32xf32>
}

// -----

// CHECK: error: 'gemma.kv_shared' op names no donor: run gemma-resolve-donors first
gguf.weight @table : !gguf.matrix<64x32, f32> from <file = 0, offset = 0, size = 8192>
gguf.weight @gain : !gguf.matrix<1x32, f32> from <file = 0, offset = 0, size = 128>
gemma.model @text attributes {activations = #gemma.activation_type<f32>, kv_type = #gemma.kv_element<f32>,
    hidden = 32, vocabulary = 64, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 32, base = 1.0e4>,
    rope_global = #gemma.rope<dim = 32, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 1, kv_heads = 1, head_dim = 32, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x32xf32>
  // expected-error@+1 {{names no donor: run gemma-resolve-donors first}}
  %kv = gemma.kv_shared {layer = 0 : i32} : !gemma.kv<heads = 1, dim = 32, window = 4>
  %t = gemma.select_rows %e, %tail : tensor<?x32xf32>, !gemma.rows<tail>
  %n = gemma.rms_norm %t gain @gain groups = 1 eps = 1.0e-6 : tensor<?x32xf32>
  %x = gemma.select_rows %n, %logits : tensor<?x32xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x32xf32> -> tensor<?x64xf32>
  gemma.return %l, %n : tensor<?x64xf32>, tensor<?x32xf32>
}

// -----

// Widths that no block of 32 columns fits end here, at the kernel, and not in wrong code.
// CHECK: error: 'exec.kernel' op the stream is 48 wide, expected a multiple of 32
gguf.weight @table : !gguf.matrix<64x48, f32> from <file = 0, offset = 0, size = 12288>
gguf.weight @gain : !gguf.matrix<1x48, f32> from <file = 0, offset = 0, size = 192>
gemma.model @text attributes {activations = #gemma.activation_type<f32>, kv_type = #gemma.kv_element<f32>,
    hidden = 48, vocabulary = 64, context_length = 64, window = 4, eps = 1.0e-6 : f32,
    experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 32, base = 1.0e4>,
    rope_global = #gemma.rope<dim = 32, base = 1.0e6>,
    layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 1, kv_heads = 1, head_dim = 32, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  // expected-error@+1 {{the stream is 48 wide, expected a multiple of 32}}
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x48xf32>
  // expected-error@+1 {{the stream is 48 wide, expected a multiple of 32}}
  %t = gemma.select_rows %e, %tail : tensor<?x48xf32>, !gemma.rows<tail>
  %n = gemma.rms_norm %t gain @gain groups = 1 eps = 1.0e-6 : tensor<?x48xf32>
  // expected-error@+1 {{the stream is 48 wide, expected a multiple of 32}}
  %x = gemma.select_rows %n, %logits : tensor<?x48xf32>, !gemma.rows<logits>
  // expected-error@+1 {{its input is 48 wide, expected a multiple of 32}}
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x48xf32> -> tensor<?x64xf32>
  gemma.return %l, %n : tensor<?x64xf32>, tensor<?x48xf32>
}
