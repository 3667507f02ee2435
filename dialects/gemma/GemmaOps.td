// What happens inside a model.
#ifndef G4_DIALECTS_GEMMA_OPS_TD
#define G4_DIALECTS_GEMMA_OPS_TD

include "dialects/gemma/GemmaBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// `layer` is the layer that the op is part of, absent outside the layers. `tap` names the op's result for tests.
class Gemma_Op<string mnem, dag args, list<Trait> traits = []> : Op<Gemma_Dialect, mnem, !listconcat([Pure], traits)> {
  let arguments = !con(args, (ins OptionalAttr<I32Attr>:$layer, OptionalAttr<Gemma_TapAttr>:$tap));
}
def Gemma_ReadsWeights : DeclareOpInterfaceMethods<SymbolUserOpInterface>;

def Gemma_EmbedOp : Gemma_Op<"embed", (ins Gemma_Rows:$rows, FlatSymbolRefAttr:$table, F32Attr:$scale),
    [Gemma_ReadsWeights]> {
  let summary = "Looks up each row's token and scales its embedding.";
  let description = [{
    `result[t,:] = table[token[t],:] * scale`.

    | name     | shape            | element |
    |----------|------------------|---------|
    | `table`  | `[vocabulary,N]` | any     |
    | `result` | `[T,N]`          | f32     |

    Constraints: (c1) `result` has as many columns as `table`.
    ```mlir
    %h = gemma.embed %rows, @token_embd.weight scale = 16.0 : !gemma.rows<body> -> tensor<?x256xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = "$rows `,` $table `scale` `=` $scale attr-dict `:` qualified(type($rows)) `->` type($result)";
}

def Gemma_SelectRowsOp : Gemma_Op<"select_rows", (ins Gemma_Activation:$x, Gemma_Rows:$rows),
    [AllTypesMatch<["x", "result"]> /*select_rows_c1*/]> {
  let summary = "Keeps the rows of a smaller row set.";
  let description = [{
    Rows keep their order; a row is the same token in both sets.

    Constraints: (c1) `result` has the type of `x`. (c2) `rows` is a smaller set than the one `x` is on
    (checked by the model, which knows).
    ```mlir
    %t = gemma.select_rows %h, %tail : tensor<?x256xf32>, !gemma.rows<tail>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = "$x `,` $rows attr-dict `:` type($x) `,` qualified(type($rows))";
}

def Gemma_RmsNormOp : Gemma_Op<"rms_norm", (ins Gemma_Activation:$x, OptionalAttr<FlatSymbolRefAttr>:$gain,
    I64Attr:$groups, F32Attr:$eps), [AllTypesMatch<["x", "result"]> /*rms_norm_c1*/, Gemma_ReadsWeights]> {
  let summary = "Divides each group of columns by its root mean square, then multiplies by the gain.";
  let description = [{
    With `N` columns in `groups` groups of `n = N / groups`:
    `result[t,g*n+d] = x[t,g*n+d] / sqrt(mean(x[t,g*n : (g+1)*n]^2) + eps) * gain[d]`, summed in f32; no
    `gain` means 1. Attention heads are groups.

    | name          | shape          | element        |
    |---------------|----------------|----------------|
    | `x`, `result` | `[T,N]`        | f32            |
    | `gain`        | `[1,N/groups]` | f32, f16, bf16 |

    Constraints: (c1) `result` has the type of `x`. (c2) `groups` is positive and divides the columns. (c3)
    `gain` is one row of `N / groups` floats. (c4) `eps > 0`.
    ```mlir
    %y = gemma.rms_norm %x gain @blk.0.attn_q_norm.weight groups = 4 eps = 1.0e-06 : tensor<?x128xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = "$x (`gain` $gain^)? `groups` `=` $groups `eps` `=` $eps attr-dict `:` type($x)";
  let hasVerifier = 1; // c2, c4; c3 in verifySymbolUses
}

def Gemma_LinearOp : Gemma_Op<"linear", (ins Gemma_Activation:$x,
    TypedArrayAttrBase<Gguf_PartAttr, "parts of weights">:$parts), [Gemma_ReadsWeights]> {
  let summary = "Multiplies each row by one or more weight matrices.";
  let description = [{
    `outputs[i][t,r] = sum over k of x[t,k] * part_i[r,k]`, no bias.

    | name         | shape    | element |
    |--------------|----------|---------|
    | `x`          | `[T,K]`  | f32     |
    | part `i`     | `[Ni,K]` | any     |
    | `outputs[i]` | `[T,Ni]` | f32     |

    Constraints: (c1) as many results as parts, at least one. (c2) result `i` has as many columns as part `i`
    has rows. (c3) each weight has as many columns as `x`. (c4) each part lies inside its weight and has stride
    0.
    ```mlir
    %q, %k = gemma.linear %x, [#gguf.part<@q, first = 0, rows = 128, stride = 0>,
      #gguf.part<@k, first = 0, rows = 32, stride = 0>] : tensor<?x256xf32> -> tensor<?x128xf32>, tensor<?x32xf32>
    ```
  }];
  let results = (outs Variadic<Gemma_Activation>:$outputs);
  let assemblyFormat = "$x `,` $parts attr-dict `:` type($x) `->` type($outputs)";
  let hasVerifier = 1; // c1, c2; c3, c4 in verifySymbolUses
  let extraClassDeclaration = [{
    ::g4::gguf::PartAttr getPart(unsigned i) { return ::llvm::cast<::g4::gguf::PartAttr>(getParts()[i]); }
  }];
}

def Gemma_RopeOp : Gemma_Op<"rope", (ins Gemma_Activation:$x, Gemma_Rows:$rows, Gemma_LayerKind:$kind,
    I64Attr:$heads), [AllTypesMatch<["x", "result"]> /*rope_c1*/]> {
  let summary = "Rotates each head by its row's position.";
  let description = [{
    With `D = columns / heads` and the angle `a[j]` that the model's `#gemma.rope` of this `kind` gives pair
    `j` at the row's position: `result[j] = x[j] cos a[j] - x[j + D/2] sin a[j]` and
    `result[j + D/2] = x[j + D/2] cos a[j] + x[j] sin a[j]`, for each head.

    | name          | shape         | element |
    |---------------|---------------|---------|
    | `x`, `result` | `[T,heads*D]` | f32     |

    Constraints: (c1) `result` has the type of `x`. (c2) `heads` is positive and divides the columns. (c3) a
    head has the `dim` of the model's rope of this kind.
    ```mlir
    %r = gemma.rope %q, %rows kind = sliding heads = 4 : tensor<?x128xf32>, !gemma.rows<body>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = "$x `,` $rows `kind` `=` $kind `heads` `=` $heads attr-dict `:` type($x) `,` qualified(type($rows))";
  let hasVerifier = 1; // c2, c3
}

def Gemma_KvAppendOp : Gemma_Op<"kv_append", (ins Gemma_Activation:$k, Gemma_Activation:$v, Gemma_Rows:$rows),
    [AllTypesMatch<["k", "v"]> /*kv_append_c1*/]> {
  let summary = "Adds the rows' keys and values to their sequences; the result is the layer's K/V.";
  let description = [{
    | name     | shape           | element |
    |----------|-----------------|---------|
    | `k`, `v` | `[T,heads*dim]` | f32     |

    Constraints: (c1) `k` and `v` have one type. (c2) it has `heads * dim` columns of the result. (c3) `rows`
    is the body set: every token is written. (c4) `layer` is present.
    ```mlir
    %kv = gemma.kv_append %k, %v, %rows {layer = 0 : i32}
      : tensor<?x32xf32>, !gemma.rows<body> -> !gemma.kv<heads = 1, dim = 32, window = 16>
    ```
  }];
  let results = (outs Gemma_Kv:$kv);
  let assemblyFormat = "$k `,` $v `,` $rows attr-dict `:` type($k) `,` qualified(type($rows)) `->` qualified(type($kv))";
  let hasVerifier = 1; // c2, c3, c4
}

def Gemma_KvSharedOp : Gemma_Op<"kv_shared", (ins)> {
  let summary = "The K/V of a layer that has none of its own, before its donor is known.";
  let description = [{
    Only the import form has this op; `gemma-resolve-donors` replaces it with the donor's `kv_append` value.

    Constraints: (c1) `layer` is present.
    ```mlir
    %kv = gemma.kv_shared {layer = 4 : i32} : !gemma.kv<heads = 1, dim = 32, window = 16>
    ```
  }];
  let results = (outs Gemma_Kv:$kv);
  let assemblyFormat = "attr-dict `:` qualified(type($kv))";
  let hasVerifier = 1; // c1
}

def Gemma_AttentionOp : Gemma_Op<"attention", (ins Gemma_Activation:$q, Gemma_Kv:$kv, Gemma_Rows:$rows,
    I64Attr:$heads, F32Attr:$scale), [AllTypesMatch<["q", "result"]> /*attention_c1*/]> {
  let summary = "Attends from each row to the keys that it may see.";
  let description = [{
    For head `h` with K/V head `g = h / (heads / kv_heads)` and the visible positions `s` of the row's own
    sequence (see `!gemma.kv`): `result[t,h,:] = sum over s of softmax_s(scale * q[t,h,:] . k[s,g,:]) * v[s,g,:]`.

    | name          | shape                             | element                       |
    |---------------|-----------------------------------|-------------------------------|
    | `q`, `result` | `[T,heads*dim]`                   | f32                           |
    | `kv`          | `[positions,kv_heads,dim]`, twice | as the model's `kv_type` says |

    Constraints: (c1) `result` has the type of `q`. (c2) `q` has `heads * dim` columns. (c3) `heads` is a
    multiple of the K/V heads. (c4) `layer` is present.
    ```mlir
    %a = gemma.attention %q, %kv, %rows heads = 4 scale = 1.0 {layer = 0 : i32}
      : tensor<?x128xf32>, !gemma.kv<heads = 1, dim = 32, window = 16>, !gemma.rows<body>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = [{$q `,` $kv `,` $rows `heads` `=` $heads `scale` `=` $scale attr-dict
    `:` type($q) `,` qualified(type($kv)) `,` qualified(type($rows))}];
  let hasVerifier = 1; // c2, c3, c4
}

def Gemma_GegluOp : Gemma_Op<"geglu", (ins Gemma_Activation:$gate, Gemma_Activation:$up),
    [AllTypesMatch<["gate", "up", "result"]> /*geglu_c1*/]> {
  let summary = "Multiplies by the GELU of a gate.";
  let description = [{
    `result = gelu(gate) * up` with `gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.

    Constraints: (c1) all three have one type.
    ```mlir
    %y = gemma.geglu %gate, %up : tensor<?x64xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($gate)";
}

def Gemma_AddOp : Gemma_Op<"add", (ins Gemma_Activation:$a, Gemma_Activation:$b),
    [AllTypesMatch<["a", "b", "result"]> /*add_c1*/]> {
  let summary = "Adds two values.";
  let description = [{
    `result = a + b`.

    Constraints: (c1) all three have one type.
    ```mlir
    %y = gemma.add %a, %b : tensor<?x256xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a)";
}

def Gemma_ScaleOp : Gemma_Op<"scale", (ins Gemma_Activation:$x, FlatSymbolRefAttr:$by),
    [AllTypesMatch<["x", "result"]> /*scale_c1*/, Gemma_ReadsWeights]> {
  let summary = "Multiplies by a number that is a weight.";
  let description = [{
    `result = x * by`.

    Constraints: (c1) `result` has the type of `x`. (c2) `by` is one float.
    ```mlir
    %y = gemma.scale %x by @blk.0.layer_output_scale.weight : tensor<?x256xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = "$x `by` $by attr-dict `:` type($x)";
}

def Gemma_PerLayerInputsOp : Gemma_Op<"per_layer_inputs", (ins Gemma_Activation:$e, Gemma_Rows:$rows,
    FlatSymbolRefAttr:$table, Gguf_PartAttr:$projection, FlatSymbolRefAttr:$norm, I64Attr:$first_layer,
    I64Attr:$layer_count, I64Attr:$width, F32Attr:$projection_scale, F32Attr:$table_scale,
    F32Attr:$combine_scale, F32Attr:$eps), [Gemma_ReadsWeights]> {
  let summary = "The per-layer inputs of some consecutive layers, from the scaled embedding.";
  let description = [{
    For layer `l` of `first_layer .. first_layer + layer_count - 1`, with `i = l - first_layer` and `P = width`:
    `p = rms_norm(projection[i*P : (i+1)*P] e * projection_scale, eps) * norm` and
    `result[t,i*P : (i+1)*P] = (p + table[token[t], l*P : (l+1)*P] * table_scale) * combine_scale`.

    | name         | shape                   | element        |
    |--------------|-------------------------|----------------|
    | `e`          | `[T,H]`                 | f32            |
    | `table`      | `[vocabulary,layers*P]` | any            |
    | `projection` | `[layer_count*P,H]`     | any            |
    | `norm`       | `[1,P]`                 | f32, f16, bf16 |
    | `result`     | `[T,layer_count*P]`     | f32            |

    Constraints: (c1) `result` has `layer_count * width` columns. (c2) `projection` is that many rows from row
    `first_layer * width` on, of as many columns as `e`. (c3) `norm` is one row of `width` floats. (c4) `table`
    has the columns of these layers. (c5) `width` and `layer_count` are positive, `first_layer` is not
    negative, `eps > 0`.
    ```mlir
    %p = gemma.per_layer_inputs %e, %rows table = @per_layer_token_embd.weight
      projection = <@per_layer_model_proj.weight, first = 0, rows = 32, stride = 0>
      norm = @per_layer_proj_norm.weight first_layer = 0 layer_count = 1 width = 32 projection_scale = 0.0625
      table_scale = 5.65685415 combine_scale = 0.707106769 eps = 1.0e-06
      : tensor<?x256xf32>, !gemma.rows<body> -> tensor<?x32xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = [{$e `,` $rows `table` `=` $table `projection` `=` $projection `norm` `=` $norm
    `first_layer` `=` $first_layer `layer_count` `=` $layer_count `width` `=` $width
    `projection_scale` `=` $projection_scale `table_scale` `=` $table_scale `combine_scale` `=` $combine_scale
    `eps` `=` $eps attr-dict `:` type($e) `,` qualified(type($rows)) `->` type($result)}];
  let hasVerifier = 1; // c1, c5, part of c2; the rest in verifySymbolUses
}

def Gemma_SliceLayerOp : Gemma_Op<"slice_layer", (ins Gemma_Activation:$inputs, I64Attr:$first_layer,
    I64Attr:$width)> {
  let summary = "One layer's columns of the per-layer inputs.";
  let description = [{
    `result[t,:] = inputs[t, (layer - first_layer) * width : (layer - first_layer + 1) * width]`.

    | name     | shape              | element |
    |----------|--------------------|---------|
    | `inputs` | `[T,layers*width]` | f32     |
    | `result` | `[T,width]`        | f32     |

    Constraints: (c1) `layer` is present. (c2) `result` has `width` columns. (c3) the columns lie inside
    `inputs`.
    ```mlir
    %p3 = gemma.slice_layer %p first_layer = 0 width = 32 {layer = 3 : i32} : tensor<?x224xf32> -> tensor<?x32xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = [{$inputs `first_layer` `=` $first_layer `width` `=` $width attr-dict
    `:` type($inputs) `->` type($result)}];
  let hasVerifier = 1; // c1 to c3
}

def Gemma_RouteOp : Gemma_Op<"route", (ins Gemma_Activation:$x, FlatSymbolRefAttr:$router,
    FlatSymbolRefAttr:$scale, FlatSymbolRefAttr:$expert_scale, I64Attr:$experts, I64Attr:$used,
    F32Attr:$input_scale, F32Attr:$eps), [Gemma_ReadsWeights]> {
  let summary = "Chooses each row's experts and their weights.";
  let description = [{
    `p = softmax(router * (rms_norm(x, eps) * scale * input_scale))` over all experts; `ids` are the `used`
    largest by falling `p` (ties to the lower id); `weights[k] = p[ids[k]] / sum over the chosen of p *
    expert_scale[ids[k]]`. The norm has no gain.

    | name           | shape         | element        |
    |----------------|---------------|----------------|
    | `x`            | `[T,H]`       | f32            |
    | `router`       | `[experts,H]` | any            |
    | `scale`        | `[1,H]`       | f32, f16, bf16 |
    | `expert_scale` | `[1,experts]` | f32, f16, bf16 |
    | `ids`          | `[T,used]`    | i32            |
    | `weights`      | `[T,used]`    | f32            |

    Constraints: (c1) `ids` and `weights` have `used` columns. (c2) `0 < used <= experts`, `eps > 0`. (c3)
    `router` has `experts` rows and as many columns as `x`. (c4) `scale` is one row as long as `x`'s,
    `expert_scale` one row of `experts`, both floats.
    ```mlir
    %ids, %w = gemma.route %a router = @r scale = @s expert_scale = @es experts = 8 used = 2
      input_scale = 0.0625 eps = 1.0e-06 : tensor<?x256xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    ```
  }];
  let results = (outs Gemma_Choice:$ids, Gemma_Activation:$weights);
  let assemblyFormat = [{$x `router` `=` $router `scale` `=` $scale `expert_scale` `=` $expert_scale
    `experts` `=` $experts `used` `=` $used `input_scale` `=` $input_scale `eps` `=` $eps attr-dict
    `:` type($x) `->` type($ids) `,` type($weights)}];
  let hasVerifier = 1; // c1, c2; c3, c4 in verifySymbolUses
}

def Gemma_ExpertsOp : Gemma_Op<"experts", (ins Gemma_Activation:$x, Gemma_Choice:$ids,
    Gemma_Activation:$weights, Gguf_PartAttr:$gate, Gguf_PartAttr:$up, Gguf_PartAttr:$down,
    I64Attr:$experts), [AllTypesMatch<["x", "result"]> /*experts_c1*/, Gemma_ReadsWeights]> {
  let summary = "Sums the chosen experts' MLPs.";
  let description = [{
    `result[t,:] = sum over k of weights[t,k] * down_e (gelu(gate_e x[t,:]) * up_e x[t,:])`, `e = ids[t,k]`,
    summed by rising `k`.

    | name          | shape           | element |
    |---------------|-----------------|---------|
    | `x`, `result` | `[T,H]`         | f32     |
    | `ids`         | `[T,K]`         | i32     |
    | `weights`     | `[T,K]`         | f32     |
    | `gate`, `up`  | `[experts,F,H]` | any     |
    | `down`        | `[experts,H,F]` | any     |

    Constraints: (c1) `result` has the type of `x`. (c2) `ids` and `weights` have the same number of columns.
    (c3) `gate` and `up` have as many rows as each other and as many columns as `x`. (c4) `down` has as many
    rows as `x` has columns, and as many columns as `gate` has rows. (c5) each part is a stack: its stride is
    positive and `experts` strides are its weight's rows.
    ```mlir
    %y = gemma.experts %x, %ids, %w gate = <@gu, first = 0, rows = 32, stride = 64>
      up = <@gu, first = 32, rows = 32, stride = 64> down = <@d, first = 0, rows = 256, stride = 256>
      experts = 8 : tensor<?x256xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = [{$x `,` $ids `,` $weights `gate` `=` $gate `up` `=` $up `down` `=` $down
    `experts` `=` $experts attr-dict `:` type($x) `,` type($ids) `,` type($weights)}];
  let hasVerifier = 1; // c2, parts of c3 to c5; the rest in verifySymbolUses
}

def Gemma_LogitsOp : Gemma_Op<"logits", (ins Gemma_Activation:$h, FlatSymbolRefAttr:$head, F32Attr:$softcap),
    [Gemma_ReadsWeights]> {
  let summary = "The logits of each row.";
  let description = [{
    `z = head h`; `result = softcap * tanh(z / softcap)`, or `z` when `softcap` is 0.

    | name     | shape            | element |
    |----------|------------------|---------|
    | `h`      | `[T,H]`          | f32     |
    | `head`   | `[vocabulary,H]` | any     |
    | `result` | `[T,vocabulary]` | f32     |

    Constraints: (c1) `head` has as many columns as `h` and as many rows as `result` has columns. (c2)
    `softcap >= 0`.
    ```mlir
    %l = gemma.logits %h, @token_embd.weight softcap = 30.0 : tensor<?x256xf32> -> tensor<?x1024xf32>
    ```
  }];
  let results = (outs Gemma_Activation:$result);
  let assemblyFormat = "$h `,` $head `softcap` `=` $softcap attr-dict `:` type($h) `->` type($result)";
  let hasVerifier = 1; // c2; c1 in verifySymbolUses
}

#endif
