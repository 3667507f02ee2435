/// Models that were split over several files, as llama.cpp's gguf-split writes them: each part says in
/// split.no (from 0) and split.count which it is, and its file's name ends in "-00001-of-00003.gguf" (from
/// 1).
#pragma once

#include "compiler/import/gguf/Gguf.h"

namespace g4::gguf {

/// Opens what `paths` name. For one part of a split model all parts of it, found by their names beside it, in
/// order: the first holds the model's metadata. Several paths are taken as they are, parts of a split model
/// in any order. Files that say nothing of a split stay in the order given. Units:  at most 1024 files,
/// whatever a file claims. Errors: those of File::open; kInvalidArgument where a part is missing, twice, or
/// of another model. One line that
///         names the file. All files are untrusted.
Result<std::vector<std::unique_ptr<File>>> openParts(std::span<const std::string> paths,
                                                     File::Options options);

} // namespace g4::gguf
