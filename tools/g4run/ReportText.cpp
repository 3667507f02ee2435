#include "tools/g4run/ReportText.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>

namespace g4::tool {
namespace {

using Ull = unsigned long long;

void addFacts(const api::Report &r, std::string &out) {
  addText(out, "%s (%s), from %s\n", r.name.c_str(), r.architecture.c_str(), r.source.c_str());
  addText(out, "  made by        %s\n", r.producer.c_str());
  addText(out, "  file           %s%s\n", bytesText(r.fileBytes).c_str(),
          r.weightsMissing ? ", without weights" : "");
  addText(out, "  model          %u vocabulary, %u hidden, %zu layers, %u context, window %u\n", r.vocabulary,
          r.hidden, r.layers.size(), r.context, r.window);
  addText(out, "  arithmetic     activations %s, K/V %s\n", r.activations.c_str(), r.kvType.c_str());
  if (r.expertsUsed)
    addText(out, "  experts        %u used per token\n", r.expertsUsed);
}

bool sameShape(const api::LayerReport &a, const api::LayerReport &b) {
  return a.sliding == b.sliding && a.ownKv == b.ownKv && a.heads == b.heads && a.kvHeads == b.kvHeads &&
         a.headDim == b.headDim && a.ff == b.ff && a.experts == b.experts &&
         (a.ownKv || a.kvSource == b.kvSource);
}

void addLayers(const api::Report &r, std::string &out) {
  out += "\nlayers\n";
  for (size_t i = 0; i < r.layers.size();) {
    const api::LayerReport &l = r.layers[i];
    size_t end = i + 1;
    while (end < r.layers.size() && sameShape(l, r.layers[end]))
      ++end;
    const std::string range =
        end == i + 1 ? std::to_string(i) : std::to_string(i) + "-" + std::to_string(end - 1);
    addText(out, "  %-7s %-7s  heads %u/%u x %u  mlp %u", range.c_str(), l.sliding ? "sliding" : "global",
            l.heads, l.kvHeads, l.headDim, l.ff);
    if (l.experts)
      addText(out, "  experts %u", l.experts);
    if (!l.ownKv)
      addText(out, "  K/V of layer %u", l.kvSource);
    out += '\n';
    i = end;
  }
}

void addCode(const api::Report &r, std::string &out) {
  out += "\ncode, best first\n";
  for (const api::VariantReport &v : r.variants) {
    addText(out, "  %-14s %-10s %s ", v.cpu.c_str(), bytesText(v.bytes).c_str(),
            v.runsHere ? "runs here;" : "does NOT run here;");
    out += "needs";
    for (const std::string &feature : v.features)
      out += " " + feature;
    out += v.features.empty() ? " nothing\n" : "\n";
  }
}

void addMemory(const api::Report &r, std::string &out) {
  out += "\nmemory\n";
  for (const api::WeightPlaceReport &p : r.places)
    addText(out, "  weights, %-10s %llu, %s\n", p.place.c_str(), Ull(p.count), bytesText(p.bytes).c_str());
  for (const api::KvClassReport &c : r.kv)
    addText(out, "  K/V, %-14s %u layer%s, %s per token%s\n", c.name.c_str(), c.layers,
            c.layers == 1 ? "" : "s", bytesText(c.bytesPerToken).c_str(),
            c.name == "sliding" ? ", of the window only" : "");
  for (const api::ProgramReport &p : r.programs)
    addText(out, "  workspace, %-8s %s, %.3f of the peak of live bytes\n", p.name.c_str(),
            bytesText(p.arenaBytes).c_str(),
            p.peakLiveBytes ? double(p.arenaBytes) / double(p.peakLiveBytes) : 0.0);
  addText(out, "  in use              %s by one token, %s by a prompt that fills a step\n",
          bytesText(r.inUse.token).c_str(), bytesText(r.inUse.prompt).c_str());
}

/// The dispatches of a layer in few words; equal layers share a line.
void addDispatches(const api::ProgramReport &p, std::string &out) {
  std::map<int32_t, std::vector<const api::DispatchReport *>> layers;
  for (const api::DispatchReport &d : p.dispatches)
    layers[d.layer].push_back(&d);
  std::map<std::string, std::vector<int32_t>> groups; // text -> layers
  std::vector<std::string> order;
  for (const auto &[layer, dispatches] : layers) {
    size_t barriers = 0;
    std::string names;
    for (const api::DispatchReport *d : dispatches) {
      barriers += d->barrierBefore;
      names += std::string("    ") + (d->barrierBefore ? "| " : "  ") + d->set + "  " + d->kernel + "\n";
    }
    std::string text;
    addText(text, "%zu dispatches, %zu barriers\n", dispatches.size(), barriers);
    text += names;
    if (groups[text].empty())
      order.push_back(text);
    groups[text].push_back(layer);
  }
  for (const std::string &text : order) {
    out += "  layer";
    for (int32_t layer : groups[text])
      out += layer < 0 ? " none" : " " + std::to_string(layer);
    out += ": " + text;
  }
}

void addProgram(const api::ProgramReport &p, std::string &out) {
  const size_t barriers = size_t(
      std::count_if(p.dispatches.begin(), p.dispatches.end(), [](const auto &d) { return d.barrierBefore; }));
  addText(out, "\nprogram %s: %zu dispatches, %zu barriers; at most %u rows, %u tail rows, %u logit rows\n",
          p.name.c_str(), p.dispatches.size(), barriers, p.maxRows, p.maxTailRows, p.maxLogitRows);
  addText(out, "  multiplications: %.3f M per row, %.3f M more per tail row, %.3f M more per logit row\n",
          double(p.macsRows) / 1e6, double(p.macsTail) / 1e6, double(p.macsLogits) / 1e6);
  out += "  ('|' marks a barrier before the dispatch)\n";
  addDispatches(p, out);
}

} // namespace

void addText(std::string &out, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  const size_t before = out.size();
  out.resize(before + size_t(std::max(size, 0)) + 1); // and the zero that vsnprintf writes
  std::vsnprintf(out.data() + before, out.size() - before, format, again);
  va_end(again);
  out.pop_back();
}

std::string counted(uint64_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string bytesText(uint64_t bytes) {
  static constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = double(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  std::string out;
  addText(out, unit ? "%.2f %s" : "%.0f %s", value, kUnits[unit]);
  return out;
}

std::string reportText(const api::Report &report) {
  std::string out;
  addFacts(report, out);
  addLayers(report, out);
  addCode(report, out);
  addMemory(report, out);
  for (const api::ProgramReport &program : report.programs)
    addProgram(program, out);
  addText(out, "\nkernels: %zu\n", report.kernels.size());
  return out;
}

} // namespace g4::tool
