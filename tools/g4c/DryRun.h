/// What --dry-run prints.
#pragma once

#include "compiler/emit/Plan.h"

#include "llvm/Support/raw_ostream.h"

namespace g4::g4c {

/// Sizes of the artifact and the memory that running it takes, in the words of `g4run inspect`.
void printPlan(const emit::Plan &plan, llvm::raw_ostream &os);
/// The same as JSON, with the fields that `g4run inspect --json` has.
void printPlanJson(const emit::Plan &plan, llvm::raw_ostream &os);

} // namespace g4::g4c
