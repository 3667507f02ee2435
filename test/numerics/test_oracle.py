"""The numpy model agrees with the stored references, so it may judge models that have none."""

import numpy as np

import common
from common import EXACT_LOGITS, FIXTURES, Case, say
from oracle import Model


class Oracle(Case):

    def test_float32_files(self):
        for path in sorted(FIXTURES.glob("*/*-F32.gguf")):
            model, reference = Model(path), np.load(path.parent / "reference.npz")
            for prompt in ("p7", "p40"):
                got = model.logits(reference[f"{prompt}_ids"])
                self.ok(common.differs(got, reference[f"{prompt}_logits"], EXACT_LOGITS), f"{path.stem} {prompt}")
                say(f"{path.stem} {prompt}: {np.abs(got - reference[f'{prompt}_logits']).max():.2e}")

    def test_its_intermediate_values(self):
        for path in sorted(FIXTURES.glob("*/*-F32.gguf")):
            model, reference = Model(path), np.load(path.parent / "reference.npz")
            model.logits(reference["p7_ids"])
            for name, got in model.seen.items():
                want = reference[f"p7_{name}"]
                self.ok(common.differs(got, want, 1e-4 * max(1, np.abs(want).max())), f"{path.stem} {name}")

    def test_quantised_files(self):
        for model in ("e-style", "dense-keqv", "moe"):
            stored = np.load(FIXTURES / model / "quant_reference.npz")
            for kind, path in common.quantised_files(model):
                got = Model(path).logits(stored["p7_ids"])
                self.ok(common.differs(got, stored[f"{kind}_p7_logits"], EXACT_LOGITS), path.stem)


if __name__ == "__main__":
    common.main()
