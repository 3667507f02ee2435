#include "compiler/import/Weights.h"

#include "runtime/base/Text.h"

using namespace mlir;

namespace g4::importer {
namespace {

// Keeps a weight's bytes far from overflow.
constexpr int64_t kMaxDimension = int64_t(1) << 30;

std::optional<gguf::ElementType> elementType(const Source &source, TensorRef tensor) {
  uint32_t number = tensor.tensor->ggmlType;
  if (auto type = gguf::symbolizeElementType(number))
    return type;
  const gguf::TypeInfo *info = gguf::typeInfo(number);
  std::string supported;
  for (uint32_t other = 0; other <= gguf::getMaxEnumValForElementType(); ++other)
    if (auto type = gguf::symbolizeElementType(other))
      supported += (supported.empty() ? "" : ", ") + gguf::stringifyElementType(*type).str();
  source.error(tensor) << quotedName(tensor.tensor->name) << " has type " << number << " ("
                       << (info ? info->name : "unknown")
                       << "), which holds no weights that g4 knows; supported: " << supported;
  return std::nullopt;
}

/// Tensors of the encoders that a file may hold beside the text model.
bool isMedia(StringRef name) {
  for (StringRef prefix : {"v.", "a.", "mm.", "vision.", "audio."})
    if (name.starts_with(prefix))
      return true;
  return false;
}

/// `<stem>.scale` of the weight `<stem>.weight`.
std::string scaleName(StringRef weight) {
  weight.consume_back(".weight");
  return (weight + ".scale").str();
}

/// Weights whose products llama.cpp multiplies by a `.scale` beside them, whatever their type (its load of "optional
/// scale tensors" in llama-model.cpp). Files have them where nvfp4 weights were quantised again to another type.
bool takesScale(StringRef weight) {
  StringRef name = weight;
  int64_t layer;
  return name.consume_front("blk.") && !name.consumeInteger(10, layer) && name.consume_front(".") && name.consume_back(".weight") &&
         llvm::is_contained({"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down",
                             "ffn_gate_exps", "ffn_up_exps"},
                            name);
}

/// Whether any nvfp4 weight has a scale beside it. Routers and down projections of experts always do,
/// whatever their type: see `Scale::kElsewhere`.
bool anyScales(const Source &source) {
  return llvm::any_of(source.tensors(), [&](TensorRef ref) {
    StringRef name = ref.tensor->name;
    return ref.tensor->ggmlType == static_cast<uint32_t>(gguf::Type::kNVFP4) &&
           !name.contains(".ffn_down_exps.") && !name.contains(".ffn_gate_inp.") &&
           source.find(scaleName(name));
  });
}

} // namespace

Weights::Weights(const Source &source, OpBuilder builder)
    : source_(source), builder_(builder), storesScales_(anyScales(source)) {}

Weight Weights::fail() {
  failed_ = true;
  return {FlatSymbolRefAttr(), source_.loc(), {}};
}

Weight Weights::use(ArrayRef<TensorRef> tensors, const std::string &name, int64_t rows, int64_t columns,
                    bool floats) {
  if (auto made = made_.find(name); made != made_.end())
    return made->second;
  TensorRef first = tensors.front();
  auto element = elementType(source_, first);
  if (!element)
    return fail();
  if (rows > kMaxDimension || columns > kMaxDimension) {
    source_.error(first) << quotedName(name) << " is " << rows << " x " << columns << ", which is too large";
    return fail();
  }
  int64_t count = static_cast<int64_t>(tensors.size());
  SmallVector<Attribute> extents;
  for (TensorRef tensor : tensors) {
    known_.insert(tensor.tensor->name);
    if (tensor.columns() != columns || tensor.rows() != rows / count) {
      source_.error(tensor) << quotedName(tensor.tensor->name) << " is " << tensor.rows() << " x "
                            << tensor.columns() << ", expected " << rows / count << " x " << columns;
      return fail();
    }
    if (tensor.tensor->ggmlType != first.tensor->ggmlType) {
      source_.error(tensor) << quotedName(tensor.tensor->name) << " has another type than the first expert";
      return fail();
    }
    extents.push_back(gguf::ExtentAttr::getChecked(
        [&] { return source_.error(tensor); }, builder_.getContext(), static_cast<int64_t>(tensor.file),
        static_cast<int64_t>(tensor.tensor->offset), static_cast<int64_t>(tensor.tensor->size)));
    if (!extents.back())
      return fail();
  }
  if (floats && !gguf::isFloat(*element)) {
    source_.error(first) << quotedName(name) << " is " << gguf::stringifyElementType(*element)
                         << ", expected f32, f16 or bf16";
    return fail();
  }
  auto type = gguf::MatrixType::getChecked([&] { return source_.error(first); }, builder_.getContext(), rows,
                                           columns, *element);
  if (!type)
    return fail();
  Location loc = source_.loc(first);
  auto op = gguf::WeightOp::create(builder_, loc, name, type, extents);
  Weight weight{FlatSymbolRefAttr::get(builder_.getContext(), name), loc, op};
  made_.try_emplace(name, weight);
  return weight;
}

/// nvfp4 weights of converted checkpoints have a scale, one value or one for each expert, beside the scales
/// in their blocks. Quantisers write none; then it is 1. Weights of other types may have one too.
void Weights::addScale(gguf::WeightOp weight, int64_t experts) {
  if (failed_ || weight.getScale())
    return;
  bool isNvfp4 = weight.getMatrixType().getElement() == gguf::ElementType::kNVFP4;
  if (!isNvfp4 && !takesScale(weight.getSymName()))
    return;
  std::string name = scaleName(weight.getSymName());
  TensorRef tensor = source_.find(name);
  if (!tensor) {
    if (isNvfp4 && storesScales_) {
      mlir::emitError(weight.getLoc()) << "missing tensor " << quotedName(name) << ", the scale of "
                                       << quotedName(weight.getSymName()) << ": other nvfp4 weights have one";
      failed_ = true;
    }
    return;
  }
  if (tensor.tensor->ggmlType != static_cast<uint32_t>(gguf::Type::kF32)) {
    source_.error(tensor) << quotedName(name) << " is no f32";
    failed_ = true;
    return;
  }
  weight.setScaleAttr(vector(name, tensor.columns() == 1 ? 1 : experts).symbol);
}

Weight Weights::vector(const std::string &name, int64_t length) {
  if (failed_)
    return fail(); // one error is enough
  TensorRef tensor = source_.require(name);
  if (!tensor)
    return fail();
  return use(tensor, tensor.tensor->name, 1, length, /*floats=*/true);
}

Weight Weights::matrix(const std::string &name, int64_t rows, int64_t columns, Scale scale) {
  if (failed_)
    return fail(); // one error is enough
  TensorRef tensor = source_.require(name);
  if (!tensor)
    return fail();
  Weight weight = use(tensor, name, rows, columns, /*floats=*/false);
  if (scale == Scale::kOwn)
    addScale(weight.op, 1);
  return weight;
}

bool Weights::hasStack(const std::string &stem) const {
  return bool(source_.find({stem + ".weight", stem + ".0.weight", stem + ".0"}));
}

Weight Weights::stack(const std::string &stem, int64_t experts, int64_t rows, int64_t columns, Scale scale) {
  if (failed_)
    return fail(); // one error is enough
  SmallVector<TensorRef> tensors;
  if (TensorRef whole = source_.find(stem + ".weight")) {
    if (whole.tensor->dims.size() != 3 || static_cast<int64_t>(whole.tensor->dims[2]) != experts) {
      source_.error(whole) << quotedName(whole.tensor->name) << " is no stack of " << experts << " matrices";
      return fail();
    }
    tensors.push_back(whole);
  } else {
    for (int64_t e = 0; e < experts; ++e) {
      std::string name = stem + "." + std::to_string(e);
      TensorRef one = source_.find({name + ".weight", name});
      if (!one) {
        source_.error() << "missing tensor " << quotedName(stem + ".weight")
                        << (e ? ", expert " + std::to_string(e) : "");
        return fail();
      }
      tensors.push_back(one);
    }
  }
  Weight weight = use(tensors, stem + ".weight", experts * rows, columns, /*floats=*/false);
  if (scale == Scale::kOwn)
    addScale(weight.op, experts);
  return weight;
}

LogicalResult Weights::checkRest() const {
  int64_t media = 0, unknown = 0;
  TensorRef firstUnknown;
  for (TensorRef tensor : source_.tensors()) {
    StringRef name = tensor.tensor->name;
    if (known_.contains(name))
      continue;
    if (isMedia(name)) {
      ++media;
      continue;
    }
    StringRef stem = name;
    if (stem.consume_back(".input_scale") && made_.contains((stem + ".weight").str()))
      continue; // the calibrated range of 4-bit activations, which g4 does not use
    // A scale or bias beside a weight that is used changes what the weight means.
    for (StringRef suffix : {".scale", ".bias"}) {
      stem = name;
      if (stem.consume_back(suffix) && made_.contains((stem + ".weight").str()))
        return source_.error(tensor) << quotedName(name)
                                     << " goes with a weight of the model, but such tensors are not "
                                        "supported yet";
    }
    if (unknown++ == 0)
      firstUnknown = tensor;
  }
  if (unknown)
    emitRemark(source_.loc()) << "ignored " << unknown << (unknown == 1 ? " tensor" : " tensors")
                              << " that a Gemma 4 text model does not have, the first "
                              << quotedName(firstUnknown.tensor->name);
  if (media)
    emitRemark(source_.loc()) << "ignored " << media << " tensors of vision and audio encoders";
  return success();
}

} // namespace g4::importer
