#include "tools/common/Files.h"
#include "tools/g4run/Model.h"
#include "tools/g4run/Progress.h"
#include "tools/g4run/ReportText.h"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace g4::tool {
namespace {

constexpr char kNotes[] =
    R"(The text is cut into windows; in each, the second half is scored given what stands before it. The number equals
llama-perplexity's on the same file and window. Compare numbers of the same text and window only.

Examples:
  g4run perplexity model.g4m wiki.test.raw
  g4run perplexity model.g4m text.txt -c 2048)";

struct PerplexityOptions {
  ModelFlags model;
  std::string text;
  uint32_t window = 512;
};

Status runPerplexity(const PerplexityOptions &options, const Interrupted &interrupted) {
  G4_ASSIGN_OR_RETURN(const std::string text, readFile(options.text));
  G4_ASSIGN_OR_RETURN(const OpenModel open, openModel(options.model, interrupted));
  auto measured = [&] {
    Progress progress("perplexity", "windows", Progress::kLines);
    return api::perplexity(*open.model, text, options.window, [&](uint32_t done, uint32_t total, double) {
      progress.update(done, total);
      return !interrupted();
    });
  }();
  if (!measured.ok())
    return measured.status();
  std::printf("perplexity %.4f +- %.4f (%s scored in %s of %u)\n", measured->value, measured->error,
              counted(measured->scored, "token").c_str(), counted(measured->windows, "window").c_str(),
              options.window);
  return {};
}

} // namespace

void addPerplexity(CLI::App &app, Run &run) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App *command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  command->footer(kNotes);
  addModelFlags(*command, options->model);
  command->add_option("text", options->text, "The text file; '-' is standard input")
      ->type_name("FILE")
      ->required();
  addWindow(*command, options->window);
  command->callback([options, &run] {
    run = [options](const Interrupted &interrupted) { return runPerplexity(*options, interrupted); };
  });
}

} // namespace g4::tool
