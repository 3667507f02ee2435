"""Compares named intermediate values with the stored ones: the same names and bounds for the compiled program and the evaluator."""

import re

import numpy as np

import common
from common import EXACT_LOGITS

# The values that both sides name. K and V are checked through what reads them.
KINDS = ("h_embed", "h_layer", "attn_o", "mlp", "h_norm", "per_layer_inputs", "router_prob", "router_idx", "router_w")


def joined(taps):
    """Per-layer inputs come as per_layer_inputs<first layer>, of one layer or of several side by side: here as one value."""
    taps = dict(taps)
    parts = {int(match[1]): taps.pop(name) for name in list(taps) if (match := re.fullmatch(r"per_layer_inputs(\d+)", name))}
    if parts:
        taps["per_layer_inputs"] = np.concatenate([parts[first] for first in sorted(parts)], axis=1)
    return taps


def check_taps(case, model, reference, taps):
    """Every stored value of the 7-token prompt, each to the relative error that EXACT_LOGITS allows the logits."""
    taps = joined(taps)
    relative = EXACT_LOGITS / np.abs(reference["p7_logits"]).max()
    wanted = [n[3:] for n in reference.files if n.startswith("p7_") and n[3:].rstrip("0123456789") in KINDS]
    layers = sum(name.startswith("h_layer") for name in wanted)
    case.at_least(len(wanted), 3 * layers + 2, f"{model}: stored values")
    for name in wanted:
        want = reference[f"p7_{name}"]
        with case.subTest(model=model, tap=name):
            case.assertIn(name, taps)
            got = taps[name]
            if name.startswith("router_idx"):
                margin = reference["p7_router_margin"][int(name[len("router_idx"):])]
                case.ok(common.experts_differ(got, want, margin), f"{model} {name}")
            else:
                case.ok(common.differs(got.reshape(want.shape), want, relative * np.abs(want).max()), f"{model} {name}")
