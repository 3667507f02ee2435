#!/usr/bin/env python3
"""Writes formats.gguf: for each type a tensor `<type>.blocks` of that type and `<type>.values`, what it stands for.

Blocks are random where any bits are valid; every point of every codebook occurs; scales take all kinds of finite values.
The values are gguf-py's (version 0.19). It has none for Q1_0 and Q2_0: theirs are computed here, as ggml's reference does.

usage: make.py   (needs numpy and gguf; the tests that read the file do not)
"""

import sys
from pathlib import Path

import gguf
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))
import ggufio  # noqa: E402

# Where a block has half-precision factors.
HALVES = {
    "q1_0": [0], "q2_0": [0], "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q2_k": [80, 82],
    "q3_k": [108], "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208], "iq1_s": [0], "iq1_m": [], "iq2_xxs": [0], "iq2_xs": [0],
    "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0], "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52], "tq2_0": [64], "mxfp4": [],
    "nvfp4": [], "f16": [0],
}
# Zero, minus zero, smallest and largest subnormal, smallest normal, one, the largest and its negative.
SPECIAL = np.array([0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0x7bff, 0xfbff], np.uint16)
POINTS = {"iq1_s": 2048, "iq1_m": 2048, "iq2_xxs": 256, "iq2_xs": 512, "iq2_s": 1024, "iq3_xxs": 256, "iq3_s": 512}


def put(blocks, at, bits, shift, value):
    """Sets `bits` bits of each block's byte `at`, from bit `shift`."""
    mask = ((1 << bits) - 1) << shift
    blocks[:, at] = blocks[:, at] & (255 - mask) | ((value << shift) & mask)


def every_point(kind, blocks):
    """Makes each point of the type's codebook occur."""
    count = 64 if kind.startswith("iq3") else 32  # a block's points
    for k in range(count):
        i = (np.arange(len(blocks)) * count + k) % POINTS[kind]
        low = {"iq2_xxs": 2 + 8 * (k // 4) + k % 4, "iq2_xs": 2 + 2 * k, "iq1_m": k}.get(kind, 2 + k)
        blocks[:, low] = i & 255
        if kind == "iq2_xs":
            put(blocks, low + 1, 1, 0, i >> 8)
        elif kind == "iq2_s":
            put(blocks, 66 + k // 4, 2, 2 * (k % 4), i >> 8)
        elif kind == "iq3_s":
            put(blocks, 66 + k // 8, 1, k % 8, i >> 8)
        elif kind == "iq1_m":
            put(blocks, 32 + k // 2, 3, 4 * (k % 2), i >> 8)
        elif kind == "iq1_s":
            for bit in range(3):
                place = 3 * (k % 4) + bit
                put(blocks, 34 + 2 * (k // 4) + place // 8, 1, place % 8, i >> (8 + bit) & 1)


def make_blocks(kind, rng):
    _, elements, size = ggufio.TYPES[kind]
    count = {1: 256, 32: 64, 64: 48, 128: 32}.get(elements, 16)
    if kind in POINTS:  # every point, and those of the first blocks again: there some scales are 0
        count = POINTS[kind] // (64 if kind.startswith("iq3") else 32) + 10
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if kind in ("f32", "bf16"):
        values = (rng.standard_normal(count) * np.exp2(rng.integers(-140, 120, count).astype(float))).astype(np.float32)
        values[:4] = [0.0, -0.0, 1.0, np.finfo(np.float32).tiny]
        return (values if kind == "f32" else (values.view(np.uint32) >> 16).astype(np.uint16)).view(np.uint8).reshape(blocks.shape)
    blocks[0], blocks[1] = 0, 255  # the extreme codes
    if kind in POINTS:
        every_point(kind, blocks)
    # Scales: the special ones first, then random finite ones of usual and of any size.
    scales = np.concatenate([SPECIAL, rng.standard_normal(count).astype(np.float16).view(np.uint16), rng.integers(0, 0x7c00, count, np.uint16)])
    for n, at in enumerate(HALVES[kind]):
        halves = np.concatenate([np.roll(SPECIAL, n), rng.permutation(scales[8:])[:count - 8]])
        blocks[2:10, at:at + 2] = halves[:8].reshape(-1, 1).view(np.uint8)
        rest = np.concatenate([halves[8:], halves[:8]])
        blocks[:2, at:at + 2] = np.array([[0x3800], [0xb800]], np.uint16).view(np.uint8)  # 1/2 and -1/2 with extreme codes
        blocks[10:, at:at + 2] = rest[:count - 10].reshape(-1, 1).view(np.uint8)
    if kind == "iq1_m":  # the half lies in the top nibbles of four words
        halves = np.concatenate([[0x3800, 0xb800], SPECIAL, scales[8:]])[:count].astype(np.uint16)
        for i in range(4):
            put(blocks, 48 + 2 * i + 1, 4, 4, (halves >> (4 * i)) & 15)
    if kind == "mxfp4":  # 12 * 2^(252 - 128) is the largest that is finite
        blocks[:, 0] = np.concatenate([[127, 127, 0, 1, 2, 3, 251, 252], rng.integers(100, 150, count - 8)])
    if kind == "nvfp4":
        blocks[:, :4] &= 127
        blocks[2:34, :4] = np.arange(128, dtype=np.uint8).reshape(32, 4)  # every scale, the NaN too, which stands for 0
    return blocks


def values_of(kind, blocks):
    if kind == "q1_0":
        bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little")
        d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        return np.where(bits == 1, d, -d)
    if kind == "q2_0":
        codes = (blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(len(blocks), -1)
        d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        return (codes.astype(np.float32) - np.float32(1)) * d
    number = gguf.GGMLQuantizationType(ggufio.TYPES[kind][0])
    return gguf.quants.dequantize(blocks, number).astype(np.float32, copy=False).reshape(len(blocks), -1)


def main():
    file = ggufio.File()
    file["general.architecture"] = "formats"
    for kind, (number, elements, _) in ggufio.TYPES.items():
        blocks = make_blocks(kind, np.random.default_rng(number))
        values = values_of(kind, blocks)
        if not np.isfinite(values).all():
            raise ValueError(f"{kind}: values that are not finite")
        file.add(f"{kind}.blocks", (len(blocks), elements), kind, blocks)
        file.add(f"{kind}.values", (len(blocks), elements), "f32", values)
    file.write(HERE / "formats.gguf")


if __name__ == "__main__":
    main()
