#include "dialects/exec/Signature.h"
#include "runtime/module/PackedLayout.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace g4::exec {
namespace {

/// Collects the arguments of one kernel; writes go last whatever the order of the calls.
class Builder {
public:
  explicit Builder(MLIRContext *context)
      : f32(Float32Type::get(context)), i8(IntegerType::get(context, 8)), i32(IntegerType::get(context, 32)) {}

  void read(std::string name, Type element, int64_t columns = 0) {
    reads.push_back({std::move(name), element, columns, false});
  }
  void write(std::string name, Type element, int64_t columns = 0) {
    writes.push_back({std::move(name), element, columns, true});
  }
  void activation(const std::string &name, int64_t columns, bool hasF32, bool hasQ8, bool written) {
    auto add = [&](std::string n, Type t, int64_t c) { written ? write(n, t, c) : read(n, t, c); };
    if (hasF32)
      add(name, f32, columns);
    if (hasQ8) {
      add(name + ".q", i8, columns);
      add(name + ".scale", f32, columns / 32);
      add(name + ".sums", i32, columns / 16);
    }
  }

  void weights(ArrayRef<MatrixAttr> parts) {
    for (auto [i, part] : llvm::enumerate(parts)) {
      read("w" + std::to_string(i), i8);
      if (part.getScales())
        read("s" + std::to_string(i), f32);
    }
  }

  void kv(gguf::ElementType element, bool written) {
    auto add = [&](std::string name, bool scales) {
      Type type = kvMemoryType(f32.getContext(), element, scales);
      written ? write(std::move(name), type) : read(std::move(name), type);
    };
    add("kv", false);
    if (!gguf::isFloat(element))
      add(kKvScales, true);
  }

  /// A row chain's arguments. As a prologue its norm stays in scratch.
  void row(RowAttr r, bool prologue) {
    switch (r.getSource()) {
    case Source::embed:
      read("map", i32);
      read("tokens", i32);
      read("embed", i8);
      break;
    case Source::gather:
      read("map", i32);
      [[fallthrough]];
    case Source::buffer:
      read("stream", f32, r.getHidden());
    }
    if (r.getAdd() != Add::none) {
      read("y", f32, r.getHidden());
      read("post_norm", f32);
    }
    if (r.getAdd() == Add::experts) {
      read("dense_norm", f32);
      read("experts", f32, r.getHidden() * r.getExpertsUsed());
      read("experts_norm", f32);
    }
    if (PleAttr p = r.getPle()) {
      read("ple", f32, p.getStride());
      read("ple_gate", i8);
      read("ple_projection", i8);
      read("ple_norm", f32);
    }
    if (r.getScaled())
      read("scale", f32);
    if (r.getStore())
      write("stream_out", f32, r.getHidden());
    for (unsigned i = 0; i < r.getNumNorms(); ++i) {
      NormAttr n = r.getNorm(i);
      if (n.getGain())
        read("gain" + std::to_string(i), f32);
      if (!prologue)
        activation("x" + std::to_string(i), r.getHidden(), n.getForms().getF32(), n.getForms().getQ8(), true);
    }
    if (RouteAttr route = r.getRoute()) {
      read("router", i8);
      read("router_scale", f32);
      read("expert_scale", f32);
      read("route_map", i32);
      read("forced_flag", i32);
      read("forced", i32);
      write("router_prob", f32, route.getRouter().getRows());
      write("router_idx", i32, route.getUsed());
      write("router_w", f32, route.getUsed());
    }
  }

  void linear(LinearAttr l) {
    read("count", i32);
    if (RowAttr r = l.getRow()) {
      row(r, /*prologue=*/true);
    } else {
      InputForms in = inputForms(l.getParts(), l.getInt8());
      activation("x", l.getColumns(), in.f32, in.q8, false);
    }
    weights(l.getParts());
    switch (l.getEpilogue()) {
    case Epilogue::store:
    case Epilogue::logits: {
      int64_t outputs = (l.getParts()[0].getRows() + 15) / 16 * 16;
      write("out", f32, outputs);
      if (l.getEpilogue() == Epilogue::logits)
        write("maxima", f32, outputs / l.getTile());
      break;
    }
    case Epilogue::geglu:
      activation("out", l.getParts()[0].getRows(), l.getOut().getF32(), l.getOut().getQ8(), true);
      break;
    case Epilogue::heads: {
      HeadsAttr h = l.getHeads();
      read("map", i32);
      read("rope", f32, h.getDim());
      if (h.getQuery()) {
        read("q_norm", f32);
        write("q", f32, h.getHeads() * h.getDim());
        write("arrivals", i32, h.getHeads());
      }
      if (h.getKey())
        read("k_norm", f32);
      if (h.getKey() || h.getValue()) {
        read("positions", i32);
        read("sequences", i32);
        read("blocks", i32);
        read("blocks_stride", i32);
        kv(h.getKvElement(), /*written=*/true);
      }
      break;
    }
    case Epilogue::per_layer:
      read("map", i32);
      read("tokens", i32);
      read("table", i8);
      read("norm", f32);
      write("out", f32, l.getParts()[0].getRows());
      break;
    }
  }

  void attention(AttentionAttr a) {
    for (const char *name : {"count", "map", "positions", "sequences", "blocks", "blocks_stride"})
      read(name, i32);
    read("q", f32, a.getHeads() * a.getDim());
    kv(a.getKvElement(), /*written=*/false);
    write("parts", f32, partColumns(a));
    write("arrivals", i32, a.getHeads());
    activation("out", a.getHeads() * a.getDim(), a.getForms().getF32(), a.getForms().getQ8(), true);
  }

  void sort(SortExpertsAttr s) {
    read("count", i32);
    read("router_idx", i32, s.getUsed());
    write("order", i32);
    write("tiles", i32);
  }

  void experts(ExpertsAttr e) {
    bool up = e.getParts().size() == 2;
    MatrixAttr first = e.getParts()[0];
    InputForms in = inputForms(e.getParts(), e.getInt8());
    read("count", i32);
    read("order", i32);
    read("tiles", i32);
    activation("x", first.getColumns(), in.f32, in.q8, false);
    weights(e.getParts());
    int64_t outputs = first.getRows() / e.getExperts();
    if (up) {
      activation("out", outputs, e.getOut().getF32(), e.getOut().getQ8(), true);
    } else {
      read("router_w", f32);
      write("out", f32, outputs);
    }
  }

  SmallVector<Argument> take() {
    reads.append(writes.begin(), writes.end());
    return std::move(reads);
  }

private:
  Type f32, i8, i32;
  SmallVector<Argument> reads, writes;
};

} // namespace

MemRefType Argument::type() const {
  SmallVector<int64_t> shape{ShapedType::kDynamic};
  if (columns)
    shape.push_back(columns);
  return MemRefType::get(shape, element);
}

std::optional<module::KvLayout> kvLayout(gguf::ElementType element, int64_t heads, int64_t dim) {
  return module::kvLayout(gguf::stringifyElementType(element), heads, dim);
}

Type kvMemoryType(MLIRContext *context, gguf::ElementType element, bool scales) {
  if (scales || element == gguf::ElementType::kF16)
    return Float16Type::get(context);
  if (element == gguf::ElementType::kF32)
    return Float32Type::get(context);
  if (element == gguf::ElementType::kBF16)
    return BFloat16Type::get(context);
  return IntegerType::get(context, 8);
}

bool isFloatElement(gguf::ElementType element) {
  return gguf::getPackedLayout(element).isFloat;
}

int64_t tableRowBytes(gguf::ElementType element, int64_t columns) {
  int64_t scale = gguf::getPackedLayout(element).groupHeaderBytes() ? 4 : 0;
  return columns / gguf::getBlockElements(element) * gguf::getBlockBytes(element) + scale;
}

InputForms inputForms(ArrayRef<MatrixAttr> parts, bool int8) {
  InputForms forms;
  for (MatrixAttr part : parts)
    (int8 && !isFloatElement(part.getElement()) ? forms.q8 : forms.f32) = true;
  return forms;
}

SmallVector<Argument> signatureOf(Attribute spec) {
  Builder b(spec.getContext());
  TypeSwitch<Attribute>(spec)
      .Case([&](LinearAttr l) { b.linear(l); })
      .Case([&](AttentionAttr a) { b.attention(a); })
      .Case([&](RowKernelAttr r) {
        b.read("count", IntegerType::get(spec.getContext(), 32));
        b.row(r.getRow(), false);
      })
      .Case([&](SortExpertsAttr s) { b.sort(s); })
      .Case([&](ExpertsAttr e) { b.experts(e); });
  return b.take();
}

int64_t segmentsOf(AttentionAttr spec) {
  int64_t window = spec.getWindow(), pages = kMostSegments * module::kPageTokens;
  if (window == 0)
    return kMostSegments;
  int64_t tokens = (window + pages - 1) / pages * module::kPageTokens;
  return (window - 1 + tokens - 1) / tokens + 1; // its first position may lie anywhere in a segment
}

Geometry geometryOf(Attribute spec) {
  return TypeSwitch<Attribute, Geometry>(spec)
      .Case([](LinearAttr l) -> Geometry {
        int64_t items = 0;
        if (l.getEpilogue() == Epilogue::heads)
          for (MatrixAttr part : l.getParts())
            items += part.getRows() / l.getHeads().getDim();
        else
          items = (l.getParts()[0].getRows() + l.getTile() - 1) / l.getTile();
        return {l.getRowsPerItem(), items};
      })
      .Case([](AttentionAttr a) -> Geometry { return {1, a.getKvHeads() * segmentsOf(a)}; })
      .Case([](RowKernelAttr) -> Geometry { return {kRowChainRows, 1}; })
      .Case([](ExpertsAttr e) -> Geometry {
        return {1, e.getUsed() * (e.getParts()[0].getRows() / e.getExperts() / e.getTile())};
      })
      .Default([](Attribute) -> Geometry { return {1, 1}; });
}

} // namespace g4::exec
