"""What the compiler decides for the published sizes, read from `g4run inspect`: dispatches, barriers, memory, work per token.

The models are their shapes only (test/data/tools/header_only.py), compiled with --weights=none.
"""

import os

import common
from common import Case, say

SHAPES = common.header_only.SHAPES


def pruned_macs(s):
    """Multiplications by weights for a prompt token whose own results nobody asks for.

    It passes the layers before the last one that writes K/V, and of that one the K/V projection only; and it needs
    the per-layer inputs of the layers that it passes.
    """
    last = max(i for i in range(s.layers) if s.own_kv(i))
    total = 0
    for i in range(last + 1):
        takes_v = not (s.k_is_v and s.full(i))
        total += s.hidden * s.kv_width(i) * (2 if takes_v else 1)
        if i == last:
            break
        total += 2 * s.hidden * s.heads * s.head_dim(i)  # query and output projections
        total += 3 * s.hidden * s.mlp(i)
        total += 3 * s.hidden * s.per_layer  # gate, projection back, and this layer's share of the input projection
        total += s.experts * s.hidden + 3 * s.experts_used * s.hidden * s.expert_ff
    return total


def full_macs(s):
    """The same for a token that passes every layer; the head not counted."""
    total = 0
    for i in range(s.layers):
        total += s.hidden * s.kv_width(i) * s.own_kv(i) * (1 if s.k_is_v and s.full(i) else 2)
        total += 2 * s.hidden * s.heads * s.head_dim(i) + 3 * s.hidden * s.mlp(i) + 3 * s.hidden * s.per_layer
        total += s.experts * s.hidden + 3 * s.experts_used * s.hidden * s.expert_ff
    return total


class Structure(Case):

    def program(self, kind):
        """The step program of one published size."""
        path = self.tools.cache / f"{kind}-shapes.gguf"
        if not path.exists():
            partial = path.with_suffix(f".{os.getpid()}")
            common.header_only.model(kind, SHAPES[kind], "q4_0").write(partial)
            partial.rename(path)
        artifact = self.tools.compile(path, "--weights=none")
        programs = {p["name"]: p for p in self.tools.inspect(artifact)["programs"]}
        return programs["step"]

    def check(self, kind):
        s, step = SHAPES[kind], self.program(kind)
        dispatches = step["dispatches"]
        per_layer = [[d for d in dispatches if d["layer"] == i] for i in range(s.layers)]
        self.at_least(min(map(len, per_layer)), 1, f"{kind}: dispatches of the smallest layer")

        counts = [len(layer) for layer in per_layer]
        barriers = [sum(d["barrier_before"] for d in layer) for layer in per_layer]
        arena, live = step["arena_bytes"], step["peak_live_bytes"]
        pruned = sum(d["macs_per_row"] for d in dispatches if d["set"] == "rows")
        want = pruned_macs(s)
        mean, mean_barriers = sum(counts) / s.layers, sum(barriers) / s.layers
        say(f"{kind}: {mean:.2f} dispatches and {mean_barriers:.2f} barriers per layer, at most {max(counts)} and {max(barriers)}; "
            f"arena {arena / 2**20:.1f} MiB, {arena / live:.3f} of peak live; {pruned / 1e6:.1f} M multiplications per pruned "
            f"prompt token, {full_macs(s) / pruned:.2f} times fewer than without pruning")
        self.at_most(arena, 1.1 * live, f"{kind}: arena bytes")
        self.at_most(abs(pruned / want - 1), 0.02, f"{kind}: {pruned} multiplications per pruned token, expected {want}")
        return mean, mean_barriers, counts, barriers

    def check_decode(self, kind):
        """At most 7 dispatches and 6 barriers in every layer, the one in which pruned rows stop included."""
        mean, mean_barriers, counts, barriers = self.check(kind)
        self.at_most(mean, 7, f"{kind}: dispatches per layer")
        self.at_most(mean_barriers, 6, f"{kind}: barriers per layer")
        for i, (count, waits) in enumerate(zip(counts, barriers)):
            self.at_most(count, 7, f"{kind}: dispatches of layer {i}")
            self.at_most(waits, 6, f"{kind}: barriers of layer {i}")

    def test_e2b(self):
        self.check_decode("e2b")

    def test_e4b(self):
        self.check_decode("e4b")

    def test_12b(self):
        self.check("12b")

    def test_26b_a4b(self):
        self.check("26b-a4b")

    def test_31b(self):
        self.check("31b")

    def test_the_formula_agrees_with_the_design(self):
        """Pruning saves about 3.5 times the work on E2B's prompts and 1.8 times on E4B's."""
        self.at_most(abs(full_macs(SHAPES["e2b"]) / pruned_macs(SHAPES["e2b"]) - 3.5), 0.2, "E2B")
        self.at_most(abs(full_macs(SHAPES["e4b"]) / pruned_macs(SHAPES["e4b"]) - 1.8), 0.15, "E4B")


if __name__ == "__main__":
    common.main()
