// Times choosing a token from a whole row of logits, in CPU time of its one thread: steps x distribution.
//
//   g4-sampler-bench [Google Benchmark's options]
#include "runtime/text/Sampler.h"

#include <benchmark/benchmark.h>

#include <random>

namespace {

using namespace g4::text;

void run(benchmark::State &state, const SamplingOptions &options, float deviation) {
  std::mt19937 rng(1);
  std::normal_distribution<float> logit(0, deviation);
  std::vector<float> row(262144); // Gemma's vocabulary
  for (float &l : row)
    l = logit(rng);
  auto sampler = Sampler::create(options);
  for (auto _ : state)
    if (!sampler->sample({row}, {}).ok())
      return state.SkipWithError("no token");
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  for (auto [distribution, deviation] :
       {std::pair("flat", 0.05f), std::pair("normal", 1.f), std::pair("peaked", 5.f)})
    for (const auto &[steps, options] : {std::pair("temperature", SamplingOptions{}),
                                         std::pair("top-p=0.95", SamplingOptions{.topP = 0.95f}),
                                         std::pair("min-p=0.05", SamplingOptions{.minP = 0.05f}),
                                         std::pair("top-k=64", SamplingOptions{.topK = 64}),
                                         std::pair("greedy", SamplingOptions{.temperature = 0})})
      benchmark::RegisterBenchmark((std::string(steps) + "/" + distribution).c_str(), run, options, deviation)
          ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
