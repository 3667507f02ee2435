#include "runtime/api/Engine.h"
#include "tools/g4run/Commands.h"
#include "tools/g4run/Model.h"
#include "tools/g4run/ReportText.h"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace g4::tool {
namespace {

constexpr char kNotes[] =
    R"(A record is what 'g4run serve --record' and api::EngineOptions::record write: which requests came before which step,
and what was answered. The same artifact answers the same again, whatever the threads; the first token that differs is
an error. On a processor of another level some tokens may differ: --variant names the one to run.

Example:
  g4run replay model.g4m record.jsonl)";

struct ReplayOptions {
  ModelFlags model;
  std::string record;
};

} // namespace

void addReplay(CLI::App &app, Run &run) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App *command = app.add_subcommand("replay", "Do again what a record of a server says, and compare");
  command->footer(kNotes);
  addModelFlags(*command, options->model);
  command->add_option("record", options->record, "The record")->type_name("FILE")->required();
  command->callback([options, &run] {
    run = [options](const Interrupted &interrupted) -> Status {
      const ModelFlags &model = options->model;
      if (model.context)
        return invalidArgument("--context is the record's own: leave it out");
      G4_ASSIGN_OR_RETURN(const Artifact artifact, findArtifact(model, interrupted));
      G4_ASSIGN_OR_RETURN(const api::ReplayResult result,
                          api::replay(artifact.path, options->record,
                                      {.threads = model.threads, .variant = model.variant, .weightSeed = model.weightSeed}));
      std::printf("%s of %s in %s: the same\n", counted(result.tokens, "token").c_str(),
                  counted(result.answers, "answer").c_str(), counted(result.steps, "step").c_str());
      return {};
    };
  });
}

} // namespace g4::tool
