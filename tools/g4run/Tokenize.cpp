#include "runtime/api/Vocabulary.h"
#include "tools/common/Files.h"
#include "tools/g4run/Model.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>
#include <unistd.h>

namespace g4::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kNotes[] =
    R"(Without TEXT and -f the text is read from standard input, all of it as it is. Ids are printed as --ids takes them. A
token is shown as the model file spells it: a space is U+2581, a byte is "<0x0A>". The chat template is not applied.

Examples:
  g4run tokenize model.g4m "Why is the sky blue?"
  g4run tokenize model.g4m --show "Why is the sky blue?"
  g4run tokenize model.g4m --json -f text.txt
  g4run tokenize model.g4m --detokenize 2,9259,236888)";

struct TokenizeOptions {
  ModelFlags model;
  std::optional<std::string> text, file;
  bool detokenize = false, show = false, json = false, plain = false, noBos = false;
};

/// Ids separated by commas or white space; brackets around them are ignored.
Result<std::vector<int32_t>> readIds(const std::string &text) {
  std::string list;
  for (char c : text) {
    const bool between = std::isspace(static_cast<unsigned char>(c)) || c == ',' || c == '[' || c == ']';
    if (!between)
      list += c;
    else if (!list.empty() && list.back() != ',')
      list += ',';
  }
  if (list.ends_with(','))
    list.pop_back();
  return list.empty() ? std::vector<int32_t>() : parseIds(list);
}

void printJson(const api::Vocabulary &vocabulary, std::span<const int32_t> ids, const std::string &text) {
  Json pieces = Json::array();
  for (int32_t id : ids)
    pieces.push_back(vocabulary.piece(id));
  const Json out = {{"ids", ids}, {"pieces", std::move(pieces)}, {"text", text}};
  std::printf("%s\n", out.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

Status runTokenize(const TokenizeOptions &options, const Interrupted &interrupted) {
  std::string text = options.text.value_or("");
  if (!options.text) {
    G4_ASSIGN_OR_RETURN(text, readFile(options.file.value_or("-")));
  }
  G4_ASSIGN_OR_RETURN(const Artifact artifact, findArtifact(options.model, interrupted));
  G4_ASSIGN_OR_RETURN(const auto vocabulary, api::Vocabulary::open(artifact.path));
  std::vector<int32_t> ids;
  if (options.detokenize) {
    G4_ASSIGN_OR_RETURN(ids, readIds(text));
    G4_ASSIGN_OR_RETURN(text, vocabulary->decode(ids));
  } else {
    G4_ASSIGN_OR_RETURN(ids, vocabulary->encode(text, {.special = !options.plain, .bos = !options.noBos}));
  }
  if (options.json) {
    printJson(*vocabulary, ids, text);
  } else if (options.show) {
    for (int32_t id : ids)
      std::printf("%7d  %s\n", id, std::string(vocabulary->piece(id)).c_str());
  } else if (options.detokenize) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (isatty(STDOUT_FILENO) && !text.ends_with('\n'))
      std::fputc('\n', stdout);
  } else {
    for (size_t i = 0; i < ids.size(); ++i)
      std::printf("%s%d", i ? "," : "", ids[i]);
    std::fputc('\n', stdout);
  }
  return {};
}

} // namespace

void addTokenize(CLI::App &app, Run &run) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App *command = app.add_subcommand("tokenize", "Turn a text into token ids, or back");
  command->footer(kNotes);
  addArtifactFlags(*command, options->model);
  CLI::Option *text = command->add_option("text", options->text, "The text, or ids with --detokenize");
  command->add_option("-f,--file", options->file, "Read it from a file; '-' is standard input")
      ->type_name("FILE")
      ->excludes(text);
  CLI::Option *back =
      command->add_flag("--detokenize", options->detokenize, "From ids to the text, byte for byte");
  command->add_flag("--show", options->show, "One token a line: its id and how the model file spells it");
  command->add_flag("--json", options->json, "As JSON: ids, pieces and text");
  command
      ->add_flag("--plain", options->plain,
                 "Control tokens written out are text: \"<bos>\" is five characters")
      ->excludes(back);
  command->add_flag("--no-bos", options->noBos, "Put no BOS in front")->excludes(back);
  command->callback([options, &run] {
    run = [options](const Interrupted &interrupted) { return runTokenize(*options, interrupted); };
  });
}

} // namespace g4::tool
