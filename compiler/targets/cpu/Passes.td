#ifndef G4_TARGETS_CPU_PASSES
#define G4_TARGETS_CPU_PASSES

include "mlir/Pass/PassBase.td"

def LowerTileToCpuPass : Pass<"lower-tile-to-cpu", "::mlir::ModuleOp"> {
  let summary = "Turns kernels into functions with the runtime's signature and tile ops into vector code.";
  let description = [{
    `isa` chooses the byte dot product: `avx2` (`pmaddubsw`), `avx-vnni` (256-bit `vpdpbusd`), `avx512-vnni`,
    `dotprod` (NEON `sdot`), `i8mm` (`smmla` too), or `emulated`, which computes what `vpdpbusd` does in plain vector arithmetic, so that the logic of those kernels
    is tested on machines without it. Programs and weights are dropped: the artifact's header has them.

    ```mlir
    exec.kernel @k : #exec.linear<...> { ^bb0(%x: memref<?x1536xf32>, ..., %begin: index, %end: index): ... }
    ```
    becomes
    ```mlir
    func.func @k(%buffers: !llvm.ptr, %begin: i64, %end: i64) { ... }
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect", "::mlir::vector::VectorDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
  let options = [Option<"isa", "isa", "std::string", "\"avx2\"", "avx2, avx-vnni, avx512-vnni, dotprod, i8mm or emulated">];
}

#endif
