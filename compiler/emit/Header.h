/// The artifact's header: the exec module as FlatBuffers tables.
#pragma once

#include "compiler/import/gguf/Gguf.h"
#include "runtime/module/module_generated.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace g4::emit {

/// Fills everything of `header` but segments, variants, producer and weights_missing. `files` are the module's
/// GGUF files, for the facts that no stage of the compiler needs: name, chat template, sampling defaults.
mlir::LogicalResult buildHeader(mlir::ModuleOp module, const std::vector<const gguf::File *> &files,
                                module::fb::ModuleT &header);

} // namespace g4::emit
