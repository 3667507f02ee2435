#include "tools/g4run/BenchReport.h"
#include "tools/g4run/ReportText.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace g4::tool {
namespace {

using Json = nlohmann::ordered_json;

double ratio(double value, double by) { return by > 0 ? value / by : 0; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// A kernel's part of one step, or that of several kernels.
struct Use {
  double calls = 0, seconds = 0, busySeconds = 0, weightBytes = 0, kvBytes = 0, macs = 0;
  double peakSeconds = 0; ///< for its multiplications at their families' peaks

  Use() = default;
  Use(const api::KernelUse &kernel, const Measured &test)
      : calls(double(kernel.calls)), seconds(kernel.seconds), busySeconds(kernel.busySeconds),
        weightBytes(double(kernel.weightBytes)), kvBytes(double(kernel.kvBytes)) {
    for (const api::FamilyMacs &family : kernel.macs) {
      macs += double(family.macs);
      for (const api::Limits::Peak &peak : test.result.limits.peaks)
        if (peak.family == family.family)
          peakSeconds += ratio(double(family.macs), median(peak.macsPerSecond));
    }
    const double steps = double(test.result.profile.steps);
    for (double *sum : {&calls, &seconds, &busySeconds, &weightBytes, &kvBytes, &macs, &peakSeconds})
      *sum /= steps;
  }
  void operator+=(const Use &other) {
    calls += other.calls, seconds += other.seconds, busySeconds += other.busySeconds;
    weightBytes += other.weightBytes, kvBytes += other.kvBytes, macs += other.macs;
    peakSeconds += other.peakSeconds;
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
  json["peak_share"] = use.peakSeconds > 0 ? Json(ratio(use.peakSeconds, seconds)) : Json();
}

Use wholeStep(const Measured &test) {
  Use all;
  for (const api::KernelUse &kernel : test.result.profile.kernels)
    all += Use(kernel, test);
  return all;
}

/// Seconds of a step of the timed repetitions.
double stepSeconds(const Measured &test) { return ratio(test.medianSeconds(), double(test.result.steps)); }

Json testJson(const Measured &test, const BenchReport &report) {
  const api::Profile &profile = test.result.profile;
  const double steps = double(profile.steps);
  Json kernels = Json::array();
  for (const api::KernelUse &kernel : profile.kernels) {
    const Use use(kernel, test);
    Json json = {{"kernel", kernel.kernel},
                 {"calls", use.calls},
                 {"seconds", use.seconds},
                 {"busy", ratio(use.busySeconds, use.seconds * report.threads)}};
    addUse(json, use, use.seconds, test.readBandwidth());
    kernels.push_back(std::move(json));
  }
  Json step = {{"seconds", profile.seconds / steps}, {"idle_seconds", profile.idleSeconds / steps}};
  addUse(step, wholeStep(test), stepSeconds(test), test.readBandwidth());
  step["kernels"] = std::move(kernels);
  const auto &seconds = test.result.seconds;
  Json peaks = Json::array();
  for (const api::Limits::Peak &peak : test.result.limits.peaks)
    peaks.push_back({{"weights", peak.family},
                     {"macs_per_second", median(peak.macsPerSecond)},
                     {"probes", peak.macsPerSecond}});
  return {{"test", test.name()},
          {"tokens", test.what.tokens},
          {"batch", test.what.batch},
          {"depth", test.what.depth},
          {"seconds", seconds},
          {"tokens_per_second", test.rate(test.medianSeconds())},
          {"tokens_per_second_min", test.rate(seconds.back())},
          {"tokens_per_second_max", test.rate(seconds.front())},
          {"read_bandwidth", test.readBandwidth()},
          {"read_bandwidth_probes", test.result.limits.readBandwidth},
          {"peaks", std::move(peaks)},
          {"steps", test.result.steps},
          {"step", std::move(step)}};
}

/// `busy`: share of the threads' time in kernels.
void addUse(std::string &out, const std::string &name, const Use &use, double seconds, double busy,
            double readBandwidth) {
  const double rate = ratio(use.bytes(), seconds);
  addText(out, "%-24s %6.4g %9.3f %5.0f%% %10.2f %8.2f %8.2f %6.0f%% %8.2f", name.c_str(), use.calls,
          seconds * 1e3, 100 * busy, use.weightBytes / 1e6, use.kvBytes / 1e6, rate / 1e9,
          100 * ratio(rate, readBandwidth), ratio(use.macs, seconds) / 1e9);
  if (use.peakSeconds > 0)
    addText(out, " %6.0f%%", 100 * ratio(use.peakSeconds, seconds));
  out += '\n';
}

/// "median (lowest to highest)", in 10^9.
std::string rangeText(const std::vector<double> &values) {
  std::string out;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  addText(out, "%.2f (%.2f to %.2f)", median(values) / 1e9, *low / 1e9, *high / 1e9);
  return out;
}

void addKernels(std::string &out, const Measured &test, const BenchReport &report, size_t most) {
  addText(out, "\na step of %s %u, batch %u, depth %u\n", test.name(), test.what.tokens, test.what.batch,
          test.what.depth);
  const api::Limits &limits = test.result.limits;
  addText(out, "meanwhile: read %s GB/s", rangeText(limits.readBandwidth).c_str());
  for (const api::Limits::Peak &peak : limits.peaks)
    addText(out, ", peak of %s %s Gmac/s", std::string(peak.family).c_str(),
            rangeText(peak.macsPerSecond).c_str());
  addText(out, "\n%-24s %6s %9s %6s %10s %8s %8s %7s %8s %7s\n", "kernel", "calls", "ms", "busy",
          "weights MB", "K/V MB", "GB/s", "of read", "Gmac/s", "of peak");
  const api::Profile &profile = test.result.profile;
  const auto add = [&](const std::string &name, const Use &use) {
    addUse(out, name, use, use.seconds, ratio(use.busySeconds, use.seconds * report.threads),
           test.readBandwidth());
  };
  Use rest;
  for (size_t i = 0; i < profile.kernels.size(); ++i) {
    const Use use(profile.kernels[i], test);
    if (i < most)
      add(std::string(profile.kernels[i].kernel), use);
    else
      rest += use;
  }
  if (profile.kernels.size() > most)
    add(std::to_string(profile.kernels.size() - most) + " more", rest);
  addText(out, "%-24s %6s %9.3f\n", "between kernels", "", profile.idleSeconds / double(profile.steps) * 1e3);
  const Use all = wholeStep(test);
  addUse(out, "all, by the table above", all, stepSeconds(test),
         ratio(all.busySeconds * double(profile.steps), profile.seconds * report.threads),
         test.readBandwidth());
}

} // namespace

const char *Measured::name() const {
  return what.kind == api::BenchCase::Kind::kDecode ? "decode" : "prefill";
}
double Measured::medianSeconds() const { return median(result.seconds); }
double Measured::readBandwidth() const { return median(result.limits.readBandwidth); }
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
  addText(out, "\nmost memory in use %s\n", bytesText(report.peakBytes).c_str());
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
                     {"results", std::move(results)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace g4::tool
