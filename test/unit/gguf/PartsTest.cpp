// Models in several files: any part finds the others, and what does not belong together is one clear line.
#include "compiler/import/gguf/Parts.h"
#include "test/support/FailingNew.h"
#include "test/support/GgufBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace g4::gguf {
namespace {
using test::bytesOf;
using test::GgufBuilder;

struct Part {
  uint64_t number, count;
  std::string name = "model"; ///< general.name, in the first part only
  int tensors = 1;
  int stated = 3; ///< split.tensors.count
};

std::string bytesOfPart(const Part &part) {
  GgufBuilder b;
  if (part.number == 0)
    b.addString("general.architecture", "gemma4").addString("general.name", part.name);
  b.add("split.no", GgufBuilder::kU16, bytesOf<uint16_t>(part.number));
  b.add("split.count", GgufBuilder::kU16, bytesOf<uint16_t>(part.count));
  b.add("split.tensors.count", GgufBuilder::kI32, bytesOf<int32_t>(part.stated));
  for (int i = 0; i < part.tensors; ++i)
    b.addTensor("t" + std::to_string(part.number) + "." + std::to_string(i), {4}, 0, 16);
  return b.build();
}

class Parts : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("g4-parts-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string &name, const std::string &bytes) {
    const std::string path = folder / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string name(int number) const { return "m-0000" + std::to_string(number) + "-of-00003.gguf"; }
  std::vector<std::string> writeAll() {
    return {write(name(1), bytesOfPart({0, 3})), write(name(2), bytesOfPart({1, 3})),
            write(name(3), bytesOfPart({2, 3}))};
  }
  /// What is said of `paths`; empty, with a failure, when they open.
  std::string error(const std::vector<std::string> &paths) {
    auto files = openParts(paths, {});
    EXPECT_FALSE(files.ok());
    EXPECT_EQ(files.status().message().find('\n'), std::string::npos);
    return files.ok() ? "" : files.status().message();
  }
  std::filesystem::path folder;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Parts, AnyPartFindsAllOfThemInOrder) {
  const std::vector<std::string> paths = writeAll();
  for (const std::string &path : paths) {
    auto files = openParts(std::vector{path}, {});
    ASSERT_TRUE(files.ok()) << files.status().message();
    ASSERT_EQ(files->size(), 3u);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ((*files)[i]->path(), paths[i]);
    EXPECT_TRUE(files->front()->find("general.architecture"));
  }
}

TEST_F(Parts, PartsGivenByHandMayStandInAnyOrderAndHaveAnyName) {
  const std::vector<std::string> paths = {write("c", bytesOfPart({2, 3})), write("a", bytesOfPart({0, 3})),
                                          write("b", bytesOfPart({1, 3}))};
  auto files = openParts(paths, {});
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_EQ((*files)[0]->path(), paths[1]);
  EXPECT_EQ((*files)[2]->path(), paths[0]);
}

TEST_F(Parts, AFileThatSaysNothingOfASplitIsWhole) {
  GgufBuilder plain, one;
  one.add("split.count", GgufBuilder::kU16, bytesOf<uint16_t>(1));
  for (const GgufBuilder &builder : {plain, one}) {
    auto files = openParts(std::vector{write("m.gguf", builder.build())}, {});
    ASSERT_TRUE(files.ok()) << files.status().message();
    EXPECT_EQ(files->size(), 1u);
  }
}

TEST_F(Parts, AMissingPartIsNamed) {
  const std::vector<std::string> paths = writeAll();
  std::filesystem::remove(paths[1]);
  EXPECT_SAYS(error({paths[2]}), "part 2 of 3: ");
  EXPECT_SAYS(error({paths[2]}), "m-00002-of-00003.gguf");
  EXPECT_SAYS(error({paths[0], paths[2]}), "is a part of 3 in all, but 2 files were given");
}

TEST_F(Parts, ARenamedPartCannotFindTheOthers) {
  writeAll();
  EXPECT_SAYS(error({write("renamed.gguf", bytesOfPart({1, 3}))}),
              "is part 2 of 3 of a split model, but its name does not end in '-00002-of-00003.gguf'");
}

TEST_F(Parts, APartUnderTheNameOfAnotherIsRefused) {
  const std::vector<std::string> paths = writeAll();
  write(name(3), bytesOfPart({1, 3}));
  EXPECT_SAYS(error({paths[0]}), "says that it is part 2 of 3, expected part 3 of 3");
  EXPECT_SAYS(error(paths), "both say that they are part 2 of 3");
}

TEST_F(Parts, PartsOfAnotherSplitAreRefused) {
  const std::vector<std::string> paths = writeAll();
  write(name(3), bytesOfPart({2, 4}));
  EXPECT_SAYS(error({paths[0]}), "is a part of 4 in all, but other parts of the model say 3");
  write(name(3), GgufBuilder().build());
  EXPECT_SAYS(error({paths[0]}), "is a part of 1 in all, but other parts of the model say 3");
  writeAll();
  write(name(1), GgufBuilder().build()); // the first part is the one that is asked
  EXPECT_SAYS(error({paths[1]}), "is a part of 1 in all, but other parts of the model say 3");
}

TEST_F(Parts, PartsOfAnotherModelAreRefused) {
  const std::vector<std::string> paths = writeAll();
  write(name(2), bytesOfPart({.number = 1, .count = 3, .stated = 5}));
  EXPECT_SAYS(error({paths[0]}), "is a part of another model than");
  write(name(2), bytesOfPart({.number = 1, .count = 3, .tensors = 2}));
  EXPECT_SAYS(error({paths[0]}), "hold 4 tensors, but split.tensors.count is 3");
}

TEST_F(Parts, EachFailedAllocationIsResourceExhausted) {
  const std::vector<std::string> paths = writeAll();
  uint64_t n = 0;
  for (bool failed = true; failed;) {
    ++n;
    ASSERT_LT(n, 100000u);
    test::FailingNew failing(n);
    auto files = openParts(std::span(paths).last(1), {});
    failed = failing.failed();
    ASSERT_EQ(files.ok(), !failed) << "allocation " << n;
    if (failed) {
      ASSERT_EQ(files.status().code(), Code::kResourceExhausted) << "allocation " << n;
    }
  }
  EXPECT_GT(n, 20u); // the hook is in place
}

TEST_F(Parts, CountsAreNotBelieved) {
  EXPECT_SAYS(error({write("x-00001-of-65535.gguf", bytesOfPart({0, 65535}))}),
              "has split.count 65535, expected 1 to 1024");
  EXPECT_SAYS(error({write("x-00001-of-01000.gguf", bytesOfPart({0, 1000}))}), "part 2 of 1000: ");
  EXPECT_SAYS(error({write("x-00004-of-00003.gguf", bytesOfPart({3, 3}))}),
              "has split.no 3, expected 0 to 2");
  EXPECT_SAYS(error({}), "no GGUF file given");
}

} // namespace
} // namespace g4::gguf
