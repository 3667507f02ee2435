// Logits of llama.cpp: llama_logits MODEL auto|off < SEQUENCES > LOGITS
//
// SEQUENCES: for each sequence its length, then its ids, as decimal numbers. LOGITS: for each position of each
// sequence one row of float32. The second argument is llama.cpp's flash attention. bench/compare_logits.py builds this.

#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLongest = 512 };

static void sayProblems(enum ggml_log_level level, const char *text, void *data) {
  (void)data;
  if (level == GGML_LOG_LEVEL_ERROR)
    fputs(text, stderr);
}

static int fail(const char *what) {
  fprintf(stderr, "llama_logits: %s\n", what);
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return fail("usage: llama_logits MODEL auto|off");
  llama_log_set(sayProblems, NULL);
  llama_backend_init();
  struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model)
    return fail("cannot load the model");
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = kLongest;
  params.n_threads = params.n_threads_batch = 1;
  if (!strcmp(argv[2], "off"))
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  struct llama_context *context = llama_init_from_model(model, params);
  if (!context)
    return fail("cannot make a context");
  const size_t vocabulary = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
  struct llama_batch batch = llama_batch_init(kLongest, 0, 1);
  for (int length; scanf("%d", &length) == 1;) {
    if (length < 1 || length > kLongest)
      return fail("a sequence is empty or too long");
    batch.n_tokens = length;
    for (int i = 0; i < length; ++i) {
      if (scanf("%d", &batch.token[i]) != 1)
        return fail("a sequence is cut short");
      batch.pos[i] = i;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = 1;
    }
    llama_memory_clear(llama_get_memory(context), true);
    if (llama_decode(context, batch))
      return fail("cannot decode");
    for (int i = 0; i < length; ++i)
      if (fwrite(llama_get_logits_ith(context, i), sizeof(float), vocabulary, stdout) != vocabulary)
        return fail("cannot write");
  }
  llama_batch_free(batch);
  llama_free(context);
  llama_model_free(model);
  return fflush(stdout) ? fail("cannot write") : 0;
}
