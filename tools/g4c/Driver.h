/// g4c: GGUF files, or a printed stage, to an artifact or another stage.
#pragma once

namespace g4::g4c {

/// The whole program. Exit codes: 0 done, 1 bad input, 2 bad usage.
int run(int argc, char **argv);

} // namespace g4::g4c
