#include "compiler/import/Source.h"

#include "compiler/import/gguf/Parts.h"

#include "mlir/IR/BuiltinAttributes.h"

#include "runtime/base/Text.h"

using namespace mlir;

namespace g4::importer {
namespace {

constexpr const char *kArchitecture = "gemma4";

/// What a file of another architecture holds, for a person.
std::string describe(StringRef architecture) {
  std::string key = "general.architecture is " + quotedName(architecture);
  if (architecture == "gemma4-assistant" || architecture == "gemma4_assistant")
    return "a draft model (" + key + "), which compiles only together with its target";
  if (architecture == "clip")
    return "the image and audio encoders of a model (" + key + "), not the model itself";
  if (llvm::is_contained({"gemma", "gemma2", "gemma3", "gemma3n", "gemma-embedding"}, architecture))
    return "an older Gemma model (" + key + "); g4 compiles Gemma 4";
  if (architecture.starts_with("gemma"))
    return "another kind of Gemma model (" + key + "); g4 compiles Gemma 4's text models";
  return "another kind of model (" + key + "); g4 compiles Gemma 4";
}

LogicalResult checkArchitecture(const Source &source) {
  const std::string *type = source.metadata().getString("general.type");
  if (type && llvm::is_contained({"adapter", "imatrix"}, StringRef(*type)))
    return source.error() << "not a model: general.type is " << quotedName(*type);
  const std::string *architecture = source.metadata().getString("general.architecture");
  if (!architecture)
    return source.error() << "not a Gemma 4 model: the file has no general.architecture";
  if (*architecture == kArchitecture)
    return success();
  return source.error() << "not a Gemma 4 model but " << describe(*architecture);
}

struct Spelling {
  const char *known, *other;
};

// What other converters call a layer's tensors.
constexpr Spelling kSpellings[] = {
    {"post_attention_norm.weight", "attn_post_norm.weight"},
    {"ffn_norm.weight", "ffn_pre_norm.weight"},
    {"post_ffw_norm.weight", "ffn_post_norm.weight"},
    {"pre_ffw_norm_2.weight", "ffn_pre_norm_2.weight"},
    {"post_ffw_norm_1.weight", "ffn_post_norm_1.weight"},
    {"post_ffw_norm_2.weight", "ffn_post_norm_2.weight"},
    {"layer_output_scale.weight", "layer_scalar"},
    {"ffn_down_exps.scale", "ffn_gate_inp.per_expert_scale"},
};

/// The name that the importer asks for, for a tensor under another spelling; empty for all others.
std::string knownName(StringRef name) {
  StringRef rest = name;
  int64_t layer;
  if (!rest.consume_front("blk.") || rest.consumeInteger(10, layer) || !rest.consume_front("."))
    return "";
  for (Spelling spelling : kSpellings)
    if (rest == spelling.other)
      return (name.drop_back(rest.size()) + spelling.known).str();
  return "";
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
      if (auto [first, isNew] = source->byName_.try_emplace(tensor.name, ref); !isNew) {
        const unsigned other = first->second.file;
        auto error = source->error(ref) << "tensor " << quotedName(tensor.name);
        if (other == ref.file)
          error << " is there twice";
        else
          error << " is in " << quotedPath(source->paths_[other]) << " too: these are two models, not parts of one";
        return nullptr;
      }
      source->order_.push_back(ref);
    }
  }
  for (TensorRef ref : source->order_) // after all names: a tensor under the known one comes first
    if (std::string known = knownName(ref.tensor->name); !known.empty())
      source->byName_.try_emplace(known, ref);
  return source;
}

TensorRef Source::find(ArrayRef<std::string> names) const {
  for (const std::string &name : names)
    if (auto found = byName_.find(name); found != byName_.end())
      return found->second;
  return {};
}

TensorRef Source::require(const std::string &name) const {
  TensorRef found = find(name);
  if (!found)
    error() << "missing tensor " << quotedName(name);
  return found;
}

Location Source::loc(TensorRef tensor) const {
  return NameLoc::get(StringAttr::get(&context_, tensor.tensor->name),
                      FileLineColLoc::get(&context_, paths_[tensor.file], tensor.index, 0));
}

Location Source::loc() const { return FileLineColLoc::get(&context_, paths_.front(), 0, 0); }

} // namespace g4::importer
