"""Answers that come together are those that come alone, bit for bit: whatever joins, leaves, is cancelled, shares prefixes or is computed
again because pages ran out."""

import json

import numpy as np

import common
from common import FIXTURES, Case, say

WINDOWS = {"e-style": 16, "dense-keqv": 24, "moe": 16, "unified": 16}
KV_TYPES = ("f16", "f32", "bf16", "q8_0", "q4_0")
VOCABULARY = 1024
MOST_PROMPT = 230  # nine to fourteen windows
ALL = 10**6  # steps


def answers_differ(got, alone):
    """None where an answer has the tokens and the log-probabilities of the one that came alone; a cancelled one has those of its part."""
    if got["status"]:
        return got["status"]
    for kind in ("prompt_hashes", "hashes", "ids"):
        a, b = got[kind], alone[kind]
        if got["finish"] == "cancelled":
            b = b[:len(a)]
        if len(a) != len(b):
            return f"{len(a)} {kind}, alone {len(b)}"
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return f"{kind} from {i} of {len(a)} on"
    if got["finish"] not in ("cancelled", alone["finish"]):
        return f"ended by {got['finish']}, alone by {alone['finish']}"
    return None


def requests(rng, count, longest=MOST_PROMPT):
    """Prompts of unlike lengths; most begin like an earlier one, so that there is something to share."""
    prompts, made = [rng.integers(3, VOCABULARY, longest - 50).tolist()], []
    for _ in range(count):
        ids, more = [], int(rng.integers(1, longest - 60))
        if rng.random() < 0.7:
            ids = prompts[rng.integers(len(prompts)) * rng.integers(2)]  # the first one every other time
            ids, more = ids[:rng.integers(len(ids) // 2, len(ids) + 1)], more // 2
        ids = (ids + rng.integers(3, VOCABULARY, more).tolist())[:longest]
        prompts.append(ids)
        made.append({"ids": ids, "tokens": int(rng.integers(1, 45)), "seed": int(rng.integers(0, 3)), "hash": True,
                     "prompt": bool(rng.random() < 0.1), "priority": int(rng.integers(0, 2))})
    return made


class Scheduler(Case):

    def drive(self, artifact, commands, **options):
        done = self.tools.call("scheduler-driver", artifact, json.dumps({"context": 512, "poison": True, **options}),
                               stdin="\n".join(map(json.dumps, commands)).encode())
        return [json.loads(line) for line in done.stdout.splitlines()]

    def together(self, artifact, made, rng, **options):
        """Counters of a run in which `made` come one after another between steps and some are cancelled, and how each answer
        compares with itself alone."""
        commands = []
        for number, request in enumerate(made, 1):
            commands.append({"submit": request})
            if rng.random() < 0.5:
                commands.append({"step": int(rng.integers(1, 8))})
            if rng.random() < 0.2:
                commands.append({"cancel": int(rng.integers(max(1, number - 3), number + 1))})
        commands.append({"step": ALL})
        stats, takes = len(commands) - 1, [{"take": i + 1} for i in range(len(made))]
        said = self.drive(artifact, commands + takes + [{"solo": request} for request in made], **options)
        got, alone = said[stats + 1:stats + 1 + len(made)], said[stats + 1 + len(made):]
        self.equal(len(alone), len(made), "answers")
        return said[stats], [answers_differ(*pair) for pair in zip(got, alone)], alone

    def check(self, what, artifact, made, rng, **options):
        stats, problems, _ = self.together(artifact, made, rng, **options)
        for i, problem in enumerate(problems):
            self.ok(problem, f"{what}: answer {i + 1}")
        self.equal(stats["finished"] + stats["cancelled"], len(made), f"{what}: answers that ended well")
        self.equal(stats["other_pages"], 0, f"{what}: pages that nobody has")
        return stats

    def build(self, model, kv="f16"):
        return self.tools.compile(FIXTURES / model / f"{model}-F32.gguf", *([] if kv == "f16" else [f"--kv={kv}"]))

    def test_sixteen_at_once_give_what_each_gives_alone(self):
        for i, model in enumerate(WINDOWS):
            for k, kv in enumerate(KV_TYPES):
                with self.subTest(model=model, kv=kv):
                    rng = np.random.default_rng([i, k])
                    made = requests(rng, 30)
                    self.at_least(max(len(r["ids"]) for r in made), 3 * WINDOWS[model] + 1, "longest prompt")
                    stats = self.check(f"{model} {kv}", self.build(model, kv), made, rng, sequences=16, prefill_rows=24,
                                       kv_tokens=1100, cache_tokens=800)
                    say(model, kv, {key: stats[key] for key in ("steps", "cancelled", "preempted", "cached_tokens", "evicted_pages")})
                    for key in ("cancelled", "preempted", "cached_tokens", "evicted_pages"):
                        self.at_least(stats[key], 1, f"{model} {kv}: {key}")

    def test_every_number_of_sequences(self):
        for model in WINDOWS:
            artifact, hits = self.build(model), 0
            for n in range(1, 17):
                rng = np.random.default_rng(n)
                stats = self.check(f"{model}, {n} at once", artifact, requests(rng, n + 2, 150), rng, sequences=n,
                                   prefill_rows=1 + 5 * (n % 4), threads=1 + n % 2)
                hits += stats["cached_tokens"]
            self.at_least(hits, 1, f"{model}: tokens found in the cache")

    def test_long_answers(self):
        """256 tokens each, more than ten windows, until the context is full for those with long prompts."""
        for model in WINDOWS:
            rng = np.random.default_rng(5)
            made = [{"ids": rng.integers(3, VOCABULARY, 1 + 17 * i).tolist(), "tokens": 256, "seed": i % 3, "hash": True} for i in range(16)]
            commands = [{"submit": r} for r in made] + [{"step": ALL}] + [{"take": i + 1} for i in range(16)] + [{"solo": r} for r in made]
            said = self.drive(self.build(model, "q8_0"), commands, sequences=16, context=448)
            for i, (got, alone) in enumerate(zip(said[17:33], said[33:], strict=True)):
                self.ok(answers_differ(got, alone), f"{model}: answer {i + 1}")
            self.equal({got["finish"] for got in said[17:33]}, {"length", "context"}, f"{model}: ends")

    def test_a_second_long_prompt_computes_at_most_a_page(self):
        rng = np.random.default_rng(6)
        for model in WINDOWS:
            for kv in ("f16", "q4_0"):
                long = {"ids": rng.integers(3, VOCABULARY, 4000).tolist(), "tokens": 5, "hash": True}
                _, before, _, after, a, b = self.drive(
                    self.build(model, kv), [{"submit": long}, {"step": ALL}] * 2 + [{"take": 1}, {"take": 2}], context=4096)
                self.at_most(after["computed_tokens"] - before["computed_tokens"], after["page_tokens"], f"{model} {kv}: tokens computed")
                self.at_most(4000 - b["cached"], after["page_tokens"], f"{model} {kv}: tokens not found")
                self.ok(answers_differ(b, a), f"{model} {kv}: the second answer")

    def test_the_comparison_sees_what_is_wrong(self):
        """Another K/V type, and one token of the prompt 160 positions back: the tokens may be the same, the hashes may not."""
        rng = np.random.default_rng(3)
        made = [{**request, "prompt": False, "seed": 0} for request in requests(rng, 6)]
        for request in made:
            request["ids"] = (request["ids"] * MOST_PROMPT)[:200]
        _, _, right = self.together(self.build("e-style"), made, rng, sequences=2)
        _, _, other = self.together(self.build("e-style", "q8_0"), made, rng, sequences=2)
        changed = [{**r, "ids": [*r["ids"][:40], r["ids"][40] ^ 1, *r["ids"][41:]]} for r in made]
        _, _, far = self.together(self.build("e-style"), changed, rng, sequences=2)
        for i, (a, b, c) in enumerate(zip(right, other, far)):
            self.ok(answers_differ(a, a), f"answer {i + 1} and itself")
            self.equal(answers_differ(a, b) is None, False, f"answer {i + 1} with q8_0 K/V passes")
            self.equal(answers_differ(a, c) is None, False, f"answer {i + 1} of a changed prompt passes")
            self.equal(answers_differ({**a, "ids": a["ids"][:-1]}, a) is None, False, "a lost token passes")


if __name__ == "__main__":
    common.main()
