"""Gemma 4's text model in numpy, float64: slow, obvious, and independent of everything that g4 compiles.

It reads the GGUF file itself (every stored type that g4 reads), so it gives the exact answer for models that the stored
references do not have. test_oracle.py holds it to those references.
"""

import numpy as np

import common
from common import ggufio

NORM = 1e-6


# ---- stored types -------------------------------------------------------------------------------------------------


def half(raw):
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float64)


def nibbles(raw):
    """The low halves of the bytes, then the high halves."""
    return np.concatenate([raw & 15, raw >> 4], axis=-1).astype(np.float64)


def fifth_bits(raw):
    """32 bits, least significant first, as values 0 or 16."""
    return np.unpackbits(np.ascontiguousarray(raw), axis=-1, bitorder="little").astype(np.float64) * 16


def k_scales(raw):
    """Eight 6-bit scales and eight 6-bit minimums from 12 bytes."""
    low, middle, high = raw[:, 0:4], raw[:, 4:8], raw[:, 8:12]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    minimums = np.concatenate([middle & 63, (high >> 4) | (middle >> 6) << 4], axis=1)
    return scales.astype(np.float64), minimums.astype(np.float64)


def q4_q5_k(b, fifth):
    """Q4_K, and Q5_K with the fifth bits: 8 groups of 32 values, pairs of groups share bytes."""
    scales, minimums = k_scales(b[:, 4:16])
    at = 48 if fifth else 16
    packed = b[:, at:at + 128].reshape(-1, 4, 32)
    values = np.stack([packed & 15, packed >> 4], axis=2).reshape(-1, 8, 32).astype(np.float64)
    if fifth:
        high = b[:, 16:48]
        values += np.stack([(high >> group & 1) * 16.0 for group in range(8)], axis=1)
    values *= (half(b[:, 0:2]) * scales)[:, :, None]
    return (values - (half(b[:, 2:4]) * minimums)[:, :, None]).reshape(len(b), 256)


def q6_k(b):
    low, high = b[:, 0:128].reshape(-1, 2, 64), b[:, 128:192].reshape(-1, 2, 32)
    first, second = low[:, :, :32], low[:, :, 32:]
    parts = [(first & 15) | (high & 3) << 4, (second & 15) | (high >> 2 & 3) << 4, (first >> 4) | (high >> 4 & 3) << 4,
             (second >> 4) | (high >> 6) << 4]
    values = np.stack(parts, axis=2).reshape(len(b), 256).astype(np.float64) - 32
    scales = b[:, 192:208].view(np.int8).astype(np.float64) * half(b[:, 208:210])
    return values * np.repeat(scales, 16, axis=1)


IQ4_NL = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float64)
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float64)

DEQUANTISE = {
    "q4_0": lambda b: half(b[:, 0:2]) * (nibbles(b[:, 2:]) - 8),
    "q4_1": lambda b: half(b[:, 0:2]) * nibbles(b[:, 4:]) + half(b[:, 2:4]),
    "q5_0": lambda b: half(b[:, 0:2]) * (nibbles(b[:, 6:]) + fifth_bits(b[:, 2:6]) - 16),
    "q5_1": lambda b: half(b[:, 0:2]) * (nibbles(b[:, 8:]) + fifth_bits(b[:, 4:8])) + half(b[:, 2:4]),
    "q8_0": lambda b: half(b[:, 0:2]) * b[:, 2:].view(np.int8).astype(np.float64),
    "q4_k": lambda b: q4_q5_k(b, False),
    "q5_k": lambda b: q4_q5_k(b, True),
    "q6_k": q6_k,
    "iq4_nl": lambda b: half(b[:, 0:2]) * IQ4_NL[nibbles(b[:, 2:]).astype(int)],
    "mxfp4": lambda b: np.exp2(b[:, 0:1].astype(np.float64) - 127) * FP4[nibbles(b[:, 1:]).astype(int)],
}


def values(tensor):
    """A tensor's values, float64, in numpy's order."""
    raw = np.frombuffer(bytes(tensor.data), np.uint8)
    if tensor.kind == "f32":
        flat = raw.view(np.float32)
    elif tensor.kind == "f16":
        flat = raw.view(np.float16)
    elif tensor.kind == "bf16":
        flat = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        flat = DEQUANTISE[tensor.kind](raw.reshape(-1, ggufio.TYPES[tensor.kind][2]))
    return flat.astype(np.float64).reshape(tensor.shape)


# ---- the model ----------------------------------------------------------------------------------------------------


def rms(x):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + NORM)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Model:
    """One GGUF file. `logits(ids)` and, after it, `seen`: the values that --taps names."""

    def __init__(self, path):
        file = ggufio.read(path)
        self.key = {k.removeprefix("gemma4."): v for k, v in file.keys.items()}
        self.tensors = {t.name: t for t in file.tensors}
        self.loaded = {}
        self.forced = {}  # layer -> expert choices to take instead of the router's
        self.layers = self.get("block_count")
        self.sliding = self.get("attention.sliding_window_pattern")
        self.sharing = self.get("attention.shared_kv_layers", 0)
        self.window = self.get("attention.sliding_window")
        self.cap = self.get("final_logit_softcapping", 0)
        self.heads = self.get("attention.head_count")

    def get(self, key, default=None):
        return ggufio.decode(self.key[key]) if key in self.key else default

    def has(self, name):
        return name in self.tensors

    def weight(self, *names):
        """The values of the first of these tensors that the file has."""
        name = next(n for n in names if self.has(n))
        if name not in self.loaded:
            self.loaded[name] = values(self.tensors[name])
        return self.loaded[name]

    def rope(self, x, positions, layer):
        """x: [rows, heads, dim]; element j turns with element j + dim/2."""
        dim = x.shape[-1]
        j = np.arange(dim // 2)
        if self.sliding[layer]:
            angle = positions[:, None] * self.get("rope.freq_base_swa", 1e4)**(-2 * j / dim)
        else:
            angle = positions[:, None] * self.get("rope.freq_base")**(-2 * j / dim) / self.weight("rope_freqs.weight")
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        low, high = x[..., :dim // 2], x[..., dim // 2:]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)

    def attention(self, x, layer, positions, cache):
        b, rows = f"blk.{layer}.", len(x)
        q_norm = self.weight(b + "attn_q_norm.weight")
        dim = len(q_norm)
        if self.has(b + "attn_qkv.weight"):
            fused = x @ self.weight(b + "attn_qkv.weight").T
            q, rest = fused[:, :self.heads * dim], fused[:, self.heads * dim:]
        else:
            q, rest = x @ self.weight(b + "attn_q.weight").T, None
        q = self.rope(rms(q.reshape(rows, -1, dim)) * q_norm, positions, layer)
        if layer < self.layers - self.sharing:
            if rest is None:
                k = x @ self.weight(b + "attn_k.weight").T
                v = x @ self.weight(b + "attn_v.weight").T if self.has(b + "attn_v.weight") else k
            else:
                k, v = np.split(rest, 2, axis=1)
            k = rms(k.reshape(rows, -1, dim)) * self.weight(b + "attn_k_norm.weight")
            cache[layer] = self.rope(k, positions, layer), rms(v.reshape(rows, -1, dim))
            source = layer
        else:
            source = max(i for i in range(self.layers - self.sharing) if self.sliding[i] == self.sliding[layer])
        k, v = (np.repeat(a, self.heads // a.shape[1], axis=1) for a in cache[source])
        scores = np.einsum("qhd,khd->hqk", q, k)
        back = positions[:, None] - positions[None, :]
        seen = (back >= 0) & (back < (self.window if self.sliding[layer] else 1 << 62))
        out = np.einsum("hqk,khd->qhd", softmax(np.where(seen, scores, -np.inf)), v)
        return out.reshape(rows, -1) @ self.weight(b + "attn_output.weight").T

    def mlp(self, x, layer):
        b = f"blk.{layer}."
        if self.has(b + "ffn_gate_up.weight"):
            gate, up = np.split(self.weight(b + "ffn_gate_up.weight"), 2)
        else:
            gate, up = self.weight(b + "ffn_gate.weight"), self.weight(b + "ffn_up.weight")
        return (gelu(x @ gate.T) * (x @ up.T)) @ self.weight(b + "ffn_down.weight").T

    def expert(self, layer, e):
        """Gate, up and down matrix of one expert."""
        b = f"blk.{layer}."
        if self.has(b + "ffn_gate_exps.weight"):
            gate, up = self.weight(b + "ffn_gate_exps.weight")[e], self.weight(b + "ffn_up_exps.weight")[e]
        elif self.has(b + "ffn_gate_up_exps.weight"):
            gate, up = np.split(self.weight(b + "ffn_gate_up_exps.weight")[e], 2)
        else:
            gate, up = np.split(self.weight(f"{b}ffn_gate_up_exps.{e}.weight"), 2)
        stacked = self.has(b + "ffn_down_exps.weight")
        return gate, up, self.weight(b + "ffn_down_exps.weight")[e] if stacked else self.weight(f"{b}ffn_down_exps.{e}.weight")

    def experts(self, a, layer):
        b, used = f"blk.{layer}.", self.get("expert_used_count")
        routed = rms(a) * self.weight(b + "ffn_gate_inp.scale") / np.sqrt(a.shape[1])
        p = softmax(routed @ self.weight(b + "ffn_gate_inp.weight").T)
        chosen = self.forced[layer] if layer in self.forced else np.argsort(-p, axis=1, kind="stable")[:, :used]
        weight = np.take_along_axis(p, chosen, axis=1)
        weight = weight / weight.sum(axis=1, keepdims=True) * self.weight(b + "ffn_down_exps.scale")[chosen]
        self.seen |= {f"router_prob{layer}": p, f"router_idx{layer}": chosen, f"router_w{layer}": weight}
        x = rms(a) * self.weight(b + "pre_ffw_norm_2.weight")
        out = np.zeros_like(a)
        for e in np.unique(chosen):
            gate, up, down = self.expert(layer, e)
            rows, slot = np.nonzero(chosen == e)
            out[rows] += weight[rows, slot, None] * ((gelu(x[rows] @ gate.T) * (x[rows] @ up.T)) @ down.T)
        return out

    def per_layer_inputs(self, embedded, ids):
        """[rows, layers, width]"""
        shape = (len(ids), self.layers, -1)
        projected = (embedded @ self.weight("per_layer_model_proj.weight").T / np.sqrt(embedded.shape[1])).reshape(shape)
        stored = self.weight("per_layer_token_embd.weight")[ids].reshape(shape)
        normed = rms(projected) * self.weight("per_layer_proj_norm.weight")
        return (normed + stored * np.sqrt(stored.shape[-1])) / np.sqrt(2)

    def block(self, h, layer, positions, cache, inputs):
        b = f"blk.{layer}."
        o = self.attention(rms(h) * self.weight(b + "attn_norm.weight"), layer, positions, cache)
        h = h + rms(o) * self.weight(b + "post_attention_norm.weight", b + "attn_post_norm.weight")
        m = self.mlp(rms(h) * self.weight(b + "ffn_norm.weight"), layer)
        self.seen |= {f"attn_o{layer}": o, f"mlp{layer}": m}
        if self.has(b + "ffn_gate_inp.weight"):
            routed = rms(self.experts(h, layer)) * self.weight(b + "post_ffw_norm_2.weight")
            m = rms(m) * self.weight(b + "post_ffw_norm_1.weight") + routed
        h = h + rms(m) * self.weight(b + "post_ffw_norm.weight", b + "ffn_post_norm.weight")
        if inputs is not None:
            gate = gelu(h @ self.weight(b + "inp_gate.weight").T) * inputs[:, layer]
            h = h + rms(gate @ self.weight(b + "proj.weight").T) * self.weight(b + "post_norm.weight")
        h = h * self.weight(b + "layer_output_scale.weight")
        self.seen[f"h_layer{layer}"] = h
        return h

    def logits(self, ids):
        """[rows, vocabulary] of one prompt."""
        ids, self.seen, cache = np.asarray(ids), {}, {}
        h = self.weight("token_embd.weight")[ids]
        h = h * np.sqrt(h.shape[1])
        self.seen["h_embed"] = h
        inputs = self.per_layer_inputs(h, ids) if self.has("per_layer_token_embd.weight") else None
        if inputs is not None:
            self.seen["per_layer_inputs"] = inputs
        for layer in range(self.layers):
            h = self.block(h, layer, np.arange(len(ids)), cache, inputs)
        self.seen["h_norm"] = rms(h) * self.weight("output_norm.weight")
        raw = self.seen["h_norm"] @ self.weight("output.weight", "token_embd.weight").T
        return self.cap * np.tanh(raw / self.cap) if self.cap else raw


# ---- what other weights do to it --------------------------------------------------------------------------------------


def log_softmax(logits):
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


class Quality:
    """How far a model with other values for its matrices is from itself, on texts of `ids`, of which it knows the language or not.

    Experts are those that the model itself chooses.
    """

    def __init__(self, path, ids, known):
        self.path, self.ids, self.known, self.choices, self.own = path, ids, known, [], {}
        self.exact = self.log_probabilities({})

    def log_probabilities(self, values):
        model, found = Model(self.path), []
        model.loaded = {**self.own, **values}
        for i, ids in enumerate(self.ids):
            model.forced = self.choices[i] if i < len(self.choices) else {}
            found.append(log_softmax(model.logits(ids)))
            if i == len(self.choices):
                self.choices.append({layer: model.seen[f"router_idx{layer}"] for layer in range(model.layers) if f"router_idx{layer}" in model.seen})
        self.own = self.own or model.loaded
        return found

    def perplexity(self, found):
        if self.known:  # of the text
            losses = [-q[np.arange(len(ids) - 1), ids[1:]] for q, ids in zip(found, self.ids)]
        else:  # of what the exact model would write
            losses = [-(np.exp(p) * q).sum(axis=-1) for p, q in zip(self.exact, found)]
        return np.exp(np.concatenate(losses).mean())

    def measure(self, values):
        """Divergence of each row, and perplexity."""
        found = self.log_probabilities(values)
        return np.concatenate([(np.exp(p) * (p - q)).sum(axis=-1) for p, q in zip(self.exact, found)]), self.perplexity(found)
