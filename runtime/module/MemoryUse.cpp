#include "runtime/module/MemoryUse.h"
#include "runtime/module/module_generated.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace g4::module {
namespace {

/// Of the workspace of a step of `rows`, results wanted for one: buffers that are never live together overlap.
uint64_t workspaceBytes(const fb::ProgramT &program, uint64_t rows) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto &buffer : program.buffers) {
    // What attention's items hand to each other: sequences of one page have no such parts, nor have steps of many rows.
    if (buffer->name.starts_with("parts"))
      continue;
    ranges.push_back({buffer->offset, buffer->offset + buffer->row_bytes * (buffer->set == fb::RowSet::rows ? rows : 1)});
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t bytes = 0, covered = 0;
  for (const auto &[begin, end] : ranges) {
    bytes += end > covered ? end - std::max(begin, covered) : 0;
    covered = std::max(covered, end);
  }
  return bytes;
}

uint64_t bytesInUse(const fb::ModuleT &header, const fb::ProgramT &program, uint64_t rows) {
  uint64_t bytes = workspaceBytes(program, rows);
  for (const auto &weight : header.weights)
    bytes += weight->place == "table" ? weight->size / weight->rows * rows : weight->size;
  const uint64_t pages = (rows + header.facts->page_tokens - 1) / header.facts->page_tokens;
  for (const auto &layer : header.kv_layers)
    bytes += layer->page_bytes * pages;
  return bytes;
}

} // namespace

MemoryUse memoryUse(const fb::ModuleT &header, uint64_t tokenizerBytes) {
  for (const auto &program : header.programs)
    if (program->name == "step")
      return {bytesInUse(header, *program, 1) + tokenizerBytes,
              bytesInUse(header, *program, program->max_rows) + tokenizerBytes};
  return {};
}

} // namespace g4::module
