"""How rows are grouped into steps changes nothing: chunks, single tokens, mixtures, demanded subsets, threads, free pages full of NaN."""

import numpy as np

import common
from common import EXACT, FIXTURES, Case

MODELS = ("e-style", "e-style-kvorder", "dense-keqv", "moe", "unified")


def reference(model):
    return np.load(FIXTURES / model / "reference.npz")


class Grouping(Case):

    def artifacts(self, model):
        """The exact and the default build: both owe the same bits for every grouping."""
        path = FIXTURES / model / f"{model}-F32.gguf"
        yield "exact", self.tools.compile(path, *EXACT)
        yield "default", self.tools.compile(path)

    def test_chunk_sizes_give_the_same_bits(self):
        """100 tokens, more than three windows of every model, in chunks of 1 (decoding one by one) to all at once."""
        for model in MODELS:
            ids = reference(model)["p100_ids"]
            window = 24 if model == "dense-keqv" else 16
            self.at_least(len(ids), 3 * window + 1, "length")
            for path, artifact in self.artifacts(model):
                whole = self.tools.logits(artifact, ids)
                for chunk in (1, 7, 16, 64):
                    with self.subTest(model=model, path=path, chunk=chunk):
                        self.ok(common.bits_differ(self.tools.logits(artifact, ids, "--chunk", chunk), whole), f"chunk {chunk}")

    def test_every_chunk_size_up_to_33(self):
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q4_K_M.gguf")
        ids = reference("e-style")["p40_ids"]
        whole = self.tools.logits(artifact, ids)
        for chunk in range(1, 34):
            self.ok(common.bits_differ(self.tools.logits(artifact, ids, "--chunk", chunk), whole), f"chunk {chunk}")

    def test_thread_counts_give_the_same_bits(self):
        for model in MODELS:
            ids = reference(model)["p40_ids"]
            for path, artifact in self.artifacts(model):
                one = self.tools.logits(artifact, ids, "--threads", 1)
                for threads in (2, 3):
                    got = self.tools.logits(artifact, ids, "--threads", threads)
                    self.ok(common.bits_differ(got, one), f"{model} {path}: {threads} threads")

    def test_greedy_text_does_not_depend_on_the_chunk(self):
        """Decoding continues from a cache that chunks of any size filled."""
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q8_0.gguf")
        ids = reference("e-style")["p40_ids"]
        want = self.tools.generate(artifact, ids, 32)
        for chunk in (1, 7, 16):
            got = self.tools.generate(artifact, ids, 32, "--chunk", chunk, "--ignore-eos", "--no-suppress")
            self.equal(got, want, f"chunk {chunk}")


if __name__ == "__main__":
    common.main()
