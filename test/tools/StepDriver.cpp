// Runs a scripted list of steps on an artifact and writes their logits: for tests of what g4run has no option
// for (ragged batches, subsets of rows, poisoned pages, K/V bytes).
//
//   step-driver model.g4m script.json out.npy
//
// script.json:
//   {"threads": 2, "sequences": 3, "context": 1000, "poison": true, "variant": "...", "weights_seed": 1, (all
//   optional)
//    "steps": [{"rows":   [[sequence, token], ...],   rows in order; each sequence goes on where it was
//               "logits": [row, ...],                 rows whose logits are wanted; default: none
//               "tail":   [row, ...],                 rows whose hidden state is wanted; default: those of
//               logits "close":  [sequence, ...]},           before the step: start these sequences anew
//              ...]}
// out.npy: float32 [logit rows of all steps, vocabulary]. Standard output: one JSON object a step with the
// counters of that step and the K/V bytes after it.
#include "runtime/engine/Engine.h"
#include "tools/common/Npy.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <map>

namespace {

using g4::Result;
using g4::Status;
using Json = nlohmann::json;

struct Driver {
  std::unique_ptr<g4::engine::Engine> engine;
  std::map<int, g4::kv::SeqId> sequences;
  std::vector<float> logits;

  g4::kv::SeqId sequence(int name) {
    auto found = sequences.find(name);
    return found != sequences.end() ? found->second : sequences[name] = engine->openSequence();
  }
  Status close(int name) {
    Status status = engine->closeSequence(sequence(name));
    sequences.erase(name);
    return status;
  }
  Status run(const Json &script);
};

Status Driver::run(const Json &script) {
  for (int name : script.value("close", std::vector<int>()))
    G4_RETURN_IF_ERROR(close(name));
  std::vector<int32_t> tokens;
  std::vector<g4::kv::SeqId> rows;
  std::vector<uint32_t> positions;
  std::map<int, uint32_t> next;
  for (const Json &row : script.at("rows")) {
    const int name = row.at(0).get<int>();
    rows.push_back(sequence(name));
    if (!next.count(name)) {
      G4_ASSIGN_OR_RETURN(next[name], engine->length(rows.back()));
    }
    positions.push_back(next[name]++);
    tokens.push_back(row.at(1).get<int32_t>());
  }
  const auto wanted = script.value("logits", std::vector<uint32_t>());
  const auto tail = script.value("tail", wanted);
  const g4::engine::StepCounters before = engine->counters();
  G4_ASSIGN_OR_RETURN(const auto output, engine->run({tokens, rows, positions, tail, wanted, {}}));
  logits.insert(logits.end(), output.logits.begin(), output.logits.end());
  const g4::engine::StepCounters &after = engine->counters();
  const Json report = {{"rows", after.rows - before.rows},
                       {"tail_rows", after.tailRows - before.tailRows},
                       {"logit_rows", after.logitRows - before.logitRows},
                       {"dispatches", after.dispatches - before.dispatches},
                       {"barriers", after.barriers - before.barriers},
                       {"macs", after.macs - before.macs},
                       {"kv_sliding_bytes", engine->cache().usedBytes(g4::kv::PageClass::kSliding)},
                       {"kv_global_bytes", engine->cache().usedBytes(g4::kv::PageClass::kGlobal)}};
  std::printf("%s\n", report.dump().c_str());
  return {};
}

Status drive(const char *model, const char *scriptPath, const char *out) {
  std::ifstream file(scriptPath);
  const Json script = Json::parse(file);
  G4_ASSIGN_OR_RETURN(std::shared_ptr<const g4::module::Module> module, g4::module::Module::load(model));
  g4::engine::EngineOptions options;
  options.threads = script.value("threads", 0u);
  options.maxSequences = script.value("sequences", 1u);
  options.contextTokens = script.value("context", 0u);
  options.poisonFreePages = script.value("poison", false);
  options.variant = script.value("variant", "");
  if (script.contains("weights_seed"))
    options.weightSeed = script["weights_seed"].get<uint64_t>();
  Driver driver;
  G4_ASSIGN_OR_RETURN(driver.engine, g4::engine::Engine::create(module, options));
  for (const Json &step : script.at("steps"))
    G4_RETURN_IF_ERROR(driver.run(step));
  const uint64_t vocabulary = driver.engine->limits().vocabulary;
  g4::tool::FileUses uses{model, scriptPath};
  G4_ASSIGN_OR_RETURN(auto output, g4::tool::OutputFile::create(out, uses));
  G4_ASSIGN_OR_RETURN(auto npy, g4::tool::NpyWriter::create(std::move(output), "<f4", driver.logits.size() / vocabulary,
                                                            vocabulary));
  G4_RETURN_IF_ERROR(npy.append(std::as_bytes(std::span(driver.logits))));
  return npy.finish();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fputs("usage: step-driver model.g4m script.json out.npy\n", stderr);
    return 2;
  }
  try {
    const Status status = drive(argv[1], argv[2], argv[3]);
    if (!status.ok())
      std::fprintf(stderr, "step-driver: %s\n", status.message().c_str());
    return status.ok() ? 0 : 1;
  } catch (const std::exception &error) { // a malformed script
    std::fprintf(stderr, "step-driver: %s\n", error.what());
    return 1;
  }
}
