/// Decoding of packed weight blocks and dot products with them, for x86 vectors. See runtime/module/PackedLayout.h.
#pragma once

#include "dialects/tile/TileDialect.h"
#include "runtime/module/PackedLayout.h"

#include "mlir/IR/Builders.h"

namespace g4::cpu {

enum class Isa { kAvx2, kAvxVnni, kAvx512Vnni, kEmulated };
std::optional<Isa> parseIsa(llvm::StringRef name);

/// Emits code for one `tile.load_quant` and its users, at the builder's insertion point.
class DotEmitter {
public:
  DotEmitter(mlir::OpBuilder &b, mlir::Location loc, Isa isa, tile::LoadQuantOp block);

  /// The new sums of `dots`, which all read this block, in order.
  llvm::SmallVector<mlir::Value> dots(llvm::ArrayRef<tile::DotOp> dots);
  llvm::SmallVector<mlir::Value> dotsF32(llvm::ArrayRef<tile::DotF32Op> dots);
  void dequant(mlir::Value scratch);

private:
  using V = mlir::Value;
  /// Weights of column c of the block, sixteen rows.
  V column(unsigned c);
  /// Scale of the column's sub-block, and what is added to scale * code; null when nothing is.
  V scaleOf(unsigned subBlock);
  V addend();
  /// Codes as unsigned bytes (signed for 8 bits): columns 4 i .. 4 i + 3, rows of `part`.
  V codes(unsigned i, unsigned part);
  V plane(unsigned j, unsigned part);          ///< a stored vector of the low (or only) plane
  V highBits(unsigned i, unsigned part);       ///< bits 4.. of the codes, in place; null with 4 bits
  V multiplyAdd(V acc, V codes, V x);          ///< one vpdpbusd, real or emulated
  llvm::SmallVector<V> integerDots(llvm::ArrayRef<tile::DotOp> dots, unsigned first, unsigned last);

  V index(int64_t v);
  V bytes(V offset, int64_t n);
  V halves(int64_t offset);                    ///< sixteen f16 of the super-block's header, as f32
  V small(V offset, bool isSigned);            ///< sixteen bytes, as f32
  V constant(mlir::VectorType type, int64_t v);
  mlir::VectorType vec(int64_t n, mlir::Type t) { return mlir::VectorType::get({n}, t); }
  V intrinsic(llvm::StringRef name, mlir::Type result, llvm::ArrayRef<V> operands);
  V lane(V scalar);

  mlir::OpBuilder &b;
  mlir::Location loc;
  Isa isa;
  V memory;
  const module::PackedLayout &layout;
  V superBase, blockInSuper, codeBase;
  unsigned width, parts;  ///< bytes of a vector; vectors per sixteen rows
  mlir::Type i8, i16, i32, f32;
  llvm::SmallVector<V> scales;
  V addendCache;
  llvm::DenseMap<std::pair<unsigned, unsigned>, V> planes, codeCache;
};

} // namespace g4::cpu
