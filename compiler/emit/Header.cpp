#include "compiler/emit/Header.h"
#include "compiler/emit/Packer.h"
#include "dialects/exec/Signature.h"
#include "dialects/gemma/GemmaDialect.h"
#include "runtime/module/StepAbi.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace g4::emit {
namespace fb = module::fb;
namespace {

class HeaderBuilder {
public:
  HeaderBuilder(ModuleOp module, const std::vector<const gguf::File *> &files, fb::ModuleT &header)
      : module(module), files(files), header(header), symbols(module) {}
  LogicalResult run();

private:
  void addWeights(exec::ProgramOp program);
  void addKv(exec::ProgramOp program);
  LogicalResult addProgram(exec::ProgramOp program);
  LogicalResult addFacts(exec::ProgramOp program);
  void addSampling(const gguf::File &file, fb::SamplingT &sampling);
  std::unique_ptr<fb::BindingT> bind(Value v);
  std::unique_ptr<fb::RopeT> rope(gemma::RopeAttr attr);
  template <class Attr> Attr fact(exec::ProgramOp program, StringRef name) {
    return dyn_cast_or_null<Attr>(program.getModel().get(name));
  }
  int64_t number(exec::ProgramOp program, StringRef name) {
    auto a = fact<IntegerAttr>(program, name);
    return a ? a.getInt() : 0;
  }

  ModuleOp module;
  const std::vector<const gguf::File *> &files;
  fb::ModuleT &header;
  SymbolTable symbols;
  DenseMap<int64_t, uint32_t> weightByOffset, kvByLayer;
  DenseMap<Value, uint32_t> bufferIndex;
  llvm::StringMap<uint32_t> kernelIndex;
};

fb::Element elementOf(Type type) {
  if (type.isF16())
    return fb::Element::f16;
  if (type.isBF16())
    return fb::Element::bf16;
  if (type.isInteger(32))
    return fb::Element::i32;
  if (type.isInteger(8))
    return fb::Element::i8;
  return fb::Element::f32;
}

fb::RowSet rowSetOf(exec::RowSet set) {
  switch (set) {
  case exec::RowSet::rows: return fb::RowSet::rows;
  case exec::RowSet::tail: return fb::RowSet::tail;
  case exec::RowSet::logits: return fb::RowSet::logits;
  case exec::RowSet::single: return fb::RowSet::single;
  }
  return fb::RowSet::rows;
}

fb::Element elementOf(gguf::ElementType element) {
  switch (element) {
  case gguf::ElementType::kQ8_0:
    return fb::Element::q8_0;
  case gguf::ElementType::kQ4_0:
    return fb::Element::q4_0;
  case gguf::ElementType::kF16:
    return fb::Element::f16;
  case gguf::ElementType::kBF16:
    return fb::Element::bf16;
  default:
    return fb::Element::f32;
  }
}

void HeaderBuilder::addWeights(exec::ProgramOp program) {
  program.walk([&](exec::WeightOp op) {
    int64_t offset = op.getOffset().value_or(0);
    auto part = cast<gguf::PartAttr>(op.getPart());
    auto [it, isNew] = weightByOffset.try_emplace(offset, uint32_t(header.weights.size()));
    if (!isNew)
      return;
    auto w = std::make_unique<fb::WeightT>();
    w->name = part.getWeight().getValue().str();
    if (part.getFirst())
      w->name += "+" + std::to_string(part.getFirst());
    w->place = exec::stringifyStorage(op.getStorage()).str();
    StringRef element = gguf::stringifyElementType(op.getMatrix().getElement());
    w->layout = op.getStorage() == exec::Storage::vector ? "vector"
                : op.getStorage() == exec::Storage::table ? ("table:" + element).str() : element.str();
    w->rows = op.getMatrix().getRows();
    w->columns = op.getMatrix().getColumns();
    w->segment = 0; // all weights are in the first segment
    w->offset = offset;
    w->size = op.getSize().value_or(0);
    w->sources.push_back(part.getWeight().getValue().str());
    header.weights.push_back(std::move(w));
  });
}

void HeaderBuilder::addKv(exec::ProgramOp program) {
  program.walk([&](exec::KvOp op) {
    auto [it, isNew] = kvByLayer.try_emplace(op.getLayer(), uint32_t(header.kv_layers.size()));
    if (!isNew)
      return;
    auto kv = std::make_unique<fb::KvLayerT>();
    kv->layer = op.getLayer();
    kv->kv_class = op.getWindow() ? fb::KvClass::sliding : fb::KvClass::global;
    kv->heads = op.getHeads();
    kv->dim = op.getDim();
    gguf::ElementType element = op.getElement().getValue();
    kv->element = elementOf(element);
    kv->page_bytes = exec::kvLayout(element, op.getHeads(), op.getDim())->pageBytes(); // kv_c2
    header.kv_layers.push_back(std::move(kv));
  });
}

std::unique_ptr<fb::BindingT> HeaderBuilder::bind(Value v) {
  auto binding = std::make_unique<fb::BindingT>();
  TypeSwitch<Operation *>(v.getDefiningOp())
      .Case([&](exec::BufferOp) {
        binding->kind = fb::BindingKind::arena;
        binding->index = bufferIndex.lookup(v);
      })
      .Case([&](exec::ColumnsOp op) {
        binding = bind(op.getBuffer());
        binding->offset += op.getFirst() * op.getBuffer().getType().getElement().getIntOrFloatBitWidth() / 8;
      })
      .Case([&](exec::WeightOp op) {
        binding->kind = fb::BindingKind::weight;
        binding->index = weightByOffset.lookup(op.getOffset().value_or(0));
      })
      .Case([&](exec::KvOp op) {
        binding->kind = fb::BindingKind::kv;
        binding->index = kvByLayer.lookup(op.getLayer());
      })
      .Case([&](exec::SlotOp op) {
        binding->kind = fb::BindingKind::descriptor;
        binding->index = uint32_t(op.getKind()); // the enums name the same slots in the same order
        binding->offset = op.getIndex() * 4;
      });
  return binding;
}

LogicalResult HeaderBuilder::addProgram(exec::ProgramOp op) {
  auto program = std::make_unique<fb::ProgramT>();
  program->name = op.getSymName().str();
  program->max_rows = op.getMaxRows();
  program->max_tail_rows = op.getMaxTailRows();
  program->max_logit_rows = op.getMaxLogitRows();
  program->arena_bytes = op.getArenaBytes().value_or(0);
  program->peak_live_bytes = op.getPeakLiveBytes().value_or(0);
  bool barrier = false;
  for (Operation &o : op.getBody().front()) {
    if (auto b = dyn_cast<exec::BufferOp>(o)) {
      if (!b.getOffset())
        return b.emitOpError("has no place: run exec-plan-memory first");
      auto buffer = std::make_unique<fb::BufferT>();
      buffer->name = b.getName().str();
      buffer->set = rowSetOf(b.getType().getSet());
      buffer->row_bytes = b.getType().getRowBytes();
      buffer->offset = *b.getOffset();
      buffer->size = buffer->row_bytes * op.capacity(b.getType().getSet());
      bufferIndex[b.getResult()] = program->buffers.size();
      program->buffers.push_back(std::move(buffer));
    } else if (isa<exec::BarrierOp>(o)) {
      barrier = true;
    } else if (auto d = dyn_cast<exec::DispatchOp>(o)) {
      auto dispatch = std::make_unique<fb::DispatchT>();
      dispatch->kernel = kernelIndex.lookup(d.getKernel());
      for (Value v : d->getOperands())
        dispatch->bindings.push_back(bind(v));
      dispatch->grid = std::make_unique<fb::GridT>();
      dispatch->grid->set = rowSetOf(d.getSet());
      dispatch->grid->rows_per_item = d.getRowsPerItem();
      dispatch->grid->items_per_block = d.getItemsPerBlock();
      dispatch->layer = int32_t(int64_t(d.getLayer()));
      dispatch->barrier_before = barrier;
      dispatch->macs_per_row = d.getMacsPerRow();
      for (auto [operand, name] : llvm::zip(d.getTapOperands(), d.getTapNames().getAsRange<StringAttr>())) {
        auto type = cast<exec::BufferType>(d.getWrites()[operand].getType());
        auto tap = std::make_unique<fb::TapT>();
        tap->name = name.getValue().str();
        tap->binding = d.getReads().size() + operand;
        tap->columns = type.getCopies() * type.getColumns();
        tap->element = elementOf(type.getElement());
        dispatch->taps.push_back(std::move(tap));
      }
      program->dispatches.push_back(std::move(dispatch));
      barrier = false;
    } else if (auto r = dyn_cast<exec::ReturnOp>(o)) {
      for (auto [v, name] : llvm::zip(r.getOutputs(), r.getNames().getAsRange<StringAttr>())) {
        auto output = std::make_unique<fb::OutputT>();
        output->name = name.getValue().str();
        output->buffer = bufferIndex.lookup(v);
        bool logits = name.getValue() == "logits"; // its rows may be padded to a whole strip
        output->columns = logits ? number(op, "vocabulary") : cast<exec::BufferType>(v.getType()).getColumns();
        program->outputs.push_back(std::move(output));
      }
    }
  }
  header.programs.push_back(std::move(program));
  return success();
}

std::unique_ptr<fb::RopeT> HeaderBuilder::rope(gemma::RopeAttr attr) {
  auto rope = std::make_unique<fb::RopeT>();
  int64_t pairs = attr.getDim() / 2;
  rope->dim = attr.getDim();
  rope->base = attr.getBaseValue();
  // Without data: the first quarter of the pairs turns, as in every published model.
  int64_t turning = attr.getFactors() ? pairs / 4 : attr.getTurning() ? attr.getTurning() : pairs;
  rope->factors.assign(pairs, 1e30f);
  std::fill_n(rope->factors.begin(), turning, 1.0f);
  for (const gguf::File *file : files) {
    const gguf::Tensor *tensor = attr.getFactors() ? file->findTensor(attr.getFactors().getValue().str()) : nullptr;
    const gguf::TypeInfo *info = tensor ? gguf::typeInfo(tensor->ggmlType) : nullptr;
    const module::PackedLayout *layout = info ? module::packedLayout(info->name) : nullptr;
    std::span<const std::byte> data = tensor ? file->data(*tensor) : std::span<const std::byte>();
    if (layout && layout->isFloat && data.size() >= size_t(pairs) * layout->bits / 8)
      widenRow(*layout, pairs, data.data(), 1.0f, rope->factors.data());
  }
  return rope;
}

/// The file's sampling defaults. One that no sampler could use is left out with a warning: the model is good without.
void HeaderBuilder::addSampling(const gguf::File &file, fb::SamplingT &sampling) {
  auto read = [&](StringRef name, double most, auto &to) {
    std::string key = ("general.sampling." + name).str();
    const gguf::Value *value = file.find(key);
    if (!value)
      return;
    std::optional<double> number = file.getFloat(key);
    if (auto whole = file.getUint(key))
      number = double(*whole);
    if (number && *number >= 0 && *number <= most) // false for a NaN
      to = static_cast<std::remove_reference_t<decltype(to)>>(*number);
    else
      emitWarning(FileLineColLoc::get(module.getContext(), file.path(), 0, 0))
          << key << " is no number from 0 to " << int64_t(most) << "; using " << double(to);
  };
  read("temp", 1e6, sampling.temperature);
  read("top_k", INT32_MAX, sampling.top_k);
  read("top_p", 1, sampling.top_p);
  read("min_p", 1, sampling.min_p);
}

LogicalResult HeaderBuilder::addFacts(exec::ProgramOp program) {
  const gguf::File &file = *files.front();
  auto facts = std::make_unique<fb::FactsT>();
  auto text = [&](const char *key) { return file.getString(key) ? *file.getString(key) : std::string(); };
  facts->name = text("general.name");
  facts->architecture = text("general.architecture");
  facts->source = llvm::StringRef(file.path()).rsplit('/').second.empty() ? file.path() : llvm::StringRef(file.path()).rsplit('/').second.str();
  facts->vocabulary = number(program, "vocabulary");
  facts->hidden = number(program, "hidden");
  facts->context = number(program, "context_length");
  facts->window = number(program, "window");
  facts->page_tokens = module::kPageTokens;
  facts->experts_used = number(program, "experts_used");
  facts->softcap = fact<FloatAttr>(program, "softcap") ? fact<FloatAttr>(program, "softcap").getValueAsDouble() : 0;
  if (auto a = fact<gemma::ActivationTypeAttr>(program, "activations"))
    facts->activations = gemma::stringifyActivationType(a.getValue()).str();
  if (auto k = fact<gemma::KvElementAttr>(program, "kv_type"))
    facts->kv_type = gemma::stringifyKvElement(k.getValue()).str();
  auto sliding = fact<gemma::RopeAttr>(program, "rope_sliding"), global = fact<gemma::RopeAttr>(program, "rope_global");
  auto layers = fact<ArrayAttr>(program, "layer_facts");
  if (!sliding || !global || !layers)
    return program.emitOpError("keeps no model facts (rope_sliding, rope_global, layer_facts)");
  facts->rope_sliding = rope(sliding);
  facts->rope_global = rope(global);
  for (auto layer : layers.getAsRange<gemma::LayerAttr>()) {
    auto l = std::make_unique<fb::LayerFactsT>();
    l->kind = layer.isSliding() ? fb::KvClass::sliding : fb::KvClass::global;
    l->kv_source = layer.getKvSource();
    l->heads = layer.getHeads();
    l->kv_heads = layer.getKvHeads();
    l->head_dim = layer.getHeadDim();
    l->ff = layer.getFf();
    l->experts = layer.getExperts();
    l->own_kv = layer.ownsKv();
    facts->layers.push_back(std::move(l));
  }
  if (auto ids = file.getUints("tokenizer.ggml.suppress_tokens"))
    for (uint64_t id : *ids)
      if (id < facts->vocabulary)
        facts->suppress_tokens.push_back(id);
  // Soft-token placeholders, by their text: ids differ between vocabularies.
  if (auto *tokens = file.getStrings("tokenizer.ggml.tokens"))
    for (const char *placeholder : {"<|image|>", "<|audio|>", "<|video|>"})
      for (size_t id = 0; id < tokens->size() && id < facts->vocabulary; ++id)
        if ((*tokens)[id] == placeholder)
          facts->placeholder_tokens.push_back(id);
  facts->chat_template = text("tokenizer.chat_template");
  facts->sampling = std::make_unique<fb::SamplingT>();
  addSampling(file, *facts->sampling);
  header.facts = std::move(facts);
  return success();
}

LogicalResult HeaderBuilder::run() {
  for (exec::KernelOp kernel : module.getOps<exec::KernelOp>()) {
    kernelIndex[kernel.getSymName()] = header.kernels.size();
    header.kernels.push_back(kernel.getSymName().str());
  }
  auto programs = module.getOps<exec::ProgramOp>();
  if (programs.empty())
    return module.emitError("has no exec.program");
  for (exec::ProgramOp program : programs) {
    addWeights(program);
    addKv(program);
    if (failed(addProgram(program)))
      return failure();
  }
  return addFacts(*programs.begin());
}

} // namespace

LogicalResult buildHeader(ModuleOp module, const std::vector<const gguf::File *> &files, fb::ModuleT &header) {
  return HeaderBuilder(module, files, header).run();
}

} // namespace g4::emit
