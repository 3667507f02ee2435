#include "compiler/quants/Imatrix.h"

#include "runtime/base/Guard.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace g4::quants {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

// A column that the text never used still holds weights that another text uses.
constexpr float kLeastImportance = 1e-4f;

Result<std::vector<float>> floatsOf(const gguf::File &file, const gguf::Tensor &tensor) {
  if (tensor.ggmlType != static_cast<uint32_t>(gguf::Type::kF32))
    return invalidArgument("tensor " + quotedName(tensor.name) + " is not f32");
  std::vector<float> values(tensor.rows() * tensor.columns());
  std::span<const std::byte> bytes = file.data(tensor);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  for (float v : values)
    if (!std::isfinite(v) || v < 0)
      return invalidArgument("tensor " + quotedName(tensor.name) + " holds a value that is negative or not finite");
  return values;
}

/// Whether the text reached any of the weight's columns.
bool saysSomething(std::span<const float> sums, std::span<const float> counts) {
  for (size_t m = 0; m < counts.size(); ++m) {
    const auto row = sums.subspan(m * (sums.size() / counts.size()), sums.size() / counts.size());
    if (counts[m] > 0 && std::ranges::any_of(row, [](float v) { return v > 0; }))
      return true;
  }
  return false;
}

/// Sums to importance: the mean, over the matrix' average.
void normalise(std::span<float> row, float count) {
  double total = 0;
  for (float v : row)
    total += v;
  double mean = total / static_cast<double>(row.size());
  for (float &v : row)
    v = count > 0 && mean > 0 ? std::max(static_cast<float>(v / mean), kLeastImportance) : 1.0f;
}

} // namespace

Result<Imatrix> Imatrix::parse(const gguf::File &file) {
  return guarded([&]() -> Result<Imatrix> {
    const std::string *type = file.getString("general.type");
    if (!type || *type != "imatrix")
      return invalidArgument("not an importance matrix: general.type is " + (type ? quotedName(*type) : "missing") +
                             ", expected 'imatrix'");
    Imatrix out;
    bool anySums = false;
    for (const gguf::Tensor &sums : file.tensors()) {
      std::string_view name = sums.name;
      if (!name.ends_with(kSums))
        continue;
      name.remove_suffix(kSums.size());
      const gguf::Tensor *counts = file.findTensor(std::string(name) + std::string(kCounts));
      if (!counts)
        return invalidArgument("tensor " + quotedName(sums.name) + " has no " + quotedName(std::string(name) + std::string(kCounts)));
      Entry entry{sums.rows(), sums.columns(), {}};
      G4_ASSIGN_OR_RETURN(entry.importance, floatsOf(file, sums));
      G4_ASSIGN_OR_RETURN(std::vector<float> seen, floatsOf(file, *counts));
      if (seen.size() != entry.matrices)
        return invalidArgument("tensor " + quotedName(counts->name) + " has " + std::to_string(seen.size()) +
                               " counts, expected " + std::to_string(entry.matrices));
      anySums = true;
      if (!saysSomething(entry.importance, seen))
        continue;
      for (uint64_t m = 0; m < entry.matrices; ++m)
        normalise(std::span(entry.importance).subspan(m * entry.columns, entry.columns), seen[m]);
      out.entries_.emplace(name, std::move(entry));
    }
    if (out.entries_.empty())
      return invalidArgument(anySums ? "the importance matrix is empty: its sums or its counts are all 0"
                                     : "the importance matrix has no tensor named *.in_sum2");
    return out;
  });
}

Result<Imatrix> Imatrix::open(const std::string &path) {
  return guarded([&]() -> Result<Imatrix> {
    G4_ASSIGN_OR_RETURN(std::unique_ptr<gguf::File> file, gguf::File::open(path, {}));
    auto parsed = parse(*file);
    if (!parsed.ok())
      return Status(parsed.status()).withContext(quotedPath(path));
    parsed->source_ = quotedPath(path);
    return parsed;
  });
}

Result<std::span<const float>> Imatrix::columns(std::string_view weight, uint64_t row, uint64_t rows, uint64_t columns) const {
  auto found = entries_.find(weight);
  if (found == entries_.end())
    return std::span<const float>();
  const Entry &entry = found->second;
  const std::string misfit = source_ + " is of another model: ";
  if (entry.columns != columns)
    return invalidArgument(misfit + "it has " + std::to_string(entry.columns) + " columns for " + quotedName(weight) +
                           ", which has " + std::to_string(columns));
  if (rows % entry.matrices != 0)
    return invalidArgument(misfit + "it has " + std::to_string(entry.matrices) + " experts for " + quotedName(weight) +
                           ", whose " + std::to_string(rows) + " rows are not of that many");
  uint64_t matrix = row / (rows / entry.matrices);
  return std::span(entry.importance).subspan(matrix * columns, columns);
}

} // namespace g4::quants
