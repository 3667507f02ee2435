// Passes inside the gemma dialect, in the order in which the pipeline runs them.
#ifndef G4_PASSES_GEMMA_TD
#define G4_PASSES_GEMMA_TD

include "mlir/Pass/PassBase.td"

class Gemma_Pass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::g4::gemma::GemmaDialect"];
}

def InferShapesPass : Gemma_Pass<"gemma-infer-shapes"> {
  let summary = "Makes the layers' facts agree with the weights that the layers read.";
  let description = [{
    `layer_facts` says of each layer what its ops and their weights say too. Where the two disagree the weights
    win, and a warning names the layer.

    Before: `layer_facts = [#gemma.layer<..., ff = 64, ...>]`, with an MLP of 128 columns.
    After: `layer_facts = [#gemma.layer<..., ff = 128, ...>]`.
  }];
}

def ResolveDonorsPass : Gemma_Pass<"gemma-resolve-donors"> {
  let summary = "Gives layers without K/V of their own the K/V of their donor.";
  let description = [{
    The donor is the last layer before it that has K/V of its own and is of its own kind, wherever that is.
    Fails when there is none, or when the donor's K/V has another shape.

    ```mlir
    // before
    %kv1 = gemma.kv_append %k, %v, %rows {layer = 1 : i32} : ...
    %kv3 = gemma.kv_shared {layer = 3 : i32} : !gemma.kv<heads = 1, dim = 32, window = 16>
    %a3 = gemma.attention %q3, %kv3, %rows ...
    // after, with kv_source = 1 in layer 3's facts
    %kv1 = gemma.kv_append %k, %v, %rows {layer = 1 : i32} : ...
    %a3 = gemma.attention %q3, %kv1, %rows ...
    ```
  }];
}

def FoldConstantsPass : Gemma_Pass<"gemma-fold-constants"> {
  let summary = "Folds constant factors into float vectors and other constants.";
  let description = [{
    Never into quantised weights, whose values stay what the file says. Two places have factors to fold:

    - `route`: `input_scale` goes into the `factor` of the scale vector.
    - `per_layer_inputs`: the norm makes `projection_scale` `s` the same as `eps / s^2`, and `combine_scale`
      distributes over the sum, into the `factor` of the norm's vector and into `table_scale`.

    A vector that something else reads too is left as it is. The embedding's scale and the attention's are
    attributes already; a layer's output scale is a weight of one number, which lowering reads as a constant of
    the epilogue.

    ```mlir
    // before
    gguf.weight @s : !gguf.matrix<1x256, f32> from <...>
    gemma.route %x router = @r scale = @s ... input_scale = 0.0625 ...
    // after
    gguf.weight @s : !gguf.matrix<1x256, f32> from <...> factor = 0.0625
    gemma.route %x router = @r scale = @s ... input_scale = 1.0 ...
    ```
  }];
}

def QuantizePass : Gemma_Pass<"gemma-quantize"> {
  let summary = "Chooses what weights, activations and K/V are stored as.";
  let description = [{
    Sets `activations` and `kv_type` on the model. Fails for `activations=f32` with other K/V than f32: that
    mode exists to be exact.

    With `quantize` or `rules` it gives matrices other element types; docs/quantisation.md has the defaults of each type
    and the form of a rules file. A weight keeps its place in the file and says what is stored there; the values are
    converted where they are read. `imatrix` is kept in the module's `gguf.imatrix` for then. Vectors stay as they are.

    ```mlir
    // before
    gguf.weight @blk.0.ffn_up.weight : !gguf.matrix<512x256, bf16> from <file = 0, offset = 4096, size = 262144>
    gemma.model @text attributes {...}
    // after, with quantize=q4_k
    gguf.weight @blk.0.ffn_up.weight : !gguf.matrix<512x256, q4_k> from <file = 0, offset = 4096, size = 262144> stored = bf16
    gemma.model @text attributes {activations = #gemma.activation_type<int8>, kv_type = #gemma.kv_element<f16>, ...}
    ```
  }];
  let options = [
    Option<"activations", "activations", "std::string", "\"int8\"", "what linear layers read: int8 or f32">,
    Option<"kv", "kv", "std::string", "\"f16\"", "what the K/V pages hold: f32, f16, bf16, q8_0 or q4_0">,
    Option<"quantize", "quantize", "std::string", "\"\"", "the type to quantise ordinary matrices to; empty: none">,
    Option<"rules", "rules", "std::string", "\"\"", "path of a file with a pattern and a type on each line">,
    Option<"imatrix", "imatrix", "std::string", "\"\"", "path of an importance matrix">,
  ];
}

def PruneRowsPass : Gemma_Pass<"gemma-prune-rows"> {
  let summary = "Computes on the tail rows what only the tail rows need.";
  let description = [{
    Only K/V writes need every row. What is not needed for them, directly or through other values, moves to the
    tail rows: the body stops at the K/V projection of the last layer that writes K/V. Each value that crosses
    is selected once; an embedding or a norm that crosses is computed again instead, which takes fewer buffers.

    ```mlir
    // before
    %a = gemma.attention %q, %kv, %rows ... : tensor<?x128xf32>, ..., !gemma.rows<body>
    %b = gemma.add %h, %a : tensor<?x128xf32>
    %t = gemma.select_rows %b, %tail : tensor<?x128xf32>, !gemma.rows<tail>
    // after
    %h1 = gemma.select_rows %h, %tail : tensor<?x128xf32>, !gemma.rows<tail>
    %a = gemma.attention %q1, %kv, %tail ... : tensor<?x128xf32>, ..., !gemma.rows<tail>
    %b = gemma.add %h1, %a : tensor<?x128xf32>
    ```
  }];
}

def HoistPerLayerInputsPass : Gemma_Pass<"gemma-hoist-per-layer-inputs"> {
  let summary = "Computes the per-layer inputs of consecutive layers at once.";
  let description = [{
    One gather and one projection for each row set instead of one for each layer. Runs after
    `gemma-prune-rows`, so that each row set gets the layers that run on it.

    ```mlir
    // before
    %p0 = gemma.per_layer_inputs %e, %rows ... first_layer = 0 layer_count = 1 width = 32 ...
    %p1 = gemma.per_layer_inputs %e, %rows ... first_layer = 1 layer_count = 1 width = 32 ...
    // after
    %p = gemma.per_layer_inputs %e, %rows ... first_layer = 0 layer_count = 2 width = 32 ...
    %p0 = gemma.slice_layer %p first_layer = 0 width = 32 {layer = 0 : i32} : ...
    %p1 = gemma.slice_layer %p first_layer = 0 width = 32 {layer = 1 : i32} : ...
    ```
  }];
}

def FuseProjectionsPass : Gemma_Pass<"gemma-fuse-projections"> {
  let summary = "Merges the projections of one value.";
  let description = [{
    The linears of a layer that read the same value become one, whether the file stores their weights in one
    tensor or in several: q, k, v and gate, up.

    ```mlir
    // before
    %g = gemma.linear %x, [#gguf.part<@gate, ...>] : tensor<?x256xf32> -> tensor<?x64xf32>
    %u = gemma.linear %x, [#gguf.part<@up, ...>] : tensor<?x256xf32> -> tensor<?x64xf32>
    // after
    %g, %u = gemma.linear %x, [#gguf.part<@gate, ...>, #gguf.part<@up, ...>] : ...
    ```
  }];
}

#endif
