#!/usr/bin/env python3
"""Writes a GGUF file with the tensor shapes of a published Gemma 4 model and no weights: the data are a hole.

The file has its full size by `ls` and a few MB on disk. `g4c --weights=none` compiles it.

usage: header_only.py KIND QUANT OUT.gguf [--vocabulary VOCABULARY.gguf]
KIND: e2b, e4b, 12b, 26b-a4b, 31b.  QUANT: q4_0, q8_0, q4_k_m, bf16, f32.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ggufio

VOCABULARY = Path(__file__).resolve().parents[1] / "vocab/gemma-4-vocab.gguf"


@dataclass(frozen=True)
class Shape:
    """A model of the Gemma 4 kind. Pairs are of sliding and of full layers; every period-th layer is full."""
    hidden: int
    layers: int
    heads: int
    kv_heads: tuple
    ff: int
    window: int
    period: int = 6
    sharing: int = 0  # the last layers, which have no K/V of their own
    per_layer: int = 0  # width of the per-layer inputs
    wide_sharing: bool = False  # sharing layers have twice the MLP width
    k_is_v: bool = False  # full layers take V from the K projection
    experts: int = 0
    experts_used: int = 0
    expert_ff: int = 0
    head_dims: tuple = (256, 512)

    def full(self, layer):
        return (layer + 1) % self.period == 0

    def head_dim(self, layer):
        return self.head_dims[self.full(layer)]

    def kv_width(self, layer):
        return self.kv_heads[self.full(layer)] * self.head_dim(layer)

    def own_kv(self, layer):
        return layer < self.layers - self.sharing

    def mlp(self, layer):
        return self.ff * (2 if self.wide_sharing and not self.own_kv(layer) else 1)


SHAPES = {
    "e2b": Shape(1536, 35, 8, (1, 1), 6144, 512, period=5, sharing=20, per_layer=256, wide_sharing=True),
    "e4b": Shape(2560, 42, 8, (2, 2), 10240, 512, sharing=18, per_layer=256),
    "12b": Shape(3840, 48, 16, (8, 1), 15360, 1024, k_is_v=True),
    "26b-a4b": Shape(2816, 30, 16, (8, 2), 2112, 1024, k_is_v=True, experts=128, experts_used=8, expert_ff=704),
    "31b": Shape(5376, 60, 32, (16, 4), 21504, 1024, k_is_v=True),
}

# matrices, embedding table, down and V projections; where a row is no multiple of the block: q8_0
QUANTS = {
    "q4_0": ("q4_0", "q6_k", "q4_0"),
    "q8_0": ("q8_0", "q8_0", "q8_0"),
    "q4_k_m": ("q4_k", "q6_k", "q6_k"),
    "bf16": ("bf16", "bf16", "bf16"),
    "f32": ("f32", "f32", "f32"),
}


def keys(file, name, s, vocabulary):
    for key, value in ggufio.read(vocabulary).keys.items():
        if key.startswith("tokenizer."):
            file.keys[key] = value
    layers = range(s.layers)
    file["general.architecture"] = "gemma4"
    file["general.name"] = f"shapes of {name}"
    for key, value in {
            "block_count": s.layers,
            "context_length": 131072,
            "embedding_length": s.hidden,
            "feed_forward_length": [s.mlp(i) for i in layers] if s.wide_sharing else s.ff,
            "attention.head_count": s.heads,
            "attention.head_count_kv": [s.kv_heads[s.full(i)] for i in layers],
            "attention.key_length": s.head_dims[1],
            "attention.value_length": s.head_dims[1],
            "attention.key_length_swa": s.head_dims[0],
            "attention.value_length_swa": s.head_dims[0],
            "attention.layer_norm_rms_epsilon": 1e-6,
            "attention.sliding_window": s.window,
            "attention.sliding_window_pattern": [not s.full(i) for i in layers],
            "attention.shared_kv_layers": s.sharing,
            "rope.freq_base": 1e6,
            "rope.freq_base_swa": 1e4,
            "rope.dimension_count": s.head_dims[1],
            "rope.dimension_count_swa": s.head_dims[0],
            "final_logit_softcapping": 30.0,
            "embedding_length_per_layer_input": s.per_layer,
    }.items():
        file["gemma4." + key] = value
    if s.experts:
        file["gemma4.expert_count"] = s.experts
        file["gemma4.expert_used_count"] = s.experts_used
        file["gemma4.expert_feed_forward_length"] = s.expert_ff


def tensors(file, s, quant):
    matrix, table, down = QUANTS[quant]

    def add(name, *shape, kind="f32"):
        if shape[-1] % ggufio.TYPES[kind][1]:
            kind = "q8_0"
        file.add(name, shape, kind)

    vocabulary = len(ggufio.decode(file.keys["tokenizer.ggml.tokens"]))
    add("token_embd.weight", vocabulary, s.hidden, kind=table)
    if s.per_layer:
        add("per_layer_token_embd.weight", vocabulary, s.per_layer * s.layers, kind=matrix)
        add("per_layer_model_proj.weight", s.per_layer * s.layers, s.hidden, kind="bf16")
        add("per_layer_proj_norm.weight", s.per_layer)
    add("output_norm.weight", s.hidden)
    add("rope_freqs.weight", s.head_dims[1] // 2)
    for i in range(s.layers):
        b, q_width = f"blk.{i}.", s.heads * s.head_dim(i)
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            add(f"{b}{norm}.weight", s.hidden)
        add(b + "attn_q.weight", q_width, s.hidden, kind=matrix)
        add(b + "attn_q_norm.weight", s.head_dim(i))
        if s.own_kv(i):
            add(b + "attn_k.weight", s.kv_width(i), s.hidden, kind=matrix)
            add(b + "attn_k_norm.weight", s.head_dim(i))
            if not (s.k_is_v and s.full(i)):
                add(b + "attn_v.weight", s.kv_width(i), s.hidden, kind=down)
        add(b + "attn_output.weight", s.hidden, q_width, kind=matrix)
        add(b + "ffn_gate.weight", s.mlp(i), s.hidden, kind=matrix)
        add(b + "ffn_up.weight", s.mlp(i), s.hidden, kind=matrix)
        add(b + "ffn_down.weight", s.hidden, s.mlp(i), kind=down)
        if s.experts:
            for norm in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
                add(f"{b}{norm}.weight", s.hidden)
            add(b + "ffn_gate_inp.weight", s.experts, s.hidden)
            add(b + "ffn_gate_inp.scale", s.hidden)
            add(b + "ffn_gate_up_exps.weight", s.experts, 2 * s.expert_ff, s.hidden, kind=matrix)
            add(b + "ffn_down_exps.weight", s.experts, s.hidden, s.expert_ff, kind=down)
            add(b + "ffn_down_exps.scale", s.experts)
        if s.per_layer:
            add(b + "inp_gate.weight", s.per_layer, s.hidden, kind=matrix)
            add(b + "proj.weight", s.hidden, s.per_layer, kind=matrix)
            add(b + "post_norm.weight", s.hidden)
        add(b + "layer_output_scale.weight", 1)
    # The pairs that turn, an eighth of the dimensions, and the rest: facts of the model, so written out.
    turning = s.head_dims[1] // 8
    factors = [1.0] * turning + [1e30] * (s.head_dims[1] // 2 - turning)
    file.tensor("rope_freqs.weight").data = np.array(factors, np.float32)


def model(name, shape, quant, vocabulary=VOCABULARY):
    """A ggufio.File of this shape, with the tokenizer of another file and no weights."""
    file = ggufio.File()
    keys(file, name, shape, vocabulary)
    tensors(file, shape, quant)
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=SHAPES)
    parser.add_argument("quant", choices=QUANTS)
    parser.add_argument("out")
    parser.add_argument("--vocabulary", default=VOCABULARY, help="GGUF file whose tokenizer to copy")
    options = parser.parse_args()
    model(options.kind, SHAPES[options.kind], options.quant, options.vocabulary).write(options.out)


if __name__ == "__main__":
    main()
