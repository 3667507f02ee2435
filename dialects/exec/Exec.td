#ifndef G4_EXEC
#define G4_EXEC

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::g4::exec";
  let summary = "Programs, dispatches, buffers and pages: what the artifact stores.";
  let description = [{
    A program is a straight list of dispatches and barriers over explicit buffers. A dispatch runs a kernel: a
    fused *prologue, contraction or attention, epilogue*, described by a specification attribute until
    `lower-exec-to-tile` writes its body. Which rows a dispatch is over is a row set, never a number: prefill,
    decode and verification differ only in the row sets of a step.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let usePropertiesForAttributes = 1;
  let dependentDialects = ["::g4::gguf::GgufDialect"];
}

// The gguf dialect's enum, by its C++ type: including its definition here would generate it a second time.
def Exec_Element : AttrOrTypeParameter<"::g4::gguf::ElementType", "packed element type"> {
  let parser = "::mlir::FieldParser<::g4::gguf::ElementType>::parse($_parser)";
  let printer = "$_printer << ::g4::gguf::stringifyElementType($_self)";
}

// ---- enums -----------------------------------------------------------------------------------------------

class Exec_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::g4::exec";
  let genSpecializedAttr = 0;
}
class Exec_EnumAttr<EnumInfo e, string mn> : EnumAttr<Exec_Dialect, e, mn> { let assemblyFormat = "$value"; }

def Exec_RowSet : Exec_Enum<"RowSet", "which rows of a step", [
  I32EnumAttrCase<"rows", 0>, I32EnumAttrCase<"tail", 1>, I32EnumAttrCase<"logits", 2>, I32EnumAttrCase<"single", 3>]>;
def Exec_RowSetAttr : Exec_EnumAttr<Exec_RowSet, "row_set">;

def Exec_Storage : Exec_Enum<"Storage", "how a weight is stored in the artifact", [
  I32EnumAttrCase<"packed", 0>, I32EnumAttrCase<"vector", 1>, I32EnumAttrCase<"table", 2>]>;
def Exec_StorageAttr : Exec_EnumAttr<Exec_Storage, "storage">;

def Exec_SlotKind : Exec_Enum<"SlotKind", "an array the engine fills for each step (StepAbi.h)", [
  I32EnumAttrCase<"counts", 0>, I32EnumAttrCase<"tokens", 1>, I32EnumAttrCase<"positions", 2>,
  I32EnumAttrCase<"sequences", 3>, I32EnumAttrCase<"row_map", 4>, I32EnumAttrCase<"tail_map", 5>,
  I32EnumAttrCase<"logit_map", 6>, I32EnumAttrCase<"blocks_sliding", 7>, I32EnumAttrCase<"blocks_global", 8>,
  I32EnumAttrCase<"rope_sliding", 9>, I32EnumAttrCase<"rope_global", 10>, I32EnumAttrCase<"forced_experts", 11>]>;
def Exec_SlotKindAttr : Exec_EnumAttr<Exec_SlotKind, "slot_kind">;

def Exec_Source : Exec_Enum<"Source", "where a row chain takes the residual stream from", [
  I32EnumAttrCase<"embed", 0>, I32EnumAttrCase<"buffer", 1>, I32EnumAttrCase<"gather", 2>]>;
def Exec_Add : Exec_Enum<"Add", "what a row chain adds to the residual stream", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"normed", 1>, I32EnumAttrCase<"experts", 2>]>;
def Exec_Epilogue : Exec_Enum<"Epilogue", "what a linear does with its sums", [
  I32EnumAttrCase<"store", 0>, I32EnumAttrCase<"geglu", 1>, I32EnumAttrCase<"heads", 2>,
  I32EnumAttrCase<"per_layer", 3>, I32EnumAttrCase<"logits", 4>]>;

// ---- attributes ------------------------------------------------------------------------------------------

class Exec_Attr<string name, string mn> : AttrDef<Exec_Dialect, name> {
  let mnemonic = mn;
  let assemblyFormat = "`<` struct(params) `>`";
}

// Specifications are verified with the kernel that has them: see dialects/exec/VerifySpec.cpp, where the constraints'
// labels stand at the lines that check them.

def Exec_Matrix : Exec_Attr<"Matrix", "matrix"> {
  let summary = "A packed matrix: element type, rows (outputs), columns (inputs).";
  let description = [{
    With `scales` the kernel multiplies products by the values of one more argument: a single one, or one for each of that
    many equal groups of rows (experts). nvfp4 needs none: its packed rows hold their scale.

    Constraints, in a kernel: (c1) `rows > 0` and `columns` is a multiple of the packed layout's super-block
    (runtime/module/PackedLayout.h). Where it is contracted with an activation also: its columns
    are those of the activation, a multiple of 32. (c2) `scales` is 0, 1 or, of experts, their number; 0 but for parts of
    linear and experts kernels.
  }];
  let parameters = (ins Exec_Element:$element, "int64_t":$rows, "int64_t":$columns, DefaultValuedParameter<"int64_t", "0">:$scales);
}

def Exec_Forms : Exec_Attr<"Forms", "forms"> {
  let summary = "In which forms an activation is written: f32, and int8 in blocks of 32 with scales and sums.";
  let parameters = (ins "bool":$f32, "bool":$q8);
}

def Exec_Norm : Exec_Attr<"Norm", "norm"> {
  let summary = "One output of a row chain: the stream, normalised or not, with a gain or not, in some forms.";
  let parameters = (ins "bool":$normalize, "bool":$gain, "::g4::exec::FormsAttr":$forms);
}

def Exec_Ple : Exec_Attr<"Ple", "ple"> {
  let summary = "The per-layer-input chain of a row: gate, GELU times input, projection, norm, add.";
  let parameters = (ins "::g4::exec::MatrixAttr":$gate, "::g4::exec::MatrixAttr":$projection, "int64_t":$stride);
  let description = [{ The inputs of a row are the first columns of a buffer with `stride` columns. }];
}

def Exec_Route : Exec_Attr<"Route", "route"> {
  let summary = "Expert choice of a row: f32 router matrix, softmax, the `used` most probable.";
  let parameters = (ins "::g4::exec::MatrixAttr":$router, "int64_t":$used);
}

def Exec_Row : Exec_Attr<"Row", "row"> {
  let summary = "A chain of operations on the residual stream of one row.";
  let description = [{
    In this order: take the stream (from the embedding table, a buffer, or the row of a larger row set that a map
    names); add `rms(y) * w` (or, with experts, `rms(rms(m) * w1 + rms(e) * w2) * w`); the per-layer-input chain;
    multiply by the layer's scale; store it; write its normed forms; choose experts. Everything between two
    contractions is one of these, so that a layer boundary costs one dispatch, or none as a prologue.

    Constraints: (c1) `hidden` is a multiple of 32. (c2) `embed` and `embedScale` are there exactly for the source
    `embed`. (c3) `expertsUsed > 0` exactly when experts are added. (c4) the per-layer projection gives `hidden` values
    from the gate's rows, which are within the inputs' stride. (c5) every norm is a `#exec.norm` with a form. (c6) the
    route uses one to all of the router's rows.
  }];
  let parameters = (ins
    "int64_t":$hidden, "bool":$int8, "::mlir::FloatAttr":$eps, EnumParameter<Exec_Source>:$source, EnumParameter<Exec_Add>:$add, "bool":$scaled,
    "bool":$store,
    OptionalParameter<"::g4::exec::MatrixAttr">:$embed, OptionalParameter<"::mlir::FloatAttr">:$embedScale,
    OptionalParameter<"::g4::exec::PleAttr">:$ple, OptionalParameter<"::g4::exec::RouteAttr">:$route,
    DefaultValuedParameter<"int64_t", "0">:$expertsUsed,
    OptionalParameter<"::mlir::ArrayAttr">:$norms);
  let extraClassDeclaration = [{
    unsigned getNumNorms() const { return getNorms() ? getNorms().size() : 0; }
    NormAttr getNorm(unsigned i) const { return ::llvm::cast<NormAttr>(getNorms()[i]); }
  }];
}

def Exec_ElementAttr : Exec_Attr<"Element", "element"> {
  let summary = "What a layer's K/V pages hold: f32, f16, bf16, q8_0 or q4_0 (runtime/module/KvLayout.h).";
  let parameters = (ins Exec_Element:$value);
  let assemblyFormat = "$value";
}

def Exec_Heads : Exec_Attr<"Heads", "heads"> {
  let summary = "Epilogue of a query/key/value projection: norms, rotation, page writes.";
  let description = [{
    Parts of the linear are, in this order and as far as present: queries, keys, values. Without a value part but
    with a key part the values are the keys' own projection, normed without gain (`attention_k_eq_v`). Where the
    layer's pages are quantised, queries, keys and values are rotated as runtime/module/KvLayout.h says.

    Constraints: (c1) `dim` is a multiple of 32 and the linear's tile. (c2) values come with keys, and pages can be of
    `kvElement`. (c3) a part has `heads` or `kvHeads` times `dim` rows.
  }];
  let parameters = (ins "int64_t":$dim, "int64_t":$heads, "int64_t":$kvHeads, "bool":$query, "bool":$key, "bool":$value,
                        Exec_Element:$kvElement, "::mlir::FloatAttr":$eps);
}

def Exec_PerLayer : Exec_Attr<"PerLayer", "per_layer"> {
  let summary = "Epilogue of the per-layer-input projection: norm, gather from the table, sum.";
  let parameters = (ins "int64_t":$width, "int64_t":$firstLayer, "::g4::exec::MatrixAttr":$table,
                        "::mlir::FloatAttr":$projectionScale, "::mlir::FloatAttr":$tableScale,
                        "::mlir::FloatAttr":$combineScale, "::mlir::FloatAttr":$eps);
}

def Exec_Linear : Exec_Attr<"Linear", "linear"> {
  let summary = "Kernel: prologue, packed contraction, epilogue.";
  let description = [{
    A work item is `tile` outputs of each part for `rowsPerItem` rows. `int8` chooses the activations' form; parts
    whose weights are floats read the f32 form. With `row` the input is the single norm of a row chain that is
    computed in scratch. Epilogue `logits` caps the sums, where there is a `softcap`, and stores besides them the largest
    of each tile, `maxima`: who looks for a row's largest logits need not read them all. A NaN counts as infinity there.

    Constraints: (c1) all parts have `columns` columns, a multiple of 32. (c2) there are as many parts as the epilogue
    takes: one, two for `geglu`, one for each kind of head. (c3) `out`, `heads`, `per_layer` and a positive `softcap` are
    there for their epilogues only. (c4) `rowsPerItem > 0`. (c5) the items' tiles cover the outputs, padded to 16, and no
    more; where the result is an activation they are multiples of 32. (c6) the prologue has one norm, as wide as the
    parts and in the forms that they read. (c7) the per-layer table has the layers that are read.
  }];
  let parameters = (ins "int64_t":$columns, "bool":$int8, ArrayRefParameter<"::g4::exec::MatrixAttr">:$parts,
                        EnumParameter<Exec_Epilogue>:$epilogue, "int64_t":$tile, "int64_t":$rowsPerItem,
                        OptionalParameter<"::g4::exec::RowAttr">:$row,
                        OptionalParameter<"::g4::exec::FormsAttr">:$out,
                        OptionalParameter<"::g4::exec::HeadsAttr">:$heads,
                        OptionalParameter<"::g4::exec::PerLayerAttr">:$perLayer,
                        OptionalParameter<"::mlir::FloatAttr">:$softcap);
  let assemblyFormat = [{ `<` `columns` `=` $columns `,` `int8` `=` $int8 `,` `parts` `=` `[` $parts `]` `,`
    `epilogue` `=` $epilogue `,` `tile` `=` $tile `,` `rows_per_item` `=` $rowsPerItem
    (`,` struct($row, $out, $heads, $perLayer, $softcap)^)? `>` }];
}

def Exec_Attention : Exec_Attr<"Attention", "attention"> {
  let summary = "Kernel: attention of one row and one K/V head's queries over pages, segment by absolute segment.";
  let description = [{
    What a row sees is cut into segments at absolute positions (`segmentsOf` in dialects/exec/Signature.h). Each is computed
    by itself, then they are folded in order. Up to `kSplitRows` rows, an item is one segment of a row: it writes its largest
    scores, sums of weights and weighted values to `parts` and counts itself in `arrivals`, and the last to arrive
    folds them. With more rows, or one segment, an item does all of a row and the row's other items do nothing. All ways
    give the same bits. `arrivals` must be zero: the kernel that computes the queries clears it.

    With quantised pages the queries are rotated already and the result is rotated back.

    Constraints: (c1) `heads` is a multiple of `kvHeads`. (c2) `dim` is a multiple of 32. (c3) `window >= 0` (0: all), and
    pages can be of `kvElement`. (c4) the result has a form.
  }];
  let parameters = (ins "int64_t":$heads, "int64_t":$kvHeads, "int64_t":$dim, "int64_t":$window, Exec_Element:$kvElement,
                        "::mlir::FloatAttr":$scale, "::g4::exec::FormsAttr":$forms);
}

def Exec_RowKernel : Exec_Attr<"RowKernel", "row_kernel"> {
  let summary = "Kernel: a row chain by itself.";
  let parameters = (ins "::g4::exec::RowAttr":$row);
}

def Exec_SortExperts : Exec_Attr<"SortExperts", "sort_experts"> {
  let summary = "Kernel: the step's (row, expert) pairs sorted by expert, cut into tiles of `tileRows` rows.";
  let description = [{ Constraints: (c1) `0 < used <= experts` and `tileRows > 0`. }];
  let parameters = (ins "int64_t":$experts, "int64_t":$used, "int64_t":$tileRows);
}

def Exec_Experts : Exec_Attr<"Experts", "experts"> {
  let summary = "Kernel: one contraction of the routed experts over the sorted tiles.";
  let description = [{
    With two parts (gate, up) of `experts` stacked matrices: rows are read by row, GELU(gate) * up is written by
    pair. With one part: rows are read by pair and the weighted result is written by pair, in f32.

    Constraints: (c1) `0 < used <= experts` and `tileRows > 0`. (c2) `out` is there exactly with two parts. (c3) the parts
    are equally wide, a multiple of 32. (c4) each expert has the same number of rows, a multiple of `tile`, which is a
    multiple of 16, with two parts of 32.
  }];
  let parameters = (ins "int64_t":$experts, "int64_t":$used, "int64_t":$tileRows, "bool":$int8,
                        ArrayRefParameter<"::g4::exec::MatrixAttr">:$parts, "int64_t":$tile,
                        OptionalParameter<"::g4::exec::FormsAttr">:$out);
  let assemblyFormat = [{ `<` `experts` `=` $experts `,` `used` `=` $used `,` `tile_rows` `=` $tileRows `,` `int8` `=` $int8
    `,` `parts` `=` `[` $parts `]` `,` `tile` `=` $tile (`,` `out` `=` $out^)? `>` }];
}

// ---- types -----------------------------------------------------------------------------------------------

class Exec_Type<string name, string mn, string s> : TypeDef<Exec_Dialect, name> { let mnemonic = mn; let summary = s; }

def Exec_Buffer : Exec_Type<"Buffer", "buffer", "Rows of a row set in the step's arena."> {
  let description = [{
    `copies` rows of `columns` elements for each row of `set` (copies > 1: one per chosen expert).

    Constraints: (c1) `copies > 0` and `columns > 0`. (c2) `element` is f32, i32 or i8.
  }];
  let parameters = (ins EnumParameter<Exec_RowSet>:$set, "int64_t":$copies, "int64_t":$columns, "::mlir::Type":$element);
  let assemblyFormat = "`<` $set `,` $copies `x` $columns `x` $element `>`";
  let genVerifyDecl = 1; // buffer_c1, buffer_c2
  let extraClassDeclaration = [{
    /// Bytes for one row of the set.
    uint64_t getRowBytes() const { return getCopies() * getColumns() * (getElement().getIntOrFloatBitWidth() / 8); }
  }];
}
def Exec_Weight : Exec_Type<"Weight", "weight", "A weight's bytes in the artifact.">;
def Exec_Kv : Exec_Type<"Kv", "kv", "The K/V pages of one layer.">;
def Exec_Slot : Exec_Type<"Slot", "slot", "An array of the step's descriptor.">;

// ---- ops -------------------------------------------------------------------------------------------------

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

def Exec_ProgramOp : Exec_Op<"program", [Symbol, NoRegionArguments, SingleBlock, IsolatedFromAbove]> {
  let summary = "A list of dispatches over buffers, with the capacity of its row sets.";
  let description = [{
    `arena_bytes` and `peak_live_bytes` are set by `exec-plan-memory`. `kv` facts, RoPE tables and everything else
    that the artifact's header says of the model stay on the `gemma.model` operation's attributes, kept as
    `model` here.

    Constraints: (c1) `max_rows >= max_tail_rows >= max_logit_rows > 0`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$max_rows, I64Attr:$max_tail_rows, I64Attr:$max_logit_rows,
                       DictionaryAttr:$model, OptionalAttr<I64Attr>:$arena_bytes, OptionalAttr<I64Attr>:$peak_live_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1; // program_c1
  let extraClassDeclaration = [{ int64_t capacity(RowSet set); }];
}

def Exec_BufferOp : Exec_Op<"buffer", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A buffer in the step's arena.";
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = "$name (`at` $offset^)? attr-dict `:` type($result)";
}

def Exec_ColumnsOp : Exec_Op<"columns", [Pure]> {
  let summary = "A buffer from column `first` of each row on.";
  let description = [{
    The rows stay as far apart as they were: layers that read other columns of one buffer share a kernel.

    Constraints: (c1) the result has the type of `buffer`. (c2) `first` is one of its columns.
  }];
  let arguments = (ins Exec_Buffer:$buffer, I64Attr:$first);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = "$buffer `from` $first attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1; // columns_c1, columns_c2
}

def Exec_WeightOp : Exec_Op<"weight", [Pure]> {
  let summary = "A part of a GGUF weight, stored packed for the target family, as an f32 vector, or as in the file.";
  let description = [{
    `offset` and `size`, set by `exec-pack-weights`, are the bytes' place in the artifact's weight segment.

    Constraints: (c1) `part` is a `#gguf.part`. (c2) `matrix` has the rows of the part, or a multiple of them: one for each
    expert. (c3) `offset` and `size` come together.
  }];
  let arguments = (ins Exec_StorageAttr:$storage, AnyAttr:$part, Exec_Matrix:$matrix, OptionalAttr<I64Attr>:$offset,
                       OptionalAttr<I64Attr>:$size);
  let results = (outs Exec_Weight:$result);
  let assemblyFormat = "`` $storage $part `as` $matrix (`at` $offset^ `size` $size)? attr-dict";
  let hasVerifier = 1; // weight_c1, weight_c2, weight_c3
}

def Exec_KvOp : Exec_Op<"kv", [Pure]> {
  let summary = "The K/V pages of a layer that has its own.";
  let description = [{
    Constraints: (c1) layer and window are not negative, heads and dim are positive. (c2) pages can be of `element`:
    f32, f16, bf16, and for a dim that is a multiple of 32 also q8_0 and q4_0.
  }];
  let arguments = (ins I64Attr:$layer, I64Attr:$window, I64Attr:$heads, I64Attr:$dim, Exec_ElementAttr:$element);
  let results = (outs Exec_Kv:$result);
  let assemblyFormat = "`layer` $layer `window` $window `heads` $heads `dim` $dim $element attr-dict";
  let hasVerifier = 1; // kv_c1, kv_c2
}

def Exec_SlotOp : Exec_Op<"slot", [Pure]> {
  let summary = "An array of the step's descriptor, from element `index` on.";
  let description = [{ Constraints: (c1) `index` is not negative. }];
  let arguments = (ins Exec_SlotKindAttr:$kind, ConfinedAttr<I64Attr, [IntNonNegative]>:$index /*slot_c1*/);
  let results = (outs Exec_Slot:$result);
  let assemblyFormat = "`` $kind `[` $index `]` attr-dict";
}

def Exec_DispatchOp : Exec_Op<"dispatch", [AttrSizedOperandSegments, HasParent<"ProgramOp"> /*dispatch_c6*/,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel's work items.";
  let description = [{
    Operands are the kernel's arguments in the order of its signature, those it reads before those it writes.
    Items: ceil(count(set) / rows_per_item) * items_per_block. `taps` name written operands that tests and
    `g4run --taps` may want: `[[index, "name"], ...]` as two arrays.

    Constraints: (c1) the kernel exists. (c2) operand counts are those of its signature. (c3) so are the operands:
    buffers by element and columns, packed weights as bytes, vectors as f32, pages by element. (c4) `rows_per_item` and
    `items_per_block` are the kernel's. (c5) every tap names a written operand. (c6) the parent is a program.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyType>:$reads, Variadic<AnyType>:$writes,
                       Exec_RowSetAttr:$set, I64Attr:$rows_per_item, I64Attr:$items_per_block, I64Attr:$layer,
                       I64Attr:$macs_per_row, DenseI64ArrayAttr:$tap_operands, StrArrayAttr:$tap_names);
  let assemblyFormat = "$kernel `reads` `(` $reads `:` type($reads) `)` `writes` `(` $writes `:` type($writes) `)` `over` `` $set attr-dict";
}

def Exec_BarrierOp : Exec_Op<"barrier", [HasParent<"ProgramOp">]> {
  let summary = "All items of earlier dispatches are done before any item of a later one starts.";
  let assemblyFormat = "attr-dict";
}

def Exec_ReturnOp : Exec_Op<"return", [Terminator, ParentOneOf<["ProgramOp"]>]> {
  let summary = "The program's outputs.";
  let description = [{ Constraints: (c1) every output has a name. }];
  let arguments = (ins Variadic<Exec_Buffer>:$outputs, StrArrayAttr:$names);
  let assemblyFormat = "$outputs $names attr-dict (`:` type($outputs)^)?";
  let hasVerifier = 1; // return_c1
}

def Exec_KernelOp : Exec_Op<"kernel", [Symbol, IsolatedFromAbove, AutomaticAllocationScope]> {
  let summary = "A kernel: a specification, and after lower-exec-to-tile a body.";
  let description = [{
    The body's arguments are the memrefs of the signature, then the first and one past the last work item.

    Constraints: (c1) the specification is one of a kernel and keeps its own constraints. (c2) a body is one block with as
    many arguments as the signature, and two. (c3) they have the signature's types; the last two are indices.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, AnyAttr:$spec);
  let regions = (region AnyRegion:$body);
  let assemblyFormat = "$sym_name `:` $spec attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Exec_EndOp : Exec_Op<"end", [Terminator, ParentOneOf<["KernelOp"]>]> {
  let summary = "Ends a kernel's body.";
  let assemblyFormat = "attr-dict";
}

#endif
