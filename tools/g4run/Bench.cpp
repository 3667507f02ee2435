#include "tools/common/Cli.h"
#include "tools/common/Files.h"
#include "tools/g4run/BenchReport.h"
#include "tools/g4run/Model.h"
#include "tools/g4run/Progress.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace g4::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kNotes[] =
    R"(Each test runs --reps times after once that is not counted. 'prefill N' reads prompts of N tokens, 'decode N' makes N
tokens one after the other without sampling, both for --batch sequences at once that hold --depth positions already.
Lists are separated by commas; 0 leaves a test out.

The table has the median, and the lowest and highest of the repetitions; --json has every one. Then each test runs once
more, for at most 8 steps, to see which kernels the time of a step goes to. What those have to read and to multiply is
compared with what all threads together read from memory, and with what they can multiply by the instructions that the
weights need; both are measured between the repetitions. --profile writes when each thread worked on each dispatch, for
ui.perfetto.dev or chrome://tracing.

Examples:
  g4run bench model.g4m
  g4run bench model.g4m --prefill 128,512 --decode 64 --batch 1,4 --depth 0,4096 --json results.json
  g4run bench model.g4m --prefill 512 --decode 0 --profile trace.json)";

struct BenchFlags {
  ModelFlags model;
  std::vector<uint32_t> prefill = {512}, decode = {128}, batch = {1}, depth = {0};
  uint32_t repetitions = 5, kernels = 5;
  std::string json, profile;
};

std::vector<api::BenchCase> casesOf(const BenchFlags &flags) {
  std::vector<api::BenchCase> cases;
  for (uint32_t depth : flags.depth)
    for (uint32_t batch : flags.batch) {
      for (uint32_t tokens : flags.prefill)
        if (tokens > 0)
          cases.push_back({api::BenchCase::Kind::kPrefill, tokens, batch, depth});
      for (uint32_t tokens : flags.decode)
        if (tokens > 0)
          cases.push_back({api::BenchCase::Kind::kDecode, tokens, batch, depth});
    }
  return cases;
}

/// Opens what `path` names; nothing for "" and "-".
Result<std::optional<OutputFile>> openOutput(const std::string &path, FileUses &uses) {
  if (path.empty() || path == "-")
    return std::optional<OutputFile>();
  G4_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, uses));
  return std::optional(std::move(file));
}

Status writeAll(OutputFile file, const std::string &text) {
  G4_RETURN_IF_ERROR(file.append(text));
  return file.finish();
}

/// Chrome's trace format: complete events ("X"), times in microseconds, a process per test and a thread per
/// thread.
class Trace {
public:
  void beginTest(const Measured &m) {
    ++process_;
    const std::string name = std::string(m.name()) + " " + std::to_string(m.what.tokens) + ", batch " +
                             std::to_string(m.what.batch) + ", depth " + std::to_string(m.what.depth);
    events_.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", process_}, {"args", {{"name", name}}}});
  }
  void add(const api::TraceEvent &event) {
    if (start_ == 0)
      start_ = event.beginNs;
    events_.push_back(
        {{"ph", "X"},
         {"name", event.kernel},
         {"cat", event.set},
         {"pid", process_},
         {"tid", event.thread},
         {"ts", double(event.beginNs - start_) / 1e3},
         {"dur", double(event.endNs - event.beginNs) / 1e3},
         {"args", {{"dispatch", event.dispatch}, {"layer", event.layer}, {"step", event.step}}}});
  }
  std::string text() const {
    return Json{{"displayTimeUnit", "ns"}, {"traceEvents", events_}}.dump(-1, ' ', false,
                                                                          Json::error_handler_t::replace);
  }

private:
  Json events_ = Json::array();
  int process_ = 0;
  int64_t start_ = 0;
};

Status print(const std::string &text) {
  std::fputs(text.c_str(), stdout);
  return flushOutput();
}

Status runBench(const BenchFlags &flags, const Interrupted &interrupted) {
  FileUses uses = usesOf(flags.model);
  G4_ASSIGN_OR_RETURN(auto json, openOutput(flags.json, uses));
  G4_ASSIGN_OR_RETURN(auto profile, openOutput(flags.profile, uses));
  const auto cases = casesOf(flags);
  api::ModelOptions modelOptions;
  modelOptions.maxSessions = *std::max_element(flags.batch.begin(), flags.batch.end());
  modelOptions.holds = true;
  G4_ASSIGN_OR_RETURN(const OpenModel open, openModel(flags.model, interrupted, modelOptions));
  for (const api::BenchCase &what : cases)
    G4_RETURN_IF_ERROR(api::checkBench(*open.model, what));
  const bool table = flags.json != "-";
  BenchReport report{open.model->name(), open.model->variant(), open.model->threads(), open.seconds};
  G4_ASSIGN_OR_RETURN(report.firstStepSeconds, api::timeStep(*open.model));
  G4_ASSIGN_OR_RETURN(auto probe, api::LimitsProbe::create(*open.model));
  if (table)
    G4_RETURN_IF_ERROR(print(headingText(report)));
  Trace trace;
  for (const api::BenchCase &what : cases) {
    Measured measured{what, {}};
    api::BenchOptions options;
    options.repetitions = flags.repetitions;
    if (profile) {
      trace.beginTest(measured);
      options.onTrace = [&](const api::TraceEvent &event) { trace.add(event); };
    }
    auto result = [&] {
      Progress progress(measured.name(), "repetitions");
      options.onProgress = [&](uint32_t done, uint32_t total) {
        progress.update(done, total);
        return !interrupted();
      };
      return api::bench(*open.model, probe, what, options);
    }();
    if (!result.ok())
      return result.status();
    measured.result = *std::move(result);
    std::sort(measured.result.seconds.begin(), measured.result.seconds.end());
    if (table)
      G4_RETURN_IF_ERROR(print(rowText(measured)));
    report.tests.push_back(std::move(measured));
  }
  report.peakBytes = probe.peakResidentBytes();
  const std::string text = benchJson(report);
  if (table)
    G4_RETURN_IF_ERROR(print(kernelsText(report, flags.kernels)));
  else
    G4_RETURN_IF_ERROR(OutputFile::standardOutput().append(text));
  if (json)
    G4_RETURN_IF_ERROR(writeAll(*std::move(json), text));
  return profile ? writeAll(*std::move(profile), trace.text()) : Status();
}

} // namespace

void addBench(CLI::App &app, Run &run) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App *command = app.add_subcommand("bench", "Measure the speed of a model");
  command->footer(kNotes);
  addModelFlags(*command, flags->model);
  const auto addList = [&](const char *name, std::vector<uint32_t> &list, uint32_t least, uint32_t most,
                           const char *help) {
    command
        ->add_option_function<std::string>(
            name, [=, &list](const std::string &text) { list = valid(name, parseList(text, least, most)); },
            help)
        ->type_name("N,...")
        ->default_str(std::to_string(list.front()));
  };
  constexpr uint32_t kMost = 1 << 20; // positions: more than any model has
  addList("--prefill", flags->prefill, 0, kMost, "Tokens of the prompts to read");
  addList("--decode", flags->decode, 0, kMost, "Tokens to make");
  addList("--batch", flags->batch, 1, 64, "Sequences at once");
  addList("--depth", flags->depth, 0, kMost, "Positions that each sequence holds before");
  command->add_option("--reps", flags->repetitions, "Repetitions of each test")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--kernels", flags->kernels, "Kernels of each test to list; the others share a line")
      ->capture_default_str();
  command
      ->add_option("--json", flags->json,
                   "Write every repetition to a file; '-' prints it instead of the table")
      ->type_name("FILE");
  command->add_option("--profile", flags->profile, "Write a trace of every dispatch")->type_name("FILE");
  command->callback([flags, &run] {
    if (casesOf(*flags).empty())
      throw CLI::ValidationError("--prefill and --decode", "leave nothing to measure");
    if (flags->profile == "-")
      throw CLI::ValidationError("--profile", "writes a file, not standard output");
    run = [flags](const Interrupted &interrupted) { return runBench(*flags, interrupted); };
  });
}

} // namespace g4::tool
