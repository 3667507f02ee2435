#include "runtime/api/Report.h"
#include "tools/g4run/Model.h"
#include "tools/g4run/Progress.h"
#include "tools/g4run/ReportText.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>

namespace g4::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kNotes[] = R"(Examples:
  g4run inspect model.g4m
  g4run inspect model.g4m --verify
  g4run inspect model.g4m --json)";

struct InspectOptions {
  ModelFlags model;
  bool json = false, verify = false;
};

Json toJson(const api::ProgramReport &program) {
  Json dispatches = Json::array(), buffers = Json::array();
  for (const api::DispatchReport &d : program.dispatches)
    dispatches.push_back({{"kernel", d.kernel},
                          {"layer", d.layer},
                          {"barrier_before", d.barrierBefore},
                          {"set", d.set},
                          {"rows_per_item", d.rowsPerItem},
                          {"items_per_block", d.itemsPerBlock},
                          {"macs_per_row", d.macsPerRow},
                          {"taps", d.taps}});
  for (const api::BufferReport &b : program.buffers)
    buffers.push_back({{"name", b.name},
                       {"set", b.set},
                       {"row_bytes", b.rowBytes},
                       {"offset", b.offset},
                       {"bytes", b.bytes}});
  return {{"name", program.name},
          {"max_rows", program.maxRows},
          {"max_tail_rows", program.maxTailRows},
          {"max_logit_rows", program.maxLogitRows},
          {"arena_bytes", program.arenaBytes},
          {"peak_live_bytes", program.peakLiveBytes},
          {"macs_rows", program.macsRows},
          {"macs_tail", program.macsTail},
          {"macs_logits", program.macsLogits},
          {"dispatches", std::move(dispatches)},
          {"buffers", std::move(buffers)}};
}

Json memoryJson(const api::Report &report) {
  Json places = Json::array(), kv = Json::array();
  for (const api::WeightPlaceReport &p : report.places)
    places.push_back({{"place", p.place}, {"weights", p.count}, {"bytes", p.bytes}});
  for (const api::KvClassReport &c : report.kv)
    kv.push_back({{"class", c.name},
                  {"layers", c.layers},
                  {"bytes_per_token", c.bytesPerToken},
                  {"page_bytes", c.pageBytes}});
  return {{"weights", std::move(places)},
          {"kv", std::move(kv)}};
}

Json toJson(const api::Report &report) {
  Json layers = Json::array(), segments = Json::array(), variants = Json::array(), weights = Json::array(),
       programs = Json::array();
  for (const api::LayerReport &l : report.layers)
    layers.push_back({{"kind", l.sliding ? "sliding" : "global"},
                      {"heads", l.heads},
                      {"kv_heads", l.kvHeads},
                      {"head_dim", l.headDim},
                      {"ff", l.ff},
                      {"experts", l.experts},
                      {"own_kv", l.ownKv},
                      {"kv_source", l.kvSource}});
  for (const api::SegmentReport &s : report.segments)
    segments.push_back({{"kind", s.kind}, {"name", s.name}, {"bytes", s.bytes}, {"present", s.present}});
  for (const api::VariantReport &v : report.variants)
    variants.push_back({{"target", v.target},
                        {"cpu", v.cpu},
                        {"features", v.features},
                        {"bytes", v.bytes},
                        {"runs_here", v.runsHere}});
  for (const api::WeightReport &w : report.weights)
    weights.push_back({{"name", w.name},
                       {"layout", w.layout},
                       {"rows", w.rows},
                       {"columns", w.columns},
                       {"bytes", w.bytes},
                       {"place", w.place}});
  for (const api::ProgramReport &p : report.programs)
    programs.push_back(toJson(p));
  return {{"producer", report.producer},
          {"source", report.source},
          {"file_bytes", report.fileBytes},
          {"weights_missing", report.weightsMissing},
          {"in_use_token", report.inUse.token},
          {"in_use_prompt", report.inUse.prompt},
          {"facts",
           {{"name", report.name},
            {"architecture", report.architecture},
            {"vocabulary", report.vocabulary},
            {"hidden", report.hidden},
            {"context", report.context},
            {"window", report.window},
            {"page_tokens", report.pageTokens},
            {"experts_used", report.expertsUsed},
            {"softcap", report.softcap},
            {"activations", report.activations},
            {"kv_type", report.kvType},
            {"layers", std::move(layers)}}},
          {"segments", std::move(segments)},
          {"variants", std::move(variants)},
          {"kernels", report.kernels},
          {"memory", memoryJson(report)},
          {"programs", std::move(programs)},
          {"weights", std::move(weights)}};
}

Status runInspect(const InspectOptions &options, const Interrupted &interrupted) {
  G4_ASSIGN_OR_RETURN(const Artifact artifact, findArtifact(options.model, interrupted));
  auto report = [&] {
    Progress progress("verifying", "bytes");
    return api::inspect(artifact.path, options.verify,
                        [&](uint64_t done, uint64_t total) { progress.update(done, total); });
  }();
  if (!report.ok())
    return report.status();
  // Names come from the model file: any bytes that are no UTF-8 are replaced.
  const std::string text = options.json
                               ? toJson(*report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n"
                               : reportText(*report);
  std::fputs(text.c_str(), stdout);
  if (options.verify && !options.json)
    std::fputs(report->weightsMissing ? "no weights to verify\n" : "all hashes agree\n", stdout);
  return {};
}

} // namespace

void addInspect(CLI::App &app, Run &run) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App *command = app.add_subcommand("inspect", "Show what is in an artifact");
  command->footer(kNotes);
  addArtifactFlags(*command, options->model);
  command->add_flag("--json", options->json, "As JSON, with every dispatch, buffer and weight");
  command->add_flag("--verify", options->verify, "Also check the hash of the weights");
  command->callback([options, &run] {
    run = [options](const Interrupted &interrupted) { return runInspect(*options, interrupted); };
  });
}

} // namespace g4::tool
