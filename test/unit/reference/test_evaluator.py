"""The evaluator against the stored references, as imported and after the gemma passes: so a wrong number later is
the back end's."""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "numerics"))
import common  # noqa: E402
import tiny  # noqa: E402
from common import EXACT_LOGITS, FIXTURES, Case, say  # noqa: E402

PIPELINE = "--gemma-pipeline=activations=f32 kv=f32"
MODELS = ("e-style", "e-style-kvorder", "dense-keqv", "moe", "unified")


def share_instead_of_factors(file, shape):
    """A quarter of each head turns, as the factors say."""
    tiny.take(file, "rope_freqs.weight")
    file["gemma4.rope.partial_rotary_factor"] = 0.25


class Evaluator(Case):

    def evaluate(self, path, ids, *flags):
        """Everything that the evaluator writes: {name: array}."""
        with common.scratch(self.tools) as folder:
            self.tools.call("g4-opt", path, "--evaluate", f"--ids={common.join(ids)}", f"--out={folder}", *flags)
            return {p.stem: np.load(p) for p in folder.glob("*.npy")}

    def both_forms(self, path, ids, *flags):
        """Results of the import form and of what lowering gets."""
        yield "imported", self.evaluate(path, ids, *flags)
        yield "after the passes", self.evaluate(path, ids, PIPELINE, *flags)

    def test_float32_files(self):
        for model in MODELS:
            path, reference = FIXTURES / model / f"{model}-F32.gguf", np.load(FIXTURES / model / "reference.npz")
            for prompt in ("p7", "p40"):
                for form, got in self.both_forms(path, reference[f"{prompt}_ids"]):
                    want = reference[f"{prompt}_logits"]
                    say(f"{model} {prompt} {form}: {np.abs(got['logits'] - want).max():.2e}")
                    self.ok(common.differs(got["logits"], want, EXACT_LOGITS), f"{model} {prompt} {form}")

    def test_intermediate_values(self):
        """Every stored array of the 7-token prompt, by its name, and nothing that is not stored."""
        for model in MODELS:
            path, reference = FIXTURES / model / f"{model}-F32.gguf", np.load(FIXTURES / model / "reference.npz")
            stored = {k[3:]: reference[k] for k in reference.files if k.startswith("p7_")}
            if "per_layer_inputs" in stored:
                inputs = stored.pop("per_layer_inputs")
                stored |= {f"per_layer_inputs{i}": inputs[:, i] for i in range(inputs.shape[1])}
            taps = ("h_", "attn_o", "mlp", "per_layer", "router_prob", "router_idx", "router_w")
            want = {k: v for k, v in stored.items() if k.startswith(taps) and k != "router_margin"}
            for form, got in self.both_forms(path, reference["p7_ids"]):
                self.equal(sorted(got), sorted([*want, "logits", "hidden"]), f"{model} {form}: names")
                for name, values in want.items():
                    # Float32 sums of up to 512 terms of this size, in another order.
                    bound = 0 if values.dtype == np.int32 else 1e-4 * max(1, np.abs(values).max())
                    self.ok(common.differs(got[name], values, bound), f"{model} {form} {name}")

    def test_quantised_files(self):
        for model in ("e-style", "dense-keqv", "moe"):
            reference = np.load(FIXTURES / model / "quant_reference.npz")
            for kind, path in common.quantised_files(model):
                for form, got in self.both_forms(path, reference["p7_ids"]):
                    want = reference[f"{kind}_p7_logits"]
                    self.ok(common.differs(got["logits"], want, EXACT_LOGITS), f"{path.stem} {form}")

    def test_any_row_sets_give_the_same_rows(self):
        for model in MODELS:
            path, reference = FIXTURES / model / f"{model}-F32.gguf", np.load(FIXTURES / model / "reference.npz")
            ids = reference["p40_ids"]
            for tail, logits in (([39], [39]), ([0, 3, 17, 18, 39], [3, 39]), (range(0, 40, 2), [38])):
                for form, got in self.both_forms(path, ids, f"--tail={common.join(tail)}", f"--logits={common.join(logits)}"):
                    want = reference["p40_logits"][list(logits)]
                    self.ok(common.differs(got["logits"], want, EXACT_LOGITS), f"{model} {form} {list(tail)}")
                    self.equal(len(got["hidden"]), len(tail), f"{model} {form}: hidden rows")

    def test_row_sets_must_be_subsets(self):
        path = FIXTURES / "unified/unified-F32.gguf"
        for flags in (["--tail=3"], ["--tail=1,0"], ["--tail=0", "--logits=1"]):
            done = self.tools.call("g4-opt", path, "--evaluate", "--ids=2,17,301", "--out=nowhere", *flags, expect=1)
            self.ok(None if b"rows are no rising" in done.stderr else done.stderr.decode(), str(flags))

    def test_forced_experts_are_taken(self):
        path, reference = FIXTURES / "moe/moe-F32.gguf", np.load(FIXTURES / "moe/reference.npz")
        ids = reference["p7_ids"]
        free = self.evaluate(path, ids)
        with common.scratch(self.tools) as folder:
            for name, shift in (("the router's own", 0), ("others", 1)):
                forced = {i: (reference[f"p7_router_idx{i}"] + shift) % 8 for i in range(3)}
                for i, choice in forced.items():
                    np.save(folder / f"router_idx{i}.npy", choice.astype(np.int32))
                for form, got in self.both_forms(path, ids, f"--experts={folder}"):
                    for i, choice in forced.items():
                        self.equal(got[f"router_idx{i}"].tolist(), choice.tolist(), f"{name} {form}")
                    same = common.differs(got["logits"], free["logits"], EXACT_LOGITS) is None
                    self.equal(same, shift == 0, f"{name} {form}: the logits are the router's own choice's")

    def test_other_ways_to_store_a_model_change_nothing(self):
        ids = range(300, 340)
        for name, shape, change in (
            ("attn_qkv", tiny.dense(), tiny.fuse_qkv),
            ("attn_qkv, shared K/V", tiny.e_style(), tiny.fuse_qkv),
            ("attn_qkv, V from K", tiny.moe(), tiny.fuse_qkv),
            ("ffn_gate_up", tiny.dense(), tiny.fuse_gate_up),
            ("ffn_gate_exps and ffn_up_exps", tiny.moe(), tiny.split_experts),
            ("one tensor per expert", tiny.moe(), tiny.one_tensor_per_expert),
            ("unused K/V", tiny.e_style(), tiny.unused_kv),
            ("a share of a head instead of rope factors", tiny.dense(), share_instead_of_factors),
        ):
            with self.subTest(stored=name), common.scratch(self.tools) as folder:
                path = folder / "model.gguf"
                tiny.model(shape).write(path)
                want = self.evaluate(path, ids)["logits"]
                file = tiny.model(shape)
                change(file, shape)
                file.write(path)
                for form, got in self.both_forms(path, ids):
                    self.ok(common.differs(got["logits"], want, 1e-4), f"{name} {form}")


if __name__ == "__main__":
    common.main()
