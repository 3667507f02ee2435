#include "compiler/import/Source.h"

#include "compiler/import/gguf/Parts.h"

#include "mlir/IR/BuiltinAttributes.h"

#include "runtime/base/Text.h"

using namespace mlir;

namespace g4::importer {
namespace {

constexpr const char *kArchitecture = "gemma4";

LogicalResult checkArchitecture(const Source &source) {
  const std::string *architecture = source.metadata().getString("general.architecture");
  if (architecture && *architecture == kArchitecture)
    return success();
  InFlightDiagnostic diag = source.error();
  if (!architecture)
    return diag << "not a Gemma 4 model: the file has no general.architecture";
  diag << "not a Gemma 4 model: general.architecture is " << quotedName(*architecture) << ", expected "
       << quotedName(kArchitecture);
  if (StringRef(*architecture).starts_with(kArchitecture))
    diag << " (a draft model compiles only together with its target)";
  return diag;
}

} // namespace

std::unique_ptr<Source> Source::open(MLIRContext &context, ArrayRef<std::string> paths,
                                     bool allowMissingData) {
  auto source = std::unique_ptr<Source>(new Source(context));
  auto files = gguf::openParts(paths, {.allowMissingData = allowMissingData});
  if (!files.ok()) {
    emitError(UnknownLoc::get(&context)) << files.status().message(); // which names the file
    return nullptr;
  }
  source->files_ = *std::move(files);
  for (const auto &file : source->files_)
    source->paths_.push_back(file->path());
  if (failed(checkArchitecture(*source)))
    return nullptr;
  for (auto [fileIndex, file] : llvm::enumerate(source->files_)) {
    for (auto [index, tensor] : llvm::enumerate(file->tensors())) {
      TensorRef ref{&tensor, static_cast<unsigned>(fileIndex), static_cast<unsigned>(index)};
      if (!source->byName_.try_emplace(tensor.name, ref).second) {
        source->error(ref) << "tensor " << quotedName(tensor.name) << " is there twice";
        return nullptr;
      }
      source->order_.push_back(ref);
    }
  }
  return source;
}

TensorRef Source::find(ArrayRef<std::string> names) const {
  for (const std::string &name : names)
    if (auto found = byName_.find(name); found != byName_.end())
      return found->second;
  return {};
}

TensorRef Source::require(ArrayRef<std::string> names) const {
  TensorRef found = find(names);
  if (!found)
    error() << "missing tensor " << quotedName(names.front());
  return found;
}

Location Source::loc(TensorRef tensor) const {
  return NameLoc::get(StringAttr::get(&context_, tensor.tensor->name),
                      FileLineColLoc::get(&context_, paths_[tensor.file], tensor.index, 0));
}

Location Source::loc() const { return FileLineColLoc::get(&context_, paths_.front(), 0, 0); }

} // namespace g4::importer
