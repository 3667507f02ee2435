// Linear kernels: prologue, packed contraction, epilogue. See #exec.linear.
#include "passes/lower/KvPages.h"

using namespace mlir;
using namespace g4::exec;

namespace g4 {
namespace {

// Groups that are contracted together: one row reads 0.9 of what loads alone read with one stream of weights, all of it with two.
// Each stream goes on where the one before ends, so that what is prefetched at a group's end is the next one's beginning.
constexpr int64_t kStreams = 2;

class LinearKernel {
public:
  LinearKernel(TileBuilder &t, LinearAttr spec) : t(t), spec(spec) {}
  void build();

private:
  /// Calls sink(row within block, output column within tile, sums of each part in `parts`) for a tile of outputs.
  void contractTile(Value first, Value n, ArrayRef<unsigned> parts, Value firstGroup, int64_t columns,
                    function_ref<void(Value, Value, ArrayRef<Value>)> sink);
  void store(Value first, Value n, Value item);
  void geglu(Value first, Value n, Value item);
  void heads(Value first, Value n, Value item);
  void oneHead(Value first, Value n, unsigned part, Value head, StringRef kind);
  void perLayer(Value first, Value n, Value item);
  void writeValues(Value row, Value head, Value m);
  /// The page of this row's position, and the position's slot in it.
  std::pair<Value, Value> pageOf(Value row);

  TileBuilder &t;
  LinearAttr spec;
  Activation input;
  SmallVector<Value> partSums; // [rows of a block][16], for each part that is contracted together with others
  Value tileScratch, rotated;
  std::optional<KvPages> pages; // of heads
};

void LinearKernel::contractTile(Value first, Value n, ArrayRef<unsigned> parts, Value firstGroup, int64_t columns,
                                function_ref<void(Value, Value, ArrayRef<Value>)> sink) {
  // Rows of the input: of scratch with a prologue, else of the buffer.
  TileBuilder::Rows rows{spec.getRow() ? t.index(0) : first, n};
  int64_t capacity = spec.getRowsPerItem(), groups = columns / 16, streams = groups % kStreams ? 1 : kStreams;
  while (partSums.size() < parts.size())
    partSums.push_back(t.scratch({streams * capacity, 16}));
  t.forEach(t.index(0), t.index(groups / streams), 1, [&](Value g) {
    for (auto [p, sums] : llvm::zip(parts, partSums))
      t.contractPart(spec.getParts()[p], p, t.index(0), t.add(firstGroup, g), input, rows, sums, spec.getInt8(), streams, groups / streams);
    t.forEach(t.index(0), t.index(streams), 1, [&](Value j) {
      Value column = t.mul(t.add(g, t.mul(j, t.index(groups / streams))), t.index(16));
      Value at = t.mul(j, t.index(capacity));
      t.forEach(t.index(0), n, 1, [&](Value m) {
        SmallVector<Value> ofRow;
        for (Value sums : ArrayRef(partSums).take_front(parts.size()))
          ofRow.push_back(t.loadStrip(sums, {t.add(at, m), t.index(0)}));
        sink(m, column, ofRow);
      });
    });
  });
}

void LinearKernel::store(Value first, Value n, Value item) {
  Value out = t.arg("out");
  Value column0 = t.mul(item, t.index(spec.getTile()));
  contractTile(first, n, {0}, t.mul(item, t.index(spec.getTile() / 16)), spec.getTile(),
               [&](Value m, Value column, ArrayRef<Value> sums) {
                 Value v = sums[0];
                 if (FloatAttr cap = spec.getSoftcap()) {
                   float c = cap.getValueAsDouble();
                   v = t.mulf(t.tanh(t.divf(v, t.splat(c))), t.splat(c));
                 }
                 t.storeStrip(v, out, {t.add(first, m), t.add(column0, column)});
               });
  if (spec.getEpilogue() != Epilogue::logits)
    return;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  t.forEach(t.index(0), n, 1, [&](Value m) {
    Value row = t.add(first, m);
    Value largest = t.loop(t.index(0), t.index(spec.getTile()), 16, {t.splat(-kInfinity)}, [&](Value k, ValueRange acc) -> TileBuilder::Values {
      Value v = t.loadStrip(out, {row, t.add(column0, k)});
      Value isNan = arith::CmpFOp::create(t.b, t.loc, arith::CmpFPredicate::UNO, v, v);
      return {t.maxf(acc[0], t.select(isNan, t.splat(kInfinity), v))};
    })[0];
    t.store(t.reduceMax(largest), t.arg("maxima"), {row, item});
  });
}

void LinearKernel::geglu(Value first, Value n, Value item) {
  contractTile(first, n, {0, 1}, t.mul(item, t.index(spec.getTile() / 16)), spec.getTile(),
               [&](Value m, Value column, ArrayRef<Value> sums) {
                 t.storeStrip(t.mulf(t.gelu(sums[0]), sums[1]), tileScratch, {m, column});
               });
  Value column0 = t.mul(item, t.index(spec.getTile()));
  t.forEach(t.index(0), n, 1, [&](Value m) {
    t.writeActivation(t.activation("out"), t.add(first, m), column0, spec.getTile(),
                      [&](Value k) { return t.loadStrip(tileScratch, {m, k}); });
  });
}

std::pair<Value, Value> LinearKernel::pageOf(Value row) {
  Value pageTokens = t.index(module::kPageTokens);
  Value position = t.loadIndex(t.arg("positions"), {row}), sequence = t.loadIndex(t.arg("sequences"), {row});
  Value stride = t.loadIndex(t.arg("blocks_stride"), {t.index(0)});
  Value page = t.loadIndex(t.arg("blocks"), {t.add(t.mul(sequence, stride), t.div(position, pageTokens))});
  return {page, t.rem(position, pageTokens)};
}

void LinearKernel::writeValues(Value row, Value head, Value m) {
  HeadsAttr h = spec.getHeads();
  int64_t dim = h.getDim();
  Value f = t.lane(t.rmsFactor(dim, h.getEps().getValueAsDouble(), [&](Value k) { return t.loadStrip(tileScratch, {m, k}); }));
  t.forEach(t.index(0), t.index(dim), 16, [&](Value k) {
    t.storeStrip(t.mulf(t.loadStrip(tileScratch, {m, k}), f), tileScratch, {m, k});
  });
  if (pages->isQuantised())
    pages->rotate(tileScratch, m, [&](Value k, Value v) { t.storeStrip(v, tileScratch, {m, k}); });
  auto [page, slot] = pageOf(row);
  pages->storeValue(pages->values(page, head), slot, tileScratch, m);
}

void LinearKernel::oneHead(Value first, Value n, unsigned part, Value head, StringRef kind) {
  HeadsAttr h = spec.getHeads();
  int64_t dim = h.getDim(), half = dim / 2;
  contractTile(first, n, {part}, t.mul(head, t.index(dim / 16)), dim, [&](Value m, Value column, ArrayRef<Value> sums) {
    t.storeStrip(sums[0], tileScratch, {m, column});
  });
  t.forEach(t.index(0), n, 1, [&](Value m) {
    Value inSet = t.add(first, m), row = t.loadIndex(t.arg("map"), {inSet});
    if (kind != "value") {
      Value gain = t.arg(kind == "query" ? "q_norm" : "k_norm"), rope = t.arg("rope");
      Value f = t.lane(
          t.rmsFactor(dim, h.getEps().getValueAsDouble(), [&](Value k) { return t.loadStrip(tileScratch, {m, k}); }));
      // Rotated by position; queries and keys of quantised pages then by blocks (KvPages::rotate).
      Value q0 = t.mul(head, t.index(dim));
      bool direct = kind == "query" && !pages->isQuantised();
      Value to = direct ? t.arg("q") : rotated, toRow = direct ? inSet : m, to0 = direct ? q0 : t.index(0);
      t.forEach(t.index(0), t.index(half), 16, [&](Value j) {
        Value j1 = t.add(j, t.index(half));
        auto normed = [&](Value k) {
          return t.mulf(t.mulf(t.loadStrip(tileScratch, {m, k}), f), t.loadStrip(gain, {k}));
        };
        Value x0 = normed(j), x1 = normed(j1);
        Value cos = t.loadStrip(rope, {row, j}), sin = t.loadStrip(rope, {row, j1});
        t.storeStrip(t.subf(t.mulf(x0, cos), t.mulf(x1, sin)), to, {toRow, t.add(to0, j)});
        t.storeStrip(t.addf(t.mulf(x1, cos), t.mulf(x0, sin)), to, {toRow, t.add(to0, j1)});
      });
      if (pages->isQuantised())
        pages->rotate(rotated, m, [&](Value k, Value v) {
          if (kind == "query")
            t.storeStrip(v, t.arg("q"), {inSet, t.add(q0, k)});
          else
            t.storeStrip(v, rotated, {m, k});
        });
    }
    if (kind == "query") // no segment of its attention has arrived
      t.store(t.i32(0), t.arg("arrivals"), {inSet, head});
    if (kind == "key") {
      auto [page, slot] = pageOf(row);
      pages->storeKey(pages->keys(page, head), slot, rotated, m);
    }
    if (kind == "value" || (kind == "key" && !h.getValue()))
      writeValues(row, head, m);
  });
}

void LinearKernel::heads(Value first, Value n, Value item) {
  HeadsAttr h = spec.getHeads();
  // Items are heads: queries, then keys, then values, as far as present.
  int64_t at = 0;
  unsigned part = 0;
  auto range = [&](bool present, int64_t count, StringRef kind) {
    if (!present)
      return;
    Value lower = t.compare(arith::CmpIPredicate::uge, item, t.index(at));
    Value upper = t.compare(arith::CmpIPredicate::ult, item, t.index(at + count));
    Value inside = arith::AndIOp::create(t.b, t.loc, lower, upper);
    t.ifThen(inside, [&] { oneHead(first, n, part, t.sub(item, t.index(at)), kind); });
    at += count;
    ++part;
  };
  range(h.getQuery(), h.getHeads(), "query");
  range(h.getKey(), h.getKvHeads(), "key");
  range(h.getValue(), h.getKvHeads(), "value");
}

void LinearKernel::perLayer(Value first, Value n, Value item) {
  PerLayerAttr p = spec.getPerLayer();
  int64_t width = p.getWidth();
  contractTile(first, n, {0}, t.mul(item, t.index(width / 16)), width, [&](Value m, Value column, ArrayRef<Value> sums) {
    t.storeStrip(t.mulf(sums[0], t.splat(p.getProjectionScale().getValueAsDouble())), tileScratch, {m, column});
  });
  MatrixAttr table = p.getTable();
  Value rowBytes = t.index(tableRowBytes(table.getElement(), table.getColumns()));
  t.forEach(t.index(0), n, 1, [&](Value m) {
    Value inSet = t.add(first, m);
    Value token = t.loadIndex(t.arg("tokens"), {t.loadIndex(t.arg("map"), {inSet})});
    Value rowStart = t.mul(token, rowBytes);
    Value column0 = t.mul(t.add(item, t.index(p.getFirstLayer())), t.index(width));
    t.forEach(t.index(0), t.index(width), 1, [&](Value k) {
      Value v = t.loadTable(table.getElement(), t.arg("table"), rowStart, t.add(column0, k), table.getColumns());
      t.store(t.mulf(v, t.f32(p.getTableScale().getValueAsDouble())), rotated, {t.index(0), k});
    });
    tile::BarrierOp::create(t.b, t.loc);
    Value f = t.lane(t.rmsFactor(width, p.getEps().getValueAsDouble(), [&](Value k) { return t.loadStrip(tileScratch, {m, k}); }));
    t.forEach(t.index(0), t.index(width), 16, [&](Value k) {
      Value v = t.mulf(t.mulf(t.loadStrip(tileScratch, {m, k}), f), t.loadStrip(t.arg("norm"), {k}));
      v = t.mulf(t.addf(v, t.loadStrip(rotated, {t.index(0), k})), t.splat(p.getCombineScale().getValueAsDouble()));
      t.storeStrip(v, t.arg("out"), {inSet, t.add(t.mul(item, t.index(width)), k)});
    });
  });
}

void LinearKernel::build() {
  int64_t rows = spec.getRowsPerItem();
  std::optional<RowChain> chain;
  if (RowAttr row = spec.getRow()) {
    chain.emplace(t, row);
    FormsAttr forms = row.getNorm(0).getForms();
    input = t.scratchActivation(rows, spec.getColumns(), {forms.getF32(), forms.getQ8()});
  } else {
    input = t.activation("x");
  }
  int64_t outputs = spec.getParts()[0].getRows(), perBlock = (outputs + spec.getTile() - 1) / spec.getTile();
  if (spec.getEpilogue() != Epilogue::store && spec.getEpilogue() != Epilogue::logits)
    tileScratch = t.scratch({rows, spec.getTile()});
  if (HeadsAttr h = spec.getHeads()) {
    perBlock = (h.getQuery() ? h.getHeads() : 0) + (h.getKey() ? h.getKvHeads() : 0) + (h.getValue() ? h.getKvHeads() : 0);
    rotated = t.scratch({rows, h.getDim()});
    pages.emplace(t, h.getKvElement(), h.getKvHeads(), h.getDim());
  }
  if (PerLayerAttr p = spec.getPerLayer())
    rotated = t.scratch({1, p.getWidth()});
  Value count = t.toIndex(t.load(t.arg("count"), {t.index(0)}));
  t.forItemBlocks(count, rows, perBlock, [&](Value first, Value n, Value lo, Value hi) {
    if (chain) {
      // Each thread computes the prologue for itself, once for all its items of a block; item 0's thread stores it.
      Value hasFirst = t.compare(arith::CmpIPredicate::eq, lo, t.index(0));
      t.forEach(t.index(0), n, kRowChainRows, [&](Value m) {
        chain->emit(t.add(first, m), t.min(t.index(kRowChainRows), t.sub(n, m)), {input}, m, hasFirst);
      });
      tile::BarrierOp::create(t.b, t.loc);
    }
    t.forEach(lo, hi, 1, [&](Value item) {
      switch (spec.getEpilogue()) {
      case Epilogue::store:
      case Epilogue::logits:
        return store(first, n, item);
      case Epilogue::geglu:
        return geglu(first, n, item);
      case Epilogue::heads:
        return heads(first, n, item);
      case Epilogue::per_layer:
        return perLayer(first, n, item);
      }
    });
  });
}

} // namespace

void buildLinear(TileBuilder &t, LinearAttr spec) { LinearKernel(t, spec).build(); }

} // namespace g4
