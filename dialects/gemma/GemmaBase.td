// The dialect, its enums, attributes and types.
#ifndef G4_DIALECTS_GEMMA_BASE_TD
#define G4_DIALECTS_GEMMA_BASE_TD

include "dialects/gguf/GgufBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Gemma_Dialect : Dialect {
  let name = "gemma";
  let cppNamespace = "::g4::gemma";
  let summary = "What a Gemma 4 text model computes, on values.";
  let description = [{
    Activations are `tensor<?xNxf32>`: one row per token, `?` the rows of one row set. A model has three row
    sets, `body` (every token of the step), `tail` (those whose final hidden state is asked for) and `logits`
    (those whose logits are asked for), each a subset of the one before. A layer's K/V is a value that later
    layers may use.

    Weights are `gguf.weight` symbols of the enclosing module. Every op says which weight rows it reads and
    has the location of the tensor it came from.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::g4::gguf::GgufDialect"];
}

class Gemma_Case<string name, int value, string text> : I32EnumAttrCase<name, value, text>;
class Gemma_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::g4::gemma";
  let genSpecializedAttr = 0;
}

def Gemma_RowSet : Gemma_Enum<"RowSet", "a row set of a step", [
    Gemma_Case<"kBody", 0, "body">, Gemma_Case<"kTail", 1, "tail">, Gemma_Case<"kLogits", 2, "logits">]>;

def Gemma_LayerKind : Gemma_Enum<"LayerKind", "what a layer's attention sees", [
    Gemma_Case<"kSliding", 0, "sliding">, Gemma_Case<"kGlobal", 1, "global">]> {
  let genSpecializedAttr = 1; // prints as a keyword
}

def Gemma_KvOwner : Gemma_Enum<"KvOwner", "whose K/V a layer's attention reads", [
    Gemma_Case<"kOwn", 0, "own">, Gemma_Case<"kShared", 1, "shared">]>;

def Gemma_ActivationType : Gemma_Enum<"ActivationType", "what linear layers read their input as", [
    Gemma_Case<"kInt8", 0, "int8">, Gemma_Case<"kF32", 1, "f32">]>;
def Gemma_ActivationTypeAttr : EnumAttr<Gemma_Dialect, Gemma_ActivationType, "activation_type"> {
  let assemblyFormat = "`<` $value `>`";
}

def Gemma_KvElement : Gemma_Enum<"KvElement", "what the K/V pages hold", [
    Gemma_Case<"kF32", 0, "f32">, Gemma_Case<"kF16", 1, "f16">, Gemma_Case<"kBF16", 2, "bf16">,
    Gemma_Case<"kQ8_0", 3, "q8_0">, Gemma_Case<"kQ4_0", 4, "q4_0">]>;
def Gemma_KvElementAttr : EnumAttr<Gemma_Dialect, Gemma_KvElement, "kv_element"> {
  let assemblyFormat = "`<` $value `>`";
}

def Gemma_TapKind : Gemma_Enum<"TapKind", "an intermediate value that tests can look at", [
    Gemma_Case<"kEmbed", 0, "h_embed">, Gemma_Case<"kLayer", 1, "h_layer">, Gemma_Case<"kAttention", 2, "attn_o">,
    Gemma_Case<"kMlp", 3, "mlp">, Gemma_Case<"kNorm", 4, "h_norm">,
    Gemma_Case<"kPerLayerInputs", 5, "per_layer_inputs">, Gemma_Case<"kRouter", 6, "router">]>;
def Gemma_TapAttr : EnumAttr<Gemma_Dialect, Gemma_TapKind, "tap"> {
  let assemblyFormat = "`<` $value `>`";
  let summary = "Names an op's result for tests.";
  let description = [{
    The value's name is the kind, followed by the op's `layer` where it has one: `h_layer3`. The name of
    per-layer inputs has the first layer that they are for. A `route` op has two names: `router_idx<layer>` for
    its ids and `router_w<layer>` for its weights.
  }];
}

class Gemma_Attr<string name, string mnem> : AttrDef<Gemma_Dialect, name> {
  let mnemonic = mnem;
}

def Gemma_RopeAttr : Gemma_Attr<"Rope", "rope"> {
  let summary = "The rotary embedding of one kind of layer.";
  let description = [{
    Pair `j` of the `dim / 2` pairs `(x[j], x[j + dim/2])` turns by `position * base^(-2 j / dim) / factor[j]`;
    `factors` is a one-row weight of `dim / 2` elements, absent when every factor is 1. Files without that tensor
    say how many pairs turn: the first `turning` ones, or all when it is 0.

    Constraints: (c1) `dim` is even and positive. (c2) `base` is an f64 above 1. (c3) `turning` is 0 to `dim / 2`,
    and 0 with `factors`.
    ```mlir
    #gemma.rope<dim = 512, base = 1.000000e+06 : f64, factors = @rope_freqs.weight>
    #gemma.rope<dim = 512, base = 1.000000e+06 : f64, turning = 64>
    ```
  }];
  let parameters = (ins "int64_t":$dim, "::mlir::FloatAttr":$base,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$factors,
                        DefaultValuedParameter<"int64_t", "0">:$turning);
  let assemblyFormat = "`<` struct($dim, $base, $factors, $turning) `>`";
  let genVerifyDecl = 1; // c1 to c3
  let extraClassDeclaration = [{
    double getBaseValue() const { return getBase().getValueAsDouble(); }
  }];
}

def Gemma_LayerAttr : Gemma_Attr<"Layer", "layer"> {
  let summary = "The shapes of one layer.";
  let description = [{
    | parameter    | meaning                                                             |
    |--------------|---------------------------------------------------------------------|
    | `kind`       | sliding or global attention                                         |
    | `kv`         | `own`: the layer writes K/V; `shared`: it reads another layer's     |
    | `kv_source`  | the layer whose K/V it reads: itself when `own`; -1: not yet known  |
    | `heads`, `kv_heads`, `head_dim` | query heads, K/V heads, elements of one head     |
    | `ff`         | width of the dense MLP                                              |
    | `experts`, `expert_ff` | routed experts and the width of one; 0 when there are none|

    Constraints: (c1) `heads`, `kv_heads`, `head_dim` and `ff` are positive. (c2) `heads` is a multiple of
    `kv_heads`. (c3) `experts` and `expert_ff` are both 0 or both positive. (c4) `kv_source >= -1`.
  }];
  let parameters = (ins EnumParameter<Gemma_LayerKind>:$kind, EnumParameter<Gemma_KvOwner>:$kv,
      "int64_t":$kv_source, "int64_t":$heads, "int64_t":$kv_heads, "int64_t":$head_dim, "int64_t":$ff,
      "int64_t":$experts, "int64_t":$expert_ff);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1; // c1 to c4
  let extraClassDeclaration = [{
    bool ownsKv() const { return getKv() == KvOwner::kOwn; }
    bool isSliding() const { return getKind() == LayerKind::kSliding; }
    /// This layer with another donor.
    LayerAttr withKvSource(int64_t layer) const;
  }];
}

class Gemma_Type<string name, string mnem> : TypeDef<Gemma_Dialect, name> {
  let mnemonic = mnem;
}

def Gemma_RowsType : Gemma_Type<"Rows", "rows"> {
  let summary = "The tokens of a row set, with their sequences and positions.";
  let parameters = (ins EnumParameter<Gemma_RowSet>:$set);
  let assemblyFormat = "`<` $set `>`";
}

def Gemma_KvType : Gemma_Type<"Kv", "kv"> {
  let summary = "One layer's K/V of every sequence, up to and with this step's body rows.";
  let description = [{
    `heads` K/V heads of `dim` elements. A query at position `p` sees the keys of its own sequence at
    positions `p - window + 1 .. p`, or `0 .. p` when `window` is 0.

    Constraints: (c1) `heads` and `dim` are positive and `window` is not negative.
  }];
  let parameters = (ins "int64_t":$heads, "int64_t":$dim, "int64_t":$window);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1; // c1
}

def Gemma_Rows : Type<CPred<"::llvm::isa<::g4::gemma::RowsType>($_self)">, "row set", "::g4::gemma::RowsType">;
def Gemma_Kv : Type<CPred<"::llvm::isa<::g4::gemma::KvType>($_self)">, "layer K/V", "::g4::gemma::KvType">;
def Gemma_Activation : Type<CPred<"::g4::gemma::isActivation($_self, 'f')">,
    "tensor<?xNxf32> (a row per token)", "::mlir::RankedTensorType">;
def Gemma_Choice : Type<CPred<"::g4::gemma::isActivation($_self, 'i')">,
    "tensor<?xNxi32> (a row per token)", "::mlir::RankedTensorType">;

#endif
