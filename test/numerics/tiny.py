"""Small random models of any shape, and changes to how a file stores them."""

import numpy as np

import common
from common import ggufio, header_only
from header_only import Shape

# The 1024-token vocabulary of the stored models.
VOCABULARY = common.FIXTURES / "e-style/e-style-F32.gguf"

# Quantised blocks: (offset of a half-precision factor in a block, its size for values of standard deviation 1).
# The quants themselves are random bits; a minimum's factor centres them.
FACTORS = {
    "q4_0": [(0, 1 / 4.6)],
    "q4_1": [(0, 1 / 4.6), (2, -7.5 / 4.6)],
    "q5_0": [(0, 1 / 9.2)],
    "q5_1": [(0, 1 / 9.2), (2, -15.5 / 9.2)],
    "q8_0": [(0, 1 / 73.9)],
    "q4_k": [(0, 1 / 160), (2, 7.5 / 160)],
    "q5_k": [(0, 1 / 320), (2, 15.5 / 320)],
    "q6_k": [(208, 1 / (74 * 18.5))],
}


# Where the factors of a block are that no random bits will do for: halves, or what else multiplies a block's values.
HALVES = {
    "q2_k": (80, 82), "q3_k": (108,), "iq4_nl": (0,), "iq4_xs": (0,), "tq1_0": (52,), "tq2_0": (64,), "q1_0": (0,), "q2_0": (0,),
    "iq3_s": (0,), "iq3_xxs": (0,), "iq2_xxs": (0,), "iq2_xs": (0,), "iq2_s": (0,), "iq1_s": (0,),
}
RARE = (*HALVES, "iq1_m", "mxfp4", "nvfp4")


def scaled_blocks(kind, blocks, shift):
    """Blocks of 2^shift times the values (one power for each block), and which of them have exponents for that."""
    blocks, good = blocks.copy(), np.ones(len(blocks), bool)

    def move(exponent, least, most):
        moved = exponent + shift
        good[:] &= (exponent >= least) & (exponent <= most) & (moved >= least) & (moved <= most)
        return moved

    if kind == "mxfp4":
        blocks[:, 0] = move(blocks[:, 0].astype(int), 2, 250) & 255
    elif kind == "nvfp4":
        for i in range(4):
            scale = blocks[:, i].astype(int)
            blocks[:, i] = (move(scale >> 3, 1, 14) & 15) << 3 | scale & 7
    elif kind == "iq1_m":  # the half's bits are in the top nibbles of four words
        nibbles = blocks[:, 49:56:2].astype(int) >> 4
        half = (nibbles << np.array([0, 4, 8, 12])).sum(axis=1)
        half = half & 0x83ff | (move(half >> 10 & 31, 1, 30) & 31) << 10
        blocks[:, 49:56:2] = blocks[:, 49:56:2] & 15 | (half[:, None] >> np.array([0, 4, 8, 12]) & 15) << 4
    else:
        for at in HALVES[kind]:
            half = np.ascontiguousarray(blocks[:, at:at + 2]).view(np.uint16)[:, 0].astype(int)
            half = half & 0x83ff | (move(half >> 10 & 31, 1, 30) & 31) << 10
            blocks[:, at:at + 2] = half.astype(np.uint16)[:, None].view(np.uint8)
    return blocks, good


def rare_values(rng, shape, kind, deviation):
    """Stored bytes of a tensor, made of the blocks of test/data/formats, and the float32 values that they stand for."""
    file = ggufio.read(common.ROOT / "test/data/formats/formats.gguf")
    _, elements, size = ggufio.TYPES[kind]
    blocks = np.frombuffer(file.tensor(kind + ".blocks").data, np.uint8).reshape(-1, size)
    values = np.frombuffer(file.tensor(kind + ".values").data, np.float32).reshape(-1, elements)
    with np.errstate(divide="ignore"):
        shift = np.round(np.log2(deviation / np.sqrt((values.astype(np.float64)**2).mean(axis=1))))
    shift = np.where(np.isfinite(shift), shift, 0).astype(int)
    blocks, good = scaled_blocks(kind, blocks, shift)
    chosen = rng.choice(np.flatnonzero(good), int(np.prod(shape)) // elements)
    return blocks[chosen], np.ldexp(values, shift[:, None])[chosen].reshape(shape)


def random_values(rng, shape, kind, deviation):
    """Stored bytes of a tensor whose values have about this standard deviation."""
    if kind in ("f32", "f16", "bf16"):
        v = (rng.standard_normal(shape) * deviation).astype(np.float32)
        if kind == "bf16":
            return (v.view(np.uint32) >> 16).astype(np.uint16)
        return v.astype(np.float16) if kind == "f16" else v
    size = ggufio.TYPES[kind][2]
    blocks = rng.integers(0, 256, (ggufio.byte_size(shape, kind) // size, size), dtype=np.uint8)
    spread = rng.uniform(0.7, 1.3, (len(blocks), 1))
    for offset, factor in FACTORS[kind]:
        blocks[:, offset:offset + 2] = (deviation * factor * spread).astype(np.float16).view(np.uint8)
    return blocks


def fill(file, seed):
    """Gives every tensor without data random values of a trained model's size."""
    rng = np.random.default_rng(seed)
    for t in file.tensors:
        if t.data is not None:
            continue
        if t.name.endswith("layer_output_scale.weight"):
            t.data = rng.uniform(0.7, 1.0, t.shape).astype(np.float32)
        elif len(t.shape) == 1:
            t.data = (1 + 0.2 * rng.standard_normal(t.shape)).astype(np.float32)
        else:
            t.data = random_values(rng, t.shape, t.kind, 1 / np.sqrt(t.shape[-1]))
    return file


def model(shape, quant="f32", seed=1, types=None):
    """A filled file. `types`: {tensor name: type} that differ from `quant`."""
    file = header_only.model("a tiny model", shape, quant, VOCABULARY)
    for t in file.tensors:
        t.kind = (types or {}).get(t.name, t.kind)
    return fill(file, seed)


def dense(**changes):
    return Shape(**{**dict(hidden=64, layers=4, heads=4, kv_heads=(2, 1), ff=96, window=16, period=2, head_dims=(32, 64)), **changes})


def e_style(**changes):
    return dense(**{**dict(layers=6, kv_heads=(1, 1), sharing=2, per_layer=32, wide_sharing=True), **changes})


def moe(**changes):
    return dense(**{**dict(k_is_v=True, experts=6, experts_used=2, expert_ff=32), **changes})


# ---- the same model stored in another way -------------------------------------------------------------------------


def take(file, name):
    found = file.tensor(name)
    file.tensors.remove(found)
    return found


def fuse(file, names, fused):
    """Replaces float32 matrices by one with all their rows."""
    parts = [take(file, n) for n in names]
    rows = np.concatenate([p.data for p in parts], axis=-2)
    file.add(fused, rows.shape, "f32", rows)


def layers(shape):
    return range(shape.layers)


def fuse_qkv(file, shape):
    for i in layers(shape):
        b = f"blk.{i}."
        if shape.own_kv(i) and not (shape.k_is_v and shape.full(i)):
            fuse(file, [f"{b}attn_{x}.weight" for x in "qkv"], b + "attn_qkv.weight")


def fuse_gate_up(file, shape):
    for i in layers(shape):
        fuse(file, [f"blk.{i}.ffn_gate.weight", f"blk.{i}.ffn_up.weight"], f"blk.{i}.ffn_gate_up.weight")


def split_experts(file, shape):
    """ffn_gate_up_exps as ffn_gate_exps and ffn_up_exps."""
    for i in layers(shape):
        both = take(file, f"blk.{i}.ffn_gate_up_exps.weight").data
        for name, half in zip(("gate", "up"), np.split(both, 2, axis=1)):
            file.add(f"blk.{i}.ffn_{name}_exps.weight", half.shape, "f32", np.ascontiguousarray(half))


def one_tensor_per_expert(file, shape):
    for i in layers(shape):
        for name in ("ffn_gate_up_exps", "ffn_down_exps"):
            stack = take(file, f"blk.{i}.{name}.weight").data
            for e, matrix in enumerate(stack):
                file.add(f"blk.{i}.{name}.{e}.weight", matrix.shape, "f32", matrix)


def separate_head(file, shape, seed=5):
    table = file.tensor("token_embd.weight")
    data = random_values(np.random.default_rng(seed), table.shape, "f32", 1 / np.sqrt(shape.hidden))
    file.add("output.weight", table.shape, "f32", data)


def unused_kv(file, shape, seed=6):
    """K/V tensors on the layers that share another's, as older converters wrote them."""
    rng = np.random.default_rng(seed)
    for i in layers(shape):
        if not shape.own_kv(i):
            for x in "kv":
                data = random_values(rng, (shape.kv_width(i), shape.hidden), "f32", 1.0)
                file.add(f"blk.{i}.attn_{x}.weight", data.shape, "f32", data)
            file.add(f"blk.{i}.attn_k_norm.weight", (shape.head_dim(i),), "f32", np.ones(shape.head_dim(i), np.float32))


def rename(file, old, new):
    for t in file.tensors:
        t.name = t.name.replace(old, new)
