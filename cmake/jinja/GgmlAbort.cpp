// The engine's JSON wrapper asserts through ggml, which is not linked here.
#include <cstdio>
#include <cstdlib>

extern "C" [[noreturn]] void ggml_abort(const char *file, int line, const char *, ...) {
  std::fprintf(stderr, "%s:%d: assertion failed\n", file, line);
  std::abort();
}
