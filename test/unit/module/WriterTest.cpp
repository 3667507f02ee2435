// The writer's order of calls, and that nothing is left when it does not come to an end.
#include "runtime/module/Writer.h"

#include "runtime/module/Format.h"
#include "runtime/module/Module.h"
#include "test/support/FailingNew.h"
#include "test/support/ModuleBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace g4::module {
namespace {

class WriterTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    path = folder + "/model.g4m";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// Names in the folder: what a failed run must leave empty.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
    return names;
  }
  std::string contentOf(const std::string &file) const {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::unique_ptr<Writer> create() {
    auto writer = Writer::create(path);
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    return *std::move(writer);
  }
  /// The three segments that the tiny header refers to; the first error.
  static Status addSegments(Writer &writer) {
    const std::vector<std::byte> bytes(4096, std::byte(7));
    G4_RETURN_IF_ERROR(writer.addSegment(fb::SegmentKind::weights, "cpu", bytes).status());
    G4_RETURN_IF_ERROR(writer.addSegment(fb::SegmentKind::code, "x86-64-v3", bytes).status());
    return writer.addSegment(fb::SegmentKind::tokenizer, "tokenizer", bytes).status();
  }

  std::string folder = (std::filesystem::temp_directory_path() / "g4-writer-XXXXXX").string();
  std::string path;
};

TEST_F(WriterTest, PiecesMakeTheSameSegmentAsOneSpan) {
  auto writer = create();
  const std::vector<std::byte> bytes(10000, std::byte(7));
  ASSERT_TRUE(writer->beginSegment(fb::SegmentKind::weights, "cpu").ok());
  for (size_t at = 0; at < bytes.size(); at += 999)
    ASSERT_TRUE(writer->append(std::span(bytes).subspan(at, std::min<size_t>(999, bytes.size() - at))).ok());
  ASSERT_TRUE(writer->endSegment().ok());
  ASSERT_TRUE(writer->addSegment(fb::SegmentKind::code, "a", bytes).ok());
  ASSERT_TRUE(writer->addSegment(fb::SegmentKind::tokenizer, "tokenizer", bytes).ok());
  fb::ModuleT header = test::tinyHeader();
  ASSERT_TRUE(writer->finish(header).ok());
  EXPECT_EQ(header.segments[0]->hash, header.segments[1]->hash);
  EXPECT_EQ(header.segments[0]->size, header.segments[1]->size);
  auto loaded = Module::load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE((*loaded)->verifyWeights().ok());
}

TEST_F(WriterTest, AlignAppendsZerosThatAreHashed) {
  auto writer = create();
  ASSERT_EQ(*writer->beginSegment(fb::SegmentKind::weights, "cpu"), 0u);
  ASSERT_TRUE(writer->append(std::vector<std::byte>(3, std::byte(1))).ok());
  EXPECT_EQ(*writer->align(kDataAlignment), 64u);
  EXPECT_EQ(*writer->align(kDataAlignment), 64u);
  EXPECT_EQ(*writer->align(10000), 10000u);
  EXPECT_EQ(writer->segmentSize(), 10000u);
  ASSERT_TRUE(writer->endSegment().ok());
  EXPECT_EQ(writer->segmentSize(), 0u);
}

TEST_F(WriterTest, NothingIsVisibleBeforeTheEnd) {
  auto writer = create();
  ASSERT_TRUE(addSegments(*writer).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  fb::ModuleT header = test::tinyHeader();
  ASSERT_TRUE(writer->finish(header).ok());
  EXPECT_EQ(files(), std::vector<std::string>{"model.g4m"});
}

TEST_F(WriterTest, AnOlderFileIsReplacedAtTheEndOnly) {
  std::ofstream(path) << "old";
  auto writer = create();
  ASSERT_TRUE(addSegments(*writer).ok());
  EXPECT_EQ(contentOf(path), "old");
  fb::ModuleT header = test::tinyHeader();
  ASSERT_TRUE(writer->finish(header).ok());
  EXPECT_TRUE(Module::load(path).ok());
  EXPECT_EQ(files(), std::vector<std::string>{"model.g4m"});
}

TEST_F(WriterTest, ALinkKeepsPointingToTheReplacedFile) {
  std::ofstream(folder + "/real.g4m") << "old";
  std::filesystem::create_symlink("real.g4m", path);
  test::writeTinyModule(path);
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_TRUE(Module::load(folder + "/real.g4m").ok());
}

TEST_F(WriterTest, DroppedHalfWayLeavesNothingAndTheOldFile) {
  std::ofstream(path) << "old";
  {
    auto writer = create();
    ASSERT_TRUE(addSegments(*writer).ok());
  }
  EXPECT_EQ(contentOf(path), "old");
  EXPECT_EQ(files(), std::vector<std::string>{"model.g4m"});
}

TEST_F(WriterTest, KilledHalfWayLeavesNothing) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto writer = Writer::create(path);
    const bool ok = writer.ok() && addSegments(**writer).ok();
    (void)!write(ready[1], ok ? "y" : "n", 1);
    for (;;)
      pause();
  }
  ASSERT_GT(child, 0);
  char state = 0;
  ASSERT_EQ(read(ready[0], &state, 1), 1);
  EXPECT_EQ(state, 'y');
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  close(ready[0]), close(ready[1]);
  EXPECT_EQ(files(), std::vector<std::string>{});
}

/// The limit stands for a full disk: each size at which it can strike gives an error and an empty folder.
TEST_F(WriterTest, AFullDiskAtAnySizeLeavesNothing) {
  test::writeTinyModule(path);
  const uint64_t whole = std::filesystem::file_size(path);
  std::filesystem::remove(path);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto oldHandler = signal(SIGXFSZ, SIG_IGN);
  for (uint64_t limit = 0; limit < whole; limit += 509) {
    const rlimit small{limit, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    Status status;
    {
      auto writer = Writer::create(path);
      status = writer.ok() ? addSegments(**writer) : writer.status();
      fb::ModuleT header = test::tinyHeader();
      if (status.ok())
        status = (*writer)->finish(header);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_EQ(status.code(), Code::kResourceExhausted) << "limit " << limit << ": " << status.message();
    ASSERT_EQ(files(), std::vector<std::string>{}) << "limit " << limit;
  }
  signal(SIGXFSZ, oldHandler);
}

TEST_F(WriterTest, EachFailedAllocationIsResourceExhaustedAndLeavesNothing) {
  const fb::ModuleT header = test::tinyHeader();
  uint64_t n = 0;
  for (bool failed = true; failed;) {
    ++n;
    ASSERT_LT(n, 100000u);
    fb::ModuleT copy = header;
    Status status;
    {
      test::FailingNew failing(n);
      auto writer = Writer::create(path);
      status = writer.status();
      for (auto [kind, name] :
           {std::pair(fb::SegmentKind::weights, "cpu"), std::pair(fb::SegmentKind::code, "a"),
            std::pair(fb::SegmentKind::tokenizer, "tokenizer")}) {
        static constexpr std::byte kBytes[4096] = {};
        if (status.ok())
          status = (*writer)->addSegment(kind, name, kBytes).status();
      }
      if (status.ok())
        status = (*writer)->finish(copy);
      failed = failing.failed();
    }
    ASSERT_EQ(status.ok(), !failed) << "allocation " << n;
    if (failed) {
      ASSERT_EQ(status.code(), Code::kResourceExhausted) << "allocation " << n;
      ASSERT_EQ(files(), std::vector<std::string>{}) << "allocation " << n;
    }
  }
  EXPECT_GT(n, 20u); // the hook is in place
  EXPECT_TRUE(Module::load(path).ok());
}

TEST_F(WriterTest, ADestinationThatCannotBeWrittenIsAnError) {
  std::filesystem::create_directory(folder + "/folder");
  for (const std::string &destination : {folder + "/absent/model.g4m", folder + "/folder", folder + "/",
                                         std::string("/dev/null"), std::string()}) {
    const auto writer = Writer::create(destination);
    ASSERT_FALSE(writer.ok()) << destination;
    EXPECT_EQ(writer.status().code(), Code::kInvalidArgument) << writer.status().message();
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(WriterTest, AHeaderThatNoLoaderAcceptsIsNotWritten) {
  {
    auto writer = create();
    ASSERT_TRUE(addSegments(*writer).ok());
    fb::ModuleT header = test::tinyHeader();
    header.weights[0]->segment = 77;
    const Status status = writer->finish(header);
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_NE(status.message().find("segment 77"), std::string::npos) << status.message();
  }
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(WriterTest, CallsOutOfOrderAreErrors) {
  auto writer = create();
  EXPECT_EQ(writer->append({}).code(), Code::kInternal);
  EXPECT_EQ(writer->endSegment().code(), Code::kInternal);
  EXPECT_EQ(writer->align(64).status().code(), Code::kInternal);
  ASSERT_TRUE(writer->beginSegment(fb::SegmentKind::weights, "cpu").ok());
  EXPECT_EQ(writer->beginSegment(fb::SegmentKind::weights, "gpu").status().code(), Code::kInternal);
  fb::ModuleT header = test::tinyHeader();
  EXPECT_EQ(writer->finish(header).code(), Code::kInternal);
  ASSERT_TRUE(writer->endSegment().ok());
  EXPECT_EQ(writer->beginSegment(fb::SegmentKind::weights, "cpu").status().code(), Code::kInternal);
}

TEST_F(WriterTest, MissingWeightsTakeNoSpaceInTheFile) {
  auto writer = create();
  const std::vector<std::byte> bytes(4096, std::byte(7));
  ASSERT_TRUE(writer->addMissingWeights("cpu", uint64_t(1) << 40).ok());
  ASSERT_TRUE(writer->addSegment(fb::SegmentKind::code, "a", bytes).ok());
  fb::ModuleT header = test::tinyHeader();
  header.weights_missing = true;
  ASSERT_TRUE(writer->finish(header).ok());
  EXPECT_LT(std::filesystem::file_size(path), 20000u);
  auto loaded = Module::load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE((*loaded)->tokenizer().empty());
}

} // namespace
} // namespace g4::module
