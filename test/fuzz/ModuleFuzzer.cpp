// Bytes from anywhere as an artifact. Byte 0 says what the rest is: a header, taken past its hash (most bugs
// would be there, and no fuzzer guesses a hash), or a whole file.
#include "runtime/module/Format.h"
#include "runtime/module/Module.h"
#include "runtime/module/StepAbi.h"
#include "runtime/module/Verifier.h"

#include <cstdlib>
#include <cstring>

namespace {
namespace fb = g4::module::fb;

void require(bool condition) {
  if (!condition)
    std::abort();
}

/// What execution takes for granted.
void check(const fb::Module &module, uint64_t headerOffset) {
  for (const fb::Segment *segment : *module.segments())
    require(segment->offset() + segment->size() <= headerOffset || module.weights_missing());
  for (const fb::Weight *weight : *module.weights())
    require(weight->offset() + weight->size() <= module.segments()->Get(weight->segment())->size());
  for (const fb::CodeVariant *variant : *module.variants())
    require(module.segments()->Get(variant->segment())->kind() == fb::SegmentKind::code);
  for (const fb::LayerFacts *layer : *module.facts()->layers())
    require(module.facts()->layers()->Get(layer->kv_source())->own_kv());
  for (const fb::Program *program : *module.programs()) {
    for (const fb::Buffer *buffer : *program->buffers())
      require(buffer->offset() + buffer->size() <= program->arena_bytes());
    for (const fb::Dispatch *dispatch : *program->dispatches()) {
      require(module.kernels()->Get(dispatch->kernel())->size() > 0);
      require(dispatch->grid()->rows_per_item() > 0);
      for (const fb::Binding *binding : *dispatch->bindings())
        if (binding->kind() == fb::BindingKind::arena)
          require(binding->offset() < program->buffers()->Get(binding->index())->size());
        else if (binding->kind() == fb::BindingKind::weight)
          require(binding->offset() < module.weights()->Get(binding->index())->size());
        else if (binding->kind() == fb::BindingKind::kv)
          require(binding->offset() < module.kv_layers()->Get(binding->index())->page_bytes());
    }
    for (const fb::Output *output : *program->outputs())
      require(output->columns() * 4 <= program->buffers()->Get(output->buffer())->row_bytes());
  }
}

struct AlignedCopy {
  explicit AlignedCopy(std::span<const std::byte> content) : size(content.size()) {
    require(posix_memalign(&data, g4::module::kDataAlignment, size == 0 ? 1 : size) == 0);
    if (size > 0)
      std::memcpy(data, content.data(), size);
  }
  ~AlignedCopy() { std::free(data); }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(data), size}; }
  void *data = nullptr;
  size_t size;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const AlignedCopy copy(std::as_bytes(std::span(data + 1, size - 1)));
  if (data[0] & 1) {
    const auto parsed = g4::module::Module::parse(copy.bytes());
    if (parsed.ok())
      check((*parsed)->root(), copy.size);
    return 0;
  }
  constexpr uint64_t kHeaderOffset = 16384; // what the seed's segments need
  const auto root = g4::module::verifyHeader(copy.bytes(), kHeaderOffset, kHeaderOffset + copy.size);
  if (root.ok())
    check(**root, kHeaderOffset);
  else
    require(root.status().code() != g4::Code::kInternal &&
            root.status().message().find('\n') == std::string::npos);
  return 0;
}
