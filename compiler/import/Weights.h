/// Makes `gguf.weight` symbols for the tensors that a model uses, after checking their shapes and types.
#pragma once

#include "compiler/import/Source.h"
#include "dialects/gguf/GgufDialect.h"

#include "mlir/IR/Builders.h"

namespace g4::importer {

/// A weight and the location of its tensor. The symbol is null after an error; only the first error is
/// reported, so a builder may go on and ask `Weights::failed` later.
struct Weight {
  mlir::FlatSymbolRefAttr symbol;
  mlir::LocationAttr location;
  gguf::WeightOp op;
  mlir::Location loc() const { return location; }
};

class Weights {
public:
  /// New weights are created with `builder`.
  Weights(const Source &source, mlir::OpBuilder builder);

  /// From now on new weights go in front of `op`.
  void insertBefore(mlir::Operation *op) { builder_.setInsertionPoint(op); }

  /// One row of `length` floats.
  Weight vector(const std::string &name, int64_t length);
  /// Whether the weight's `<stem>.scale` is for it to apply, or something else in the model applies it.
  enum class Scale { kOwn, kElsewhere };
  /// `rows` rows of `columns`.
  Weight matrix(const std::string &name, int64_t rows, int64_t columns, Scale scale = Scale::kOwn);
  /// `experts` matrices of `rows` x `columns`: one tensor of three dimensions, or one tensor per expert named
  /// `<stem>.<e>.weight` or `<stem>.<e>`. `stem` is the name without ".weight".
  Weight stack(const std::string &stem, int64_t experts, int64_t rows, int64_t columns,
               Scale scale = Scale::kOwn);
  /// Whether `stack` would find something.
  bool hasStack(const std::string &stem) const;

  /// Counts a tensor as known to the model though nothing reads it.
  void ignore(const std::string &name) { known_.insert(name); }
  /// Reports tensors that the model does not know. An error where one changes what a used weight means.
  mlir::LogicalResult checkRest() const;

  bool failed() const { return failed_; }

private:
  Weight fail();
  Weight use(llvm::ArrayRef<TensorRef> tensors, const std::string &name, int64_t rows, int64_t columns,
             bool floats);
  void addScale(gguf::WeightOp weight, int64_t experts);

  const Source &source_;
  mlir::OpBuilder builder_;
  llvm::StringMap<Weight> made_;
  llvm::StringSet<> known_;
  bool storesScales_; ///< the file has scales of its nvfp4 weights
  bool failed_ = false;
};

} // namespace g4::importer
