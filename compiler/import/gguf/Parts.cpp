#include "compiler/import/gguf/Parts.h"

#include "runtime/base/Guard.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cstdio>

namespace g4::gguf {
namespace {

using Files = std::vector<std::unique_ptr<File>>;

// No published model comes near; every part stays mapped.
constexpr uint64_t kMaxParts = 1024;

std::string num(uint64_t value) { return std::to_string(value); }

/// "-00002-of-00003.gguf" for the second part of three.
std::string suffixOf(uint64_t number, uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(number + 1),
                static_cast<unsigned long long>(count));
  return text;
}

std::string partName(uint64_t number, uint64_t count) {
  return "part " + num(number + 1) + " of " + num(count);
}

/// How many parts the model of `file` has; 1 when it is whole.
uint64_t countOf(const File &file) { return std::max<uint64_t>(file.getUint("split.count").value_or(1), 1); }

/// Which of `count` parts the file says it is.
Result<uint64_t> numberOf(const File &file, uint64_t count) {
  if (countOf(file) != count)
    return invalidArgument(quotedPath(file.path()) + " is a part of " + num(countOf(file)) +
                           " in all, but other parts of the model say " + num(count));
  const auto number = file.getUint("split.no");
  if (!number || *number >= count)
    return invalidArgument(quotedPath(file.path()) + " has " +
                           (number ? "split.no " + num(*number) : std::string("no split.no")) +
                           ", expected 0 to " + num(count - 1));
  return *number;
}

/// The other parts of the model of `file`, by their names.
Result<Files> findParts(std::unique_ptr<File> file, File::Options options) {
  const uint64_t count = countOf(*file);
  G4_ASSIGN_OR_RETURN(const uint64_t own, numberOf(*file, count));
  const std::string path = file->path(), suffix = suffixOf(own, count);
  if (!path.ends_with(suffix))
    return invalidArgument(quotedPath(path) + " is " + partName(own, count) +
                           " of a split model, but its name does not end in '" + suffix +
                           "': the other parts cannot be found");
  const std::string stem = path.substr(0, path.size() - suffix.size());
  Files files(count);
  files[own] = std::move(file);
  for (uint64_t i = 0; i < count; ++i) {
    if (i == own)
      continue;
    auto part = File::open(stem + suffixOf(i, count), options);
    if (!part.ok())
      return Status(part.status()).withContext(partName(i, count));
    files[i] = *std::move(part);
  }
  return files;
}

Status checkOrder(const Files &files) {
  const uint64_t count = files.size();
  for (uint64_t i = 0; i < count; ++i) {
    G4_ASSIGN_OR_RETURN(const uint64_t number, numberOf(*files[i], count));
    if (number != i)
      return invalidArgument(quotedPath(files[i]->path()) + " says that it is " + partName(number, count) +
                             ", expected " + partName(i, count));
  }
  return {};
}

/// Parts after the first hold few keys or none of the model's; those that they hold must be the same.
Status checkSameModel(const Files &files) {
  const File &first = *files.front();
  uint64_t tensors = first.tensors().size();
  for (size_t i = 1; i < files.size(); ++i) {
    const File &part = *files[i];
    tensors += part.tensors().size();
    for (const char *key : {"general.architecture", "general.name", "split.tensors.count"})
      if (const Value *value = part.find(key), *expected = first.find(key);
          value && expected && *value != *expected)
        return invalidArgument(quotedPath(part.path()) + " is a part of another model than " +
                               quotedPath(first.path()) + ": their " + key + " differ");
  }
  const auto stated = first.getUint("split.tensors.count");
  if (stated && *stated != tensors)
    return invalidArgument("the parts of " + quotedPath(first.path()) + " hold " + num(tensors) +
                           " tensors, but split.tensors.count is " + num(*stated));
  return {};
}

/// Files given by hand: the parts of one split model, in any order, or files that say nothing of a split.
Result<Files> orderParts(Files files) {
  const uint64_t count = countOf(*files.front());
  if (std::ranges::all_of(files, [](const auto &file) { return countOf(*file) == 1; }))
    return files;
  Files ordered(files.size());
  for (auto &file : files) {
    G4_ASSIGN_OR_RETURN(const uint64_t number, numberOf(*file, count));
    if (files.size() != count)
      return invalidArgument(quotedPath(file->path()) + " is a part of " + num(count) + " in all, but " +
                             num(files.size()) + " files were given; one part is enough to find the others");
    if (ordered[number])
      return invalidArgument(quotedPath(file->path()) + " and " + quotedPath(ordered[number]->path()) +
                             " both say that they are " + partName(number, count));
    ordered[number] = std::move(file);
  }
  return ordered;
}

} // namespace

Result<Files> openParts(std::span<const std::string> paths, File::Options options) {
  return guarded([&]() -> Result<Files> {
    if (paths.empty() || paths.size() > kMaxParts)
      return invalidArgument(paths.empty() ? "no GGUF file given"
                                           : "more than " + num(kMaxParts) + " GGUF files given");
    Files files;
    for (const std::string &path : paths) {
      G4_ASSIGN_OR_RETURN(auto file, File::open(path, options));
      if (countOf(*file) > kMaxParts)
        return invalidArgument(quotedPath(path) + " has split.count " + num(countOf(*file)) +
                               ", expected 1 to " + num(kMaxParts));
      files.push_back(std::move(file));
    }
    if (files.size() == 1 && countOf(*files.front()) == 1)
      return files;
    G4_ASSIGN_OR_RETURN(files, files.size() == 1 ? findParts(std::move(files.front()), options)
                                                 : orderParts(std::move(files)));
    if (std::ranges::any_of(files, [](const auto &file) { return countOf(*file) > 1; })) {
      G4_RETURN_IF_ERROR(checkOrder(files));
      G4_RETURN_IF_ERROR(checkSameModel(files));
    }
    return files;
  });
}

} // namespace g4::gguf
