#include "tools/common/Files.h"
#include "tools/g4run/Model.h"
#include "tools/g4run/Progress.h"
#include "tools/g4run/ReportText.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace g4::tool {
namespace {

constexpr char kNotes[] =
    R"(Both models read the same windows as in 'g4run perplexity'. For each scored token the KL divergence of the model's
prediction from the reference's is taken; 0 is equality. A good reference is the same model in F32, F16 or BF16, compiled
with --activations=f32. Errors (+-) are standard errors over tokens.

Examples:
  g4run kl q4.g4m --reference bf16.g4m text.txt
  g4run kl q4.g4m --reference bf16.g4m text.txt --json)";

struct KlOptions {
  ModelFlags model;
  std::string reference, text;
  uint32_t window = 512;
  bool json = false;
};

void print(const api::Divergence &d, const KlOptions &options) {
  const double ratio = std::exp(d.logRatio);
  std::printf("KL(reference || model)  %.6f +- %.6f per token (median %.6f, 99 %% %.6f, most %.6f)\n", d.kl,
              d.klError, d.klMedian, d.kl99, d.klMost);
  std::printf("same best token         %.2f +- %.2f %%\n", 100 * d.sameTop, 100 * d.sameTopError);
  std::printf("perplexity              %.4f +- %.4f, reference %.4f +- %.4f\n", d.model.value, d.model.error,
              d.reference.value, d.reference.error);
  std::printf("perplexity ratio        %.5f +- %.5f\n", ratio, ratio * d.logRatioError);
  std::printf("                        %s scored in %s of %u\n", counted(d.model.scored, "token").c_str(),
              counted(d.model.windows, "window").c_str(), options.window);
}

void printJson(const api::Divergence &d, const KlOptions &options) {
  const auto value = [](double mean, double error) {
    return nlohmann::ordered_json{{"value", mean}, {"error", error}};
  };
  nlohmann::ordered_json out = {{"kl", value(d.kl, d.klError)},
                                {"kl_median", d.klMedian},
                                {"kl_99", d.kl99},
                                {"kl_most", d.klMost},
                                {"same_top", value(d.sameTop, d.sameTopError)},
                                {"perplexity", value(d.model.value, d.model.error)},
                                {"reference_perplexity", value(d.reference.value, d.reference.error)},
                                {"log_ratio", value(d.logRatio, d.logRatioError)},
                                {"tokens", d.model.scored},
                                {"windows", d.model.windows},
                                {"window", options.window}};
  std::printf("%s\n", out.dump(1, ' ').c_str());
}

Status runKl(const KlOptions &options, const Interrupted &interrupted) {
  G4_ASSIGN_OR_RETURN(const std::string text, readFile(options.text));
  ModelFlags mine = options.model, other = options.model;
  other.path = options.reference;
  other.variant.clear();                       // the reference may have been compiled for others
  if (isGguf(mine.path) != isGguf(other.path)) // --compile-options is for the one that is compiled
    (isGguf(mine.path) ? other : mine).compileOptions.clear();
  G4_ASSIGN_OR_RETURN(const OpenModel model, openModel(mine, interrupted));
  G4_ASSIGN_OR_RETURN(const OpenModel reference, openModel(other, interrupted));
  auto measured = [&] {
    Progress progress("kl", "windows", Progress::kLines);
    return api::divergence(*model.model, *reference.model, text, options.window,
                           [&](uint32_t done, uint32_t total) {
                             progress.update(done, total);
                             return !interrupted();
                           });
  }();
  if (!measured.ok())
    return measured.status();
  options.json ? printJson(*measured, options) : print(*measured, options);
  return {};
}

} // namespace

void addKl(CLI::App &app, Run &run) {
  auto options = std::make_shared<KlOptions>();
  CLI::App *command = app.add_subcommand("kl", "Measure how far a model's predictions are from another's");
  command->footer(kNotes);
  addModelFlags(*command, options->model);
  command->add_option("text", options->text, "The text file; '-' is standard input")
      ->type_name("FILE")
      ->required();
  command->add_option("--reference", options->reference, "The model to compare with")
      ->type_name("FILE")
      ->required();
  addWindow(*command, options->window);
  command->add_flag("--json", options->json, "Print the numbers as JSON");
  command->callback([options, &run] {
    run = [options](const Interrupted &interrupted) { return runKl(*options, interrupted); };
  });
}

} // namespace g4::tool
