/// Writes kernel bodies: strips, scalars and loops over them. Used by lower-exec-to-tile only.
#pragma once

#include "dialects/exec/Signature.h"
#include "dialects/tile/TileDialect.h"
#include "passes/lower/StripBuilder.h"

#include <functional>

namespace g4 {

/// One row-major activation matrix in the forms it has; absent forms are null.
struct Activation {
  mlir::Value f32;                ///< memref<?xKxf32>
  mlir::Value q, scale, sums;     ///< memref<?xKxi8>, memref<?x(K/32)xf32>, memref<?x(K/16)xi32>
  explicit operator bool() const { return f32 || q; }
};

class TileBuilder : public StripBuilder {
public:
  /// Starts the body of `kernel`: block arguments by the signature, then begin and end.
  explicit TileBuilder(exec::KernelOp kernel);

  V begin, end;

  /// The argument of this name; asserts by a null Value when the signature has none.
  V arg(llvm::StringRef name) const { return arguments.lookup(name); }
  Activation activation(llvm::StringRef name) const;

  // Memory.
  V scratch(llvm::ArrayRef<int64_t> shape, mlir::Type element); ///< local to the kernel call
  V scratch(llvm::ArrayRef<int64_t> shape) { return scratch(shape, b.getF32Type()); }
  Activation scratchActivation(int64_t rows, int64_t columns, exec::InputForms forms);

  // Control.
  /// Splits work items [begin, end), `perBlock` to a block of `rowsPerItem` rows, into
  /// body(first row, rows in the block, first item within the block, one past the last).
  void forItemBlocks(V count, int64_t rowsPerItem, int64_t perBlock, llvm::function_ref<void(V, V, V, V)> body);

  // Mathematics; scalars and strips alike. Polynomials, the same on every target.
  V exp(V x);
  V gelu(V x);    ///< tanh form
  V tanh(V x);
  V reduceSum(V strip);
  V reduceMax(V strip);
  /// 1 / sqrt(mean of squares + eps) of columns [0, n) that `strip(column)` yields.
  V rmsFactor(int64_t n, float eps, llvm::function_ref<V(V)> strip);
  /// Writes columns [0, n) of a row in all forms that `to` has, from column `at` on; n is a multiple of 32.
  void writeActivation(const Activation &to, V row, V at, int64_t n, llvm::function_ref<V(V)> strip);
  /// Row i of a contraction's n rows: first + i, or map[first + i].
  struct Rows {
    V first, n, map = {};
  };
  /// Products of `rows` of x with the 16 outputs of weight group `group`, to rows [0, n) of `sums`; of `groups` that lie
  /// `apart`, the next one's to the next part of `sums`.
  void contract(exec::MatrixAttr matrix, V weights, V group, const Activation &x, const Rows &rows, V sums, bool int8, int64_t groups = 1,
                int64_t apart = 1);
  /// As `contract`, for the kernel's arguments w<part> and s<part>: sums times the scale of group `scaleGroup` of rows.
  void contractPart(exec::MatrixAttr matrix, unsigned part, V scaleGroup, V group, const Activation &x, const Rows &rows, V sums, bool int8,
                    int64_t groups = 1, int64_t apart = 1);
  /// One f32 of a table row of `columns` (exec::Storage::table), which starts at byte `rowStart`.
  V loadTable(gguf::ElementType element, V table, V rowStart, V column, int64_t columns);

private:
  llvm::StringMap<V> arguments;
  mlir::Block *entry;
};

// The bodies, one per kernel specification.
void buildLinear(TileBuilder &t, exec::LinearAttr spec);
void buildAttention(TileBuilder &t, exec::AttentionAttr spec, bool maySplit);
void buildRowKernel(TileBuilder &t, exec::RowKernelAttr spec);
void buildSortExperts(TileBuilder &t, exec::SortExpertsAttr spec);
void buildExperts(TileBuilder &t, exec::ExpertsAttr spec);

/// A row chain over rows [first, first + n), n <= kRowChainRows, of its row set. `norms[i]` receives norm i, row m
/// of the chain at row m + normRow. The stream is stored where `storeHere` (null: always) is true.
using exec::kRowChainRows;
class RowChain {
public:
  RowChain(TileBuilder &t, exec::RowAttr spec);
  void emit(mlir::Value first, mlir::Value n, llvm::ArrayRef<Activation> norms, mlir::Value normRow,
            mlir::Value storeHere);

private:
  void source(mlir::Value row, mlir::Value m);
  void addNormed(mlir::Value row, mlir::Value m);
  void addExperts(mlir::Value row, mlir::Value m);
  void perLayerInputs(mlir::Value first, mlir::Value n);
  void route(mlir::Value row, mlir::Value m);
  mlir::Value rmsOf(mlir::Value scratchRows, mlir::Value m, int64_t n);

  TileBuilder &t;
  exec::RowAttr spec;
  bool int8;
  float eps;
  mlir::Value stream, other, block, sums, logits, chosen; // scratch
  Activation pleIn, pleOut;
};

} // namespace g4
