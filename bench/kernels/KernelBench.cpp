// Times compiled contraction kernels of real Gemma shapes on one thread, in CPU time: rows x type x shape.
//
//   g4-kernel-bench [--variant=x86-64-v3] [--types=q4_0,q8_0,...] [--rows=1,4,32] [--activations=int8|f32]
//                   bench/shapes/e2b.txt ... [Google Benchmark's options]
//
// A shape's matrix is cut to at most 32 MiB of packed weights: beyond every cache, and quick to fill.
#include "dialects/exec/ExecDialect.h"
#include "runtime/engine/WeightFill.h"
#include "runtime/module/PackedLayout.h"
#include "test/support/CompiledKernels.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace {

using namespace g4;

constexpr uint64_t kMaxBytes = 32 << 20;

struct Shape {
  std::string name, epilogue;
  int64_t outputs, columns;
};

struct Settings {
  const cpu::Variant *variant = cpu::hostVariant();
  std::vector<std::string> types{"q4_0", "q8_0", "q4_k", "q6_k"}, files;
  std::vector<int64_t> rows{1, 32};
  bool int8 = true;
};

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "g4-kernel-bench: error: %s\n", message.c_str());
  std::exit(2);
}

/// What a kernel reads and writes, in the order of its signature.
struct Buffers {
  Buffers(const Settings &settings, const module::PackedLayout &layout, const Shape &shape, int64_t rows)
      : count(int32_t(rows)), q(rows * shape.columns), q2(rows * shape.outputs), scale(rows * shape.columns / 32, 0.01f),
        scale2(rows * shape.outputs / 32), sums(rows * shape.columns / 16), sums2(rows * shape.outputs / 16),
        x(rows * shape.columns, 0.5f), out(rows * shape.outputs) {
    for (size_t i = 0; i < q.size(); ++i) {
      q[i] = int8_t((i * 37 + i / 251) % 255 - 127);
      sums[i / 16] += q[i];
    }
    bool geglu = shape.epilogue == "geglu", int8 = settings.int8 && !layout.isFloat;
    weights.resize(geglu ? 2 : 1);
    pointers = {&count};
    if (int8)
      pointers.insert(pointers.end(), {q.data(), scale.data(), sums.data()});
    else
      pointers.push_back(x.data());
    for (auto &w : weights) {
      w.resize(layout.matrixBytes(shape.outputs, shape.columns));
      Status filled = engine::fillWeight({"w", layout.name, uint64_t(shape.outputs), uint64_t(shape.columns)}, 1, w);
      if (!filled.ok())
        fail(filled.message());
      pointers.push_back(w.data());
      bytes += w.size();
    }
    if (geglu && int8)
      pointers.insert(pointers.end(), {q2.data(), scale2.data(), sums2.data()});
    else
      pointers.push_back(out.data());
  }
  int32_t count;
  std::vector<int8_t> q, q2;
  std::vector<float> scale, scale2;
  std::vector<int32_t> sums, sums2;
  std::vector<float> x, out;
  std::vector<std::vector<std::byte>> weights;
  std::vector<void *> pointers;
  uint64_t bytes = 0;
};

std::string specOf(const Settings &settings, const module::PackedLayout &layout, const Shape &shape, int64_t tile,
                   int64_t rowsPerItem) {
  bool int8 = settings.int8 && !layout.isFloat, geglu = shape.epilogue == "geglu";
  std::string columns = std::to_string(shape.columns);
  std::string part = "<element = " + std::string(layout.name) + ", rows = " + std::to_string(shape.outputs) + ", columns = " + columns + ">";
  return "#exec.linear<columns = " + columns + ", int8 = " + (int8 ? "true" : "false") + ", parts = [" + part +
         (geglu ? ", " + part : "") + "], epilogue = " + shape.epilogue + ", tile = " + std::to_string(tile) +
         ", rows_per_item = " + std::to_string(rowsPerItem) +
         (geglu ? std::string(", out = <f32 = ") + (int8 ? "false, q8 = true>" : "true, q8 = false>") : "") + ">";
}

void run(benchmark::State &state, const Settings &settings, const module::PackedLayout &layout, Shape shape, int64_t rows) {
  constexpr int64_t kTile = 64;
  uint64_t perTile = layout.matrixBytes(kTile, shape.columns) * (shape.epilogue == "geglu" ? 2 : 1);
  shape.outputs = std::min<int64_t>(shape.outputs, std::max<int64_t>(1, kMaxBytes / perTile) * kTile);
  auto kernels = support::CompiledKernels::compile({{"k", specOf(settings, layout, shape, kTile, std::max<int64_t>(rows, 32))}},
                                                   *settings.variant);
  if (!kernels.ok())
    return state.SkipWithError(kernels.status().message().c_str());
  module::KernelFn kernel = (*kernels)->find("k");
  Buffers buffers(settings, layout, shape, rows);
  for (auto _ : state)
    kernel(buffers.pointers.data(), 0, shape.outputs / kTile);
  double turns = double(state.iterations()), macs = double(rows * shape.outputs * shape.columns * std::ssize(buffers.weights));
  state.counters["bytes"] = benchmark::Counter(double(buffers.bytes) * turns, benchmark::Counter::kIsRate);
  state.counters["macs"] = benchmark::Counter(macs * turns, benchmark::Counter::kIsRate);
}

std::vector<std::string> split(const std::string &list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');)
    parts.push_back(part);
  return parts;
}

Settings parse(int count, char **arguments) {
  Settings s;
  for (int i = 1; i < count; ++i) {
    std::string argument = arguments[i], value = argument.substr(argument.find('=') + 1);
    if (argument.starts_with("--variant=")) {
      if (!(s.variant = cpu::findVariant(value)))
        fail("no variant '" + value + "'");
    } else if (argument.starts_with("--types=")) {
      s.types = split(value);
    } else if (argument.starts_with("--rows=")) {
      s.rows.clear();
      for (const std::string &n : split(value))
        s.rows.push_back(std::max(1l, std::atol(n.c_str())));
    } else if (argument == "--activations=f32" || argument == "--activations=int8") {
      s.int8 = value == "int8";
    } else if (argument.starts_with("-")) {
      fail("unknown option " + argument);
    } else {
      s.files.push_back(argument);
    }
  }
  if (s.files.empty())
    fail("name a file of shapes, such as bench/shapes/e2b.txt");
  return s;
}

std::vector<Shape> readShapes(const std::string &path) {
  std::ifstream in(path);
  std::vector<Shape> shapes;
  for (std::string line; std::getline(in, line);) {
    Shape shape;
    if (line.starts_with('#') || line.empty())
      continue;
    if (!(std::istringstream(line) >> shape.name >> shape.epilogue >> shape.outputs >> shape.columns))
      fail(path + ": not 'name epilogue outputs columns': " + line);
    shapes.push_back(shape);
  }
  if (shapes.empty())
    fail("no shapes in " + path);
  return shapes;
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv); // takes its own options out
  Settings settings = parse(argc, argv);
  if (!settings.variant)
    fail("this machine has less than x86-64-v3");
  benchmark::AddCustomContext("variant", settings.variant->name);
  for (const std::string &file : settings.files) {
    std::string model = file.substr(file.rfind('/') + 1);
    model = model.substr(0, model.find('.'));
    for (const Shape &shape : readShapes(file))
      for (const std::string &type : settings.types) {
        const module::PackedLayout *layout = module::packedLayout(type);
        if (!layout)
          fail("no packed layout named " + type);
        for (int64_t rows : settings.rows)
          benchmark::RegisterBenchmark((model + "/" + shape.name + "/" + type + "/" + std::to_string(rows)).c_str(), run, settings,
                                       *layout, shape, rows)
              ->Unit(benchmark::kMillisecond)->MinTime(0.1);
      }
  }
  benchmark::RunSpecifiedBenchmarks();
}
