/// The opened files of one import: tensors by name, metadata by key, locations.
#pragma once

#include "compiler/import/gguf/Gguf.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace g4::importer {

/// A tensor of one of the files; null when there is none.
struct TensorRef {
  const gguf::Tensor *tensor = nullptr;
  unsigned file = 0;  ///< index into the paths
  unsigned index = 0; ///< of the tensor in its file
  explicit operator bool() const { return tensor != nullptr; }
  int64_t rows() const { return static_cast<int64_t>(tensor->rows()); }
  int64_t columns() const { return static_cast<int64_t>(tensor->columns()); }
};

class Source {
public:
  /// Opens the files that `paths` name, all parts of a split model. Null after an error diagnostic.
  static std::unique_ptr<Source> open(mlir::MLIRContext &context, llvm::ArrayRef<std::string> paths,
                                      bool allowMissingData);

  mlir::MLIRContext &context() const { return context_; }
  /// The files, in the order that `TensorRef::file` counts.
  llvm::ArrayRef<std::string> paths() const { return paths_; }
  /// The file that holds the model's metadata: the first.
  const gguf::File &metadata() const { return *files_.front(); }

  /// The first of `names` that is there, under that name or another spelling of it. Does not count as a use.
  TensorRef find(llvm::ArrayRef<std::string> names) const;
  TensorRef find(const std::string &name) const { return find(llvm::ArrayRef(name)); }
  /// As `find`; an error when it is not there.
  TensorRef require(const std::string &name) const;

  /// Every tensor, file by file.
  llvm::ArrayRef<TensorRef> tensors() const { return order_; }

  mlir::Location loc(TensorRef tensor) const;
  /// The location of the metadata.
  mlir::Location loc() const;
  mlir::InFlightDiagnostic error(TensorRef tensor) const { return mlir::emitError(loc(tensor)); }
  mlir::InFlightDiagnostic error() const { return mlir::emitError(loc()); }
  mlir::InFlightDiagnostic warning() const { return mlir::emitWarning(loc()); }

private:
  explicit Source(mlir::MLIRContext &context) : context_(context) {}

  mlir::MLIRContext &context_;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<gguf::File>> files_;
  llvm::StringMap<TensorRef> byName_;
  std::vector<TensorRef> order_;
};

} // namespace g4::importer
