"""Models and ways to store them that the references do not cover, against the numpy model: head shapes, types, layouts, hostile values."""

import unittest.mock

import numpy as np

import common
import tiny
from common import EXACT, EXACT_LOGITS, Case
from oracle import Model

IDS = [2, *range(300, 339)]  # 40 tokens: past two windows of 16


class Variants(Case):

    def check(self, name, file, seen=None, **bound):
        """Compiles `file` with float32 activations and compares all logits with the numpy model's."""
        with common.scratch(self.tools) as folder:
            gguf, out = folder / "model.gguf", folder / "model.g4m"
            file.write(gguf)
            done = self.tools.call("g4c", gguf, "-o", out, "--cpu=host", *EXACT)
            want = Model(gguf).logits(IDS)
            self.ok(common.differs(self.tools.logits(out, IDS), want, bound.get("bound", EXACT_LOGITS)), name)
            return done.stderr.decode(errors="replace")

    def test_head_dims_and_group_sizes(self):
        """Published head dims with every number of query heads per K/V head from 1 to 16."""
        for group in (1, 2, 4, 8, 16):
            with self.subTest(group=group):
                kv = max(1, 4 // group)
                shape = tiny.dense(layers=2, heads=kv * group, kv_heads=(kv, kv), head_dims=(256, 512))
                self.check(f"{kv * group} heads, {kv} for K/V", tiny.model(shape))

    def test_sizes_that_fit_no_tile(self):
        for hidden, ff, window in ((96, 160, 5), (160, 32, 33), (32, 352, 1)):
            with self.subTest(hidden=hidden):
                shape = tiny.dense(hidden=hidden, ff=ff, window=window)
                self.check(f"hidden {hidden}, MLP {ff}, window {window}", tiny.model(shape))

    def test_fused_and_split_projections(self):
        for name, shape, change in (
            ("attn_qkv", tiny.dense(), tiny.fuse_qkv),
            ("attn_qkv, shared K/V", tiny.e_style(), tiny.fuse_qkv),
            ("ffn_gate_up", tiny.dense(), tiny.fuse_gate_up),
            ("ffn_gate_exps and ffn_up_exps", tiny.moe(), tiny.split_experts),
            ("one tensor per expert", tiny.moe(), tiny.one_tensor_per_expert),
        ):
            with self.subTest(stored=name):
                file = tiny.model(shape)
                change(file, shape)
                self.check(name, file)

    def test_a_scale_beside_a_weight_of_any_type(self):
        """`<name>.scale` multiplies products, by one value or one for each expert, as if it were in the weight's blocks."""
        scaled = {"attn_q": "q4_0", "attn_k": "q4_0", "attn_v": "q4_0", "attn_qkv": "q4_0", "attn_output": "q4_0", "ffn_gate": "f32",
                  "ffn_up": "f32", "ffn_down": "f32", "ffn_gate_exps": "q8_0", "ffn_up_exps": "q8_0"}
        rng = np.random.default_rng(3)
        shape = tiny.moe(layers=3)
        file, twin = tiny.model(shape), common.ggufio.File()
        tiny.split_experts(file, shape)
        tiny.fuse(file, [f"blk.2.attn_{x}.weight" for x in "qkv"], "blk.2.attn_qkv.weight")
        twin.keys = file.keys
        for t in list(file.tensors):
            data, place = t.data, t.name.removesuffix(".weight").split(".")[-1]
            if place in scaled:
                t.kind = scaled[place]
                data = t.data = tiny.random_values(rng, t.shape, t.kind, 1 / np.sqrt(t.shape[-1]))
                # Powers of two: the products with them are exact.
                scale = np.exp2(rng.integers(1, 3, t.shape[:-2] or (1,))).astype(np.float32)
                file.add(t.name.replace(".weight", ".scale"), scale.shape, "f32", scale)
                if t.kind == "f32":
                    data = data * scale.reshape(*t.shape[:-2], 1, 1)
                else:
                    data = data.copy()
                    each = np.repeat(scale, len(data) // scale.size).astype(np.float16)
                    for offset, _ in tiny.FACTORS[t.kind]:
                        halves = np.ascontiguousarray(data[:, offset:offset + 2]).view(np.float16)[:, 0]
                        data[:, offset:offset + 2] = (halves * each)[:, None].view(np.uint8)
            twin.add(t.name, t.shape, t.kind, data)
        self.equal({t.name.split(".")[2] for t in file.tensors if t.name.endswith(".scale")} - {"ffn_gate_inp", "ffn_down_exps"}, set(scaled), "scaled")
        with common.scratch(self.tools) as folder:
            file.write(folder / "scaled.gguf")
            twin.write(folder / "twin.gguf")
            logits = {}
            for name in ("scaled", "twin"):
                self.tools.call("g4c", folder / f"{name}.gguf", "-o", folder / f"{name}.g4m", "--cpu=host")
                logits[name] = self.tools.logits(folder / f"{name}.g4m", IDS)
            self.ok(common.bits_differ(logits["scaled"], logits["twin"]), "logits")

    def test_pruned_rows_that_stop_at_once(self):
        """Models so short that only one layer, or none, lies before the one where pruned rows stop."""
        for layers, sharing in ((4, 2), (3, 1), (2, 0)):
            with self.subTest(layers=layers, sharing=sharing):
                self.check(f"{layers} layers, {sharing} sharing", tiny.model(tiny.e_style(layers=layers, sharing=sharing)))

    def test_separate_head(self):
        file = tiny.model(tiny.dense())
        tiny.separate_head(file, tiny.dense())
        self.check("output.weight", file)

    def test_unused_kv_of_sharing_layers_changes_nothing(self):
        file = tiny.model(tiny.e_style())
        tiny.unused_kv(file, tiny.e_style())
        self.check("unused K/V", file)

    def test_other_names_of_norms(self):
        file = tiny.model(tiny.dense())
        tiny.rename(file, "post_attention_norm", "attn_post_norm")
        tiny.rename(file, "post_ffw_norm", "ffn_post_norm")
        self.check("attn_post_norm, ffn_post_norm", file)

    def test_mlp_width_comes_from_the_weights(self):
        """A file that says one width for all layers although the sharing ones have twice that: a warning, and right results."""
        file = tiny.model(tiny.e_style())
        file["gemma4.feed_forward_length"] = 96
        said = self.check("feed_forward_length", file)
        self.ok(None if "feed_forward_length" in said else f"no warning in {said!r}", "warning")

    def test_head_dim_comes_from_the_weights(self):
        file = tiny.model(tiny.dense())
        file["gemma4.attention.key_length_swa"] = 64
        said = self.check("key_length_swa", file)
        self.ok(None if "key_length_swa" in said else f"no warning in {said!r}", "warning")

    def test_large_activations(self):
        """A residual stream of 1e4, as the largest model's grows: nothing overflows, and the head still tells logits apart."""
        shape = tiny.dense(layers=6)
        file = tiny.model(shape)
        for t in file.tensors:
            if "post_" in t.name and t.name.endswith("norm.weight"):
                t.data = t.data * np.float32(3000)
            if t.name.endswith("layer_output_scale.weight"):
                t.data = np.ones_like(t.data)
        self.check("residual stream of 1e4", file)

    def test_a_broken_expert_that_is_not_chosen_does_no_harm(self):
        shape = tiny.moe()
        file = tiny.model(shape)
        for i in range(shape.layers):
            # Rows r, -r, s, -s: two of their logits are positive, so the last expert's zero is never among the best two.
            router = file.tensor(f"blk.{i}.ffn_gate_inp.weight").data
            router[1], router[3], router[5] = -router[0], -router[2], 0
            for name in ("ffn_gate_up_exps.weight", "ffn_down_exps.weight", "ffn_down_exps.scale"):
                file.tensor(f"blk.{i}.{name}").data[5] = np.nan
        with common.scratch(self.tools) as folder:
            gguf, out = folder / "model.gguf", folder / "model.g4m"
            file.write(gguf)
            model = Model(gguf)
            want = model.logits(IDS)
            used = {int(e) for i in range(shape.layers) for e in model.seen[f"router_idx{i}"].ravel()}
            self.ok("the broken expert is chosen: the test shows nothing" if 5 in used else None, "choices")
            self.tools.call("g4c", gguf, "-o", out, "--cpu=host", *EXACT)
            self.ok(common.differs(self.tools.logits(out, IDS), want, EXACT_LOGITS), "NaN in an expert that is not chosen")

    def test_missing_expert_scales_are_an_error(self):
        for name in ("ffn_down_exps.scale", "ffn_gate_inp.scale"):
            with self.subTest(missing=name), common.scratch(self.tools) as folder:
                file = tiny.model(tiny.moe())
                tiny.take(file, f"blk.1.{name}")
                file.write(folder / "model.gguf")
                done = self.tools.call("g4c", folder / "model.gguf", "-o", folder / "model.g4m", expect=1)
                self.ok(None if f"blk.1.{name}".encode() in done.stderr else done.stderr.decode(), "the message names it")

    def test_unknown_types_are_named_with_the_supported_ones(self):
        with common.scratch(self.tools) as folder, unittest.mock.patch.dict(common.ggufio.TYPES, {"q8_1": (9, 32, 36)}):
            file = common.header_only.model("unsupported", tiny.dense(), "f32", tiny.VOCABULARY)
            file.tensor("blk.1.ffn_up.weight").kind = "q8_1"
            file.write(folder / "model.gguf")
            done = self.tools.call("g4c", folder / "model.gguf", "-o", folder / "model.g4m", expect=1)
            for word in ("blk.1.ffn_up.weight", "type 9", "q8_0", "iq1_m", "nvfp4", "q2_0"):
                self.ok(None if word in done.stderr.decode().lower() else done.stderr.decode(), f"the message names {word}")


if __name__ == "__main__":
    common.main()
