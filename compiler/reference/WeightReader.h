/// Reads a module's weights, a row at a time, as f32.
#pragma once

#include "dialects/gguf/GgufDialect.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <span>
#include <vector>

namespace g4::reference {

/// Owner:   keeps the files of the module's `gguf.files` mapped; holds no reference to the module.
/// Threads: free, once opened.
class WeightReader {
public:
  static Result<WeightReader> open(mlir::ModuleOp module);

  /// Writes row `row` of `weight`, times its factor, to `out`, which has its columns.
  /// Errors: kInvalidArgument for bytes outside their file and for formats that are not known.
  Status readRow(gguf::WeightOp weight, int64_t row, std::span<float> out) const;

private:
  std::vector<MappedFile> files_;
};

} // namespace g4::reference
