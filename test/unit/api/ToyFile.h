/// A toy artifact in a temporary file.
#pragma once

#include "test/unit/engine/ToyModule.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace g4::api {

class ToyFile : public testing::Test {
protected:
  ToyFile()
      : path(std::filesystem::temp_directory_path() / ("g4-api-test-" + std::to_string(getpid()) + ".g4m")) {
    write({G4_TOY_10});
  }
  ~ToyFile() override { std::filesystem::remove(path); }
  void write(const engine::ToyOptions &options) {
    const Status written = engine::writeToyModule(path, options);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  std::string path;
};

} // namespace g4::api
