// One case or more for each labelled constraint of the model and its attributes.
// RUN: g4-opt %s -split-input-file -verify-diagnostics

// model_c1
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{argument 1 is}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<logits>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %h, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c1
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has 4 arguments, expected the 3 row sets}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>, %more: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c2
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has no layers}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = []} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c2: own
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{layer 0: owns its K/V, but kv_source is -1}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = -1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c2: order
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{layer 1: kv_source 1 is not an earlier layer}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>, #gemma.layer<kind = sliding, kv = shared, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c2: kind
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{layer 1: kv_source 0 is not a global layer with K/V of its own}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>, #gemma.layer<kind = global, kv = shared, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 16, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c2: shared
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{layer 2: kv_source 1 is not a sliding layer with K/V of its own}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>, #gemma.layer<kind = sliding, kv = shared, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>, #gemma.layer<kind = sliding, kv = shared, kv_source = 1, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c2: shape
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{layer 1: has 2 K/V heads of 8 elements, but its kv_source has 1 of 8}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>, #gemma.layer<kind = sliding, kv = shared, kv_source = 0, heads = 2, kv_heads = 2, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c3
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has window 0, expected at least 1}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 0, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c3
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has experts_used -1, expected at least 0}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = -1, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c3
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has an eps that is not positive}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 0.0 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c3
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has a negative softcap}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = -1.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c4
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  // expected-error@+1 {{mixes values of the body and the tail rows}}
  %b = gemma.add %e, %h : tensor<?x16xf32>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c4: with a row set
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  // expected-error@+1 {{mixes values of the body and the tail rows}}
  %b = gemma.rope %e, %tail kind = sliding heads = 2 : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// select_rows_c2
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  // expected-error@+1 {{goes from the tail rows to the tail rows, which is not a smaller set}}
  %b = gemma.select_rows %h, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c5
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{layer 0: a head has 16 elements, but the rope of its kind turns 8}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 16, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c6
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has experts_used 2, but no layer has experts}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 2, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c6
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has experts_used 0, but some layer has experts}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 4, expert_ff = 8>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c7
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @f : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
// expected-error@+1 {{has rope factors '!gguf.matrix<1x4, f32>', expected one row of 8 floats}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6, factors = @f>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// model_c7: no weight
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
// expected-error@+1 {{has rope factors @f, which is no gguf.weight}}
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6, factors = @f>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// rope_c3
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  // expected-error@+1 {{turns heads of 16 elements, but the model's sliding rope has dim 8}}
  %b = gemma.rope %e, %rows kind = sliding heads = 1 : tensor<?x16xf32>, !gemma.rows<body>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  gemma.return %l, %h : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// return_c1
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  // expected-error@+1 {{logits has 16 columns, but the model has 8}}
  gemma.return %x, %h : tensor<?x16xf32>, tensor<?x16xf32>
}

// -----

// return_c2
gguf.weight @table : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gemma.model @text attributes {hidden = 16, vocabulary = 8, context_length = 64, window = 4, eps = 1.0e-6 : f32, experts_used = 0, per_layer_width = 0, softcap = 30.0 : f32, rope_sliding = #gemma.rope<dim = 8, base = 1.0e4>, rope_global = #gemma.rope<dim = 16, base = 1.0e6>, layer_facts = [#gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>]} {
^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
  %e = gemma.embed %rows, @table scale = 4.0 : !gemma.rows<body> -> tensor<?x16xf32>
  %h = gemma.select_rows %e, %tail : tensor<?x16xf32>, !gemma.rows<tail>
  %x = gemma.select_rows %h, %logits : tensor<?x16xf32>, !gemma.rows<logits>
  %l = gemma.logits %x, @table softcap = 30.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  // expected-error@+1 {{returns a value of the body rows, expected the tail rows}}
  gemma.return %l, %e : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// layer_c1
// expected-error@+1 {{heads 0, kv_heads 1, head_dim 8 and ff 32 must be positive}}
func.func private @f() attributes {x = #gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 0, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>}

// -----

// layer_c2
// expected-error@+1 {{3 heads are not a multiple of 2 K/V heads}}
func.func private @f() attributes {x = #gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 3, kv_heads = 2, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>}

// -----

// layer_c3
// expected-error@+1 {{experts 4 and expert_ff 0 must be both 0 or both positive}}
func.func private @f() attributes {x = #gemma.layer<kind = sliding, kv = own, kv_source = 0, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 4, expert_ff = 0>}

// -----

// layer_c4
// expected-error@+1 {{kv_source -2 is neither a layer nor -1}}
func.func private @f() attributes {x = #gemma.layer<kind = sliding, kv = own, kv_source = -2, heads = 2, kv_heads = 1, head_dim = 8, ff = 32, experts = 0, expert_ff = 0>}

// -----

// rope_attr_c1
// expected-error@+1 {{rope dimension 7 is not even and positive}}
func.func private @f() attributes {x = #gemma.rope<dim = 7, base = 1.0e4>}

// -----

// rope_attr_c2
// expected-error@+1 {{rope base is not an f64 above 1}}
func.func private @f() attributes {x = #gemma.rope<dim = 8, base = 1.0>}

// -----

// rope_attr_c3
// expected-error@+1 {{rope turns 5 pairs, expected 0 to 4}}
func.func private @f() attributes {x = #gemma.rope<dim = 8, base = 1.0e4, turning = 5>}

// -----

// expected-error@+1 {{rope turns 2 pairs, expected 0 to 0}}
func.func private @f() attributes {x = #gemma.rope<dim = 8, base = 1.0e4, factors = @f, turning = 2>}
