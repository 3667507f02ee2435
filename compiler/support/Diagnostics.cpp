#include "compiler/support/Diagnostics.h"

#include "runtime/base/Text.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

using namespace mlir;

namespace g4::support {
namespace {

const char *severityName(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
  case DiagnosticSeverity::Remark:
    return "note";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Error:
    return "error";
  }
  return "error";
}

} // namespace

std::optional<StringRef> findTensorName(Location loc) {
  if (auto name = loc->findInstanceOf<NameLoc>())
    return name.getName().getValue();
  return std::nullopt;
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context, raw_ostream &stream, std::string program)
    : context_(context), stream_(stream), program_(std::move(program)) {
  handler_ = context->getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    print(diagnostic);
    return success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() { context_->getDiagEngine().eraseHandler(handler_); }

void DiagnosticPrinter::print(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
    ++errors_;
  std::string message = diagnostic.str();
  if (auto file = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>()) {
    stream_ << file.getFilename().getValue() << ":";
    if (file.getFilename().getValue().ends_with(
            ".mlir")) // in a GGUF file "lines" are tensors, which have names
      stream_ << file.getLine() << ":" << file.getColumn() << ":";
    stream_ << " ";
  } else if (!program_.empty()) {
    stream_ << program_ << ": ";
  }
  stream_ << severityName(diagnostic.getSeverity()) << ": " << message;
  std::optional<StringRef> tensor = findTensorName(diagnostic.getLocation());
  if (tensor && !StringRef(message).contains(*tensor))
    stream_ << " (in GGUF tensor " << quotedName(*tensor) << ")";
  stream_ << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
}

} // namespace g4::support
