/// The rows of a module's weights in the type that each weight has, whatever type the files store.
#pragma once

#include "compiler/quants/Imatrix.h"
#include "dialects/gguf/GgufDialect.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace g4::weights {

/// Owner:   keeps the files of the module's `gguf.files` mapped. Borrows the module, whose weights must stay.
/// Threads: free.
class WeightRows {
public:
  /// Maps the files, and reads the importance matrix that `gguf.imatrix` names.
  static Result<std::unique_ptr<WeightRows>> open(mlir::ModuleOp module);

  /// A row's bytes, in the weight's type, and what its values are multiplied by (nvfp4 that stays nvfp4; otherwise 1).
  struct Row {
    const std::byte *bytes;
    float scale;
  };

  /// The rows `rows` of `weight`, as pointers into the files or, where they are converted, into `buffer`, which is made
  /// large enough. The weight's `factor` is not applied.
  /// Errors: kInvalidArgument for bytes outside their file, values that cannot be converted (NaN), an importance matrix of
  /// other sizes; kDataLoss for
  /// rows that the disk does not give; kInternal for rows that the weight does not have.
  Status read(gguf::WeightOp weight, std::span<const uint64_t> rows, std::vector<Row> &out,
              std::vector<std::byte> &buffer) const;
  /// Drops the pages of these rows from this process, for who reads each row once.
  void release(gguf::WeightOp weight, std::span<const uint64_t> rows) const;

  /// Row `row` as f32, times the weight's scale and factor. Errors: as `read`.
  Status readValues(gguf::WeightOp weight, uint64_t row, std::span<float> out) const;

private:
  /// Where one weight's rows are.
  struct Source {
    std::string name;
    std::vector<std::span<const std::byte>> pieces; ///< one for each extent
    std::vector<float> scales;                      ///< of equal groups of rows; one 1 when there are none
    uint64_t rows, columns, storedBytes, bytes;     ///< bytes of a row: in the files, and in the weight's type
    gguf::Type stored, type;

    std::span<const std::byte> row(uint64_t index) const; ///< empty past the end
    /// The rows' bytes, neighbours together.
    std::vector<std::span<const std::byte>> ranges(std::span<const uint64_t> rows) const;
    float scale(uint64_t index) const { return scales[index / (rows / scales.size())]; }
  };
  explicit WeightRows(mlir::ModuleOp module) : symbols_(module) {}
  Result<Source> sourceOf(gguf::WeightOp weight) const;
  Result<std::vector<std::span<const std::byte>>> piecesOf(gguf::WeightOp weight) const;
  Status convert(const Source &source, uint64_t row, std::span<std::byte> out) const;

  mlir::SymbolTable symbols_;
  std::vector<MappedFile> files_;
  std::optional<quants::Imatrix> imatrix_;
};

} // namespace g4::weights
