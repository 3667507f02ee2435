// One case for each labelled constraint; a function has the label's name.
// RUN: g4-opt %s -split-input-file -verify-diagnostics

gguf.weight @t : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
func.func @embed_c1(%rows: !gemma.rows<body>) {
  // expected-error@+1 {{result has 8 columns, expected 16}}
  %h = gemma.embed %rows, @t scale = 4.0 : !gemma.rows<body> -> tensor<?x8xf32>
  return
}

// -----

func.func @embed_no_weight(%rows: !gemma.rows<body>) {
  // expected-error@+1 {{uses @t, which is no gguf.weight}}
  %h = gemma.embed %rows, @t scale = 4.0 : !gemma.rows<body> -> tensor<?x8xf32>
  return
}

// -----

func.func @activation_type(%x: tensor<4x16xf32>) {
  // expected-error@+1 {{must be tensor<?xNxf32> (a row per token)}}
  %h = gemma.add %x, %x : tensor<4x16xf32>
  return
}

// -----

func.func @select_rows_c1(%x: tensor<?x16xf32>, %tail: !gemma.rows<tail>) {
  // expected-error@+1 {{failed to verify that all of {x, result} have same type}}
  %t = "gemma.select_rows"(%x, %tail) : (tensor<?x16xf32>, !gemma.rows<tail>) -> tensor<?x8xf32>
  return
}

// -----

func.func @rms_norm_c1(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{failed to verify that all of {x, result} have same type}}
  %t = "gemma.rms_norm"(%x) {groups = 1 : i64, eps = 1.0e-6 : f32} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{has 16 columns, which 3 groups do not divide}}
  %y = gemma.rms_norm %x groups = 3 eps = 1.0e-6 : tensor<?x16xf32>
  return
}

// -----

gguf.weight @g : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
func.func @rms_norm_c3(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{gain is '!gguf.matrix<1x16, f32>', expected one row of 8 floats}}
  %y = gemma.rms_norm %x gain @g groups = 2 eps = 1.0e-6 : tensor<?x16xf32>
  return
}

// -----

gguf.weight @g : !gguf.matrix<1x32, q8_0> from <file = 0, offset = 0, size = 34>
func.func @rms_norm_c3_quantised(%x: tensor<?x32xf32>) {
  // expected-error@+1 {{gain is '!gguf.matrix<1x32, q8_0>', expected one row of 32 floats}}
  %y = gemma.rms_norm %x gain @g groups = 1 eps = 1.0e-6 : tensor<?x32xf32>
  return
}

// -----

func.func @rms_norm_c4(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{has an eps that is not positive}}
  %y = gemma.rms_norm %x groups = 1 eps = 0.0 : tensor<?x16xf32>
  return
}

// -----

gguf.weight @w : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
func.func @linear_c1(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{has 1 parts and 2 results, expected as many}}
  %a, %b = gemma.linear %x, [#gguf.part<@w, first = 0, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x8xf32>, tensor<?x8xf32>
  return
}

// -----

gguf.weight @w : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
func.func @linear_c2(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{result 0 has 4 columns, but its part has 8 rows}}
  %a = gemma.linear %x, [#gguf.part<@w, first = 0, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x4xf32>
  return
}

// -----

gguf.weight @w : !gguf.matrix<8x32, f32> from <file = 0, offset = 0, size = 1024>
func.func @linear_c3(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{part @w has rows of 32, expected 16}}
  %a = gemma.linear %x, [#gguf.part<@w, first = 0, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @w : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
func.func @linear_c4(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{part ends at row 12 of @w, which has 8}}
  %a = gemma.linear %x, [#gguf.part<@w, first = 4, rows = 8, stride = 0>] : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @w : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
func.func @linear_c4_stride(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{part has stride 4, expected a plain matrix}}
  %a = gemma.linear %x, [#gguf.part<@w, first = 0, rows = 4, stride = 4>] : tensor<?x16xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @rope_c1(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{failed to verify that all of {x, result} have same type}}
  %t = "gemma.rope"(%x, %rows) {kind = 0 : i32, heads = 1 : i64} : (tensor<?x16xf32>, !gemma.rows<body>) -> tensor<?x8xf32>
  return
}

// -----

func.func @rope_c2(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{has 16 columns, which 3 heads do not divide}}
  %y = gemma.rope %x, %rows kind = sliding heads = 3 : tensor<?x16xf32>, !gemma.rows<body>
  return
}

// -----

func.func @kv_append_c1(%k: tensor<?x16xf32>, %v: tensor<?x8xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{failed to verify that all of {k, v} have same type}}
  %t = "gemma.kv_append"(%k, %v, %rows) {layer = 0 : i32} : (tensor<?x16xf32>, tensor<?x8xf32>, !gemma.rows<body>) -> !gemma.kv<heads = 1, dim = 16, window = 0>
  return
}

// -----

func.func @kv_append_c2(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{k has 16 columns, expected 8}}
  %kv = gemma.kv_append %x, %x, %rows {layer = 0 : i32} : tensor<?x16xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  return
}

// -----

func.func @kv_append_c3(%x: tensor<?x8xf32>, %rows: !gemma.rows<tail>) {
  // expected-error@+1 {{writes the tail rows, expected all body rows}}
  %kv = gemma.kv_append %x, %x, %rows {layer = 0 : i32} : tensor<?x8xf32>, !gemma.rows<tail> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  return
}

// -----

func.func @kv_append_c4(%x: tensor<?x8xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{does not say which layer it is part of}}
  %kv = gemma.kv_append %x, %x, %rows : tensor<?x8xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 8, window = 4>
  return
}

// -----

func.func @kv_shared_c1() {
  // expected-error@+1 {{does not say which layer it is part of}}
  %kv = gemma.kv_shared : !gemma.kv<heads = 1, dim = 8, window = 4>
  return
}

// -----

func.func @attention_c1(%q: tensor<?x16xf32>, %kv: !gemma.kv<heads = 1, dim = 8, window = 4>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{failed to verify that all of {q, result} have same type}}
  %t = "gemma.attention"(%q, %kv, %rows) {layer = 0 : i32, heads = 2 : i64, scale = 1.0 : f32} : (tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>) -> tensor<?x8xf32>
  return
}

// -----

func.func @attention_c2(%q: tensor<?x16xf32>, %kv: !gemma.kv<heads = 1, dim = 8, window = 4>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{q has 16 columns, expected 32}}
  %a = gemma.attention %q, %kv, %rows heads = 4 scale = 1.0 {layer = 0 : i32} : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  return
}

// -----

func.func @attention_c3(%q: tensor<?x24xf32>, %kv: !gemma.kv<heads = 2, dim = 8, window = 4>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{has 3 heads, which is not a multiple of 2 K/V heads}}
  %a = gemma.attention %q, %kv, %rows heads = 3 scale = 1.0 {layer = 0 : i32} : tensor<?x24xf32>, !gemma.kv<heads = 2, dim = 8, window = 4>, !gemma.rows<body>
  return
}

// -----

func.func @attention_c4(%q: tensor<?x16xf32>, %kv: !gemma.kv<heads = 1, dim = 8, window = 4>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{does not say which layer it is part of}}
  %a = gemma.attention %q, %kv, %rows heads = 2 scale = 1.0 : tensor<?x16xf32>, !gemma.kv<heads = 1, dim = 8, window = 4>, !gemma.rows<body>
  return
}

// -----

func.func @kv_type_c1() {
  // expected-error@+1 {{K/V of 0 heads of 8 elements and window 4 is impossible}}
  %kv = gemma.kv_shared {layer = 0 : i32} : !gemma.kv<heads = 0, dim = 8, window = 4>
  return
}

// -----

func.func @geglu_c1(%a: tensor<?x16xf32>, %b: tensor<?x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {gate, up, result} have same type}}
  %t = "gemma.geglu"(%a, %b) : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
  return
}

// -----

func.func @add_c1(%a: tensor<?x16xf32>, %b: tensor<?x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {a, b, result} have same type}}
  %t = "gemma.add"(%a, %b) : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
  return
}

// -----

gguf.weight @s : !gguf.matrix<1x1, f32> from <file = 0, offset = 0, size = 4>
func.func @scale_c1(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{failed to verify that all of {x, result} have same type}}
  %t = "gemma.scale"(%x) {by = @s} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @s : !gguf.matrix<1x2, f32> from <file = 0, offset = 0, size = 8>
func.func @scale_c2(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{by is '!gguf.matrix<1x2, f32>', expected one row of 1 floats}}
  %y = gemma.scale %x by @s : tensor<?x16xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x12, f32> from <file = 0, offset = 0, size = 384>
gguf.weight @p : !gguf.matrix<12x16, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @n : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @per_layer_inputs_c1(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{result has 4 columns, expected 8}}
  %p = gemma.per_layer_inputs %x, %rows table = @t projection = <@p, first = 0, rows = 8, stride = 0> norm = @n first_layer = 0 layer_count = 2 width = 4 projection_scale = 0.25 table_scale = 2.0 combine_scale = 0.5 eps = 1.0e-6 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x4xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x12, f32> from <file = 0, offset = 0, size = 384>
gguf.weight @p : !gguf.matrix<12x16, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @n : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @per_layer_inputs_c2(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{projects with rows [4, 12), expected [0, 8)}}
  %p = gemma.per_layer_inputs %x, %rows table = @t projection = <@p, first = 4, rows = 8, stride = 0> norm = @n first_layer = 0 layer_count = 2 width = 4 projection_scale = 0.25 table_scale = 2.0 combine_scale = 0.5 eps = 1.0e-6 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x12, f32> from <file = 0, offset = 0, size = 384>
gguf.weight @p : !gguf.matrix<12x8, f32> from <file = 0, offset = 0, size = 384>
gguf.weight @n : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @per_layer_inputs_c2_columns(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{projection @p has rows of 8, expected 16}}
  %p = gemma.per_layer_inputs %x, %rows table = @t projection = <@p, first = 0, rows = 8, stride = 0> norm = @n first_layer = 0 layer_count = 2 width = 4 projection_scale = 0.25 table_scale = 2.0 combine_scale = 0.5 eps = 1.0e-6 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x12, f32> from <file = 0, offset = 0, size = 384>
gguf.weight @p : !gguf.matrix<12x16, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @n : !gguf.matrix<1x8, f32> from <file = 0, offset = 0, size = 32>
func.func @per_layer_inputs_c3(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{norm is '!gguf.matrix<1x8, f32>', expected one row of 4 floats}}
  %p = gemma.per_layer_inputs %x, %rows table = @t projection = <@p, first = 0, rows = 8, stride = 0> norm = @n first_layer = 0 layer_count = 2 width = 4 projection_scale = 0.25 table_scale = 2.0 combine_scale = 0.5 eps = 1.0e-6 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x4, f32> from <file = 0, offset = 0, size = 128>
gguf.weight @p : !gguf.matrix<12x16, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @n : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @per_layer_inputs_c4(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{needs column 8 of @t, which has 4}}
  %p = gemma.per_layer_inputs %x, %rows table = @t projection = <@p, first = 0, rows = 8, stride = 0> norm = @n first_layer = 0 layer_count = 2 width = 4 projection_scale = 0.25 table_scale = 2.0 combine_scale = 0.5 eps = 1.0e-6 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x12, f32> from <file = 0, offset = 0, size = 384>
gguf.weight @p : !gguf.matrix<12x16, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @n : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @per_layer_inputs_c5(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{has first_layer 0, layer_count 0 and width 4}}
  %p = gemma.per_layer_inputs %x, %rows table = @t projection = <@p, first = 0, rows = 1, stride = 0> norm = @n first_layer = 0 layer_count = 0 width = 4 projection_scale = 0.25 table_scale = 2.0 combine_scale = 0.5 eps = 1.0e-6 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x12, f32> from <file = 0, offset = 0, size = 384>
gguf.weight @p : !gguf.matrix<12x16, f32> from <file = 0, offset = 0, size = 768>
gguf.weight @n : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @per_layer_inputs_c5_eps(%x: tensor<?x16xf32>, %rows: !gemma.rows<body>) {
  // expected-error@+1 {{has an eps that is not positive}}
  %p = gemma.per_layer_inputs %x, %rows table = @t projection = <@p, first = 0, rows = 8, stride = 0> norm = @n first_layer = 0 layer_count = 2 width = 4 projection_scale = 0.25 table_scale = 2.0 combine_scale = 0.5 eps = -1.0 : tensor<?x16xf32>, !gemma.rows<body> -> tensor<?x8xf32>
  return
}

// -----

func.func @slice_layer_c1(%x: tensor<?x8xf32>) {
  // expected-error@+1 {{does not say which layer it is part of}}
  %s = gemma.slice_layer %x first_layer = 0 width = 4 : tensor<?x8xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @slice_layer_c2(%x: tensor<?x8xf32>) {
  // expected-error@+1 {{result has 8 columns, expected 4}}
  %s = gemma.slice_layer %x first_layer = 0 width = 4 {layer = 0 : i32} : tensor<?x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @slice_layer_c3(%x: tensor<?x8xf32>) {
  // expected-error@+1 {{takes layer 2 of inputs that start at layer 0 and have 8 columns}}
  %s = gemma.slice_layer %x first_layer = 0 width = 4 {layer = 2 : i32} : tensor<?x8xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @slice_layer_c3_before(%x: tensor<?x8xf32>) {
  // expected-error@+1 {{takes layer 2 of inputs that start at layer 3}}
  %s = gemma.slice_layer %x first_layer = 3 width = 4 {layer = 2 : i32} : tensor<?x8xf32> -> tensor<?x4xf32>
  return
}

// -----

gguf.weight @r : !gguf.matrix<4x16, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @s : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @e : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @route_c1(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{ids has 3 columns, expected 2}}
  %ids, %w = gemma.route %x router = @r scale = @s expert_scale = @e experts = 4 used = 2 input_scale = 0.25 eps = 1.0e-6 : tensor<?x16xf32> -> tensor<?x3xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @r : !gguf.matrix<4x16, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @s : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @e : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @route_c1_weights(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{weights has 3 columns, expected 2}}
  %ids, %w = gemma.route %x router = @r scale = @s expert_scale = @e experts = 4 used = 2 input_scale = 0.25 eps = 1.0e-6 : tensor<?x16xf32> -> tensor<?x2xi32>, tensor<?x3xf32>
  return
}

// -----

gguf.weight @r : !gguf.matrix<4x16, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @s : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @e : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @route_c2(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{uses 5 of 4 experts}}
  %ids, %w = gemma.route %x router = @r scale = @s expert_scale = @e experts = 4 used = 5 input_scale = 0.25 eps = 1.0e-6 : tensor<?x16xf32> -> tensor<?x5xi32>, tensor<?x5xf32>
  return
}

// -----

gguf.weight @r : !gguf.matrix<4x16, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @s : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @e : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @route_c2_eps(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{has an eps that is not positive}}
  %ids, %w = gemma.route %x router = @r scale = @s expert_scale = @e experts = 4 used = 2 input_scale = 0.25 eps = 0.0 : tensor<?x16xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @r : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
gguf.weight @s : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @e : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @route_c3(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{router is '!gguf.matrix<8x16, f32>', expected 4 rows of 16}}
  %ids, %w = gemma.route %x router = @r scale = @s expert_scale = @e experts = 4 used = 2 input_scale = 0.25 eps = 1.0e-6 : tensor<?x16xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @r : !gguf.matrix<4x16, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @s : !gguf.matrix<1x8, f32> from <file = 0, offset = 0, size = 32>
gguf.weight @e : !gguf.matrix<1x4, f32> from <file = 0, offset = 0, size = 16>
func.func @route_c4(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{scale is '!gguf.matrix<1x8, f32>', expected one row of 16 floats}}
  %ids, %w = gemma.route %x router = @r scale = @s expert_scale = @e experts = 4 used = 2 input_scale = 0.25 eps = 1.0e-6 : tensor<?x16xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @r : !gguf.matrix<4x16, f32> from <file = 0, offset = 0, size = 256>
gguf.weight @s : !gguf.matrix<1x16, f32> from <file = 0, offset = 0, size = 64>
gguf.weight @e : !gguf.matrix<1x8, f32> from <file = 0, offset = 0, size = 32>
func.func @route_c4_expert_scale(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{expert_scale is '!gguf.matrix<1x8, f32>', expected one row of 4 floats}}
  %ids, %w = gemma.route %x router = @r scale = @s expert_scale = @e experts = 4 used = 2 input_scale = 0.25 eps = 1.0e-6 : tensor<?x16xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @gu : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @d : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
func.func @experts_c1(%x: tensor<?x16xf32>, %ids: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{failed to verify that all of {x, result} have same type}}
  %y = "gemma.experts"(%x, %ids, %w) {gate = #gguf.part<@gu, first = 0, rows = 8, stride = 16>, up = #gguf.part<@gu, first = 8, rows = 8, stride = 16>, down = #gguf.part<@d, first = 0, rows = 16, stride = 16>, experts = 4 : i64} : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x8xf32>
  return
}

// -----

gguf.weight @gu : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @d : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
func.func @experts_c2(%x: tensor<?x16xf32>, %ids: tensor<?x2xi32>, %w: tensor<?x3xf32>) {
  // expected-error@+1 {{has 2 ids and 3 weights a row}}
  %y = gemma.experts %x, %ids, %w gate = <@gu, first = 0, rows = 8, stride = 16> up = <@gu, first = 8, rows = 8, stride = 16> down = <@d, first = 0, rows = 16, stride = 16> experts = 4 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x3xf32>
  return
}

// -----

gguf.weight @gu : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @d : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
func.func @experts_c3(%x: tensor<?x16xf32>, %ids: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{gate has 8 rows an expert, up has 4}}
  %y = gemma.experts %x, %ids, %w gate = <@gu, first = 0, rows = 8, stride = 16> up = <@gu, first = 8, rows = 4, stride = 16> down = <@d, first = 0, rows = 16, stride = 16> experts = 4 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @gu : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
gguf.weight @d : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
func.func @experts_c3_columns(%x: tensor<?x16xf32>, %ids: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{gate @gu has rows of 8, expected 16}}
  %y = gemma.experts %x, %ids, %w gate = <@gu, first = 0, rows = 8, stride = 16> up = <@gu, first = 8, rows = 8, stride = 16> down = <@d, first = 0, rows = 16, stride = 16> experts = 4 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @gu : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @d : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
func.func @experts_c4(%x: tensor<?x16xf32>, %ids: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{down has 8 rows an expert, but x has 16 columns}}
  %y = gemma.experts %x, %ids, %w gate = <@gu, first = 0, rows = 8, stride = 16> up = <@gu, first = 8, rows = 8, stride = 16> down = <@d, first = 0, rows = 8, stride = 16> experts = 4 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @gu : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @d : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
func.func @experts_c4_columns(%x: tensor<?x16xf32>, %ids: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{down @d has rows of 16, expected 8}}
  %y = gemma.experts %x, %ids, %w gate = <@gu, first = 0, rows = 8, stride = 16> up = <@gu, first = 8, rows = 8, stride = 16> down = <@d, first = 0, rows = 16, stride = 16> experts = 4 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @gu : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @d : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
func.func @experts_c5(%x: tensor<?x16xf32>, %ids: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{has no experts}}
  %y = gemma.experts %x, %ids, %w gate = <@gu, first = 0, rows = 8, stride = 16> up = <@gu, first = 8, rows = 8, stride = 16> down = <@d, first = 0, rows = 16, stride = 16> experts = 0 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @gu : !gguf.matrix<64x16, f32> from <file = 0, offset = 0, size = 4096>
gguf.weight @d : !gguf.matrix<64x8, f32> from <file = 0, offset = 0, size = 2048>
func.func @experts_c5_stack(%x: tensor<?x16xf32>, %ids: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{gate is a stack of 2 experts of 16 rows, but @gu has 64 rows}}
  %y = gemma.experts %x, %ids, %w gate = <@gu, first = 0, rows = 8, stride = 16> up = <@gu, first = 8, rows = 8, stride = 16> down = <@d, first = 0, rows = 16, stride = 16> experts = 2 : tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
func.func @logits_c1(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{head is '!gguf.matrix<8x16, f32>', expected 4 rows of 16}}
  %l = gemma.logits %x, @t softcap = 30.0 : tensor<?x16xf32> -> tensor<?x4xf32>
  return
}

// -----

gguf.weight @t : !gguf.matrix<8x16, f32> from <file = 0, offset = 0, size = 512>
func.func @logits_c2(%x: tensor<?x16xf32>) {
  // expected-error@+1 {{has a negative softcap}}
  %l = gemma.logits %x, @t softcap = -1.0 : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}
