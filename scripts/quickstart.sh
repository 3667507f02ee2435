#!/usr/bin/env bash
# From a fresh clone to an answer: installs packages, builds g4, compiles the shipped model, asks it something.
# usage: scripts/quickstart.sh [QUESTION]
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
question=${1:-What is the capital of France?}
model=models/gemma4-nano/gemma4-nano-Q8_0.gguf
artifact=build/gemma4-nano.g4m

step "1/4 Packages (scripts/setup.sh)"
scripts/setup.sh

step "2/4 Building g4c and g4run (scripts/build.sh; the first time takes a while)"
scripts/build.sh release g4c g4run

step "3/4 Compiling the model: build/bin/g4c $model -o $artifact"
build/bin/g4c "$model" -o "$artifact"

step "4/4 Asking it: build/bin/g4run $artifact -p \"$question\""
build/bin/g4run "$artifact" -p "$question" --temp 0 -n 100
