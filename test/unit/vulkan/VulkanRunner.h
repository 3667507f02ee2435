/// One compute shader on the first Vulkan device of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace g4::test {

class VulkanRunner {
public:
  /// Null, with the reason in `error`, when there is no device, it lacks 8-bit or 16-bit storage, or it
  /// refuses the shader. Validation layers are on if they are installed; what they say is an error.
  static std::unique_ptr<VulkanRunner> create(std::span<const uint32_t> shader, const std::string &entry,
                                              uint32_t buffers, std::string &error);
  ~VulkanRunner();

  std::string deviceName() const;
  bool validates() const; ///< validation layers are on

  /// Runs `groups` workgroups. Buffer i is bound at set 0, binding i, and holds afterwards what the shader
  /// left there. Empty on success, else what failed.
  std::string run(std::span<std::vector<std::byte> *const> buffers, uint32_t groups);

private:
  VulkanRunner();
  struct State;
  std::unique_ptr<State> state;
};

} // namespace g4::test
