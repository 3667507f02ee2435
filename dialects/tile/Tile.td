#ifndef G4_TILE
#define G4_TILE

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::g4::tile";
  let summary = "What a kernel does inside a dispatch, before a target is chosen.";
  let description = [{
    A kernel body is ordinary scf, arith, math, memref and vector code on *strips*: `vector<16xT>`, one SIMD
    vector (or two) on a CPU, sixteen lanes of a workgroup on a GPU. On strips only elementwise operations,
    broadcasts and contiguous loads and stores are used, so that a GPU lowering can give each lane one element.
    A strip in memory starts at a multiple of sixteen elements, so that an element is always the same lane's, and
    conditions and loop bounds are scalars, so that all lanes take the same way.
    What needs more than that is an op of this dialect: decoding packed weights, dot products with them,
    reductions across a strip, a rotation of its elements and barriers between lanes. It must not grow into a language of its own.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let usePropertiesForAttributes = 1;
}

// The gguf dialect's enum, by its C++ type: including its definition here would generate it a second time.
def Tile_Element : AttrOrTypeParameter<"::g4::gguf::ElementType", "packed element type"> {
  let parser = "::mlir::FieldParser<::g4::gguf::ElementType>::parse($_parser)";
  let printer = "$_printer << ::g4::gguf::stringifyElementType($_self)";
}

class Tile_Type<string name, string mn> : TypeDef<Tile_Dialect, name> { let mnemonic = mn; }
class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

def Tile_Block : Tile_Type<"Block", "block"> {
  let summary = "A block of packed weights: 16 rows by 32 columns.";
  let description = [{ `element` is the packed layout (runtime/module/PackedLayout.h). }];
  let parameters = (ins Tile_Element:$element);
  let assemblyFormat = "`<` $element `>`";
}

def Tile_Reduction : I32EnumAttr<"Reduction", "how a strip is reduced", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>]> {
  let cppNamespace = "::g4::tile";
  let genSpecializedAttr = 0;
}
def Tile_ReductionAttr : EnumAttr<Tile_Dialect, Tile_Reduction, "reduction"> {
  let assemblyFormat = "$value";
}

def Tile_Strip : AnyTypeOf<[VectorOfLengthAndType<[16], [F32]>, VectorOfLengthAndType<[16], [I32]>]>;
def Tile_F32Strip : Type<VectorOfLengthAndType<[16], [F32]>.predicate, "f32 strip", "::mlir::VectorType">,
  BuildableType<"::mlir::VectorType::get({16}, $_builder.getF32Type())">;

def Tile_LoadQuantOp : Tile_Op<"load_quant", [Pure]> {
  let summary = "Names the block of 16 rows by 32 columns at a group of rows and a block of columns.";
  let description = [{
    `weights` are the bytes of one packed matrix with `columns` columns. Nothing is expanded: the
    lowering decodes in registers at the first use.

    Constraints: (c1) `columns` is a multiple of the element's super-block and of 32.
    ```mlir
    %b = tile.load_quant %w[%group, %block] columns = 1536 : memref<?xi8> -> !tile.block<q4_0>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I8], [1]>:$weights, Index:$group, Index:$block, I64Attr:$columns);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$weights `[` $group `,` $block `]` `columns` `=` $columns attr-dict `:` type($weights) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ContractOp : Tile_Op<"contract", [AttrSizedOperandSegments]> {
  let summary = "Products of rows of activations with groups of sixteen outputs of a packed matrix.";
  let description = [{
    `sums[j * R + i] = sum_k w[group + j * apart][k] * x[row i][k]` for `i` in `[0, n)` and `j` in `[0, groups)`, where `R` is the number of
    rows of `sums` for each group, and row `i` is `first + i`, or `map[first + i]` where there is a map. Groups named together can
    be read together: memory gives more to two streams than to one. `input` is the f32 matrix, or codes, scales and sums of int8 activations, as `tile.dot` reads them.
    The blocks of a row are added in order, by `tile.dot` or `tile.dot_f32`: how a target walks over rows and blocks, and
    whether it keeps decoded blocks for the next row, changes no bit. `tile-schedule-contractions` decides that.

    Constraints: (c1) `columns` is a multiple of the element's super-block and of 32. (c2) one input for f32, three for int8,
    with `columns` columns. (c3) int8 activations are for blocks that are not floats. (c4) rows of `sums` are sixteen wide. (c5) their
    number is a multiple of `groups`.
    ```mlir
    tile.contract %w[%group] !tile.block<q4_0> columns = 1536 with %q, %scale, %sums rows %first + %n into %acc
      : memref<?xi8>, memref<32x16xf32>, memref<?x1536xi8>, memref<?x48xf32>, memref<?x96xi32>
    ```
  }];
  let arguments = (ins Arg<MemRefRankOf<[I8], [1]>, "", [MemRead]>:$weights, Index:$group, TypeAttrOf<Tile_Block>:$block, I64Attr:$columns,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$groups, DefaultValuedOptionalAttr<I64Attr, "1">:$apart,
                       Arg<Variadic<MemRefRankOf<[I8, I32, F32], [2]>>, "", [MemRead]>:$input, Index:$first, Index:$n,
                       Arg<Optional<MemRefRankOf<[I32], [1]>>, "", [MemRead]>:$map,
                       Arg<MemRefRankOf<[F32], [2]>, "", [MemWrite]>:$sums);
  let assemblyFormat = [{
    $weights `[` $group `]` (`groups` `=` $groups^)? (`apart` `=` $apart^)? $block `columns` `=` $columns `with` $input `rows` $first `+` $n (`map` $map^ `:` type($map))? `into` $sums
    attr-dict `:` type($weights) `,` type($sums) `,` type($input)
  }];
  let hasVerifier = 1;
}

def Tile_DecodeOp : Tile_Op<"decode"> {
  let summary = "Decodes a weight block into a slot of a panel in cache, for several rows to use.";
  let description = [{
    The slot holds the block's codes one byte each, its scales and, where the type has minima, its addends, all as
    `tile.dot` wants them.

    Constraints: (c1) the block is not of floats and comes from `tile.load_quant`. (c2) a slot has the decoded block's size.
    ```mlir
    tile.decode %b, %panel[%slot] : !tile.block<q4_0>, memref<8x576xi8>
    ```
  }];
  let arguments = (ins Tile_Block:$block, Arg<MemRefRankOf<[I8], [2]>, "", [MemWrite]>:$panel, Index:$slot);
  let assemblyFormat = "$block `,` $panel `[` $slot `]` attr-dict `:` type($block) `,` type($panel)";
  let hasVerifier = 1;
}

def Tile_LoadDecodedOp : Tile_Op<"load_decoded"> {
  let summary = "Names the block that tile.decode left in a slot of a panel.";
  let description = [{
    Constraints: (c1) a slot has the decoded block's size.
    ```mlir
    %b = tile.load_decoded %panel[%slot] : memref<8x576xi8> -> !tile.block<q4_0>
    ```
  }];
  let arguments = (ins Arg<MemRefRankOf<[I8], [2]>, "", [MemRead]>:$panel, Index:$slot);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$panel `[` $slot `]` attr-dict `:` type($panel) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_Op<"dot"> {
  let summary = "Adds the products of a weight block and 32 int8 activations to a strip.";
  let description = [{
    `result[r] = acc[r] + scale[row, block] * sum_c w[r, c] * q[row, 32 * block + c]`, the sum of codes exact in
    int32, then one fixed sequence of f32 operations, so that every target and row count gives the same bits.
    `sums[row, i]` is the sum of `q[row, 16 i .. 16 i + 15]`; it corrects for zero points and minima.

    Constraints: (c1) the block is not of floats. (c2) a row of `q` has a multiple of 32 columns, of `scale` one for each
    32 of them, of `sums` one for each 16.
    ```mlir
    %r = tile.dot %b, %q, %scale, %sums[%row, %block] acc %a : !tile.block<q4_0>, memref<?x1536xi8>, memref<?x48xf32>, memref<?x96xi32>
    ```
  }];
  let arguments = (ins Tile_Block:$block, Arg<MemRefRankOf<[I8], [2]>, "", [MemRead]>:$q,
                       Arg<MemRefRankOf<[F32], [2]>, "", [MemRead]>:$scale,
                       Arg<MemRefRankOf<[I32], [2]>, "", [MemRead]>:$sums, Index:$row, Index:$column_block, Tile_F32Strip:$acc);
  let results = (outs Tile_F32Strip:$result);
  let assemblyFormat = "$block `,` $q `,` $scale `,` $sums `[` $row `,` $column_block `]` `acc` $acc attr-dict `:` type($block) `,` type($q) `,` type($scale) `,` type($sums)";
  let hasVerifier = 1;
}

def Tile_DotF32Op : Tile_Op<"dot_f32"> {
  let summary = "Adds the products of a weight block and 32 f32 activations to a strip, column by column.";
  let description = [{
    `result[r] = fma(w[r, 31], x[row, 32 * block + 31], ... fma(w[r, 0], x[row, 32 * block], acc[r]))`.

    Constraints: (c1) a row of `x` has a multiple of 32 columns.
    ```mlir
    %r = tile.dot_f32 %b, %x[%row, %block] acc %a : !tile.block<q6_k>, memref<?x1536xf32>
    ```
  }];
  let arguments = (ins Tile_Block:$block, Arg<MemRefRankOf<[F32], [2]>, "", [MemRead]>:$x, Index:$row, Index:$column_block,
                       Tile_F32Strip:$acc);
  let results = (outs Tile_F32Strip:$result);
  let assemblyFormat = "$block `,` $x `[` $row `,` $column_block `]` `acc` $acc attr-dict `:` type($block) `,` type($x)";
  let hasVerifier = 1;
}

def Tile_DequantOp : Tile_Op<"dequant"> {
  let summary = "Writes the f32 values of a weight block to scratch, one strip per column.";
  let description = [{
    For gathers of single rows (embeddings): the reader then picks its lane.

    Constraints: (c1) `to` has 32 rows of 16.
    ```mlir
    tile.dequant %b, %scratch : !tile.block<q6_k>, memref<32x16xf32>
    ```
  }];
  let arguments = (ins Tile_Block:$block, Arg<MemRefRankOf<[F32], [2]>, "", [MemWrite]>:$to);
  let assemblyFormat = "$block `,` $to attr-dict `:` type($block) `,` type($to)";
  let hasVerifier = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure]> {
  let summary = "Reduces a strip to a scalar in a fixed tree order: halves, quarters, eighths, pairs.";
  let description = [{
    The order is part of the meaning: all targets give the same bits.

    Constraints: (c1) the result is an element of `value`.
    ```mlir
    %s = tile.reduce sum %v : vector<16xf32> -> f32
    ```
  }];
  let arguments = (ins Tile_ReductionAttr:$kind, Tile_Strip:$value);
  let results = (outs AnyTypeOf<[F32, I32]>:$result);
  let assemblyFormat = "`` $kind $value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_HadamardOp : Tile_Op<"hadamard", [Pure]> {
  let summary = "Multiplies a strip by the Walsh-Hadamard matrix of order sixteen, without its factor 1/4.";
  let description = [{
    Four stages, for the distances 1, 2, 4, 8: of two elements that far apart, `a` before `b`, the first becomes
    `a + b` and the second `a - b`. The order is part of the meaning: all targets give the same bits.
    ```mlir
    %h = tile.hadamard %v
    ```
  }];
  let arguments = (ins Tile_F32Strip:$value);
  let results = (outs Tile_F32Strip:$result);
  let assemblyFormat = "$value attr-dict";
}

def Tile_BarrierOp : Tile_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Makes what the lanes of a strip wrote visible to each other; nothing on a CPU.";
  let description = [{
    A body may leave barriers out: before a lowering to lanes, `tile-place-lane-barriers` adds those that are missing.
  }];
  let assemblyFormat = "attr-dict";
}

#endif
