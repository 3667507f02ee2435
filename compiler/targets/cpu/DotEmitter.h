/// Dot products with packed weight blocks, for x86 vectors.
#pragma once

#include "compiler/targets/cpu/BlockDecoder.h"

namespace g4::cpu {

/// Emits code for one `tile.load_quant` and its users, at the builder's insertion point.
class DotEmitter : private BlockDecoder {
public:
  using BlockDecoder::BlockDecoder;

  /// The new sums of `dots`, which all read this block, in order.
  llvm::SmallVector<mlir::Value> dots(llvm::ArrayRef<tile::DotOp> dots);
  llvm::SmallVector<mlir::Value> dotsF32(llvm::ArrayRef<tile::DotF32Op> dots);
  void dequant(mlir::Value scratch);

private:
  V multiplyAdd(V acc, V codes, V x); ///< one vpdpbusd, real or emulated
  llvm::SmallVector<V> integerDots(llvm::ArrayRef<tile::DotOp> dots, unsigned first, unsigned last);
};

} // namespace g4::cpu
