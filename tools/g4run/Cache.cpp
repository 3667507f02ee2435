#include "runtime/base/Text.h"
#include "tools/g4run/ArtifactCache.h"
#include "tools/g4run/ReportText.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <ctime>
#include <filesystem>

namespace g4::tool {
namespace {

constexpr char kNotes[] =
    R"(A GGUF file given to g4run is compiled once. The artifact is kept in $XDG_CACHE_HOME/g4, or ~/.cache/g4, and used again
as long as the file, g4c, the machine's CPU and --compile-options are the same. When all artifacts together are larger
than --cache-limit, those least recently used are removed.

Examples:
  g4run model.gguf -p "Hello"
  g4run cache list
  g4run cache clear)";

Status list() {
  G4_ASSIGN_OR_RETURN(const ArtifactCache cache, ArtifactCache::open());
  uint64_t total = 0;
  const auto entries = cache.entries();
  for (const CacheEntry &entry : entries) {
    const std::time_t seconds = entry.lastUse / 1'000'000'000;
    std::tm local{};
    char when[32] = "";
    if (localtime_r(&seconds, &local))
      std::strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    std::printf("%12s  %s  %s\n", bytesText(entry.bytes).c_str(), when,
                std::filesystem::path(entry.path).filename().c_str());
    total += entry.bytes;
  }
  std::printf("%12s  in %s in %s\n", bytesText(total).c_str(), counted(entries.size(), "artifact").c_str(),
              quotedPath(cache.folder()).c_str());
  return {};
}

Status clear() {
  G4_ASSIGN_OR_RETURN(const ArtifactCache cache, ArtifactCache::open());
  const ArtifactCache::Shrunk shrunk = cache.shrink(0);
  uint64_t bytes = 0;
  for (const CacheEntry &entry : shrunk.removed)
    bytes += entry.bytes;
  std::printf("removed %s, %s\n", counted(shrunk.removed.size(), "artifact").c_str(), bytesText(bytes).c_str());
  if (!shrunk.inUse.empty())
    std::printf("%s in use, and left\n", counted(shrunk.inUse.size(), "artifact").c_str());
  return shrunk.failed;
}

} // namespace

void addCache(CLI::App &app, Run &run) {
  CLI::App *cache = app.add_subcommand("cache", "Show or remove models compiled from GGUF files");
  cache->footer(kNotes);
  cache->require_subcommand(1);
  cache->add_subcommand("list", "Show them, last used first")->callback([&run] {
    run = [](const Interrupted &) { return list(); };
  });
  cache->add_subcommand("clear", "Remove those that are not in use")->callback([&run] {
    run = [](const Interrupted &) { return clear(); };
  });
}

} // namespace g4::tool
