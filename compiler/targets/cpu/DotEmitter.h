/// Dot products with packed weight blocks.
#pragma once

#include "compiler/targets/cpu/BlockDecoder.h"

namespace g4::cpu {

/// Emits code for one block, of `tile.load_quant` or `tile.load_decoded`, and its users, at the builder's insertion point.
class DotEmitter : private BlockDecoder {
public:
  using BlockDecoder::BlockDecoder;
  using BlockDecoder::prefetchAhead;

  /// The new sums of `dots`, which all read this block, in order.
  llvm::SmallVector<mlir::Value> dots(llvm::ArrayRef<tile::DotOp> dots);
  llvm::SmallVector<mlir::Value> dotsF32(llvm::ArrayRef<tile::DotF32Op> dots);
  void dequant(mlir::Value scratch);
  void decode(mlir::Value panel, mlir::Value slot);

private:
  using Dots = llvm::ArrayRef<tile::DotOp>;
  using Sums = llvm::SmallVector<V>;
  /// Exact sums over code vectors [first, last) of each dot, sixteen rows. Signed codes are taken as they are on AVX2 and
  /// NEON, and with 128 added on VNNI (see `zero` in dots()).
  Sums integerDots(Dots dots, unsigned first, unsigned last);

  // X86Dots.cpp: sums are [dot][part] vectors of int32, or of int16 while they fit.
  Sums x86Dots(Dots dots, unsigned first, unsigned last);
  Sums x86Sums(Dots dots, unsigned first, unsigned last);
  Sums ordered(llvm::ArrayRef<V> sums); ///< the same, once all of them are computed
  V multiplyAdd(V acc, V codes, V x); ///< one vpdpbusd, real or emulated
  V activations(tile::DotOp dot, V i); ///< four columns of code vector i, in all dwords
  /// Adds the products of code vector i of every part: to int16 pairs on AVX2, else to int32.
  Sums step(Dots dots, V i, llvm::ArrayRef<V> codes, llvm::ArrayRef<V> sums);
  Sums widen(llvm::ArrayRef<V> pairs, llvm::ArrayRef<V> sums); ///< int16 pairs added to int32
  Sums zeros(size_t n, mlir::Type element, int64_t lanes);

  // NeonDots.cpp
  llvm::SmallVector<V> neonDots(llvm::ArrayRef<tile::DotOp> dots, unsigned first, unsigned last); ///< as integerDots
  V neonDot(tile::DotOp dot, unsigned part, unsigned first, unsigned last);
  std::pair<V, V> matrixDots(tile::DotOp one, tile::DotOp two, unsigned part, unsigned first, unsigned last);
  V sixteenColumns(tile::DotOp dot, unsigned first); ///< of a dot's activations, from column `first` of the block on
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, V> columns;
};

} // namespace g4::cpu
