/// Dot products with packed weight blocks.
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

  // NeonDots.cpp
  llvm::SmallVector<V> neonDots(llvm::ArrayRef<tile::DotOp> dots, unsigned first, unsigned last); ///< as integerDots
  V neonDot(tile::DotOp dot, unsigned part, unsigned first, unsigned last);
  std::pair<V, V> matrixDots(tile::DotOp one, tile::DotOp two, unsigned part, unsigned first, unsigned last);
  V sixteenColumns(tile::DotOp dot, unsigned first); ///< of a dot's activations, from column `first` of the block on
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, V> columns;
};

} // namespace g4::cpu
