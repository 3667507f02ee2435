// Times compiled kernels of real Gemma shapes on one thread, in CPU time: contractions by rows x type x shape, attention by
// rows x type of K/V x depth x shape.
//
//   g4-kernel-bench [--variant=x86-64-v3] [--types=q4_0,q8_0,...] [--rows=1,4,32] [--activations=int8|f32]
//                   [--kv=f16,q8_0,...] [--depths=512,8192] bench/shapes/e2b.txt ... [Google Benchmark's options]
//
// A shape's matrix is cut to at most 32 MiB of packed weights: beyond every cache, and quick to fill. Rows of attention are
// those of one sequence, the last of which is at the depth.
#include "dialects/exec/ExecDialect.h"
#include "dialects/exec/Signature.h"
#include "runtime/engine/WeightFill.h"
#include "runtime/module/PackedLayout.h"
#include "runtime/module/StepAbi.h"
#include "test/support/CompiledKernels.h"

#include "mlir/AsmParser/AsmParser.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

namespace {

using namespace g4;

constexpr uint64_t kMaxBytes = 32 << 20;

struct Shape {
  std::string name, epilogue;
  int64_t outputs, columns;
};

struct AttentionShape {
  std::string name;
  int64_t heads, kvHeads, dim, window;
};

struct Shapes {
  std::vector<Shape> contractions;
  std::vector<AttentionShape> attention;
};

struct Settings {
  const cpu::Variant *variant = cpu::hostVariant();
  std::vector<std::string> types{"q4_0", "q8_0", "q4_k", "q6_k"}, files;
  std::vector<std::string> kv{"f16"};
  std::vector<int64_t> rows{1, 32}, depths{512, 8192};
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

void runAttention(benchmark::State &state, const Settings &settings, AttentionShape shape, std::string element, int64_t rows,
                  int64_t depth) {
  auto number = [](int64_t n) { return std::to_string(n); };
  std::string spec = "#exec.attention<heads = " + number(shape.heads) + ", kvHeads = " + number(shape.kvHeads) + ", dim = " +
                     number(shape.dim) + ", window = " + number(shape.window) + ", kvElement = " + element +
                     ", scale = 1.0 : f32, forms = #exec.forms<f32 = true, q8 = true>>";
  auto compiled = support::CompiledKernels::compile({{"k", spec}}, *settings.variant);
  if (!compiled.ok())
    return state.SkipWithError(compiled.status().message().c_str());
  module::KernelFn kernel = (*compiled)->find("k");
  mlir::MLIRContext context;
  context.loadDialect<exec::ExecDialect>();
  const auto attention = llvm::cast<exec::AttentionAttr>(mlir::parseAttribute(spec, &context));
  const int64_t items = exec::geometryOf(attention).itemsPerBlock;
  // Zeros are as fast as any numbers.
  const bool quantised = element == "q8_0" || element == "q4_0";
  const int64_t pages = (depth + module::kPageTokens - 1) / module::kPageTokens, columns = shape.heads * shape.dim;
  const uint64_t pageBytes = 2 * uint64_t(shape.kvHeads * shape.dim) * module::kPageTokens * 4; // f32: the most
  int32_t count = int32_t(rows), stride = int32_t(pages);
  std::vector<int32_t> map(rows), positions(rows), sequences(rows), blocks(pages), arrivals(rows * shape.heads), sums(rows * columns / 16);
  std::iota(map.begin(), map.end(), 0);
  std::iota(positions.begin(), positions.end(), int32_t(depth - rows));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::vector<float> q(rows * columns), parts(exec::kSplitRows * shape.heads * exec::segmentsOf(attention) * exec::partColumns(attention)), out(rows * columns), scale(rows * columns / 32);
  std::vector<int8_t> codes(rows * columns);
  std::vector<std::byte> kv(pages * pageBytes);
  std::vector<void *> buffers{&count, map.data(), positions.data(), sequences.data(), blocks.data(), &stride, q.data(), kv.data(), parts.data(),
                              arrivals.data(), out.data(), codes.data(), scale.data(), sums.data()};
  if (quantised) // bound once for codes and once for scales
    buffers.insert(buffers.begin() + 8, kv.data());
  for (auto _ : state) {
    std::fill(arrivals.begin(), arrivals.end(), 0); // as the kernel before it does
    kernel(buffers.data(), 0, rows * items);
  }
  int64_t seen = 0;
  for (int64_t row = 0; row < rows; ++row)
    seen += shape.window ? std::min(shape.window, depth - rows + row + 1) : depth - rows + row + 1;
  state.counters["macs"] = benchmark::Counter(2.0 * double(seen * columns * int64_t(state.iterations())), benchmark::Counter::kIsRate);
  state.counters["positions"] = benchmark::Counter(double(seen * int64_t(state.iterations())), benchmark::Counter::kIsRate);
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
    } else if (argument.starts_with("--kv=")) {
      s.kv = split(value);
    } else if (argument.starts_with("--rows=") || argument.starts_with("--depths=")) {
      auto &numbers = argument.starts_with("--rows=") ? s.rows : s.depths;
      numbers.clear();
      for (const std::string &n : split(value))
        numbers.push_back(std::max(1l, std::atol(n.c_str())));
    } else if (argument == "--activations=f32" || argument == "--activations=int8") {
      s.int8 = value == "int8";
    } else if (argument.starts_with("-")) {
      fail("unknown option " + argument);
    } else {
      s.files.push_back(argument);
    }
  }
  for (int64_t depth : s.depths)
    for (int64_t rows : s.rows)
      if (rows > depth)
        fail("more rows than positions");
  if (s.files.empty())
    fail("name a file of shapes, such as bench/shapes/e2b.txt");
  return s;
}

Shapes readShapes(const std::string &path) {
  std::ifstream in(path);
  Shapes shapes;
  for (std::string line; std::getline(in, line);) {
    std::string name, kind;
    if (line.starts_with('#') || line.empty())
      continue;
    std::istringstream words(line);
    words >> name >> kind;
    if (AttentionShape a{name, 0, 0, 0, 0}; kind == "attention" && words >> a.heads >> a.kvHeads >> a.dim >> a.window)
      shapes.attention.push_back(a);
    else if (Shape c{name, kind, 0, 0}; kind != "attention" && words >> c.outputs >> c.columns)
      shapes.contractions.push_back(c);
    else
      fail(path + ": neither 'name epilogue outputs columns' nor 'name attention heads kv-heads dim window': " + line);
  }
  if (shapes.contractions.empty() && shapes.attention.empty())
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
    const Shapes shapes = readShapes(file);
    for (const Shape &shape : shapes.contractions)
      for (const std::string &type : settings.types) {
        const module::PackedLayout *layout = module::packedLayout(type);
        if (!layout)
          fail("no packed layout named " + type);
        for (int64_t rows : settings.rows)
          benchmark::RegisterBenchmark((model + "/" + shape.name + "/" + type + "/" + std::to_string(rows)).c_str(), run, settings,
                                       *layout, shape, rows)
              ->Unit(benchmark::kMillisecond)->MinTime(0.1);
      }
    for (const AttentionShape &shape : shapes.attention)
      for (const std::string &element : settings.kv)
        for (int64_t depth : settings.depths)
          for (int64_t rows : settings.rows)
            benchmark::RegisterBenchmark((model + "/" + shape.name + "/" + element + "/" + std::to_string(rows) + "/" + std::to_string(depth)).c_str(),
                                         runAttention, settings, shape, element, rows, depth)
                ->Unit(benchmark::kMillisecond)->MinTime(0.1);
  }
  benchmark::RunSpecifiedBenchmarks();
}
