/// Decoding of packed weight blocks and dot products with them, one row in each lane. See
/// runtime/module/PackedLayout.h. The sequence of f32 operations is the CPU's
/// (compiler/targets/cpu/DotEmitter.h).
#pragma once

#include "dialects/tile/TileDialect.h"
#include "runtime/module/PackedLayout.h"

#include "mlir/IR/Builders.h"

namespace g4::vulkan {

/// Emits code for one `tile.load_quant`, whose weights are a memref<?xi32>, and its users, at the builder's
/// insertion point. Loops over columns, not unrolled: drivers compile shaders while the user waits.
class LaneBlock {
public:
  /// Floats and bit planes of four to eight bits, so far.
  static bool canDecode(const module::PackedLayout &layout);
  LaneBlock(mlir::OpBuilder &b, tile::LoadQuantOp block, mlir::Value lane);

  /// The new sums of `dots`, which all read this block, in order.
  llvm::SmallVector<mlir::Value> dots(llvm::ArrayRef<tile::DotOp> dots);
  llvm::SmallVector<mlir::Value> dotsF32(llvm::ArrayRef<tile::DotF32Op> dots);
  void dequant(mlir::Value to);

private:
  using V = mlir::Value;
  /// for column = 0 .. n - 1, with values carried from one to the next.
  llvm::SmallVector<V> overColumns(int64_t n, llvm::ArrayRef<V> init,
                                   llvm::function_ref<llvm::SmallVector<V>(V column, mlir::ValueRange)> body);
  V code(V column);                      ///< i32, signed for 8 bits; `zero` is not subtracted
  V weight(V column);                    ///< f32
  V scaleOf(unsigned half);              ///< of columns 16 half .. 16 half + 15, f32
  V addend();                            ///< what is added to scale * code; null when nothing is
  V header(int64_t offset);              ///< the lane's f16 at a byte offset of the super-block, as f32
  V halfAt(V firstWord);                 ///< the lane's f16 or bf16 of sixteen, as f32
  V smallAt(V firstWord, bool isSigned); ///< the lane's byte of sixteen, as f32

  V index(int64_t v), i32(int64_t v), toI32(V index), toF32(V i32);
  V add(V x, V y), sub(V x, V y), mul(V x, V y), div(V x, int64_t y), rem(V x, int64_t y);
  V mask(V x, int64_t bits), shiftLeft(V x, V n), shiftRight(V x, V n), shiftRightSigned(V x, V n);
  V load(V word);

  mlir::OpBuilder &b;
  mlir::Location loc;
  V words, lane, superBase, blockInSuper, codeBase; // bases in dwords
  const module::PackedLayout &layout;
  V scales[2], addendCache;
};

} // namespace g4::vulkan
