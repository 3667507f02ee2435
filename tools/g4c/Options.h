/// g4c's command line.
#pragma once

#include "compiler/pipeline/Pipeline.h"

#include <memory>
#include <string>
#include <vector>

namespace g4::g4c {

enum class Emit { kArtifact, kGgufFile, kGguf, kGemma, kExec, kTile, kLlvm, kAsm, kObj };

struct Options {
  std::vector<std::string> inputs;
  std::string output;             ///< empty: the input with .g4m; "-" prints
  Emit emit = Emit::kArtifact;
  std::vector<std::string> cpus;  ///< names of cpu::variants(), best first
  bool weightsMissing = false;
  bool dryRun = false, json = false;
  PipelineOptions pipeline;
  bool quantizes() const { return !pipeline.gemma.quantize.empty() || !pipeline.gemma.rules.empty(); }
  std::string beginNote; ///< said on standard error when only the work is left; empty: nothing
  std::shared_ptr<void> commandLine; ///< what LLVM keeps pointers to
};

/// Parses argv. On bad usage or --help prints and exits (2 or 0).
Options parseOptions(int argc, char **argv);

} // namespace g4::g4c
