"""How rows are grouped into steps changes nothing: chunks, single tokens, mixtures, demanded subsets, threads, free pages full of NaN."""

import numpy as np

import common
from common import EXACT, EXACT_LOGITS, FIXTURES, Case

MODELS = ("e-style", "e-style-kvorder", "dense-keqv", "moe", "unified")
QUANTISED_KV = {"e-style": "q8_0", "moe": "q4_0"}


def reference(model):
    return np.load(FIXTURES / model / "reference.npz")


def builds(tools, model):
    """The exact and the default build, and one with quantised K/V: all owe the same bits for every grouping."""
    path = FIXTURES / model / f"{model}-F32.gguf"
    yield "exact", tools.compile(path, *EXACT)
    yield "default", tools.compile(path)
    if model in QUANTISED_KV:
        yield f"K/V {QUANTISED_KV[model]}", tools.compile(path, f"--kv={QUANTISED_KV[model]}")


class Grouping(Case):

    def test_chunk_sizes_give_the_same_bits(self):
        """100 tokens, more than three windows of every model, in chunks of 1 (decoding one by one) to all at once."""
        for model in MODELS:
            ids = reference(model)["p100_ids"]
            window = 24 if model == "dense-keqv" else 16
            self.at_least(len(ids), 3 * window + 1, "length")
            for path, artifact in builds(self.tools, model):
                whole = self.tools.logits(artifact, ids)
                for chunk in (1, 7, 16, 64):
                    with self.subTest(model=model, path=path, chunk=chunk):
                        self.ok(common.bits_differ(self.tools.logits(artifact, ids, "--chunk", chunk), whole), f"chunk {chunk}")

    def test_every_chunk_size_up_to_33(self):
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q4_K_M.gguf")
        ids = reference("e-style")["p40_ids"]
        whole = self.tools.logits(artifact, ids)
        for chunk in range(1, 34):
            self.ok(common.bits_differ(self.tools.logits(artifact, ids, "--chunk", chunk), whole), f"chunk {chunk}")

    def test_thread_counts_give_the_same_bits(self):
        for model in MODELS:
            ids = reference(model)["p40_ids"]
            for path, artifact in builds(self.tools, model):
                one = self.tools.logits(artifact, ids, "--threads", 1)
                for threads in (2, 3):
                    got = self.tools.logits(artifact, ids, "--threads", threads)
                    self.ok(common.bits_differ(got, one), f"{model} {path}: {threads} threads")

    def test_greedy_text_does_not_depend_on_the_chunk(self):
        """Decoding continues from a cache that chunks of any size filled."""
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q8_0.gguf")
        ids = reference("e-style")["p40_ids"]
        want = self.tools.generate(artifact, ids, 32)
        for chunk in (1, 7, 16):
            got = self.tools.generate(artifact, ids, 32, "--chunk", chunk, "--ignore-eos", "--no-suppress")
            self.equal(got, want, f"chunk {chunk}")


def rows(sequence, ids):
    return [[sequence, int(i)] for i in ids]


def step(*parts, logits=()):
    return {"rows": [row for part in parts for row in part], "logits": sorted(logits)}


class Steps(Case):
    """Steps that g4run has no option for, through the step driver."""

    def artifacts(self):
        for model in MODELS:
            for kind, artifact in builds(self.tools, model):
                yield f"{model} {kind}", reference(model), artifact

    def test_a_subset_of_rows_gives_the_same_logits(self):
        """And costs what it should: tail rows are the demanded rows, a step that demands nothing runs no tail."""
        rng = np.random.default_rng(5)
        for name, stored, artifact in self.artifacts():
            ids = stored["p40_ids"]
            program = next(p for p in self.tools.inspect(artifact)["programs"] if p["name"] == "step")
            whole, _ = self.tools.drive(artifact, [step(rows(0, ids), logits=range(40))])
            for count in (1, 5, 17):
                wanted = np.sort(rng.choice(40, count, replace=False))
                with self.subTest(artifact=name, rows=count):
                    got, (report,) = self.tools.drive(artifact, [step(rows(0, ids), logits=wanted)])
                    self.ok(common.bits_differ(got, whole[wanted]), f"{name}: {count} of 40 rows")
                    self.equal([report[k] for k in ("rows", "tail_rows", "logit_rows")], [40, count, count], f"{name}: counters")
                    macs = 40 * program["macs_rows"] + count * (program["macs_tail"] + program["macs_logits"])
                    self.equal(report["macs"], macs, f"{name}: multiplications")
            got, (first, last) = self.tools.drive(artifact, [step(rows(0, ids[:30])), step(rows(0, ids[30:]), logits=[9])])
            self.ok(common.bits_differ(got, whole[39:]), f"{name}: after a step that demands nothing")
            body = sum(d["set"] in ("rows", "single") for d in program["dispatches"])
            self.equal([first["tail_rows"], first["macs"]], [0, 30 * program["macs_rows"]], f"{name}: nothing demanded")
            self.at_most(first["dispatches"], body, f"{name}: dispatches when nothing is demanded")

    def test_sequences_in_one_step_give_what_each_gives_alone(self):
        for name, stored, artifact in self.artifacts():
            prompts = [stored[f"batch{i}_ids"] for i in range(3)]
            alone = [self.tools.drive(artifact, [step(rows(0, ids), logits=range(len(ids)))])[0] for ids in prompts]
            with self.subTest(artifact=name):
                # All in one step.
                parts = [rows(i, ids) for i, ids in enumerate(prompts)]
                together, _ = self.tools.drive(artifact, [step(*parts, logits=range(sum(map(len, parts))))], sequences=3)
                self.ok(common.bits_differ(together, np.concatenate(alone)), f"{name}: one step")
                for i, logits in enumerate(alone):
                    if "exact" in name:
                        self.ok(common.differs(logits[-1], stored[f"batch{i}_last_logits"], EXACT_LOGITS), f"{name}: batch{i}")
                # Rows of the three interleaved, in the order 0 1 2 0 1 2 ...
                turns = sorted((k, i) for i, ids in enumerate(prompts) for k in range(len(ids)))
                mixed = [[i, int(prompts[i][k])] for k, i in turns]
                got, _ = self.tools.drive(artifact, [step(mixed, logits=range(len(mixed)))], sequences=3)
                want = np.stack([alone[i][k] for k, i in turns])
                self.ok(common.bits_differ(got, want), f"{name}: interleaved rows")

    def test_decoding_beside_a_prefill_changes_nothing(self):
        """Sequence 0 decodes token by token while 1 comes in chunks and 2 starts late: mixed steps of unlike lengths."""
        for name, stored, artifact in self.artifacts():
            prompts = [stored[f"batch{i}_ids"] for i in (2, 1, 0)]
            alone = [self.tools.drive(artifact, [step(rows(0, ids), logits=range(len(ids)))])[0] for ids in prompts]
            done, steps, wanted = [0, 0, 0], [], []
            sizes = [(20, 3, 0), (1, 5, 0), (1, 0, 4), (1, 11, 1), (10, 0, 0)]
            for size in sizes:
                parts = [rows(i, prompts[i][done[i]:done[i] + n]) for i, n in enumerate(size)]
                steps.append(step(*parts, logits=range(sum(map(len, parts)))))
                wanted += [alone[i][done[i]:done[i] + n] for i, n in enumerate(size)]
                done = [d + n for d, n in zip(done, size)]
            self.equal(done, [len(p) for p in prompts], "the schedule covers all prompts")
            got, _ = self.tools.drive(artifact, steps, sequences=3)
            self.ok(common.bits_differ(got, np.concatenate(wanted)), name)

    def test_long_sequences_decode_to_the_bits_of_their_prefill(self):
        """Segments of attention: one by one where few rows are decoded, by whole rows in chunks. From position 2048 on they have
        two pages instead of one, and at 2112 the last page begins a new one."""
        for name, artifact in builds(self.tools, "e-style"):
            ids = np.resize(reference("e-style")["p100_ids"], 2120)
            starts = [step(rows(0, ids[i:i + 340])) for i in range(0, 2040, 340)]
            rest = ids[2040:]
            whole, _ = self.tools.drive(artifact, [*starts, *(step(rows(0, part), logits=range(40)) for part in (rest[:40], rest[40:]))])
            alone = [*starts, *(step(rows(0, [i]), logits=[0]) for i in rest)]
            for threads in (1, 2, 4):
                with self.subTest(path=name, threads=threads):
                    got, _ = self.tools.drive(artifact, alone, threads=threads)
                    self.ok(common.bits_differ(got, whole), f"{name}: one by one, {threads} threads")
            # Fifteen rows, and a sequence of few positions beside them.
            beside = [*starts, *(step(rows(0, rest[i:i + 15]), rows(1, ids[i:i + 1]), logits=range(len(rest[i:i + 15])))
                                 for i in range(0, 80, 15))]
            got, _ = self.tools.drive(artifact, beside, sequences=2)
            self.ok(common.bits_differ(got, whole), f"{name}: by fifteen beside another sequence")

    def test_free_pages_full_of_nan_change_nothing(self):
        """Three windows and more, pages released on the way, a sequence closed and its pages used again."""
        for name, stored, artifact in self.artifacts():
            long, short = stored["p100_ids"], stored["p40_ids"]
            steps = [step(rows(0, long[:70]), rows(1, short), logits=[69, 109])]
            steps.append({**step(rows(0, long[70:]), rows(1, short), logits=[29, 69]), "close": [1]})
            clean, _ = self.tools.drive(artifact, steps, sequences=2)
            poisoned, _ = self.tools.drive(artifact, steps, sequences=2, poison=True)
            self.ok(common.bits_differ(poisoned, clean), name)
            self.ok(common.bits_differ(clean[3], clean[1]), f"{name}: the reopened sequence")

    def test_sliding_kv_stays_constant(self):
        """From 12 to 64 windows, looked at after every 64 tokens; the global class grows in proportion."""
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q4_0.gguf")
        ids = np.resize(np.arange(300, 900), 64 * 16)
        _, reports = self.tools.drive(artifact, [step(rows(0, ids[i:i + 64])) for i in range(0, len(ids), 64)])
        self.equal(len(reports), 16, "steps")
        sliding = {report["kv_sliding_bytes"] for report in reports[2:]}
        self.equal(len(sliding), 1, f"different sizes of the sliding class: {sorted(sliding)}")
        each = reports[0]["kv_global_bytes"]
        self.equal([r["kv_global_bytes"] for r in reports], [each * (i + 1) for i in range(16)], "bytes of the global class")

    def test_quantised_kv_takes_as_much_less(self):
        """34 or 18 bytes for 32 values of 2: what inspect says, and what a step uses."""
        path = FIXTURES / "e-style/e-style-F32.gguf"
        used, said = {}, {}
        for kind in ("f16", "q8_0", "q4_0"):
            artifact = self.tools.compile(path, *([] if kind == "f16" else [f"--kv={kind}"]))
            _, (report,) = self.tools.drive(artifact, [step(rows(0, range(300, 340)))])
            used[kind] = report["kv_sliding_bytes"], report["kv_global_bytes"]
            facts = self.tools.inspect(artifact)
            self.equal(facts["facts"]["kv_type"], kind, "K/V type")
            said[kind] = [c["bytes_per_token"] for c in facts["memory"]["kv"]]
        for kind, part in (("q8_0", 34), ("q4_0", 18)):
            self.equal([64 * n for n in used[kind]], [part * n for n in used["f16"]], f"{kind}: pages in use")
            self.equal([64 * n for n in said[kind]], [part * n for n in said["f16"]], f"{kind}: bytes per token")


if __name__ == "__main__":
    common.main()
