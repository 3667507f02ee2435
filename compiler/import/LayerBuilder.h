/// Builds the body of a `gemma.model` in import form.
#pragma once

#include "compiler/import/Facts.h"
#include "compiler/import/Weights.h"
#include "dialects/gemma/GemmaDialect.h"

namespace g4::importer {

/// Writes the model's ops at `builder`'s insertion point, in a block with the three row sets as arguments.
/// Missing or misshaped tensors are reported through `weights`, which remembers that it failed.
mlir::LogicalResult buildBody(mlir::OpBuilder &builder, const Source &source, const ModelFacts &facts,
                              Weights &weights, mlir::Block &block);

} // namespace g4::importer
