"""Weight types that the stored models do not have, on every matrix of a model: as if the file held the float32 values."""

import numpy as np

import common
import tiny
from common import EXACT, Case

IDS = [2, *range(300, 331)]
# A matrix's place in a model: what its name says besides the layer.
E_STYLE = {"token_embd", "per_layer_token_embd", "per_layer_model_proj", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up",
           "ffn_down", "inp_gate", "proj"}
MOE = {"token_embd", "output", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "ffn_gate_inp",
       "ffn_gate_up_exps", "ffn_down_exps"}
# Rounding activations to 8 bits moves a product by half a percent; through a model, by some. Where it makes a row choose
# another expert, the row is another.
INT8_CORRELATION, INT8_CORRELATION_OF_EXPERTS = 0.98, 0.8


def place(name):
    return name.removesuffix(".weight").split(".")[-1]


def mixed(file, nvfp4):
    """Gives each matrix a rare type, one after the other, so that the one in place `nvfp4` has this type, and a scale tensor.

    The places and types that occur, and the file with float32 values in their place.
    """
    matrices = [t for t in file.tensors if len(t.shape) > 1]
    first = tiny.RARE.index("nvfp4") - [place(t.name) for t in matrices].index(nvfp4)
    twin = common.ggufio.File(dict(file.keys), [t for t in file.tensors if len(t.shape) == 1])
    rng = np.random.default_rng(1)
    places, types = set(), set()
    for i, t in enumerate(matrices):
        t.kind = tiny.RARE[(first + i) % len(tiny.RARE)]
        t.data, values = tiny.rare_values(rng, t.shape, t.kind, 1 / np.sqrt(t.shape[-1]))
        if t.kind == "nvfp4":  # one scale, or one for each expert; powers of two, so that float32 holds the products
            scale = np.exp2(rng.integers(-1, 2, t.shape[:-2] or (1,))).astype(np.float32)
            file.add(t.name.replace(".weight", ".scale"), scale.shape, "f32", scale)
            values = values * scale.reshape(*t.shape[:-2], 1, 1)
        twin.add(t.name, t.shape, "f32", values)
        places.add(place(t.name))
        types.add(t.kind)
    return places, types, twin


class Formats(Case):

    def check(self, file, places, nvfp4, correlation):
        found, types, twin = mixed(file, nvfp4)
        self.equal(found, places, "places")
        self.equal(types, set(tiny.RARE), "types")
        with common.scratch(self.tools) as folder:
            file.write(folder / "rare.gguf")
            twin.write(folder / "f32.gguf")
            logits = {}
            for name, flags in (("rare", EXACT), ("f32", EXACT), ("rare", ())):
                out = folder / f"{name}{len(flags)}.g4m"
                self.tools.call("g4c", folder / f"{name}.gguf", "-o", out, "--cpu=host", *flags)
                logits[name, bool(flags)] = self.tools.logits(out, IDS)
            want = logits["f32", True]
            # The kernels decode the same values and add them in the same order.
            self.ok(common.bits_differ(logits["rare", True], want), "--activations=f32 against float32 values")
            self.at_least(common.correlation(logits["rare", False], want), correlation, "the default")

    def test_e_style(self):
        shape = tiny.e_style(hidden=256, ff=256, per_layer=256, layers=3, sharing=1, head_dims=(64, 128))
        self.check(tiny.model(shape), E_STYLE, "per_layer_token_embd", INT8_CORRELATION)

    def test_moe(self):
        shape = tiny.moe(hidden=256, ff=256, layers=2, experts=4, expert_ff=256, head_dims=(64, 128))
        file = tiny.model(shape)
        tiny.separate_head(file, shape)
        self.check(file, MOE, "ffn_gate_up_exps", INT8_CORRELATION_OF_EXPERTS)

    def test_another_value_is_another_result(self):
        """What the tests above compare with: one wrong block of a tensor changes the logits' bits."""
        shape = tiny.e_style(hidden=256, ff=256, per_layer=256, layers=2, sharing=0, head_dims=(64, 128))
        with common.scratch(self.tools) as folder:
            file = tiny.model(shape)
            rng = np.random.default_rng(1)
            table = file.tensor("per_layer_token_embd.weight")
            table.kind = "iq3_s"
            table.data, values = tiny.rare_values(rng, table.shape, table.kind, 1 / 16)
            logits = []
            for wrong in (False, True):
                if wrong:  # a sign bit of the second token's row
                    table.data = table.data.copy()
                    table.data[IDS[1] * (table.shape[-1] // 256), 74] ^= 1
                file.write(folder / "m.gguf")
                self.tools.call("g4c", folder / "m.gguf", "-o", folder / "m.g4m", "--cpu=host", *EXACT)
                logits.append(self.tools.logits(folder / "m.g4m", IDS))
            self.ok(None if common.bits_differ(*logits) else "a wrong sign changes nothing", "comparator")


if __name__ == "__main__":
    common.main()
