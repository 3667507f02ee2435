"""The reference evaluator against the stored references: as imported, and after all passes on the gemma dialect.

It separates a wrong import or pass from a wrong kernel: where this test passes and the compiled program is wrong, the back end is.
"""

import numpy as np

import common
from common import EXACT_LOGITS, FIXTURES, Case
from taps import check_taps

MODELS = ("e-style", "e-style-kvorder", "dense-keqv", "moe", "unified")
FORMS = {"as imported": (), "after the passes": ("--gemma-pipeline",)}


class Evaluator(Case):

    def evaluate(self, path, ids, *flags):
        """All values the evaluator names, by name; logits among them."""
        with common.scratch(self.tools) as folder:
            self.tools.call("g4-opt", path, *flags, "--evaluate", f"--ids={common.join(ids)}", f"--out={folder}")
            return {p.stem: np.load(p) for p in folder.glob("*.npy")}

    def test_float32_files(self):
        for model in MODELS:
            path, reference = FIXTURES / model / f"{model}-F32.gguf", np.load(FIXTURES / model / "reference.npz")
            for form, flags in FORMS.items():
                for prompt in ("p1", "p7", "p40", "p100"):
                    with self.subTest(model=model, form=form, prompt=prompt):
                        got = self.evaluate(path, reference[f"{prompt}_ids"], *flags)
                        self.ok(common.differs(got["logits"], reference[f"{prompt}_logits"], EXACT_LOGITS), f"{model} {prompt}")
                        if prompt == "p7":
                            check_taps(self, f"{model} {form}", reference, got)

    def test_quantised_files(self):
        for model in ("e-style", "dense-keqv", "moe"):
            stored = np.load(FIXTURES / model / "quant_reference.npz")
            for kind, path in common.quantised_files(model):
                with self.subTest(file=path.name):
                    got = self.evaluate(path, stored["p7_ids"], "--gemma-pipeline")["logits"]
                    self.ok(common.differs(got, stored[f"{kind}_p7_logits"], EXACT_LOGITS), path.name)

    def test_demanded_rows(self):
        """After pruning, a subset of rows gives what all rows give, to the last bit."""
        rng = np.random.default_rng(3)
        for model in MODELS:
            path, ids = FIXTURES / model / f"{model}-F32.gguf", np.load(FIXTURES / model / "reference.npz")["p40_ids"]
            whole = self.evaluate(path, ids, "--gemma-pipeline")
            tail = np.sort(rng.choice(40, 9, replace=False))
            logits = np.sort(rng.choice(tail, 4, replace=False))
            got = self.evaluate(path, ids, "--gemma-pipeline", f"--tail={common.join(tail)}", f"--logits={common.join(logits)}")
            self.ok(common.bits_differ(got["logits"], whole["logits"][logits]), f"{model}: logits")
            self.ok(common.bits_differ(got["hidden"], whole["hidden"][tail]), f"{model}: hidden states")


if __name__ == "__main__":
    common.main()
