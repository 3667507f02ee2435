#include "tools/g4run/BenchReport.h"
#include "tools/g4run/ReportText.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace g4::tool {
namespace {

using Json = nlohmann::ordered_json;

double ratio(double value, double by) { return by > 0 ? value / by : 0; }

/// A kernel's part of one step, or that of several kernels.
struct Use {
  double calls = 0, seconds = 0, busySeconds = 0, weightBytes = 0, kvBytes = 0, macs = 0;

  Use() = default;
  Use(const api::KernelUse &kernel, double steps)
      : calls(double(kernel.calls) / steps), seconds(kernel.seconds / steps),
        busySeconds(kernel.busySeconds / steps), weightBytes(double(kernel.weightBytes) / steps),
        kvBytes(double(kernel.kvBytes) / steps), macs(double(kernel.macs) / steps) {}
  void operator+=(const Use &other) {
    calls += other.calls, seconds += other.seconds, busySeconds += other.busySeconds;
    weightBytes += other.weightBytes, kvBytes += other.kvBytes, macs += other.macs;
  }
  double bytes() const { return weightBytes + kvBytes; }
};

/// The rates of a use that took `seconds`, under the names that both kinds of objects have.
void addUse(Json &json, const Use &use, double seconds, double readBandwidth) {
  json["weight_bytes"] = use.weightBytes;
  json["kv_bytes"] = use.kvBytes;
  json["macs"] = use.macs;
  json["bytes_per_second"] = ratio(use.bytes(), seconds);
  json["bandwidth_share"] = ratio(ratio(use.bytes(), seconds), readBandwidth);
  json["macs_per_second"] = ratio(use.macs, seconds);
}

Use wholeStep(const api::Profile &profile) {
  Use all;
  for (const api::KernelUse &kernel : profile.kernels)
    all += Use(kernel, double(profile.steps));
  return all;
}

/// Seconds of a step of the timed repetitions.
double stepSeconds(const Measured &test) { return ratio(test.medianSeconds(), double(test.result.steps)); }

Json testJson(const Measured &test, const BenchReport &report) {
  const api::Profile &profile = test.result.profile;
  const double steps = double(profile.steps);
  Json kernels = Json::array();
  for (const api::KernelUse &kernel : profile.kernels) {
    const Use use(kernel, steps);
    Json json = {{"kernel", kernel.kernel},
                 {"calls", use.calls},
                 {"seconds", use.seconds},
                 {"busy", ratio(use.busySeconds, use.seconds * report.threads)}};
    addUse(json, use, use.seconds, report.readBandwidth);
    kernels.push_back(std::move(json));
  }
  Json step = {{"seconds", profile.seconds / steps}, {"idle_seconds", profile.idleSeconds / steps}};
  addUse(step, wholeStep(profile), stepSeconds(test), report.readBandwidth);
  step["kernels"] = std::move(kernels);
  const auto &seconds = test.result.seconds;
  return {{"test", test.name()},
          {"tokens", test.what.tokens},
          {"batch", test.what.batch},
          {"depth", test.what.depth},
          {"seconds", seconds},
          {"tokens_per_second", test.rate(test.medianSeconds())},
          {"tokens_per_second_min", test.rate(seconds.back())},
          {"tokens_per_second_max", test.rate(seconds.front())},
          {"steps", test.result.steps},
          {"step", std::move(step)}};
}

/// `busy`: share of the threads' time in kernels.
void addUse(std::string &out, const std::string &name, const Use &use, double seconds, double busy,
            double readBandwidth) {
  const double rate = ratio(use.bytes(), seconds);
  addText(out, "%-24s %6.4g %9.3f %5.0f%% %10.2f %8.2f %8.2f %6.0f%% %8.2f\n", name.c_str(), use.calls,
          seconds * 1e3, 100 * busy, use.weightBytes / 1e6, use.kvBytes / 1e6, rate / 1e9,
          100 * ratio(rate, readBandwidth), ratio(use.macs, seconds) / 1e9);
}

void addKernels(std::string &out, const Measured &test, const BenchReport &report, size_t most) {
  addText(out, "\na step of %s %u, batch %u, depth %u\n", test.name(), test.what.tokens, test.what.batch,
          test.what.depth);
  addText(out, "%-24s %6s %9s %6s %10s %8s %8s %7s %8s\n", "kernel", "calls", "ms", "busy", "weights MB",
          "K/V MB", "GB/s", "of read", "Gmac/s");
  const api::Profile &profile = test.result.profile;
  const auto add = [&](const std::string &name, const Use &use) {
    addUse(out, name, use, use.seconds, ratio(use.busySeconds, use.seconds * report.threads),
           report.readBandwidth);
  };
  Use rest;
  for (size_t i = 0; i < profile.kernels.size(); ++i) {
    const Use use(profile.kernels[i], double(profile.steps));
    if (i < most)
      add(std::string(profile.kernels[i].kernel), use);
    else
      rest += use;
  }
  if (profile.kernels.size() > most)
    add(std::to_string(profile.kernels.size() - most) + " more", rest);
  addText(out, "%-24s %6s %9.3f\n", "between kernels", "", profile.idleSeconds / double(profile.steps) * 1e3);
  const Use all = wholeStep(profile);
  addUse(out, "all, by the table above", all, stepSeconds(test),
         ratio(all.busySeconds * double(profile.steps), profile.seconds * report.threads),
         report.readBandwidth);
}

} // namespace

const char *Measured::name() const {
  return what.kind == api::BenchCase::Kind::kDecode ? "decode" : "prefill";
}
double Measured::medianSeconds() const {
  const auto &seconds = result.seconds;
  return (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
}
double Measured::rate(double seconds) const { return ratio(double(what.tokens) * what.batch, seconds); }

std::string headingText(const BenchReport &report) {
  std::string out;
  addText(out, "%s, %s, %u threads; ready in %.3f s, first step in %.3f s\n", report.model.c_str(),
          report.variant.c_str(), report.threads, report.loadSeconds, report.firstStepSeconds);
  addText(out, "%-8s %7s %6s %7s %12s %12s %12s\n", "test", "tokens", "batch", "depth", "tokens/s", "lowest",
          "highest");
  return out;
}

std::string rowText(const Measured &test) {
  std::string out;
  addText(out, "%-8s %7u %6u %7u %12.1f %12.1f %12.1f\n", test.name(), test.what.tokens, test.what.batch,
          test.what.depth, test.rate(test.medianSeconds()), test.rate(test.result.seconds.back()),
          test.rate(test.result.seconds.front()));
  return out;
}

std::string kernelsText(const BenchReport &report, size_t most) {
  std::string out;
  addText(out, "\nread bandwidth of memory %.2f GB/s; most memory in use %s\n", report.readBandwidth / 1e9,
          bytesText(report.peakBytes).c_str());
  for (const Measured &test : report.tests)
    addKernels(out, test, report, most);
  return out;
}

std::string benchJson(const BenchReport &report) {
  Json results = Json::array();
  for (const Measured &test : report.tests)
    results.push_back(testJson(test, report));
  const Json json = {{"model", report.model},
                     {"g4run", G4_VERSION},
                     {"variant", report.variant},
                     {"threads", report.threads},
                     {"load_seconds", report.loadSeconds},
                     {"first_step_seconds", report.firstStepSeconds},
                     {"peak_bytes", report.peakBytes},
                     {"read_bandwidth", report.readBandwidth},
                     {"results", std::move(results)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace g4::tool
