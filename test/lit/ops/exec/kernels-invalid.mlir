// RUN: g4-opt %s -split-input-file -verify-diagnostics
// One kernel for each constraint on specifications, named after its label.

// expected-error@+1 {{a part is 32x96, but q4_k packs 256 columns at a time}}
exec.kernel @matrix_c1 : #exec.linear<columns = 96, int8 = true, parts = [<element = q4_k, rows = 32, columns = 96>], epilogue = store, tile = 32, rows_per_item = 4> {}

// -----

// expected-error@+1 {{a part is 0x32, but q4_0 packs 32 columns at a time}}
exec.kernel @matrix_c1_rows : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 0, columns = 32>], epilogue = store, tile = 32, rows_per_item = 4> {}

// -----

// Scales of experts, but these are none.
// expected-error@+1 {{a part has 4 scales, which the kernel does not apply}}
exec.kernel @matrix_c2 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32, scales = 4>], epilogue = store, tile = 32, rows_per_item = 4> {}

// -----

// expected-error@+1 {{the router has 1 scales, which the kernel does not apply}}
exec.kernel @matrix_c2_router : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, route = <router = <element = f32, rows = 4, columns = 32, scales = 1>, used = 2>, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{a part has 64 columns, but its input has 32}}
exec.kernel @linear_c1 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 64>], epilogue = store, tile = 32, rows_per_item = 4> {}

// -----

// expected-error@+1 {{its input is 48 wide, expected a multiple of 32}}
exec.kernel @linear_c1_width : #exec.linear<columns = 48, int8 = false, parts = [<element = f32, rows = 32, columns = 48>], epilogue = store, tile = 32, rows_per_item = 4> {}

// -----

// expected-error@+1 {{epilogue 'store' takes 1 parts, but there are 2}}
exec.kernel @linear_c2 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>, <element = q4_0, rows = 32, columns = 32>], epilogue = store, tile = 32, rows_per_item = 4> {}

// -----

// expected-error@+1 {{epilogue 'geglu' takes 2 parts, but there are 1}}
exec.kernel @linear_c2_geglu : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = geglu, tile = 32, rows_per_item = 4, out = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{epilogue 'heads' takes 1 parts, but there are 2}}
exec.kernel @linear_c2_heads : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>, <element = q4_0, rows = 64, columns = 32>], epilogue = heads, tile = 64, rows_per_item = 4, heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = true, value = false, kvElement = f16, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{epilogue 'geglu' does not take these attributes}}
exec.kernel @linear_c3_out : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>, <element = q4_0, rows = 32, columns = 32>], epilogue = geglu, tile = 32, rows_per_item = 4> {}

// -----

// expected-error@+1 {{epilogue 'heads' does not take these attributes}}
exec.kernel @linear_c3_heads : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = heads, tile = 32, rows_per_item = 4> {}

// -----

// expected-error@+1 {{epilogue 'store' does not take these attributes}}
exec.kernel @linear_c3_per_layer : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = store, tile = 32, rows_per_item = 4, perLayer = <width = 32, firstLayer = 0, table = <element = q4_0, rows = 8, columns = 96>, projectionScale = 0.5 : f32, tableScale = 1.0 : f32, combineScale = 0.75 : f32, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{epilogue 'store' does not take these attributes}}
exec.kernel @linear_c3_softcap : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = store, tile = 32, rows_per_item = 4, softcap = 30.0 : f32> {}

// -----

// expected-error@+1 {{a softcap of 0}}
exec.kernel @linear_c3_softcap_value : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = logits, tile = 32, rows_per_item = 4, softcap = 0.0 : f32> {}

// -----

// expected-error@+1 {{a work item has 0 rows}}
exec.kernel @linear_c4 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = store, tile = 32, rows_per_item = 0> {}

// -----

// expected-error@+1 {{a tile of 32 outputs does not fit 40 with epilogue 'store'}}
exec.kernel @linear_c5 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 40, columns = 32>], epilogue = store, tile = 32, rows_per_item = 4> {}

// -----

// expected-error@+1 {{a tile of 8 outputs does not fit 32 with epilogue 'store'}}
exec.kernel @linear_c5_lanes : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = store, tile = 8, rows_per_item = 4> {}

// -----

// expected-error@+1 {{a tile of 16 outputs does not fit 48 with epilogue 'geglu'}}
exec.kernel @linear_c5_geglu : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 48, columns = 32>, <element = q4_0, rows = 48, columns = 32>], epilogue = geglu, tile = 16, rows_per_item = 4, out = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{a tile of 32 outputs does not fit 64 with epilogue 'geglu'}}
exec.kernel @linear_c5_parts : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>, <element = q4_0, rows = 32, columns = 32>], epilogue = geglu, tile = 32, rows_per_item = 4, out = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{a tile of 64 outputs does not fit 64 with epilogue 'per_layer'}}
exec.kernel @linear_c5_per_layer : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], epilogue = per_layer, tile = 64, rows_per_item = 4, perLayer = <width = 32, firstLayer = 0, table = <element = q4_0, rows = 8, columns = 96>, projectionScale = 0.5 : f32, tableScale = 1.0 : f32, combineScale = 0.75 : f32, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{the result is written in no form}}
exec.kernel @linear_c5_forms : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>, <element = q4_0, rows = 32, columns = 32>], epilogue = geglu, tile = 32, rows_per_item = 4, out = <f32 = false, q8 = false>> {}

// -----

// expected-error@+1 {{a prologue has one norm, as wide as the parts and in the form that they read}}
exec.kernel @linear_c6 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = store, tile = 32, rows_per_item = 4, row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, norms = []>> {}

// -----

// expected-error@+1 {{a prologue has one norm}}
exec.kernel @linear_c6_form : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = store, tile = 32, rows_per_item = 4, row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = true, q8 = false>>]>> {}

// -----

// expected-error@+1 {{a prologue has one norm}}
exec.kernel @linear_c6_hidden : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 32, columns = 32>], epilogue = store, tile = 32, rows_per_item = 4, row = <hidden = 64, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{the per-layer table has 3 layers, but 2 from layer 2 on are read}}
exec.kernel @linear_c7 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], epilogue = per_layer, tile = 32, rows_per_item = 4, perLayer = <width = 32, firstLayer = 2, table = <element = q4_0, rows = 8, columns = 96>, projectionScale = 0.5 : f32, tableScale = 1.0 : f32, combineScale = 0.75 : f32, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{heads of 48 do not fit a tile of 48 outputs}}
exec.kernel @heads_c1 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 48, columns = 32>], epilogue = heads, tile = 48, rows_per_item = 4, heads = <dim = 48, heads = 1, kvHeads = 1, query = false, key = true, value = false, kvElement = f16, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{heads of 64 do not fit a tile of 32 outputs}}
exec.kernel @heads_c1_tile : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], epilogue = heads, tile = 32, rows_per_item = 4, heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = true, value = false, kvElement = f16, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{values are written with their keys}}
exec.kernel @heads_c2_value : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], epilogue = heads, tile = 64, rows_per_item = 4, heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = false, value = true, kvElement = f16, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{there are no K/V pages of q4_k for heads of 64}}
exec.kernel @heads_c2_element : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], epilogue = heads, tile = 64, rows_per_item = 4, heads = <dim = 64, heads = 1, kvHeads = 1, query = false, key = true, value = false, kvElement = q4_k, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{a part has 64 rows, expected 2 heads of 64}}
exec.kernel @heads_c3 : #exec.linear<columns = 32, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], epilogue = heads, tile = 64, rows_per_item = 4, heads = <dim = 64, heads = 1, kvHeads = 2, query = false, key = true, value = false, kvElement = f16, eps = 1.0e-6 : f32>> {}

// -----

// expected-error@+1 {{6 query heads cannot share 4 K/V heads}}
exec.kernel @attention_c1 : #exec.attention<heads = 6, kvHeads = 4, dim = 64, window = 16, kvElement = f16, scale = 1.0 : f32, forms = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{a head is 48 wide, expected a multiple of 32}}
exec.kernel @attention_c2 : #exec.attention<heads = 4, kvHeads = 1, dim = 48, window = 16, kvElement = f16, scale = 1.0 : f32, forms = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{there are no K/V pages of q6_k for heads of 64}}
exec.kernel @attention_c3 : #exec.attention<heads = 4, kvHeads = 1, dim = 64, window = 16, kvElement = q6_k, scale = 1.0 : f32, forms = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{a window of -1}}
exec.kernel @attention_c3_window : #exec.attention<heads = 4, kvHeads = 1, dim = 64, window = -1, kvElement = f16, scale = 1.0 : f32, forms = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{the result is written in no form}}
exec.kernel @attention_c4 : #exec.attention<heads = 4, kvHeads = 1, dim = 64, window = 16, kvElement = f16, scale = 1.0 : f32, forms = <f32 = false, q8 = false>> {}

// -----

// expected-error@+1 {{the stream is 40 wide, expected a multiple of 32}}
exec.kernel @row_c1 : #exec.row_kernel<row = <hidden = 40, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{a row chain has an embedding table and scale exactly if it starts from one}}
exec.kernel @row_c2 : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = embed, add = none, scaled = false, store = false, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{a row chain has an embedding table and scale exactly if it starts from one}}
exec.kernel @row_c2_buffer : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, embed = <element = q4_0, rows = 8, columns = 32>, embedScale = 2.0 : f32, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{the embedding table has 64 columns, but its input has 32}}
exec.kernel @row_c2_width : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = embed, add = none, scaled = false, store = false, embed = <element = q4_0, rows = 8, columns = 64>, embedScale = 2.0 : f32, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{a row chain adds 0 experts, but its sum is 'experts'}}
exec.kernel @row_c3 : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = experts, scaled = false, store = false, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{the per-layer projection gives 64 of 32 values from 32 of 32 inputs}}
exec.kernel @row_c4 : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, ple = <gate = <element = q4_0, rows = 32, columns = 32>, projection = <element = q4_0, rows = 64, columns = 32>, stride = 32>, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{the per-layer projection gives 32 of 32 values from 32 of 16 inputs}}
exec.kernel @row_c4_stride : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, ple = <gate = <element = q4_0, rows = 32, columns = 32>, projection = <element = q4_0, rows = 32, columns = 32>, stride = 16>, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{its input is 16 wide, expected a multiple of 32}}
exec.kernel @row_c4_width : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, ple = <gate = <element = f32, rows = 16, columns = 32>, projection = <element = f32, rows = 32, columns = 16>, stride = 16>, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{norm 0 of a row chain is 1 : i32}}
exec.kernel @row_c5 : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, norms = [1 : i32]>> {}

// -----

// expected-error@+1 {{a norm is written in no form}}
exec.kernel @row_c5_form : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = false>>]>> {}

// -----

// expected-error@+1 {{a row chain chooses 5 of 4 experts}}
exec.kernel @row_c6 : #exec.row_kernel<row = <hidden = 32, int8 = true, eps = 1.0e-6 : f32, source = buffer, add = none, scaled = false, store = false, route = <router = <element = f32, rows = 4, columns = 32>, used = 5>, norms = [#exec.norm<normalize = true, gain = false, forms = <f32 = false, q8 = true>>]>> {}

// -----

// expected-error@+1 {{tiles of 4 rows for 3 of 2 experts}}
exec.kernel @sort_experts_c1 : #exec.sort_experts<experts = 2, used = 3, tileRows = 4> {}

// -----

// expected-error@+1 {{tiles of 0 rows for 1 of 2 experts}}
exec.kernel @experts_c1 : #exec.experts<experts = 2, used = 1, tile_rows = 0, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], tile = 32> {}

// -----

// expected-error@+1 {{experts have gate and up, whose result has forms, or down alone, whose result has none}}
exec.kernel @experts_c2 : #exec.experts<experts = 2, used = 1, tile_rows = 4, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>, <element = q4_0, rows = 64, columns = 32>], tile = 32> {}

// -----

// expected-error@+1 {{experts have gate and up}}
exec.kernel @experts_c2_down : #exec.experts<experts = 2, used = 1, tile_rows = 4, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], tile = 32, out = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{a part has 64 columns, but its input has 32}}
exec.kernel @experts_c3 : #exec.experts<experts = 2, used = 1, tile_rows = 4, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>, <element = q4_0, rows = 64, columns = 64>], tile = 32, out = <f32 = true, q8 = false>> {}

// -----

// expected-error@+1 {{a tile of 32 outputs does not fit 96 rows of 2 experts}}
exec.kernel @experts_c4 : #exec.experts<experts = 2, used = 1, tile_rows = 4, int8 = true, parts = [<element = q4_0, rows = 96, columns = 32>], tile = 32> {}

// -----

// expected-error@+1 {{a tile of 16 outputs does not fit 64 rows of 3 experts}}
exec.kernel @experts_c4_count : #exec.experts<experts = 3, used = 1, tile_rows = 4, int8 = true, parts = [<element = q4_0, rows = 64, columns = 32>], tile = 16> {}

// -----

// expected-error@+1 {{has no kernel specification: #exec.forms<f32 = true, q8 = true>}}
exec.kernel @kernel_c1 : #exec.forms<f32 = true, q8 = true> {}
