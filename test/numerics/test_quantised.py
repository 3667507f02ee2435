"""Quantised files: with float32 activations exactly what the stored weights say, on the default int8 path no worse than llama.cpp."""

import numpy as np

import common
from common import EXACT, EXACT_LOGITS, FIXTURES, Case, say

# How much lower than llama.cpp's a correlation may be: both have int8 activations with their own rounding.
SLACK = 5e-4


def reference(model):
    return np.load(FIXTURES / model / "quant_reference.npz")


class Float32Activations(Case):
    """Every stored file against the reference that runs the same dequantised weights."""

    def check(self, model):
        stored = reference(model)
        kinds = list(common.quantised_files(model))
        self.at_least(len(kinds), 3, "stored files")
        for kind, path in kinds:
            with self.subTest(file=path.name):
                artifact = self.tools.compile(path, *EXACT)
                got = self.tools.logits(artifact, stored["p7_ids"])
                self.ok(common.differs(got, stored[f"{kind}_p7_logits"], EXACT_LOGITS), f"{path.name} p7")
                got = self.tools.logits(artifact, stored["p40_ids"])
                self.ok(common.differs(got[-4:], stored[f"{kind}_p40_last4_logits"], EXACT_LOGITS), f"{path.name} p40")
                for row in np.flatnonzero(got.argmax(axis=1) != stored[f"{kind}_p40_argmax"]):
                    margin = got[row].max() - got[row][stored[f"{kind}_p40_argmax"][row]]
                    self.at_most(margin, common.TIE, f"{path.name} p40 argmax of row {row}")

    def test_e_style(self):
        self.check("e-style")

    def test_dense(self):
        self.check("dense-keqv")

    def test_moe(self):
        self.check("moe")


class DefaultPath(Case):

    def check(self, model, artifact, kind, path, *args):
        stored = reference(model)
        got = self.tools.logits(artifact, stored["p7_ids"], *args)
        reached = common.correlation(got, stored[f"{kind}_p7_logits"])
        rival = common.llama_correlation()[model, kind]
        say(f"{path.name}: correlation {reached:.5f}, llama.cpp {rival:.5f}")
        self.at_least(reached, rival - SLACK, path.name)

    def test_dense_and_e_style_correlate_as_well_as_llama_cpp(self):
        for model in ("e-style", "dense-keqv"):
            for kind, path in common.quantised_files(model):
                with self.subTest(file=path.name):
                    self.check(model, self.tools.compile(path), kind, path)

    def test_moe_with_forced_experts_correlates_as_well_as_llama_cpp(self):
        """One flipped expert changes everything after it; so the choices come from the exact run and flips are counted."""
        ids = reference("moe")["p7_ids"]
        for kind, path in common.quantised_files("moe"):
            with self.subTest(file=path.name), common.scratch(self.tools) as folder:
                exact = experts(self.tools.taps(self.tools.compile(path, *EXACT), ids))
                fast = self.tools.compile(path)
                free = experts(self.tools.taps(fast, ids))
                flips = np.count_nonzero((np.sort(exact, -1) != np.sort(free, -1)).any(-1))
                say(f"{path.name}: {flips} of {exact.shape[0] * exact.shape[1]} expert choices flip")
                np.save(folder / "experts.npy", exact)
                forced = ("--forced-experts", folder / "experts.npy")
                self.ok(common.bits_differ(experts(self.tools.taps(fast, ids, *forced)), exact), "choices of the forced run")
                self.check("moe", fast, kind, path, *forced)

    def test_forcing_other_experts_changes_the_result(self):
        """The forced choices are used: otherwise the comparison above would be of free runs."""
        ids = reference("moe")["p7_ids"]
        fast = self.tools.compile(FIXTURES / "moe/moe-Q8_0.gguf")
        with common.scratch(self.tools) as folder:
            chosen = experts(self.tools.taps(fast, ids))
            np.save(folder / "other.npy", np.ascontiguousarray((chosen + 1) % 8, np.int32))
            forced = self.tools.logits(fast, ids, "--forced-experts", folder / "other.npy")
        self.ok(None if common.differs(forced, self.tools.logits(fast, ids), 0.5) else "same logits", "other experts")


def experts(taps):
    """Chosen experts of all layers, int32 [layers, rows, used]."""
    layers = sorted(int(name[len("router_idx"):]) for name in taps if name.startswith("router_idx"))
    return np.stack([taps[f"router_idx{i}"] for i in layers]).astype(np.int32)


if __name__ == "__main__":
    common.main()
