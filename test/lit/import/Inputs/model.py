"""Writes a GGUF file of shapes only, for the importer's tests: model.py KIND OUT.gguf.

KIND is a model below, with changes to how it is stored behind it: `dense+fused`. Four sliding and full layers in turn, unless the model
says otherwise. g4c --weights=none reads it.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "numerics"))
import tiny  # noqa: E402
from tiny import header_only  # noqa: E402

MODELS = {"dense": tiny.dense, "k_is_v": lambda: tiny.dense(k_is_v=True), "e_style": tiny.e_style, "moe": tiny.moe}


def stack(file, names, fused):
    """One tensor with the rows of all, in their order."""
    parts = [tiny.take(file, name) for name in names]
    shape = parts[0].shape
    file.add(fused, (*shape[:-2], sum(p.shape[-2] for p in parts), shape[-1]), parts[0].kind)


def fused(file, shape):
    for i in range(shape.layers):
        b = f"blk.{i}."
        if shape.own_kv(i):
            kinds = "qk" if shape.k_is_v and shape.full(i) else "qkv"
            stack(file, [f"{b}attn_{x}.weight" for x in kinds], b + "attn_qkv.weight")
        stack(file, [b + "ffn_gate.weight", b + "ffn_up.weight"], b + "ffn_gate_up.weight")


def split_experts(file, shape):
    for i in range(shape.layers):
        both = tiny.take(file, f"blk.{i}.ffn_gate_up_exps.weight")
        for half in ("gate", "up"):
            file.add(f"blk.{i}.ffn_{half}_exps.weight", (shape.experts, shape.expert_ff, shape.hidden), both.kind)


def one_by_one(file, shape):
    """Each expert's matrices as tensors of their own."""
    for i in range(shape.layers):
        for name in ("ffn_gate_up_exps", "ffn_down_exps"):
            whole = tiny.take(file, f"blk.{i}.{name}.weight")
            for e in range(shape.experts):
                file.add(f"blk.{i}.{name}.{e}.weight", whole.shape[1:], whole.kind)


def nvfp4(file, shape):
    """NVFP4 matrices with their scales; beside them a scale of a matrix of another type."""
    kinds = ["ffn_down"] + (["ffn_up_exps"] if shape.experts else [])
    for i in range(shape.layers):
        for name in kinds:
            matrix = file.tensor(f"blk.{i}.{name}.weight")
            matrix.kind = "nvfp4"
            file.add(f"blk.{i}.{name}.scale", matrix.shape[:-2] or (1,))
            file.add(f"blk.{i}.{name}.input_scale", matrix.shape[:-2] or (1,))
    file.add("blk.0.attn_q.scale", (1,))


def wrong_keys(file, _):
    """Metadata that the tensors contradict."""
    file["gemma4.feed_forward_length"] = 100
    file["gemma4.attention.key_length_swa"] = 64
    file["gemma4.attention.head_count_kv"] = [4, 4, 4, 4]


def main():
    (kind, *changes), out = sys.argv[1].split("+"), sys.argv[2]
    shape = MODELS[kind]()
    if "nvfp4" in changes:  # its blocks have 64 columns
        shape = MODELS[kind](ff=128) if kind != "moe" else tiny.moe(ff=128, expert_ff=64)
    file = header_only.model(kind, shape, "f32", tiny.VOCABULARY)
    for change in changes:
        globals()[change](file, shape)
    file.write(out)


if __name__ == "__main__":
    main()
