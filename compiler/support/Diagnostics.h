/// Diagnostics for a person: one line each, with the GGUF tensor that they are about.
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>

namespace g4::support {

/// The tensor that `loc` names; the first of a fused location. Nothing when it names none.
std::optional<llvm::StringRef> findTensorName(mlir::Location loc);

/// Prints each diagnostic of a context as one line, e.g.
/// `model.gguf: error: result has 3 columns, expected 4 (in GGUF tensor 'blk.0.attn_q.weight')`, its notes
/// below. The tensor is left out where the message names it already. MLIR's own printer drops it. Remarks
/// are called notes, as people do. Owner: borrows `context` and `stream`, which must outlive it.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext *context, llvm::raw_ostream &stream, std::string program = {});
  ~DiagnosticPrinter();
  DiagnosticPrinter(const DiagnosticPrinter &) = delete;
  DiagnosticPrinter &operator=(const DiagnosticPrinter &) = delete;

  unsigned errors() const { return errors_; }

private:
  void print(mlir::Diagnostic &diagnostic);

  mlir::MLIRContext *context_;
  llvm::raw_ostream &stream_;
  std::string program_;
  unsigned errors_ = 0;
  mlir::DiagnosticEngine::HandlerID handler_;
};

} // namespace g4::support
