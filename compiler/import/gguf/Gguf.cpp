#include "compiler/import/gguf/Gguf.h"
