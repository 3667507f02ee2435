#include "runtime/base/Text.h"
#include "tools/common/Npy.h"
#include "tools/g4run/AnswerPrinter.h"
#include "tools/g4run/Model.h"
#include "tools/g4run/Progress.h"
#include "tools/g4run/ReportText.h"
#include "tools/g4run/Taps.h"

#include <chrono>
#include <cstdio>

namespace g4::tool {
namespace {

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Times of one run, for --stats.
struct Times {
  double load = 0, prompt = 0, first = 0, generation = 0;
};

Result<std::vector<int32_t>> promptIds(const api::Model &model, const GenerateOptions &o) {
  if (!o.ids.empty())
    return o.ids;
  api::ChatRequest request;
  if (!o.raw)
    noteTemplate(model);
  if (o.chat) {
    G4_ASSIGN_OR_RETURN(request.json, readFile(*o.chat));
    auto ids = model.chatPrompt(request);
    return ids.ok() ? std::move(ids) : Status(ids.status()).withContext(quotedPath(*o.chat));
  }
  std::string text = o.prompt.value_or("");
  if (o.file) {
    G4_ASSIGN_OR_RETURN(text, readFile(*o.file));
  }
  if (o.raw)
    return model.tokenize(text);
  if (!o.system.empty())
    request.messages.push_back({"system", o.system});
  request.messages.push_back({"user", text});
  request.thinking = o.think;
  return model.chatPrompt(request);
}

Result<std::vector<int32_t>> forcedExperts(const api::Model &model, const GenerateOptions &o, size_t rows) {
  if (o.forcedExperts.empty())
    return std::vector<int32_t>();
  G4_ASSIGN_OR_RETURN(auto array, readNpyInts(o.forcedExperts));
  const std::vector<uint64_t> want = {model.layers(), rows, model.expertsUsed()};
  if (array.shape != want)
    return invalidArgument(quotedPath(o.forcedExperts) + ": shape must be [" + std::to_string(want[0]) +
                           " layers, " + std::to_string(want[1]) + " prompt tokens, " +
                           std::to_string(want[2]) + " experts used]");
  return std::move(array.values);
}

/// What is asked about the prompt, and where it goes.
struct PromptFiles {
  std::optional<OutputFile> logits;
  std::optional<TapFiles> taps;
};

/// Runs the prompt and writes what was asked about it.
Status feedPrompt(const api::Model &model, api::Session &session, const GenerateOptions &o, PromptFiles files,
                  std::span<const int32_t> ids, const Interrupted &interrupted) {
  G4_ASSIGN_OR_RETURN(const auto forced, forcedExperts(model, o, ids.size()));
  std::optional<NpyWriter> logits;
  Progress progress("prompt", "tokens");
  api::FeedRequest request;
  request.ids = ids;
  request.chunk = o.chunk;
  request.forcedExperts = forced;
  if (files.logits || files.taps)
    request.want = api::Want::kAll;
  else
    request.want = o.maxTokens == 0u ? api::Want::kNothing : api::Want::kLast;
  if (files.logits) {
    G4_ASSIGN_OR_RETURN(logits,
                        NpyWriter::create(*std::move(files.logits), "<f4", ids.size(), model.vocabulary()));
    request.onLogits = [&](std::span<const float> rows) { return logits->append(std::as_bytes(rows)); };
  }
  if (files.taps)
    request.onTap = [&](const api::TapView &tap) { return files.taps->add(tap); };
  request.onProgress = [&](uint32_t done, uint32_t total) {
    progress.update(done, total);
    return !interrupted();
  };
  G4_RETURN_IF_ERROR(session.feed(request));
  if (logits)
    G4_RETURN_IF_ERROR(logits->finish());
  return files.taps ? files.taps->write() : Status();
}

Result<api::Generation> generate(const api::Model &model, api::Session &session, const GenerateOptions &o,
                                 Times &times, const Interrupted &interrupted) {
  api::GenerateRequest request;
  request.maxTokens = o.maxTokens.value_or(request.maxTokens);
  request.sampling = o.sampling.over(model.defaultSampling());
  request.stops = o.stops;
  request.ignoreEos = o.ignoreEos;
  request.suppress = !o.noSuppress;
  const auto start = Clock::now();
  const Style style;
  AnswerPrinter printer(style);
  const auto print = [&](api::Part part, std::string_view text) {
    if (times.first == 0)
      times.first = secondsSince(start);
    return printer.print(part, text) && !interrupted();
  };
  if (style.terminal && !o.raw)
    request.onPart = print;
  else // for programs: what the model wrote, its marks included
    request.onText = [&](std::string_view text) { return print(api::Part::kAnswer, text); };
  auto out = session.generate(request);
  times.generation = secondsSince(start);
  printer.finish();
  return out;
}

void printStats(const api::Model &model, size_t promptTokens, const api::Generation &generation,
                const Times &times) {
  const auto rate = [](size_t n, double seconds) { return seconds > 0 ? double(n) / seconds : 0.0; };
  const api::Counters c = model.counters();
  std::fprintf(stderr, "code        %s, %s\n", model.variant().c_str(),
               counted(model.threads(), "thread").c_str());
  std::fprintf(stderr, "load        %.3f s\n", times.load);
  std::fprintf(stderr, "prompt      %s, %.3f s, %.1f tokens/s\n", counted(promptTokens, "token").c_str(),
               times.prompt, rate(promptTokens, times.prompt));
  // The first token comes from the prompt's logits; the others each took a step.
  const size_t steps = generation.ids.empty() ? 0 : generation.ids.size() - 1;
  std::fprintf(stderr, "generation  %s, %.3f s, %.1f tokens/s, ended by %s\n",
               counted(generation.ids.size(), "token").c_str(), times.generation,
               rate(steps, times.generation - times.first), api::finishText(generation.finish));
  std::fprintf(stderr, "first token %.3f s\n", times.load + times.prompt + times.first);
  std::fprintf(stderr, "work        %llu steps, %llu rows, %llu tail rows, %llu logit rows\n",
               static_cast<unsigned long long>(c.steps), static_cast<unsigned long long>(c.rows),
               static_cast<unsigned long long>(c.tailRows), static_cast<unsigned long long>(c.logitRows));
  std::fprintf(stderr, "            %llu dispatches, %llu barriers, %.3f G multiplications\n",
               static_cast<unsigned long long>(c.dispatches), static_cast<unsigned long long>(c.barriers),
               double(c.macs) / 1e9);
}

} // namespace

Status runGenerate(const GenerateOptions &options, const Interrupted &interrupted) {
  FileUses uses =
      usesOf(options.model, {options.file.value_or(""), options.chat.value_or(""), options.forcedExperts});
  PromptFiles files;
  if (!options.logits.empty()) {
    G4_ASSIGN_OR_RETURN(files.logits, OutputFile::create(options.logits, uses));
  }
  if (!options.taps.empty()) {
    G4_RETURN_IF_ERROR(uses.writes(options.taps));
    files.taps.emplace(options.taps, uses);
  }
  Times times;
  auto start = Clock::now();
  G4_ASSIGN_OR_RETURN(const OpenModel open, openModel(options.model, interrupted));
  api::Model *const model = open.model.get();
  G4_RETURN_IF_ERROR(options.sampling.fits(*model));
  G4_ASSIGN_OR_RETURN(const auto ids, promptIds(*model, options));
  G4_ASSIGN_OR_RETURN(const auto session, model->newSession());
  times.load = secondsSince(start);
  start = Clock::now();
  G4_RETURN_IF_ERROR(feedPrompt(*model, *session, options, std::move(files), ids, interrupted));
  times.prompt = secondsSince(start);
  api::Generation generation;
  if (options.maxTokens != 0u) {
    G4_ASSIGN_OR_RETURN(generation, generate(*model, *session, options, times, interrupted));
  }
  if (options.printIds)
    printIds(generation.ids);
  if (options.stats)
    printStats(*model, ids.size(), generation, times);
  return generation.finish == api::Finish::kCancelled ? Status(Code::kCancelled, "interrupted") : Status();
}

} // namespace g4::tool
