#include "tools/g4-opt/Evaluate.h"

#include "compiler/reference/Npy.h"
#include "runtime/base/Text.h"

#include <charconv>
#include <filesystem>

namespace g4 {
namespace {

template <class T> Result<std::vector<T>> parseNumbers(std::string_view name, std::string_view text) {
  std::vector<T> numbers;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at < end) {
    T number;
    auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (next != end && *next != ','))
      return invalidArgument(std::string(name) + ": expected numbers with commas between, found " +
                             quotedName(text));
    numbers.push_back(number);
    at = next + (next != end);
  }
  return numbers;
}

Status readFlags(gemma::ModelOp model, const EvaluateFlags &flags, reference::EvaluateOptions &options) {
  G4_ASSIGN_OR_RETURN(options.ids, parseNumbers<int32_t>("--ids", flags.ids));
  if (options.ids.empty())
    return invalidArgument("--evaluate needs --ids=2,17,...");
  if (!flags.tail.empty()) {
    G4_ASSIGN_OR_RETURN(options.tailRows, parseNumbers<int64_t>("--tail", flags.tail));
  }
  if (!flags.logits.empty()) {
    G4_ASSIGN_OR_RETURN(options.logitsRows, parseNumbers<int64_t>("--logits", flags.logits));
  }
  if (flags.experts.empty())
    return {};
  for (int64_t layer = 0; layer < model.getLayerCount(); ++layer) {
    if (!model.getLayerFact(layer).getExperts())
      continue;
    std::string path = flags.experts + "/router_idx" + std::to_string(layer) + ".npy";
    G4_ASSIGN_OR_RETURN(options.forcedExperts[layer], reference::readNpyInt32(path));
  }
  return {};
}

Status write(const std::string &folder, const reference::Evaluation &result) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return invalidArgument("cannot make the folder " + quotedPath(folder) + ": " + error.message());
  auto file = [&](const std::string &name) { return folder + "/" + name + ".npy"; };
  auto save = [&](const std::string &name, const reference::Matrix &matrix) {
    return reference::writeNpy(file(name), matrix.data, matrix.rows, matrix.columns);
  };
  G4_RETURN_IF_ERROR(save("logits", result.logits));
  G4_RETURN_IF_ERROR(save("hidden", result.hidden));
  for (const auto &[name, tap] : result.taps) {
    if (tap.ids.empty())
      G4_RETURN_IF_ERROR(save(name, tap.values));
    else
      G4_RETURN_IF_ERROR(reference::writeNpy(file(name), tap.ids, tap.values.rows, tap.values.columns));
  }
  return {};
}

} // namespace

bool EvaluateFlags::parse(std::string_view argument) {
  if (argument == "--evaluate")
    return evaluate = true;
  auto take = [&](std::string_view flag, std::string &value) {
    if (!argument.starts_with(flag))
      return false;
    value = argument.substr(flag.size());
    return true;
  };
  return take("--ids=", ids) || take("--tail=", tail) || take("--logits=", logits) ||
         take("--experts=", experts) || take("--out=", out);
}

Status evaluateToFiles(mlir::ModuleOp module, const EvaluateFlags &flags) {
  auto models = module.getOps<gemma::ModelOp>();
  if (!llvm::hasSingleElement(models))
    return invalidArgument("expected one gemma.model in the module");
  gemma::ModelOp model = *models.begin();
  if (flags.out.empty())
    return invalidArgument("--evaluate needs --out=<folder>");
  reference::EvaluateOptions options;
  G4_RETURN_IF_ERROR(readFlags(model, flags, options));
  G4_ASSIGN_OR_RETURN(reference::Evaluation result, reference::evaluate(model, options));
  return write(flags.out, result);
}

} // namespace g4
