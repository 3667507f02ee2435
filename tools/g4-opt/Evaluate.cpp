#include "tools/g4-opt/Evaluate.h"

#include "compiler/reference/Npy.h"
#include "runtime/base/Text.h"
#include "tools/common/CommandLine.h"

#include <filesystem>

namespace g4 {
namespace {

Status readExperts(gemma::ModelOp model, const EvaluateFlags &flags, reference::EvaluateOptions &options,
                   tool::FileUses &uses) {
  if (flags.experts.empty())
    return {};
  for (int64_t layer = 0; layer < model.getLayerCount(); ++layer) {
    if (!model.getLayerFact(layer).getExperts())
      continue;
    std::string path = flags.experts + "/router_idx" + std::to_string(layer) + ".npy";
    G4_ASSIGN_OR_RETURN(options.forcedExperts[layer], reference::readNpyInt32(path));
    uses.reads(path);
  }
  return {};
}

Status write(const std::string &folder, const reference::Evaluation &result, tool::FileUses &uses) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return invalidArgument("cannot make the folder " + quotedPath(folder) + ": " + error.message());
  auto file = [&](const std::string &name) { return folder + "/" + name + ".npy"; };
  G4_RETURN_IF_ERROR(uses.writes(file("logits"))); // all of them, before the first replaces anything
  G4_RETURN_IF_ERROR(uses.writes(file("hidden")));
  for (const auto &[name, tap] : result.taps)
    G4_RETURN_IF_ERROR(uses.writes(file(name)));
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

Result<reference::EvaluateOptions> EvaluateFlags::options() const {
  if (!evaluate && !(ids.empty() && tail.empty() && logits.empty() && experts.empty() && out.empty()))
    return invalidArgument("--ids, --tail, --logits, --experts and --out go with --evaluate");
  reference::EvaluateOptions options;
  if (!evaluate)
    return options;
  if (ids.empty() || out.empty())
    return invalidArgument(ids.empty() ? "--evaluate needs --ids=2,17,..."
                                       : "--evaluate needs --out=<folder>");
  G4_ASSIGN_OR_RETURN(options.ids, tool::parseIds(ids));
  auto rows = [](const std::string &text, std::optional<std::vector<int64_t>> &rows) -> Status {
    if (text.empty())
      return {};
    G4_ASSIGN_OR_RETURN(const auto numbers, tool::parseList(text, 0, 1 << 20));
    rows.emplace(numbers.begin(), numbers.end());
    return {};
  };
  G4_RETURN_IF_ERROR(rows(tail, options.tailRows));
  G4_RETURN_IF_ERROR(rows(logits, options.logitsRows));
  return options;
}

Status evaluateToFiles(mlir::ModuleOp module, const EvaluateFlags &flags, reference::EvaluateOptions options,
                       tool::FileUses &uses) {
  auto models = module.getOps<gemma::ModelOp>();
  if (!llvm::hasSingleElement(models))
    return invalidArgument("expected one gemma.model in the module");
  gemma::ModelOp model = *models.begin();
  G4_RETURN_IF_ERROR(readExperts(model, flags, options, uses));
  G4_ASSIGN_OR_RETURN(reference::Evaluation result, reference::evaluate(model, options));
  return write(flags.out, result, uses);
}

} // namespace g4
