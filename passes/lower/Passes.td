#ifndef G4_PASSES_LOWER
#define G4_PASSES_LOWER

include "mlir/Pass/PassBase.td"

def LowerGemmaToExecPass : Pass<"lower-gemma-to-exec", "::mlir::ModuleOp"> {
  let summary = "Fuses prologues and epilogues and outlines dispatches.";
  let description = [{
    Turns a `gemma.model` into an `exec.program` and the kernels it runs. Contractions and attention become
    dispatches; what stands between two of them (norms, residual adds, the per-layer-input chain, the layer's
    scale, quantisation of activations) becomes their prologue, their epilogue or a row chain of its own.

    ```mlir
    %n = gemma.rms_norm %h gain @blk.0.ffn_norm.weight ...
    %g, %u = gemma.linear %n [#gguf.part<@blk.0.ffn_gate.weight, ...>, #gguf.part<@blk.0.ffn_up.weight, ...>]
    %a = gemma.geglu %g, %u
    ```
    becomes
    ```mlir
    exec.dispatch @linear_0 reads(%count, %h, %y, ...) writes(%h1, %act.q, ...) over rows {...}
    ```
  }];
  let dependentDialects = ["::g4::exec::ExecDialect"];
  let options = [
    Option<"maxRows", "max-rows", "int64_t", "512", "Capacity of a step in rows">,
    Option<"maxLogitRows", "max-logit-rows", "int64_t", "64", "Capacity of a step in logit rows">];
}

def LowerExecToTilePass : Pass<"lower-exec-to-tile", "::mlir::ModuleOp"> {
  let summary = "Writes the body of every kernel from its specification.";
  let description = [{
    ```mlir
    exec.kernel @attention_0 : #exec.attention<heads = 8, ...> {}
    ```
    becomes the same operation with a body of scf, arith, memref, vector and tile operations, the same for all
    targets but for `split-attention`: a target whose items cannot hand results to each other within a dispatch
    leaves it out, and an item does all segments of a row. Results are the same.
  }];
  let dependentDialects = ["::g4::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let options = [
    Option<"splitAttention", "split-attention", "bool", "true", "Share a row of attention among items where a step has few rows">];
}

def ScheduleContractionsPass : Pass<"tile-schedule-contractions", "::mlir::ModuleOp"> {
  let summary = "Turns tile.contract into loops over rows and blocks, as suits a target.";
  let description = [{
    Rows are taken in tiles of `row-tile`, or of the least power of two that is enough for all, that share the loads of a block; a
    part-empty tile computes its last row again. With `panels`, more rows than eight share the decoding too, of types
    that are costly to decode: a panel of blocks is decoded into scratch that stays in the first cache, and all rows run over it
    before the next. The order of additions to a sum is the same in every schedule.

    ```mlir
    tile.contract %w[%g] !tile.block<q4_0> columns = 1536 with %q, %scale, %sums rows %first + %n into %acc : ...
    ```
    becomes
    ```mlir
    scf.if %one_row { ... tile.load_quant ... tile.dot ... }
    else { scf.if %few_rows {
      scf.for %m = %c0 to %n step %c4 { // or %c2 where no more rows are there
        scf.for %k = ... { tile.load_quant ... tile.dot ... x4 }
    } else {
      scf.for %panel = ... {
        scf.for %k = ... { tile.decode %block, %scratch[%slot] ... }
        scf.for %m = %c0 to %n step %c4 {
          scf.for %k = ... { tile.load_decoded ... tile.dot ... x4 }
    ```
  }];
  let dependentDialects = ["::g4::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
  let options = [
    Option<"rowTile", "row-tile", "int64_t", "4", "Most rows that share the loads of a block: a power of two">,
    Option<"panels", "panels", "bool", "false", "Decode into scratch for several rows">];
}

#endif
