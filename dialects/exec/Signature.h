/// The argument list of a kernel, from its specification: the one place that lowering to exec, the bodies and the
/// verifier agree on.
#pragma once

#include "dialects/exec/ExecDialect.h"
#include "runtime/module/KvLayout.h"

#include <string>

namespace g4::exec {

/// One argument of a kernel. Reads come before writes.
struct Argument {
  std::string name;
  mlir::Type element; ///< of the memref
  int64_t columns;    ///< of a row; 0: a flat memref<?xelement>
  bool written;
  mlir::MemRefType type() const;
};

/// What a specification must promise before anything else here is asked of it (kernel_c1). Checked when a kernel is
/// verified, not when the attribute is parsed, so that errors name the kernel's place and layer.
mlir::LogicalResult verifySpec(mlir::Attribute spec, llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The arguments of a kernel with a valid specification.
llvm::SmallVector<Argument> signatureOf(mlir::Attribute spec);

/// Rows of a row set that one call of a row chain takes together, and so one work item of a row kernel.
inline constexpr int64_t kRowChainRows = 4;
/// Up to this many rows, the segments of an attention row may be work items of their own; more rows fill the threads
/// by themselves. Bounds the memory of `parts`.
inline constexpr int64_t kSplitRows = 16;
/// Segments of a row with a whole context: as many threads as may share one sequence.
inline constexpr int64_t kMostSegments = 32;
/// The most segments that one row sees. A segment is `n` pages from page `n * i` on: of a window the fewest that make
/// up to kMostSegments of it, of a whole context of `t` positions ceil(t / (kMostSegments * kPageTokens)). So a row's segments
/// follow from its position alone.
int64_t segmentsOf(AttentionAttr spec);
/// Columns of a row of `parts`, of which each segment and query head of a row has one: the weighted values, then the
/// largest score and the sum of weights in a strip of their own.
inline int64_t partColumns(AttentionAttr spec) { return spec.getDim() + module::kLanes; }

/// How a kernel with a valid specification counts its work items: `itemsPerBlock` for every `rowsPerItem` rows.
struct Geometry {
  int64_t rowsPerItem, itemsPerBlock;
};
Geometry geometryOf(mlir::Attribute spec);

/// Pages of quantised K/V are bound twice: as the bytes of codes and, under this name, as f16 for the scales.
inline constexpr const char *kKvScales = "kv.scale";
/// The layout of a layer's pages; nothing when they cannot be of this element.
std::optional<module::KvLayout> kvLayout(gguf::ElementType element, int64_t heads, int64_t dim);
/// The element of the memref through which a kernel accesses pages: of their values or codes, or of their scales.
mlir::Type kvMemoryType(mlir::MLIRContext *context, gguf::ElementType element, bool scales);

/// True when the packed layout of `element` holds plain floats, which are multiplied with f32 activations always.
bool isFloatElement(gguf::ElementType element);
/// Bytes of a table row (Storage::table): as in the GGUF file, and the row's f32 scale behind it where the type has one.
int64_t tableRowBytes(gguf::ElementType element, int64_t columns);
/// The forms in which a contraction with these parts reads its activations.
struct InputForms {
  bool f32 = false, q8 = false;
};
InputForms inputForms(llvm::ArrayRef<MatrixAttr> parts, bool int8);

} // namespace g4::exec
