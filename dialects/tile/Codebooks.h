/// Constant tables of kernels, in the module they are compiled in.
#pragma once

#include "dialects/gguf/GgufDialect.h"

#include "mlir/IR/Builders.h"

namespace g4::tile {

/// The values of a type whose codes are numbers of values (iq4_nl, iq4_xs, mxfp4, nvfp4): sixteen. Empty for others.
llvm::ArrayRef<int8_t> tableOf(gguf::ElementType element);

/// A type's constant table as a memref of static size: the entries of its grid, an i32 or i64 of four or eight bytes each
/// (iq1_s and iq1_m: times 8), or the values of `tableOf` as i32. The global is added to the module around the insertion
/// point when it is not there yet; not for passes on parts of a module.
mlir::Value codebook(mlir::OpBuilder &b, mlir::Location loc, gguf::ElementType element);

/// 3^n, n < 5, as i32: what brings digit n of tq1_0's bytes to the front.
mlir::Value powersOfThree(mlir::OpBuilder &b, mlir::Location loc);

} // namespace g4::tile
