#include "runtime/device/Device.h"
#include "runtime/device/cpu/CpuFeatures.h"

#include <algorithm>

namespace g4::device {
namespace {

std::string join(std::span<const std::string> names) {
  std::string out;
  for (const std::string &name : names)
    out += (out.empty() ? "" : " ") + name;
  return out.empty() ? "nothing" : out;
}

std::vector<std::string> missing(const VariantNeeds &variant, std::span<const std::string> have) {
  std::vector<std::string> out;
  for (const std::string &feature : variant.features)
    if (std::find(have.begin(), have.end(), feature) == have.end())
      out.push_back(feature);
  return out;
}

} // namespace

Result<size_t> chooseVariant(std::span<const VariantNeeds> variants, std::span<const std::string> have,
                             std::string_view wanted) {
  if (variants.empty())
    return incompatible("the artifact holds no code");
  std::string names;
  for (size_t i = 0; i < variants.size(); ++i) {
    const VariantNeeds &variant = variants[i];
    names += (i ? ", " : "") + variant.name;
    if (!wanted.empty() && variant.name != wanted)
      continue;
    if (variant.target == "cpu" && missing(variant, have).empty())
      return i;
    if (!wanted.empty())
      return incompatible("code variant '" + variant.name + "' needs " + join(missing(variant, have)) +
                          ", which this machine does not have");
  }
  if (!wanted.empty())
    return invalidArgument("no code variant '" + std::string(wanted) + "'; the artifact has " + names);

  std::string message = "no code variant runs on this machine:";
  for (const VariantNeeds &variant : variants)
    message += " '" + variant.name + "' needs " +
               (variant.target == "cpu" ? join(variant.features) : "a " + variant.target + " device") + ";";
  return incompatible(message + " this machine is " + std::string(cpuArchitecture()) + " with " + join(have));
}

} // namespace g4::device
