/// One kernel, compiled from its specification for this CPU and for Vulkan, from the same body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace g4::test {

/// A kernel's arguments by their names in its signature (dialects/exec/Signature.h): bytes of each.
class Buffers {
public:
  template <typename T> void set(const std::string &name, const std::vector<T> &values) {
    auto bytes = std::as_bytes(std::span(values));
    data[name].assign(bytes.begin(), bytes.end());
  }
  template <typename T> void zeros(const std::string &name, size_t count) {
    set(name, std::vector<T>(count));
  }
  template <typename T> std::vector<T> get(const std::string &name) const {
    const std::vector<std::byte> &bytes = data.at(name);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::map<std::string, std::vector<std::byte>> data;
};

class CompiledKernel {
public:
  /// Null, with the reason in `error`. `spec` is the text of an attribute of the exec dialect, e.g.
  /// "#exec.linear<...>".
  static std::unique_ptr<CompiledKernel> compile(const std::string &spec, std::string &error);
  ~CompiledKernel();

  /// Work items [0, items) on this machine's CPU and on the Vulkan device; empty on success, else what
  /// failed.
  std::string runOnCpu(Buffers &buffers, int64_t items) const;
  std::string runOnVulkan(Buffers &buffers, int64_t items) const;

private:
  CompiledKernel();
  struct State;
  std::unique_ptr<State> state;
};

} // namespace g4::test
