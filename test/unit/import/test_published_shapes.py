"""The five published models, by their headers: they import without a word, and pruning leaves each row set exactly
the multiplications that the shapes imply. The vocabulary is a small one, which is quicker and changes no layer."""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "numerics"))
import common  # noqa: E402
import tiny  # noqa: E402
from common import Case, header_only, say  # noqa: E402

PIPELINE = "--gemma-pipeline"


def columns(text):
    """[columns, ...] of the activations in a list of types."""
    return [int(n) for n in re.findall(r"tensor<\?x(\d+)xf32>", text)]


def multiplications(ir):
    """{row set: multiplications a row} of the linear ops, per-layer projections and experts of a gemma.model."""
    sets, total = {}, {"body": 0, "tail": 0, "logits": 0}
    for line in ir.splitlines():
        match = re.match(r"\s*(%\d+)(?::\d+)?(?:, %\d+)* = gemma\.(\w+) ?(%\d+)?", line)
        if not match:
            continue
        result, op, operand = match.groups()
        named = re.search(r"!gemma\.rows<(\w+)>", line)
        rows = sets[result] = named[1] if named else sets.get(operand)
        types = line.rpartition(" : ")[2]
        if op == "linear":
            before, after = types.split("->")
            total[rows] += columns(before)[0] * sum(columns(after))
        elif op == "per_layer_inputs":
            total[rows] += columns(types)[0] * columns(types)[1]
        elif op == "experts":
            used = int(re.search(r"tensor<\?x(\d+)xi32>", types)[1])
            width = int(re.search(r"gate = <[^>]*rows = (\d+)", line)[1])
            total[rows] += used * 3 * columns(types)[0] * width
    return total


def layer_cost(s, i):
    """Multiplications of a whole layer a row, without its K/V projections."""
    attention = 2 * s.hidden * s.heads * s.head_dim(i)
    mlp = 3 * s.hidden * s.mlp(i) + s.experts_used * 3 * s.hidden * s.expert_ff
    per_layer = s.per_layer * 3 * s.hidden  # its part of the projection, gate and output
    return attention + mlp + per_layer


def kv_cost(s, i):
    if not s.own_kv(i):
        return 0
    return s.hidden * s.kv_width(i) * (1 if s.k_is_v and s.full(i) else 2)


class PublishedShapes(Case):

    def print_model(self, kind, *flags):
        shape = header_only.SHAPES[kind]
        with common.scratch(self.tools) as folder:
            header_only.model(kind, shape, "q4_0", tiny.VOCABULARY).write(folder / "model.gguf")
            done = self.tools.call("g4-opt", folder / "model.gguf", *flags)
        self.equal(done.stderr.decode(), "", f"{kind}: no warning")
        return shape, done.stdout.decode()

    def test_pruned_rows_stop_at_the_last_kv_projection(self):
        for kind in header_only.SHAPES:
            shape, ir = self.print_model(kind, PIPELINE)
            last = max(i for i in range(shape.layers) if shape.own_kv(i))
            every = range(shape.layers)
            body = sum(layer_cost(shape, i) + kv_cost(shape, i) for i in every[:last]) + kv_cost(shape, last)
            tail = sum(layer_cost(shape, i) for i in every[last:])
            got = multiplications(ir)
            self.equal((got["body"], got["tail"]), (body, tail), f"{kind}: multiplications of body and tail rows")
            say(f"{kind}: a body row needs {(got['body'] + got['tail']) / got['body']:.2f} times fewer than a demanded one")

    def test_one_value_crosses(self):
        for kind in header_only.SHAPES:
            _, ir = self.print_model(kind, PIPELINE)
            self.equal(len(re.findall(r"gemma\.select_rows .*rows<tail>", ir)), 1, f"{kind}: selections for the tail")
            self.equal(len(re.findall(r"gemma\.select_rows .*rows<logits>", ir)), 1, f"{kind}: selections for logits")

    def test_without_pruning_all_layers_are_on_all_rows(self):
        shape, ir = self.print_model("e2b")
        whole = sum(layer_cost(shape, i) + kv_cost(shape, i) for i in range(shape.layers))
        got = multiplications(ir)
        self.equal((got["body"], got["tail"]), (whole, 0), "multiplications as imported")

    def test_e2b_prunes_at_layer_14_and_e4b_at_layer_23(self):
        for kind, layer in (("e2b", 14), ("e4b", 23)):
            _, ir = self.print_model(kind, PIPELINE)
            appended = [int(n) for n in re.findall(r"gemma\.kv_append .*\{layer = (\d+) : i32\}", ir)]
            self.equal(max(appended), layer, f"{kind}: the last layer that writes K/V")


if __name__ == "__main__":
    common.main()
