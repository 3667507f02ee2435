#include "test/support/ModuleBuilder.h"

#include "runtime/base/Hash.h"
#include "runtime/module/Format.h"
#include "runtime/module/StepAbi.h"
#include "runtime/module/Writer.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

namespace g4::test {
namespace fb = module::fb;
namespace {

std::byte *allocate(size_t size) {
  void *memory = nullptr;
  if (posix_memalign(&memory, 64, std::max<size_t>(size, 1)) != 0)
    throw std::bad_alloc();
  std::memset(memory, 0, size);
  return static_cast<std::byte *>(memory);
}

void require(const Status &status) {
  if (!status.ok())
    throw std::runtime_error(status.message());
}

std::unique_ptr<fb::LayerFactsT> layer(fb::KvClass kind, uint32_t source, bool own, uint32_t headDim) {
  auto layer = std::make_unique<fb::LayerFactsT>();
  layer->kind = kind;
  layer->kv_source = source;
  layer->own_kv = own;
  layer->heads = 4;
  layer->kv_heads = 2;
  layer->head_dim = headDim;
  layer->ff = 64;
  return layer;
}

std::unique_ptr<fb::RopeT> rope(uint32_t dim, double base, std::vector<float> factors) {
  auto rope = std::make_unique<fb::RopeT>();
  rope->dim = dim;
  rope->base = base;
  rope->factors = std::move(factors);
  return rope;
}

std::unique_ptr<fb::FactsT> facts() {
  auto facts = std::make_unique<fb::FactsT>();
  facts->name = "tiny";
  facts->architecture = "gemma4";
  facts->vocabulary = 16;
  facts->hidden = 32;
  facts->context = 1024;
  facts->window = 128;
  facts->page_tokens = module::kPageTokens;
  facts->layers.push_back(layer(fb::KvClass::sliding, 0, true, 16));
  facts->layers.push_back(layer(fb::KvClass::global, 1, true, 32));
  facts->layers.push_back(layer(fb::KvClass::sliding, 0, false, 16));
  facts->softcap = 30;
  facts->activations = "int8";
  facts->kv_type = "f16";
  facts->rope_sliding = rope(16, 1e4, {});
  facts->rope_global = rope(32, 1e6, std::vector<float>(16, 1.0f));
  facts->suppress_tokens = {14};
  facts->placeholder_tokens = {15};
  facts->sampling = std::make_unique<fb::SamplingT>();
  return facts;
}

std::unique_ptr<fb::WeightT> weight(const char *name, const char *layout, uint64_t rows, uint64_t columns,
                                    uint64_t offset, uint64_t size) {
  auto weight = std::make_unique<fb::WeightT>();
  weight->name = name;
  weight->layout = layout;
  weight->rows = rows;
  weight->columns = columns;
  weight->segment = 0;
  weight->offset = offset;
  weight->size = size;
  weight->sources = {name};
  weight->place = "host";
  return weight;
}

std::unique_ptr<fb::KvLayerT> kvLayer(uint32_t layer, fb::KvClass kind, uint32_t dim) {
  auto kv = std::make_unique<fb::KvLayerT>();
  kv->layer = layer;
  kv->kv_class = kind;
  kv->heads = 2;
  kv->dim = dim;
  kv->element = fb::Element::f16;
  kv->page_bytes = 2 * 2 * dim * module::kPageTokens * 2;
  return kv;
}

std::unique_ptr<fb::BufferT> buffer(const char *name, fb::RowSet set, uint64_t rowBytes, uint64_t offset,
                                    uint64_t size) {
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->name = name;
  buffer->set = set;
  buffer->row_bytes = rowBytes;
  buffer->offset = offset;
  buffer->size = size;
  return buffer;
}

std::unique_ptr<fb::BindingT> binding(fb::BindingKind kind, uint32_t index, uint64_t offset = 0) {
  auto binding = std::make_unique<fb::BindingT>();
  binding->kind = kind;
  binding->index = index;
  binding->offset = offset;
  return binding;
}

std::unique_ptr<fb::DispatchT> dispatch(uint32_t kernel, fb::RowSet set, int32_t layer) {
  auto dispatch = std::make_unique<fb::DispatchT>();
  dispatch->kernel = kernel;
  dispatch->grid = std::make_unique<fb::GridT>();
  dispatch->grid->set = set;
  dispatch->grid->rows_per_item = 4;
  dispatch->grid->items_per_block = 2;
  dispatch->layer = layer;
  return dispatch;
}

std::unique_ptr<fb::ProgramT> step() {
  auto program = std::make_unique<fb::ProgramT>();
  program->name = "step";
  program->max_rows = 8;
  program->max_tail_rows = 4;
  program->max_logit_rows = 2;
  program->buffers.push_back(buffer("hidden", fb::RowSet::rows, 128, 0, 1024));
  program->buffers.push_back(buffer("logits", fb::RowSet::logits, 64, 1024, 128));
  program->arena_bytes = 1152;
  program->peak_live_bytes = 1152;

  auto embed = dispatch(0, fb::RowSet::rows, 0);
  embed->bindings.push_back(binding(fb::BindingKind::weight, 0));
  embed->bindings.push_back(binding(fb::BindingKind::descriptor, uint32_t(fb::Slot::tokens)));
  embed->bindings.push_back(binding(fb::BindingKind::kv, 1, 64));
  embed->bindings.push_back(binding(fb::BindingKind::arena, 0));
  auto tap = std::make_unique<fb::TapT>();
  tap->name = "hidden";
  tap->binding = 3;
  tap->columns = 32;
  embed->taps.push_back(std::move(tap));

  auto head = dispatch(1, fb::RowSet::logits, -1);
  head->barrier_before = true;
  head->bindings.push_back(binding(fb::BindingKind::descriptor, uint32_t(fb::Slot::counts), 8));
  head->bindings.push_back(binding(fb::BindingKind::arena, 0));
  head->bindings.push_back(binding(fb::BindingKind::weight, 1));
  head->bindings.push_back(binding(fb::BindingKind::arena, 1));
  program->dispatches.push_back(std::move(embed));
  program->dispatches.push_back(std::move(head));

  auto output = std::make_unique<fb::OutputT>();
  output->name = "logits";
  output->buffer = 1;
  output->columns = 16;
  program->outputs.push_back(std::move(output));
  return program;
}

} // namespace

AlignedBytes::AlignedBytes(size_t size) : data_(allocate(size)), size_(size) {}
AlignedBytes::AlignedBytes(std::span<const std::byte> content) : AlignedBytes(content.size()) {
  if (!content.empty())
    std::memcpy(data_.get(), content.data(), content.size());
}
void AlignedBytes::Free::operator()(std::byte *memory) const { std::free(memory); }

fb::ModuleT tinyHeader() {
  fb::ModuleT header;
  header.producer = "test";
  header.facts = facts();
  auto variant = std::make_unique<fb::CodeVariantT>();
  variant->target = "cpu";
  variant->cpu = "x86-64-v3";
  variant->features = {"avx2", "fma"};
  variant->segment = 1;
  header.variants.push_back(std::move(variant));
  header.weights.push_back(weight("token_embd", "q8_0", 16, 32, 0, 544)); // 32 bytes of scales, 512 codes
  header.weights.push_back(weight("output_norm", "vector", 1, 32, 576, 128));
  header.kv_layers.push_back(kvLayer(0, fb::KvClass::sliding, 16));
  header.kv_layers.push_back(kvLayer(1, fb::KvClass::global, 32));
  header.kernels = {"embed", "head"};
  header.programs.push_back(step());
  return header;
}

void writeTinyModule(const std::string &path) {
  auto writer = module::Writer::create(path);
  require(writer.status());
  std::vector<std::byte> bytes(4096);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7);
  const std::span all(bytes);
  require((*writer)->addSegment(fb::SegmentKind::weights, "cpu", all).status());
  require((*writer)->addSegment(fb::SegmentKind::code, "x86-64-v3", all.first(100)).status());
  require((*writer)->addSegment(fb::SegmentKind::tokenizer, "tokenizer", all.first(50)).status());
  fb::ModuleT header = tinyHeader();
  require((*writer)->finish(header));
}

AlignedBytes tinyModule() {
  const auto folder = std::filesystem::temp_directory_path();
  std::string path = (folder / "g4-tiny-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    throw std::runtime_error("no temporary folder");
  writeTinyModule(path + "/tiny.g4m");
  std::ifstream file(path + "/tiny.g4m", std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  std::filesystem::remove_all(path);
  return AlignedBytes(std::as_bytes(std::span(content)));
}

std::unique_ptr<fb::ModuleT> unpackHeader(const AlignedBytes &artifact) {
  module::Prelude prelude;
  std::memcpy(&prelude, artifact.span().data(), sizeof prelude);
  return fb::UnPackModule(artifact.span().data() + prelude.headerOffset);
}

AlignedBytes withHeader(const AlignedBytes &artifact, const fb::ModuleT &header) {
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishModuleBuffer(builder, fb::Module::Pack(builder, &header));
  const std::span packed = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  module::Prelude prelude;
  std::memcpy(&prelude, artifact.span().data(), sizeof prelude);
  prelude.headerSize = packed.size();
  prelude.headerHash = hash64(packed);
  prelude.fileSize = prelude.headerOffset + packed.size();
  AlignedBytes changed(prelude.fileSize);
  std::memcpy(changed.span().data(), artifact.span().data(), prelude.headerOffset);
  std::memcpy(changed.span().data() + prelude.headerOffset, packed.data(), packed.size());
  std::memcpy(changed.span().data(), &prelude, sizeof prelude);
  return changed;
}

} // namespace g4::test
