#ifndef G4_DIALECTS_GGUF_TD
#define G4_DIALECTS_GGUF_TD

include "dialects/gguf/GgufBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"

class Gguf_Case<string name, int value, string text> : I32EnumAttrCase<name, value, text>;

// Values are ggml's type numbers.
def Gguf_ElementType : I32EnumAttr<"ElementType", "how a GGUF tensor stores its elements", [
    Gguf_Case<"kF32", 0, "f32">, Gguf_Case<"kF16", 1, "f16">, Gguf_Case<"kQ4_0", 2, "q4_0">,
    Gguf_Case<"kQ4_1", 3, "q4_1">, Gguf_Case<"kQ5_0", 6, "q5_0">, Gguf_Case<"kQ5_1", 7, "q5_1">,
    Gguf_Case<"kQ8_0", 8, "q8_0">, Gguf_Case<"kQ2_K", 10, "q2_k">, Gguf_Case<"kQ3_K", 11, "q3_k">,
    Gguf_Case<"kQ4_K", 12, "q4_k">, Gguf_Case<"kQ5_K", 13, "q5_k">, Gguf_Case<"kQ6_K", 14, "q6_k">,
    Gguf_Case<"kIQ2_XXS", 16, "iq2_xxs">, Gguf_Case<"kIQ2_XS", 17, "iq2_xs">, Gguf_Case<"kIQ3_XXS", 18, "iq3_xxs">,
    Gguf_Case<"kIQ1_S", 19, "iq1_s">, Gguf_Case<"kIQ4_NL", 20, "iq4_nl">, Gguf_Case<"kIQ3_S", 21, "iq3_s">,
    Gguf_Case<"kIQ2_S", 22, "iq2_s">, Gguf_Case<"kIQ4_XS", 23, "iq4_xs">, Gguf_Case<"kIQ1_M", 29, "iq1_m">,
    Gguf_Case<"kBF16", 30, "bf16">, Gguf_Case<"kTQ1_0", 34, "tq1_0">, Gguf_Case<"kTQ2_0", 35, "tq2_0">,
    Gguf_Case<"kMXFP4", 39, "mxfp4">, Gguf_Case<"kNVFP4", 40, "nvfp4">, Gguf_Case<"kQ1_0", 41, "q1_0">,
    Gguf_Case<"kQ2_0", 42, "q2_0">]> {
  let cppNamespace = "::g4::gguf";
  let genSpecializedAttr = 0;
}

def Gguf_ElementTypeAttr : EnumAttr<Gguf_Dialect, Gguf_ElementType, "element"> {
  let assemblyFormat = "$value";
}

def Gguf_MatrixType : TypeDef<Gguf_Dialect, "Matrix"> {
  let mnemonic = "matrix";
  let summary = "A matrix as GGUF stores it: rows of blocks.";
  let description = [{
    `rows x columns`, each row a whole number of blocks of the element type. A vector has one row. A stack of
    expert matrices has the rows of all its experts.

    Constraints: (c1) both sizes are positive. (c2) `columns` is a multiple of the block length.
    ```mlir
    !gguf.matrix<2048x1536, q4_0>
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns,
                        EnumParameter<Gguf_ElementType>:$element);
  let assemblyFormat = "`<` custom<Sizes>($rows, $columns) `,` $element `>`";
  let genVerifyDecl = 1; // c1, c2
  let extraClassDeclaration = [{
    /// Bytes of one row.
    int64_t getRowBytes() const;
    int64_t getSizeInBytes() const { return getRows() * getRowBytes(); }
  }];
}

def Gguf_WeightOp : Op<Gguf_Dialect, "weight", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Declares a weight and says where its bytes are.";
  let description = [{
    The symbol's name is the GGUF tensor's name. Its bytes are the extents one after the other: one extent
    for a tensor, one per expert where a file stores the experts' matrices as tensors of their own. `factor`
    multiplies every value when the weight is packed; passes fold constants into it. `scale` names a weight whose
    values multiply those of this one: a single value, or one for each of as many equal groups of rows (experts).
    `stored` is the element type of the file's bytes where it is not that of `type`: whoever reads the weight converts it,
    row by row (`gemma-quantize` sets it; the module's `gguf.imatrix` may name an importance matrix to do it with).

    Constraints: (c1) the extents together have the size of `type` with the element type that is stored. (c2) `factor` is allowed on one-row f32,
    f16 and bf16 weights only: quantised values must stay what they are. (c3) there is at least one extent.
    (c4) `factor` is finite and not 0. (c5) `scale` is allowed on weights of more than one row only. (c6) `scale` is a one-row f32
    weight without a factor, and divides the rows of this one into as many groups as it has values.
    (c7) `stored` is another element type than that of `type`, its block divides the columns, and there is no `factor`.
    ```mlir
    gguf.weight @blk.0.attn_q.weight : !gguf.matrix<2048x1536, q4_0> from <file = 0, offset = 4096, size = 1769472>
    gguf.weight @output_norm.weight : !gguf.matrix<1x1536, f32> from <file = 0, offset = 64, size = 6144> factor = 0.5
    gguf.weight @blk.0.ffn_up.weight : !gguf.matrix<2048x1536, nvfp4> from <file = 0, offset = 8192, size = 1769472> scale = @blk.0.ffn_up.scale
    gguf.weight @blk.0.attn_k.weight : !gguf.matrix<256x1536, q4_k> from <file = 0, offset = 9216, size = 786432> stored = bf16
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Gguf_MatrixType>:$type,
      TypedArrayAttrBase<Gguf_ExtentAttr, "byte ranges">:$extents, OptionalAttr<F32Attr>:$factor,
      OptionalAttr<FlatSymbolRefAttr>:$scale, OptionalAttr<Gguf_ElementTypeAttr>:$stored);
  let assemblyFormat = "$sym_name `:` $type `from` custom<Extents>($extents) (`factor` `=` $factor^)? (`scale` `=` $scale^)? (`stored` `=` $stored^)? attr-dict";
  let hasVerifier = 1; // c1 to c5, c7; c6 in verifySymbolUses
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "MatrixType":$type,
                                 "::llvm::ArrayRef<::mlir::Attribute>":$extents)>];
  let extraClassDeclaration = [{
    MatrixType getMatrixType() { return ::llvm::cast<MatrixType>(getType()); }
    /// The element type of the file's bytes, and bytes of a row there.
    ElementType getStoredElement() { return getStored().value_or(getMatrixType().getElement()); }
    int64_t getStoredRowBytes() {
      return getMatrixType().getColumns() / getBlockElements(getStoredElement()) * getBlockBytes(getStoredElement());
    }
    /// `factor`, or 1 when there is none.
    float getFactorOrOne() { return getFactor() ? getFactor()->convertToFloat() : 1.0f; }
  }];
}

#endif
