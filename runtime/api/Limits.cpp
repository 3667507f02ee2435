#include "runtime/api/Bench.h"
#include "runtime/api/Impl.h"
#include "runtime/api/Profile.h"
#include "runtime/base/Guard.h"
#include "runtime/device/cpu/ContractionPeak.h"
#include "runtime/device/cpu/HostMemory.h"

#include <algorithm>

namespace g4::api {

struct LimitsProbe::Impl {
  std::unique_ptr<device::ThreadTeam> team;
  uint64_t peakBefore; ///< resident bytes before the next member took any
  device::BandwidthProbe bandwidth;
  std::vector<std::string> features;      ///< of the code variant in use
  std::vector<std::string_view> families; ///< of the model
};

LimitsProbe::LimitsProbe(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LimitsProbe::LimitsProbe(LimitsProbe &&) = default;
LimitsProbe::~LimitsProbe() = default;

Result<LimitsProbe> LimitsProbe::create(Model &model) {
  return guarded([&]() -> Result<LimitsProbe> {
    const module::Module &module = *model.impl().module;
    const uint64_t before = device::peakResidentBytes();
    auto team = std::make_unique<device::ThreadTeam>(model.threads());
    G4_ASSIGN_OR_RETURN(auto bandwidth, device::BandwidthProbe::create(*team));
    auto impl = std::unique_ptr<Impl>(
        new Impl{std::move(team), before, std::move(bandwidth), {}, familiesOf(module)});
    for (const auto *variant : *module.root().variants())
      if (variant->cpu()->string_view() == model.variant() && variant->features())
        for (const auto *feature : *variant->features())
          impl->features.push_back(feature->str());
    return LimitsProbe(std::move(impl));
  });
}

void LimitsProbe::measure(Limits &limits) {
  limits.readBandwidth.push_back(impl_->bandwidth.measure(*impl_->team));
  for (std::string_view family : impl_->families) {
    const double peak = device::contractionPeak(*impl_->team, impl_->features, module::packedLayout(family));
    auto found = std::find_if(limits.peaks.begin(), limits.peaks.end(),
                              [&](const Limits::Peak &p) { return p.family == family; });
    if (peak > 0 && found == limits.peaks.end())
      found = limits.peaks.insert(found, {family, {}});
    if (peak > 0)
      found->macsPerSecond.push_back(peak);
  }
}

uint64_t LimitsProbe::peakResidentBytes() const {
  const uint64_t now = device::peakResidentBytes();
  return std::max(impl_->peakBefore, now - std::min(now, impl_->bandwidth.bytes()));
}

} // namespace g4::api
