#include "runtime/engine/Weights.h"
#include "runtime/engine/WeightFill.h"

namespace g4::engine {

Result<Weights> Weights::create(device::Device &device, const module::Module &module,
                                std::optional<uint64_t> seed) {
  const module::fb::Module &header = module.root();
  if (header.weights_missing() && !seed)
    return invalidArgument(
        "the artifact was compiled without weights; give a seed to make some up (--weights=seed:N)");
  if (!header.weights_missing() && seed)
    return invalidArgument("the artifact has its own weights; a seed is for one compiled without");

  Weights weights;
  const auto &table = *header.weights();
  if (!seed) {
    for (uint32_t i = 0; i < table.size(); ++i)
      weights.addresses_.push_back(const_cast<std::byte *>(module.weight(i).data()));
    return weights;
  }

  // Packed groups are read with whole aligned vectors.
  constexpr uint64_t kAlign = 64;
  uint64_t bytes = 0;
  for (const module::fb::Weight *weight : table)
    bytes += (weight->size() + kAlign - 1) / kAlign * kAlign;
  // Small pages, as those of a mapped file have: such weights stand in for them.
  G4_ASSIGN_OR_RETURN(weights.filled_, device.allocate(bytes, device::Pages::kSmall));
  std::byte *at = weights.filled_->data();
  for (const module::fb::Weight *weight : table) {
    const WeightShape shape{weight->name()->string_view(), weight->layout()->string_view(), weight->rows(),
                            weight->columns()};
    G4_RETURN_IF_ERROR(fillWeight(shape, *seed, {at, weight->size()}));
    weights.addresses_.push_back(at);
    at += (weight->size() + kAlign - 1) / kAlign * kAlign;
  }
  return weights;
}

} // namespace g4::engine
