"""Float32 files with float32 activations against the reference: logits at every position, greedy text, and each layer's values."""

import numpy as np

import common
from common import EXACT, EXACT_LOGITS, FIXTURES, Case
from taps import check_taps

MODELS = ("e-style", "e-style-kvorder", "dense-keqv", "moe", "unified")
PROMPTS = ("p1", "p7", "p40", "p100")


class Exact(Case):

    def model(self, name):
        artifact = self.tools.compile(FIXTURES / name / f"{name}-F32.gguf", *EXACT)
        return artifact, np.load(FIXTURES / name / "reference.npz")

    def test_logits_at_every_position(self):
        for name in MODELS:
            artifact, reference = self.model(name)
            for prompt in PROMPTS:
                with self.subTest(model=name, prompt=prompt):
                    got = self.tools.logits(artifact, reference[f"{prompt}_ids"])
                    self.ok(common.differs(got, reference[f"{prompt}_logits"], EXACT_LOGITS), f"{name} {prompt}")

    def test_greedy_text(self):
        for name in MODELS:
            artifact, reference = self.model(name)
            for prompt in (*PROMPTS, "batch0", "batch1", "batch2"):
                with self.subTest(model=name, prompt=prompt):
                    got = self.tools.generate(artifact, reference[f"{prompt}_ids"], 32)
                    self.ok(
                        common.greedy_differs(got, reference[f"{prompt}_greedy_ids"],
                                              reference[f"{prompt}_greedy_top5_logits"]), f"{name} {prompt}")

    def test_suppressed_tokens_are_never_chosen(self):
        artifact, reference = self.model("unified")
        suppressed = set(reference["suppress_tokens"].tolist())
        free = 0
        for prompt in (*PROMPTS, "batch0", "batch1", "batch2"):
            with self.subTest(prompt=prompt):
                got = self.tools.generate(artifact, reference[f"{prompt}_ids"], 32, "--ignore-eos")
                self.ok(f"suppressed {suppressed & set(got)}" if suppressed & set(got) else None, prompt)
                self.ok(
                    common.greedy_differs(got, reference[f"{prompt}_greedy_suppressed_ids"],
                                          reference[f"{prompt}_greedy_suppressed_top5_logits"]), prompt)
                free += len(suppressed & set(reference[f"{prompt}_greedy_ids"].tolist()))
        self.at_least(free, 1, "suppressed tokens that free greedy text would contain: without any this test shows nothing")

    def test_a_wrong_artifact_is_noticed(self):
        """The bound tells models apart: the default int8 path of the same file must fail it."""
        _, reference = self.model("dense-keqv")
        fast = self.tools.compile(FIXTURES / "dense-keqv/dense-keqv-F32.gguf", "--activations=int8", "--kv=f16")
        got = self.tools.logits(fast, reference["p40_ids"])
        self.ok(None if common.differs(got, reference["p40_logits"], EXACT_LOGITS) else "passes the exact bound", "int8")


class Taps(Case):
    """The compiled program's own intermediate values, so that a failure names the first wrong layer."""

    def test_every_layer(self):
        for name in MODELS:
            reference = np.load(FIXTURES / name / "reference.npz")
            artifact = self.tools.compile(FIXTURES / name / f"{name}-F32.gguf", *EXACT)
            check_taps(self, name, reference, self.tools.taps(artifact, reference["p7_ids"]))


if __name__ == "__main__":
    common.main()
