/// A toy artifact in a temporary folder and an engine on it.
#pragma once

#include "runtime/engine/Prefill.h"
#include "test/unit/engine/ToyModule.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace g4::engine {

class ToyEngineTest : public testing::Test {
protected:
  ToyEngineTest() {
    folder = std::filesystem::temp_directory_path() / ("g4-engine-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
  }
  ~ToyEngineTest() override { std::filesystem::remove_all(folder); }

  std::shared_ptr<const module::Module> load(const ToyOptions &options, const char *name = "toy.g4m") {
    const std::string path = folder / name;
    const Status written = writeToyModule(path, options);
    EXPECT_TRUE(written.ok()) << written.message();
    auto module = module::Module::load(path);
    EXPECT_TRUE(module.ok()) << module.status().message();
    return module.ok() ? std::shared_ptr<const module::Module>(*std::move(module)) : nullptr;
  }
  std::unique_ptr<Engine> make(EngineOptions options = {}) {
    auto engine = Engine::create(load({G4_TOY_10}), options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? *std::move(engine) : nullptr;
  }
  /// Tokens that look random and include placeholders of other media.
  static std::vector<int32_t> tokens(size_t n, uint32_t seed = 1) {
    std::vector<int32_t> out(n);
    for (int32_t &token : out)
      token = int32_t((seed = seed * 1664525 + 1013904223) >> 27);
    return out;
  }

  std::filesystem::path folder;
};

} // namespace g4::engine
