// The whole dialect, for code generation.
#ifndef G4_DIALECTS_GEMMA_TD
#define G4_DIALECTS_GEMMA_TD

include "dialects/gemma/GemmaModel.td"
include "dialects/gemma/GemmaOps.td"

#endif
