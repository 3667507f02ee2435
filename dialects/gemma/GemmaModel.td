// The model and its return.
#ifndef G4_DIALECTS_GEMMA_MODEL_TD
#define G4_DIALECTS_GEMMA_MODEL_TD

include "dialects/gemma/GemmaBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Gemma_ModelOp : Op<Gemma_Dialect, "model", [
    Symbol, IsolatedFromAbove, SingleBlock, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A Gemma 4 text model: what one step computes.";
  let description = [{
    The body's arguments are the row sets `body`, `tail` and `logits`. It returns the logits of the `logits`
    rows and the final normed hidden state of the `tail` rows.

    | attribute         | meaning                                                                   |
    |-------------------|---------------------------------------------------------------------------|
    | `hidden`          | width of the residual stream                                              |
    | `vocabulary`      | tokens                                                                    |
    | `context_length`  | positions that the model was trained for                                  |
    | `window`          | keys that a sliding layer sees, its own position included                 |
    | `eps`             | added to every mean square                                                |
    | `experts_used`    | experts per token; 0 when the model has none                              |
    | `per_layer_width` | width of a per-layer input; 0 when the model has none                     |
    | `softcap`         | the logits' soft cap; 0 when there is none                                |
    | `rope_sliding`, `rope_global` | rotary embeddings by layer kind                               |
    | `layer_facts`     | one `#gemma.layer` per layer                                              |
    | `activations`, `kv_type` | set by `gemma-quantize`                                            |

    Constraints: (c1) the body takes the row sets body, tail, logits. (c2) `layer_facts` is not empty, and a
    `kv_source` names an earlier layer (itself when `own`) of the same kind that has its own K/V. (c3) sizes
    are positive where the table does not allow 0, `eps` is positive, `softcap` is not negative. (c4) values of
    different row sets meet only in `select_rows`, which goes to a smaller set. (c5) a head's dimension is the
    one of the rope of its kind. (c6) some layer has experts exactly when `experts_used` is positive. (c7) rope
    factors are one row of `dim / 2` floats.
    ```mlir
    gemma.model @text attributes {hidden = 256, ...} {
    ^bb0(%rows: !gemma.rows<body>, %tail: !gemma.rows<tail>, %logits: !gemma.rows<logits>):
      ...
      gemma.return %l, %h : tensor<?x1024xf32>, tensor<?x256xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$hidden, I64Attr:$vocabulary,
      I64Attr:$context_length, I64Attr:$window, F32Attr:$eps, I64Attr:$experts_used,
      I64Attr:$per_layer_width, F32Attr:$softcap, Gemma_RopeAttr:$rope_sliding, Gemma_RopeAttr:$rope_global,
      TypedArrayAttrBase<Gemma_LayerAttr, "facts of each layer">:$layer_facts,
      OptionalAttr<Gemma_ActivationTypeAttr>:$activations, OptionalAttr<Gemma_KvElementAttr>:$kv_type);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1;       // c1, c2, c3, c5, c6
  let hasRegionVerifier = 1; // c4
  let extraClassDeclaration = [{
    int64_t getLayerCount() { return static_cast<int64_t>(getLayerFacts().size()); }
    /// The facts of layer `index`, which must be below `getLayerCount()`.
    LayerAttr getLayerFact(int64_t index) { return ::llvm::cast<LayerAttr>(getLayerFacts()[index]); }
    void setLayerFact(int64_t index, LayerAttr fact);
    RopeAttr getRope(LayerKind kind) {
      return kind == LayerKind::kSliding ? getRopeSliding() : getRopeGlobal();
    }
    ::mlir::Value getRows(RowSet set) {
      return getBody().getArgument(static_cast<unsigned>(set));
    }
  }];
}

def Gemma_ReturnOp : Op<Gemma_Dialect, "return", [Pure, Terminator, HasParent<"ModelOp">]> {
  let summary = "Returns the logits and the final hidden state.";
  let description = [{
    Constraints: (c1) `logits` has the model's `vocabulary` columns and `hidden` its `hidden` ones. (c2)
    `logits` is on the logits rows, `hidden` on the tail rows.
  }];
  let arguments = (ins Gemma_Activation:$logits, Gemma_Activation:$hidden);
  let assemblyFormat = "$logits `,` $hidden attr-dict `:` type($logits) `,` type($hidden)";
  let hasVerifier = 1; // c1; c2 is checked with the model's c4
}

#endif
