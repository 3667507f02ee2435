#include "tools/g4run/ArtifactCache.h"
#include "test/unit/api/ToyFile.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <thread>

namespace g4::tool {
namespace {

namespace fs = std::filesystem;

/// A cache whose compiler is a script that copies the toy artifact and counts how often it ran.
class ArtifactCacheTest : public api::ToyFile {
protected:
  ArtifactCacheTest() : folder(path + ".folder") {
    fs::create_directory(folder);
    std::ofstream(folder / "g4c") << "#!/bin/sh\necho run >> " << (folder / "runs").string()
                                  << "\ncase $1 in *bad*) "
                                  << "echo g4c: error: bad >&2; exit 1;; esac\nsleep 0.05\ncp " << path
                                  << " \"$3\"\n";
    fs::permissions(folder / "g4c", fs::perms::owner_all);
    std::ofstream(folder / "model.gguf") << "GGUF";
  }
  ~ArtifactCacheTest() override { fs::remove_all(folder); }

  ArtifactCache cache() const { return ArtifactCache(folder / "cache", folder / "g4c"); }
  Result<CachedArtifact> get(const std::string &model = "model.gguf", std::vector<std::string> options = {},
                             uint64_t limit = 1 << 30) {
    testing::internal::CaptureStderr();
    auto out = cache().compiled({folder / model, std::move(options), limit}, [] { return false; });
    testing::internal::GetCapturedStderr();
    return out;
  }
  size_t runs() const {
    std::ifstream file(folder / "runs");
    return size_t(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  }
  void setLastUse(const std::string &artifact, time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, artifact.c_str(), times, 0), 0);
  }
  fs::path folder;
};

TEST_F(ArtifactCacheTest, AModelIsCompiledOnce) {
  const auto first = get(), second = get();
  ASSERT_TRUE(first.ok() && second.ok()) << first.status().message();
  EXPECT_EQ(first->path, second->path);
  EXPECT_EQ(runs(), 1u);
}

TEST_F(ArtifactCacheTest, OfManyThatAskAtOnceOneCompiles) {
  std::vector<std::string> paths(4);
  std::vector<std::thread> threads;
  testing::internal::CaptureStderr();
  for (std::string &out : paths)
    threads.emplace_back([&] {
      auto artifact = cache().compiled({folder / "model.gguf", {}, 1 << 30}, [] { return false; });
      out = artifact.ok() ? artifact->path : artifact.status().message();
    });
  for (std::thread &thread : threads)
    thread.join();
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(runs(), 1u);
  for (const std::string &out : paths)
    EXPECT_EQ(out, paths[0]);
}

TEST_F(ArtifactCacheTest, FileOptionsAndCompilerMakeTheKey) {
  const std::string plain = get()->path;
  EXPECT_NE(get("model.gguf", {"--kv=f32"})->path, plain);
  std::ofstream(folder / "model.gguf") << "GGUF, but another";
  const std::string changed = get()->path;
  EXPECT_NE(changed, plain);
  std::ofstream(folder / "g4c", std::ios::app) << "# another version\n";
  EXPECT_NE(get()->path, changed);
  EXPECT_EQ(runs(), 4u);
}

TEST_F(ArtifactCacheTest, EveryPartOfASplitModelCounts) {
  for (const char *part : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"})
    std::ofstream(folder / part) << "GGUF";
  const std::string before = get("m-00001-of-00002.gguf")->path;
  EXPECT_EQ(get("m-00001-of-00002.gguf")->path, before);
  std::ofstream(folder / "m-00002-of-00002.gguf") << "GGUF2";
  EXPECT_NE(get("m-00001-of-00002.gguf")->path, before);
  fs::remove(folder / "m-00002-of-00002.gguf"); // what that means is the compiler's to say
  EXPECT_NE(get("m-00001-of-00002.gguf")->path, before);
  EXPECT_EQ(runs(), 3u);
  fs::remove(folder / "m-00001-of-00002.gguf");
  EXPECT_FALSE(get("m-00001-of-00002.gguf").ok());
}

TEST_F(ArtifactCacheTest, FilesThatOptionsNameCount) {
  const std::string rules = folder / "rules";
  for (const std::vector<std::string> &options :
       {std::vector<std::string>{"--quantize-rules=" + rules}, {"--quantize-rules", rules}}) {
    std::ofstream(rules) << "attn q4_0";
    const std::string before = get("model.gguf", options)->path;
    std::ofstream(rules) << "attn q4_0, ffn q8_0";
    EXPECT_NE(get("model.gguf", options)->path, before);
  }
}

TEST_F(ArtifactCacheTest, ALongNameWithoutASuffixWorks) {
  std::string name = "sha256-";
  while (name.size() < 250)
    name += "\u00e9";
  std::ofstream(folder / name) << "GGUF";
  const auto artifact = get(name);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_TRUE(fs::path(artifact->path).filename().string().starts_with("sha256-\u00e9"));
}

TEST_F(ArtifactCacheTest, AnInterruptEndsTheCompilerAndLeavesNothing) {
  std::ofstream(folder / "g4c") << "#!/bin/sh\ntouch \"${3%/*}/.${3##*/}.0123.tmp\" " << folder / "started"
                                << "\nexec sleep 100\n";
  testing::internal::CaptureStderr();
  const auto stopped =
      cache().compiled({folder / "model.gguf", {}, 1 << 30}, [&] { return fs::exists(folder / "started"); });
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(stopped.status().code(), Code::kCancelled);
  EXPECT_TRUE(fs::is_empty(folder / "cache"));
}

TEST_F(ArtifactCacheTest, AnInterruptEndsTheWaitForAnotherProcess) {
  const std::string artifact = *cache().pathFor({folder / "model.gguf", {}, 1 << 30});
  fs::create_directories(folder / "cache");
  const auto other =
      CacheLock::tryLock(fs::path(artifact).replace_extension(".lock"), CacheLock::Mode::kExclusive);
  ASSERT_TRUE(other.ok() && *other);
  testing::internal::CaptureStderr();
  const auto stopped = cache().compiled({folder / "model.gguf", {}, 1 << 30}, [] { return true; });
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(stopped.status().code(), Code::kCancelled);
  EXPECT_EQ(runs(), 0u);
}

TEST_F(ArtifactCacheTest, ADamagedArtifactIsMadeAnew) {
  const std::string artifact = get()->path;
  fs::resize_file(artifact, 100);
  EXPECT_EQ(get()->path, artifact);
  EXPECT_EQ(runs(), 2u);
  EXPECT_GT(fs::file_size(artifact), 100u);
}

TEST_F(ArtifactCacheTest, TheLeastRecentlyUsedGoesAndNoneInUse) {
  const uint64_t size = fs::file_size(path);
  std::vector<std::string> artifacts;
  for (const char *option : {"a", "b", "c"}) {
    artifacts.push_back(get("model.gguf", {option})->path);
    setLastUse(artifacts.back(), 1000 + time_t(artifacts.size()));
  }
  const auto inUse = get("model.gguf", {"a"}); // now the last used, too
  setLastUse(artifacts[0], 1);                 // but were it not locked, it would be first to go
  const auto fourth = get("model.gguf", {"d"}, 2 * size + size / 2);
  ASSERT_TRUE(fourth.ok());
  EXPECT_TRUE(fs::exists(artifacts[0]));
  EXPECT_FALSE(fs::exists(artifacts[1]));
  EXPECT_FALSE(fs::exists(artifacts[2]));
  EXPECT_EQ(cache().entries().size(), 2u);
  EXPECT_EQ(cache().entries()[0].path, fourth->path);
  const auto shrunk = cache().shrink(0);
  EXPECT_TRUE(shrunk.removed.empty() && shrunk.failed.ok());
  EXPECT_EQ(shrunk.inUse.size(), 2u);
}

TEST_F(ArtifactCacheTest, AnArtifactLargerThanTheLimitStaysAlone) {
  ASSERT_TRUE(get("model.gguf", {"a"}).ok());
  ASSERT_TRUE(get("model.gguf", {"b"}, 1).ok());
  EXPECT_EQ(cache().entries().size(), 1u);
}

TEST_F(ArtifactCacheTest, WhatCannotBeRemovedIsAFailure) {
  const std::string artifact = get()->path;
  fs::remove(artifact);
  fs::create_directories(artifact + "/folder"); // not even root removes it
  const auto shrunk = cache().shrink(0);
  EXPECT_TRUE(shrunk.removed.empty() && shrunk.inUse.empty());
  EXPECT_EQ(shrunk.failed.message().find("cannot remove '" + artifact + "': "), 0u) << shrunk.failed.message();
}

TEST_F(ArtifactCacheTest, OptionsThatTheCompilerDoesNotKnowAreBadUsage) {
  std::ofstream(folder / "g4c") << "#!/bin/sh\nexit 2\n";
  EXPECT_THROW((void)cache().compiled({folder / "model.gguf", {}, 1}, [] { return false; }), BadUsage);
  EXPECT_TRUE(fs::is_empty(folder / "cache"));
}

TEST_F(ArtifactCacheTest, AFailureLeavesNothing) {
  std::ofstream(folder / "bad.gguf") << "GGUF";
  const auto failed = get("bad.gguf");
  EXPECT_EQ(failed.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(failed.status().message(), ""); // the compiler has said why
  EXPECT_TRUE(fs::is_empty(folder / "cache"));
  EXPECT_FALSE(ArtifactCache(folder / "cache", "")
                   .compiled({folder / "model.gguf", {}, 1}, [] { return false; })
                   .ok());
  EXPECT_FALSE(get("absent.gguf").ok());
}

} // namespace
} // namespace g4::tool
