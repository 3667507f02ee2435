/// Decoding of packed weight blocks into vectors. See runtime/module/PackedLayout.h.
#pragma once

#include "dialects/tile/TileDialect.h"
#include "runtime/module/PackedLayout.h"

#include "mlir/IR/Builders.h"

namespace g4::cpu {

enum class Isa { kAvx2, kAvxVnni, kAvx512Vnni, kEmulated, kDotprod, kI8mm };
std::optional<Isa> parseIsa(llvm::StringRef name);
inline bool isNeon(Isa isa) { return isa == Isa::kDotprod || isa == Isa::kI8mm; }

/// Emits the code that decodes one block, at the builder's insertion point; what was emitted once is used again.
class BlockDecoder {
public:
  using V = mlir::Value;
  /// `block`: of tile.load_quant or tile.load_decoded.
  BlockDecoder(mlir::OpBuilder &b, mlir::Location loc, Isa isa, mlir::TypedValue<tile::BlockType> block);

  /// Asks for what a loop over the columns will read some blocks later; nothing for a decoded block.
  void prefetchAhead();
  /// Weights of column c of the block, sixteen rows, f32.
  V column(unsigned c);
  /// The block has one or two sub-blocks, columns 16 n .. 16 n + 15 if two. Scale of sub-block n, and what is added to
  /// scale * (code - zero); null when nothing is. f32, sixteen rows.
  unsigned subBlocks() const { return layout.scalesPerBlock(); }
  V scaleOf(unsigned subBlock);
  V addend(unsigned subBlock);
  /// Codes as bytes, columns 4 i .. 4 i + 3, rows of `part`.
  V codes(unsigned i, unsigned part);
  /// Code vectors [first, last) in the order in which they share what is stored.
  llvm::SmallVector<unsigned> inOrder(unsigned first, unsigned last) const;

  mlir::OpBuilder &b;
  mlir::Location loc;
  const Isa isa;
  const module::PackedLayout &layout;
  unsigned width, parts; ///< bytes of a vector; vectors per sixteen rows
  mlir::Type i8, i16, i32, f32;

  V index(int64_t v);
  V add(V x, V y), mul(V x, int64_t y);         ///< of indices
  V constant(mlir::VectorType type, int64_t v);
  mlir::VectorType vec(int64_t n, mlir::Type t) { return mlir::VectorType::get({n}, t); }
  V intrinsic(llvm::StringRef name, mlir::Type result, llvm::ArrayRef<V> operands);
  V lane(V scalar);                             ///< sixteen times
  V sixteenRows(llvm::ArrayRef<V> each);        ///< one vector of dwords from that of each part

private:
  V codesAt(V i, unsigned part);                ///< of a decoded block
  V planeCodes(unsigned i, unsigned part);
  V digits(unsigned i, unsigned part);
  V gridCodes(unsigned i, unsigned part);
  V gridDwords(unsigned i, unsigned part);      ///< without signs and shifts
  V lookUp(V nibbles);                          ///< values of the type's table, plus `zero`

  V bytes(V offset, int64_t n);
  V stored(unsigned j, unsigned part);          ///< vector j of the block's codes as stored
  V shifted(V vector, int right);               ///< bits of bytes moved; those that cross bytes are to be masked off
  V masked(V vector, int64_t bits);             ///< of each byte
  V halves(int64_t offset);                     ///< sixteen f16 of the super-block's header, as f32
  V scaleBytes(uint32_t firstPlane, unsigned n, bool isSigned); ///< of sub-block n, sixteen rows, i32
  V toFloat(V ints);
  V rowsOf(V sixteen, unsigned part);           ///< i32
  V field(const module::SideField &f, unsigned n); ///< sixteen rows, i32
  V entry(unsigned n);                          ///< entry n's number, sixteen rows, i32
  V signWords();                                ///< bit c: column c is negative; sixteen rows, i32

  V strip(int64_t n);                           ///< f32 strip n of a decoded block
  const gguf::ElementType element;
  V panel, slot;                                // of a decoded block
  V memory, superBase, blockInSuper, codeBase, rowScales; // the last three where the layout has them
  V d, signs, scales[2], addends[2];
  llvm::DenseMap<std::pair<unsigned, unsigned>, V> planes, codeCache, gathered;
  llvm::DenseMap<unsigned, V> entries, indexPlanes, sidePlanes;
};

} // namespace g4::cpu
