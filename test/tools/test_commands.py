"""g4run's commands that take a model and print something: tokenize, kl, bench, jsonl, perplexity."""

import json
import math
import re
import shutil
import statistics
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import NANO, ROOT, Case, Failure, main, scratch

Q8, Q4, BF16 = (NANO / f"gemma4-nano-{kind}.gguf" for kind in ("Q8_0", "Q4_0", "BF16"))


class Commands(Case):
    @classmethod
    def setUpClass(cls):
        cls.model = cls.tools.compile(Q8)

    def call(self, *args, stdin=None, expect=0):
        return self.tools.call("g4run", *args, stdin=stdin, expect=expect)

    def text(self, *args, **options):
        return self.call(*args, **options).stdout.decode()

    def fails(self, pattern, *args, code=1, stdin=None):
        """Exit code `code`, one line on standard error, nothing on standard output."""
        done = self.call(*args, expect=code, stdin=stdin)
        said = done.stderr.decode()
        self.equal((said.count("\n"), bool(re.search(pattern, said))), (1, True), f"{args}: {said!r}")
        self.equal(done.stdout, b"", f"{args}: output")


class Tokenize(Commands):
    def test_text_to_ids_and_back(self):
        cases = ["Why is the sky blue?", "", " two  spaces\n\nand lines\n", "caf\u00e9 日本 👍", "<bos> <|turn>user", "\t\x00\x7f"]
        for text in cases:
            with scratch(self.tools) as folder:
                (folder / "text").write_text(text)
                for flags in ([], ["--plain"]):
                    ids = self.text("tokenize", self.model, "--no-bos", *flags, "-f", folder / "text").strip()
                    self.equal(self.text("tokenize", self.model, "--detokenize", "-f", "-", stdin=ids.encode()), text,
                               f"{text!r} through {ids}")
                piped = self.text("tokenize", self.model, stdin=text.encode())
                self.equal(piped, self.text("tokenize", self.model, "-f", folder / "text"), "standard input")

    def test_control_tokens_and_bos(self):
        bos = int(self.text("tokenize", self.model, ""))
        self.equal(self.text("tokenize", self.model, "--no-bos", ""), "\n", "nothing")
        self.equal(self.text("tokenize", self.model, "<bos>"), f"{bos}\n", "exactly one BOS")
        self.at_least(self.text("tokenize", self.model, "--plain", "--no-bos", "<bos>").count(","), 1, "<bos> as text")

    def test_shown_and_as_json(self):
        shown = self.text("tokenize", self.model, "--show", "a sky").splitlines()
        pieces = [line.split("  ", 1)[1] for line in (s.strip() for s in shown)]
        self.equal("".join(pieces[1:]).replace("\u2581", " "), "a sky", shown)
        answer = json.loads(self.text("tokenize", self.model, "--json", "a sky"))
        self.equal(answer["pieces"], pieces, "pieces")
        self.equal(",".join(map(str, answer["ids"])) + "\n", self.text("tokenize", self.model, "a sky"), "ids")
        back = json.loads(self.text("tokenize", self.model, "--json", "--detokenize", json.dumps(answer["ids"])))
        self.equal(back["text"], "<bos>a sky", "text")

    def test_bad_input(self):
        self.fails("not a token id", "tokenize", self.model, "--detokenize", "2,x")
        self.fails("not in a vocabulary of 3072", "tokenize", self.model, "--detokenize", "2,9999")
        self.fails("cannot read '/nonexistent/file': No such file", "tokenize", self.model, "-f", "/nonexistent/file")
        self.fails("No such file", "tokenize", "/nonexistent/model.g4m", "x")
        self.fails("excludes", "tokenize", self.model, "--plain", "--detokenize", "2", code=2)


class Measures(Commands):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.sample = Path(cls.folder.name) / "text"
        cls.sample.write_bytes((NANO / "heldout.txt").read_bytes()[:8000])

    def kl(self, model, reference, *args):
        return json.loads(self.text("kl", model, "--reference", reference, self.sample, "-c", "256", "--json", *args))

    def test_a_model_equals_itself(self):
        same = self.kl(self.model, self.model)
        self.equal((same["kl"]["value"], same["kl_most"]), (0, 0), "KL")
        self.equal((same["same_top"]["value"], same["log_ratio"]["value"]), (1, 0), "top, ratio")

    def test_a_quantised_model_is_further_away(self):
        exact = self.tools.compile(BF16, "--activations=f32")
        near, far = self.kl(self.model, exact), self.kl(self.tools.compile(Q4), exact)
        self.at_least(near["kl"]["value"], 1e-6, "KL of Q8_0")
        self.at_least(far["kl"]["value"], 3 * near["kl"]["value"], "KL of Q4_0")
        self.at_least(near["same_top"]["value"], far["same_top"]["value"], "agreement")
        for d in (near, far):
            self.at_least(d["kl_most"], d["kl_99"], "order of percentiles")
            self.at_least(d["kl_99"], d["kl_median"], "order of percentiles")
            self.at_least(d["kl"]["error"], 1e-9, "an error bar")
            self.at_most(abs(d["log_ratio"]["value"] - math.log(d["perplexity"]["value"] / d["reference_perplexity"]["value"])),
                         1e-6, "ratio of perplexities")
        said = self.text("perplexity", self.model, self.sample, "-c", "256")
        self.equal(f"{near['perplexity']['value']:.4f} +- {near['perplexity']['error']:.4f}" in said, True, said)

    def test_the_numbers_as_text(self):
        said = self.text("kl", self.model, "--reference", self.model, self.sample, "-c", "256")
        self.equal(bool(re.search(r"KL\(reference \|\| model\)  0\.000000 \+- 0\.000000", said)), True, said)
        self.equal(bool(re.search(r"same best token +100\.00", said)), True, said)

    def test_bad_input(self):
        other = self.tools.compile(ROOT / "test/data/text/models/e-style/e-style-Q8_0.gguf")
        self.fails("different tokens", "kl", self.model, "--reference", other, self.sample)
        self.fails("less than one window", "kl", self.model, "--reference", self.model, "-", stdin=b"short")
        self.fails("--reference is required", "kl", self.model, self.sample, code=2)
        self.fails("less than one window", "perplexity", self.model, "-", stdin=b"short")
        self.fails("'0' is no number from 4 to", "perplexity", self.model, self.sample, "-c", "0", code=2)
        self.fails("is not in 4", "perplexity", self.model, self.sample, "-c", "4096")


class Bench(Commands):
    FIELDS = {"model", "g4run", "variant", "threads", "load_seconds", "first_step_seconds", "peak_bytes", "results"}
    TEST = {"test", "tokens", "batch", "depth", "seconds", "tokens_per_second", "tokens_per_second_min",
            "tokens_per_second_max", "read_bandwidth", "read_bandwidth_probes", "peaks", "steps", "step"}
    PEAK = {"weights", "macs_per_second", "probes"}
    USE = {"seconds", "weight_bytes", "kv_bytes", "macs", "bytes_per_second", "bandwidth_share", "macs_per_second", "peak_share"}
    STEP, KERNEL = USE | {"idle_seconds", "kernels"}, USE | {"kernel", "calls", "busy"}

    def test_table_and_json(self):
        with scratch(self.tools) as folder:
            table = self.text("bench", self.model, "--prefill", "64,600", "--decode", "4", "--batch", "1,3", "--depth",
                              "0,200", "--reps", "2", "--kernels", "2", "--json", folder / "out.json")
            out = json.loads((folder / "out.json").read_text())
        self.equal(set(out), self.FIELDS, "fields")
        self.equal(len(out["results"]), 12, "tests")
        rows, total, *parts = table.split("\n\n")
        rows = [line.split() for line in rows.splitlines()[2:]]
        self.equal(total.startswith("most memory in use "), True, total)
        for row, part, result in zip(rows, parts, out["results"], strict=True):
            self.equal(set(result), self.TEST, "fields of a result")
            self.equal(row[:4], [result["test"], *(str(result[k]) for k in ("tokens", "batch", "depth"))], "row")
            self.equal(len(result["seconds"]), 2, "repetitions")
            work = result["tokens"] * result["batch"]
            self.at_most(abs(result["tokens_per_second_max"] * min(result["seconds"]) / work - 1), 1e-6, "highest")
            self.at_most(result["tokens_per_second_min"], result["tokens_per_second"], "lowest and median")
            names = [k["kernel"] for k in result["step"]["kernels"]]
            heading, meanwhile, _, *lines = part.splitlines()
            self.equal(heading, "a step of {test} {tokens}, batch {batch}, depth {depth}".format(**result), "heading")
            found = re.findall(r"([a-z_0-9]+) ([0-9.]+) \(([0-9.]+) to ([0-9.]+)\)", meanwhile)
            want = [("read", result["read_bandwidth_probes"]), *((p["weights"], p["probes"]) for p in result["peaks"])]
            self.equal(found, [(name, *(f"{v / 1e9:.2f}" for v in (statistics.median(values), min(values), max(values))))
                               for name, values in want], "what the machine did meanwhile")
            self.equal([line.split()[0] for line in lines], [*names[:2], str(len(names) - 2), "between", "all,"], "kernels")
        page = (ROOT / "docs/commands/bench.md").read_text()
        for field in self.FIELDS | self.TEST | self.PEAK | self.STEP | self.KERNEL:
            self.equal(f"`{field}`" in page, True, f"{field} in docs/commands/bench.md")
        self.check_machine(out)
        for result in out["results"]:
            self.check_step(result, out)
        decode = {(r["batch"], r["depth"]): r["step"] for r in out["results"] if r["test"] == "decode"}
        self.equal(decode[3, 200]["kv_bytes"], 3 * decode[1, 200]["kv_bytes"], "K/V of three sequences")
        self.at_least(decode[1, 200]["kv_bytes"], 10 * decode[1, 0]["kv_bytes"], "K/V of 200 positions and of 2")
        self.check_decode(decode[1, 0])

    def check_machine(self, out):
        for result in out["results"]:
            self.equal(len(result["read_bandwidth_probes"]), 3, "probes: before each of two repetitions and after the last")
            self.at_least(min(result["read_bandwidth_probes"]), 1e7, "bytes per second")
            self.equal({p["weights"] for p in result["peaks"]}, {"q8_0", "f32"}, "families of a Q8_0 file")
            for peak in result["peaks"]:
                self.equal(len(peak["probes"]), 3, "probes")
                self.equal(peak["macs_per_second"], statistics.median(peak["probes"]), "median")
        self.at_least(out["first_step_seconds"], 1e-6, "a step")
        self.at_least(out["load_seconds"], 1e-6, "loading")
        self.at_least(out["peak_bytes"], sum(w["bytes"] for w in self.tools.inspect(self.model)["weights"]
                                             if w["place"] == "packed"), "memory")

    def check_step(self, result, out):
        step, time = result["step"], sorted(result["seconds"])
        kernels = step["kernels"]
        self.equal(set(step), self.STEP, "fields of a step")
        self.equal(all(set(k) == self.KERNEL for k in kernels), True, "fields of a kernel")
        self.at_most(sum(k["busy"] * k["seconds"] for k in kernels), step["seconds"], "busy threads")
        self.at_most(sum(k["seconds"] for k in kernels), step["seconds"] * out["threads"], "time of kernels")
        self.equal(0 <= step["idle_seconds"] <= step["seconds"], True, "time between kernels")
        self.equal([k["seconds"] for k in kernels], sorted((k["seconds"] for k in kernels), reverse=True), "order")
        for field in ("weight_bytes", "kv_bytes", "macs"):
            self.at_most(abs(sum(k[field] for k in kernels) / step[field] - 1), 1e-9, f"sum of {field}")
        self.equal(0 < step["bandwidth_share"] < 10, True, "share: a small model lies in caches")
        rate = (step["weight_bytes"] + step["kv_bytes"]) * result["steps"] / ((time[0] + time[1]) / 2)
        self.at_most(abs(step["bytes_per_second"] / rate - 1), 1e-9, "rate")
        for use in (step, *kernels):
            self.at_most(abs(use["bandwidth_share"] * result["read_bandwidth"] - use["bytes_per_second"]), 1, "share")
            self.equal(use["peak_share"] is None, use["macs"] == 0, "only what multiplies with weights has a share of a peak")
        peaks = [p["macs_per_second"] for p in result["peaks"]]
        for use in (step, *(k for k in kernels if k["macs"])):
            least, most = (use["macs_per_second"] / peak for peak in (max(peaks), min(peaks)))
            self.equal(least * 0.999 <= use["peak_share"] <= most * 1.001, True, "share: of one peak or between them")
            self.at_most(use["peak_share"], 1.05, "share of the peak")
        self.equal(any(k["peak_share"] is None for k in kernels), True, "attention")

    def check_decode(self, step):
        """A step of one row reads every matrix once and rows that the token chooses; twice only a few gains."""
        artifact = self.tools.inspect(self.model)
        program = artifact["programs"][0]
        self.equal(step["macs"], sum(program[f"macs_{s}"] for s in ("rows", "tail", "logits")), "multiplications")
        weights = {w["name"]: w for w in artifact["weights"]}
        least = sum(w["bytes"] for w in weights.values() if w["place"] != "table")
        row = sum(w["bytes"] / w["rows"] for w in weights.values() if w["rows"] == artifact["facts"]["vocabulary"])
        self.at_least(step["weight_bytes"], least + row, "bytes of weights")
        self.at_most(step["weight_bytes"], 1.001 * (least + row), "bytes of weights")

    def test_only_chosen_experts_are_read(self):
        model = self.tools.compile(ROOT / "test/data/text/models/moe/moe-Q8_0.gguf")
        step = json.loads(self.text("bench", model, "--prefill", "0", "--decode", "2", "--reps", "1", "--json", "-"))["results"][0]["step"]
        artifact = self.tools.inspect(model)
        facts = artifact["facts"]
        part = facts["experts_used"] / facts["layers"][0]["experts"]
        self.at_most(part, 0.5, "experts used")
        want = sum(w["bytes"] * (part if "_exps.weight" in w["name"] else 1) for w in artifact["weights"])
        # A row of the embedding, and gains that two dispatches use, come on top.
        self.at_most(abs(step["weight_bytes"] / want - 1), 0.005, "bytes of weights")

    def test_a_trace_has_every_dispatch(self):
        with scratch(self.tools) as folder:
            self.call("bench", self.model, "--prefill", "16", "--decode", "2", "--reps", "1", "--threads", "2", "--profile",
                      folder / "trace.json")
            trace = json.loads((folder / "trace.json").read_text())
        want = [d["kernel"] for d in self.tools.inspect(self.model)["programs"][0]["dispatches"]]
        for process, steps in ((1, 1), (2, 2)):
            events = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == process]
            self.equal(len({e["args"]["step"] for e in events}), steps, "steps")
            for step in {e["args"]["step"] for e in events}:
                found = {e["args"]["dispatch"]: e["name"] for e in events if e["args"]["step"] == step}
                self.equal([found.get(i) for i in range(len(want))], want, f"kernels of step {step}")
            self.equal(all(e["dur"] >= 0 and e["ts"] >= 0 and e["tid"] in (0, 1) for e in events), True, "times")

    def test_bad_input(self):
        self.fails("nothing to measure", "bench", self.model, "--prefill", "0", "--decode", "0", code=2)
        self.fails("--batch", "bench", self.model, "--batch", "65", code=2)
        self.fails("the context is 2048", "bench", self.model, "--prefill", "8,99999", "--decode", "0")
        self.fails("the context is 2048", "bench", self.model, "--prefill", "0", "--depth", "0,2000")
        self.fails("'' is no number", "bench", self.model, "--prefill", "8,,9", code=2)

    def test_outputs_that_cannot_be_written_are_refused_first(self):
        with scratch(self.tools) as folder:
            run = ("bench", self.model, "--prefill", "8", "--decode", "0", "--reps", "1")
            for flag in ("--json", "--profile"):
                self.fails("cannot write '.*': No such file", *run, flag, folder / "no/out")
                self.fails("cannot write '.*': Is a directory", *run, flag, folder)
                self.fails("cannot write '.*': File name too long", *run, flag, folder / ("x" * 300))
                self.fails("cannot write '.*': Not a directory", *run, flag, self.model / "x")
            self.fails("another output", *run, "--json", folder / "a", "--profile", f"{folder}/./a")
            self.equal(list(folder.iterdir()), [], "files")
            self.fails("cannot make the folder '/proc/no'", self.model, "--ids", "2,5", "-n", "0", "--taps", "/proc/no")


class Memory(Commands):
    def used(self, pid):
        """Bytes of a process in memory: its own, and those of the mapped artifact."""
        bytes_, name = 0, ""
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if heading := re.match(r"[0-9a-f]+-[0-9a-f]+ (?:\S+ ){4}\s*(.*)", line):
                name = heading[1]
            elif line.startswith("Anonymous:") or (line.startswith("Rss:") and name == str(self.model)):
                bytes_ += int(line.split()[1]) << 10
        return bytes_

    def test_the_plan_is_what_a_process_takes(self):
        plan = self.tools.inspect(self.model)
        table = sum(w["bytes"] for w in plan["memory"]["weights"] if w["place"] == "table")
        with subprocess.Popen([self.tools.bin / "g4run", "chat", self.model, "--temp", "0", "-n", "1", "--threads", "2"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            used = []
            for words in (0, 485):  # the second fills a step of 512 rows
                process.stdin.write(b"Hello" + b" the" * words + b"\n")
                process.stdin.flush()
                process.stdout.readline()
                used.append(self.used(process.pid))
            process.stdin.close()
        # The system maps whole neighbourhoods of a small file, so all of its table; the heap is the program's own. Each thread's stack
        # holds kernels' scratch: two threads on any machine.
        heap = 1 << 20
        for name, bytes_ in zip(("in_use_token", "in_use_prompt"), used):
            self.at_least(bytes_, 0.97 * plan[name], name)
            self.at_most(bytes_, 1.03 * plan[name] + table + heap, name)
        grown = plan["in_use_prompt"] - plan["in_use_token"]
        self.at_most(abs((used[1] - used[0]) / grown - 1), 0.05, "what a prompt takes more than a token")


class Jsonl(Commands):
    def lines(self, *objects):
        return "".join((o if isinstance(o, str) else json.dumps(o)) + "\n" for o in objects).encode()

    def answers(self, stdin, *args, expect=0):
        done = self.call(self.model, "--temp", "0", "-n", "40", *args, "--jsonl", "-", "-", stdin=stdin, expect=expect)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()

    def test_answers_come_in_order_and_equal_those_of_one_at_a_time(self):
        questions = [f"What is the capital of {c}?" for c in ("France", "Italy", "Spain", "Norway", "Japan")]
        stdin = self.lines(*({"id": f"q{i}", "messages": [{"role": "user", "content": q}], "max_tokens": 40 - 7 * i}
                             for i, q in enumerate(questions)))
        batch, said = self.answers(stdin, "--parallel", "4")
        self.equal(said, "", "standard error")
        self.equal([a["id"] for a in batch], [f"q{i}" for i in range(5)], "order")
        self.equal(batch, self.answers(stdin, "--parallel", "1")[0], "one at a time")
        solo = self.text(self.model, "--temp", "0", "-n", "40", "-p", questions[0])
        self.equal(batch[0]["text"], solo.rstrip("\n"), "as -p")
        for answer in batch:
            self.equal(set(answer), {"id", "text", "finish_reason", "usage"}, "fields")
            self.equal(set(answer["usage"]), {"prompt_tokens", "completion_tokens"}, "usage")

    def test_fields_of_a_line(self):
        chat = {"messages": [{"role": "user", "content": "What is 3 + 4?"}], "max_tokens": 200}
        answers, _ = self.answers(self.lines(
            {"prompt": "Once upon a time", "max_tokens": 3},
            {**chat, "enable_thinking": True},
            {"prompt": "Once upon a time", "max_tokens": 30, "stop": " "},
            {"prompt": "Once", "temperature": 1.5, "seed": 3, "max_tokens": 20},
            {"prompt": "Once", "temperature": 1.5, "seed": 3, "max_tokens": 20},
            {"prompt": "Once", "temperature": 1.5, "seed": 4, "max_tokens": 20}))
        self.equal([a["id"] for a in answers], [1, 2, 3, 4, 5, 6], "line numbers as ids")
        self.equal((answers[0]["finish_reason"], answers[0]["usage"]["completion_tokens"]), ("length", 3), "length")
        self.equal("7" in answers[1]["text"] and len(answers[1]["thought"]) > 3, True, answers[1])
        self.equal("channel" in answers[1]["text"] + answers[1]["thought"], False, "marks in the text")
        self.equal((answers[2]["finish_reason"], " " in answers[2]["text"].strip()), ("stop", False), answers[2])
        self.equal(answers[3]["text"] == answers[4]["text"] != answers[5]["text"], True, "seeds")

    def test_a_bad_line_is_an_error_in_its_place(self):
        bad = ["{", "[]", {}, {"prompt": 3}, {"prompt": "x", "messages": []}, {"messages": 3}, {"prompt": "x", "top_p": 7},
               {"prompt": "x", "max_tokens": "many"}, {"prompt": "x", "stop": [3]}, {"prompt": "x", "seed": -1}, {"prompt": "x", "top_k": 5000000000}, {"prompt": "word " * 3000},
               {"id": "mine", "messages": [{"role": "alien"}, 3]}]
        good = {"prompt": "Once", "max_tokens": 2}
        answers, said = self.answers(self.lines(good, *bad, "", good), expect=1)
        self.equal(["error" in a for a in answers], [False, *[True] * len(bad), False], answers)
        self.equal(answers[-1]["text"], answers[0]["text"], "the last one")
        self.equal(answers[-2]["id"], "mine", "id of a bad line")
        self.equal(all(a["error"]["message"] for a in answers if "error" in a), True, "reasons")
        self.equal(bool(re.fullmatch(rf"g4run: {len(bad)} of {len(answers)} lines have no answer[^\n]*\n", said)), True, said)

    def test_errors_say_what_is_wrong_with_a_line(self):
        def user(*parts):
            return {"messages": [{"role": "user", "content": list(parts)}], "max_tokens": 2}

        text, hello = {"type": "text", "text": "What is this?"}, [{"role": "user", "content": "Hi"}]
        url = {"url": "data:image/png;base64,AAAA"}
        cases = ((user({"type": "image_url", "image_url": url}, text), r"message 1: part 1 is of type 'image_url', but .* only text"),
                 (user(text, {"type": "input_audio"}), "part 2 is of type 'input_audio'"),
                 (user(text, {"type": "video_url"}), "part 2 is of type 'video_url'"),
                 (user(text, {"type": "file"}), "part 2 is of type 'file'"),
                 ({"messages": []}, "the conversation has no messages"),
                 ({"messages": hello, "prompt": "x"}, "'messages' and 'prompt' are both there"),
                 ({}, "neither 'messages' nor 'prompt' is there"), ({"prompt": 3}, "'prompt' has a value of the wrong type"))
        answers, _ = self.answers(self.lines(user(text), *(line for line, _ in cases)), expect=1)
        self.equal("text" in answers[0], True, "a list of one text")
        for (line, reason), answer in zip(cases, answers[1:], strict=True):
            self.equal(bool(re.search(reason, answer.get("error", {}).get("message", "none"))), True, f"{line}: {answer}")
        with scratch(self.tools) as folder:
            (folder / "chat").write_text(json.dumps(cases[0][0]))
            self.fails("message 1: part 1 is of type 'image_url'", self.model, "--chat", folder / "chat")
            for wrong, says in (({"tools": [5]}, "'tools' is no list"), ({"enable_thinking": "yes"}, "neither true nor false"),
                                ({"messages": [{"role": "zzz", "content": "x"}]}, "message 1: its role is 'zzz'")):
                (folder / "chat").write_text(json.dumps({"messages": hello, **wrong}))
                self.fails(says, self.model, "--chat", folder / "chat")
                self.fails(says, "chat", self.model, "--load", folder / "chat")

    def test_ids_come_back_as_they_are(self):
        ids = ["12345678901234567890", "18446744073709551615", "-9223372036854775808", "9007199254740993", "0", "-1", "1.5", '"a"',
               "null", "true", '["x",9007199254740993]', '{"run":{"n":18446744073709551615}}']
        large = ["18446744073709551616", "123456789012345678901234567890", "-9223372036854775809", '{"run":[1e30]}']
        stdin = "".join(f'{{"id": {i}, "prompt": "Once", "max_tokens": 1}}\n' for i in ids + large).encode()
        done = self.call(self.model, "--temp", "0", "--jsonl", "-", "-", stdin=stdin, expect=1)
        lines = done.stdout.decode().splitlines()
        for i, line in zip(ids, lines[:len(ids)], strict=True):
            self.equal(line.startswith(f'{{"id":{i},"text":'), True, line)
        for number, line in enumerate(lines[len(ids):], len(ids) + 1):
            self.equal((json.loads(line)["id"], "more than 64 bits" in line), (number, True), line)

    def test_files(self):
        with scratch(self.tools) as folder:
            (folder / "in").write_bytes(self.lines({"prompt": "Once", "max_tokens": 2}))
            self.call(self.model, "--jsonl", folder / "in", folder / "out", "--temp", "0")
            self.equal(json.loads((folder / "out").read_text())["finish_reason"], "length", "file")
            self.fails("cannot read .*No such file", self.model, "--jsonl", folder / "absent", folder / "out")
            self.fails("cannot write .*No such file", self.model, "--jsonl", folder / "in", folder / "no" / "out")
            self.fails("--jsonl", self.model, "--jsonl", folder / "in", folder / "out", "--print-ids", code=2)
            self.equal((folder / "in").stat().st_size > 0, True, "the input is untouched")


class Files(Commands):
    def test_an_output_that_is_an_input_is_refused(self):
        with scratch(self.tools) as folder:
            model, text = folder / "model.g4m", folder / "text"
            shutil.copy(self.model, model)
            (folder / "link").symlink_to(model)
            (folder / "hard").hardlink_to(model)
            text.write_bytes(b'{"prompt": "Once", "max_tokens": 2}\n')
            (folder / "text2").symlink_to(text)
            before = {path: path.read_bytes() for path in (model, text)}
            prompt = (model, "-p", "Hi", "-n", "0")
            for name in ("model.g4m", "link", "hard", "./model.g4m"):
                output = f"{folder}/{name}"
                self.fails("is the input", *prompt, "--logits", output)
                self.fails("is the input", model, "--jsonl", text, output)
                self.fails("is the input", "bench", model, "--json", output)
                self.fails("is the input", "bench", model, "--profile", output)
                done = self.tools.call("g4-runner", model, "--ids", "2,5", "--logits", output, expect=1)
                self.equal(b"is the input" in done.stderr, True, done.stderr)
                done = self.call("chat", model, "--no-history", stdin=f"/save {output}\n".encode(), expect=1)
                self.equal(b"is the input" in done.stderr, True, done.stderr)
            for output in (f"{folder}/./text", folder / "text2"):
                self.fails("is the input", model, "--jsonl", text, output)
            self.fails("is the input", model, "-f", text, "-n", "0", "--logits", folder / "text2")
            # A file of --taps that would be the model, by the name of a value.
            self.call(model, "--ids", "2,5", "-n", "0", "--taps", folder / "taps")
            value = sorted((folder / "taps").iterdir())[-1]
            value.unlink()
            value.symlink_to(model)
            self.fails("is the input", model, "--ids", "2,5", "-n", "0", "--taps", folder / "taps")
            (folder / "new").mkdir()
            self.fails("another output", model, "--ids", "2,5", "-n", "0", "--taps", folder / "new", "--logits",
                       folder / "new" / value.name)
            for path, data in before.items():
                self.equal(path.read_bytes() == data, True, f"{path} is untouched")

    def test_a_folder_is_no_text(self):
        with scratch(self.tools) as folder:
            for args in ((self.model, "-f", folder), (self.model, "--chat", folder), ("tokenize", self.model, "-f", folder),
                         ("perplexity", self.model, folder), ("kl", self.model, "--reference", self.model, folder),
                         (self.model, "--jsonl", folder, folder / "out")):
                self.fails("cannot read '.*': Is a directory", *args)
            self.equal(list(folder.iterdir()), [], "files")
            self.fails("cannot write '.*': Is a directory", self.model, "-p", "Hi", "-n", "0", "--logits", folder)

    def test_output_that_cannot_be_written(self):
        message = b"g4run: cannot write to standard output: "
        for args, stdin in (((self.model, "-p", "Hello!"), b""), ((self.model, "--ids", "2,5", "-n", "0", "--print-ids"), b""),
                            (("bench", self.model, "--prefill", "16", "--decode", "0", "--reps", "1"), b""),
                            (("chat", self.model, "--no-history"), b"Hi\nHello\n"), (("completion", "bash"), b""),
                            (("--help",), b""), ((self.model, "--jsonl", "-", "-"), b'{"prompt": "Once", "max_tokens": 2}\n')):
            for redirection in (">/dev/full", ">&-"):
                command = f'exec "$0" "$@" {redirection}'
                done = subprocess.run(["bash", "-c", command, self.tools.bin / "g4run", *map(str, args)], input=stdin,
                                      stderr=subprocess.PIPE)
                self.equal((done.returncode, done.stderr.count(b"\n"), done.stderr.startswith(message)), (1, 1, True),
                           f"{args} {redirection}: {done.stderr}")


class ExitCodes(Commands):
    def test_values_out_of_range_are_bad_usage(self):
        """What can be said without the model is bad usage; what depends on it is bad input."""
        for flag, value, says in (("--temp", "-1", "temperature must be a number of at least 0"), ("--temp", "x", "--temp"),
                                  ("--top-p", "2", "top-p must be above 0"), ("--top-k", "-1", "top-k"),
                                  ("--min-p", "nan", "min-p"), ("--repeat-penalty", "0", "penalty"),
                                  ("--temp", "1e999", "'1e999' is no number, or too large"), ("--top-p", "1e-999", "too small"),
                                  ("--logit-bias", "3=inf", "logit bias"), ("--logit-bias", "3=1e999", "'1e999' is no number"),
                                  ("--top-k", "99999999999999", "is no number from 0 to 2147483647"),
                                  ("--context", "-1", "'-1' is no number from 0 to 4294967295"), ("-n", "", "-n: '' is no number")):
            self.fails(re.escape(says), self.model, "-p", "Hi", flag, value, code=2)
            self.fails(re.escape(says), "chat", self.model, flag, value, code=2)
        self.fails("a stop string has 0 bytes", self.model, "-p", "Hi", "--stop", "", code=2)
        self.fails("--chunk: '-1' is no number from 0 to", self.model, "-p", "Hi", "--chunk", "-1", code=2)
        self.fails("no code variant 'zzz'; the artifact has ", self.model, "-p", "Hi", "--variant", "zzz")
        self.fails("a context of 9999999", self.model, "-p", "Hi", "--context", "9999999")


    def test_the_word_that_is_wrong_is_named(self):
        for args, says in ((("cache", "bogus"), "not expected: bogus"), (("bogus", self.model), "'bogus' is neither a command nor a file"),
                           (("--temp", "0", "chat", self.model), "--temp: the command comes first: g4run chat"),
                           ((self.model, "chat"), "the command comes first: g4run chat "),
                           ((self.model, "-p", "Hi", "-n", "3", "-n", "5"), "-n: given more than once"),
                           (("kl", self.model, "--bogus"), "not expected: --bogus"), (("cache",), "subcommand is required")):
            self.fails(says, *args, code=2)

    def test_what_cannot_work_replaces_nothing(self):
        with scratch(self.tools) as folder:
            kept, questions = folder / "kept", folder / "in"
            kept.write_bytes(b"mine")
            questions.write_bytes(b'{"prompt": "Once", "max_tokens": 2}\n')
            for bad, code in ((("--logit-bias", "99999=1"), 1), (("--temp", "1e999"), 2), (("--stop", ""), 2)):
                self.fails(bad[0], self.model, "--jsonl", questions, kept, *bad, code=code)
                self.fails(bad[0], self.model, "-p", "Hi", "-n", "3", "--logits", kept, *bad, code=code)
                self.equal(kept.read_bytes(), b"mine", f"the output of {bad}")
            self.fails("token 99999", "chat", self.model, "--logit-bias", "99999=1")
            self.fails("another output", self.model, "--ids", "2,5", "-n", "0", "--logits", folder / "x", "--taps", folder / "x")
            self.equal(sorted(p.name for p in folder.iterdir()), ["in", "kept"], "files")


class DryRun(Commands):
    def test_the_plan_is_that_of_the_artifact(self):
        plan = json.loads(self.tools.call("g4c", Q8, "--dry-run", "--json").stdout)
        artifact = self.tools.inspect(self.model)
        for key in ("memory", "in_use_token", "in_use_prompt"):
            self.equal(plan[key], artifact[key], key)
        segments = {s["kind"]: s["bytes"] for s in artifact["segments"]}
        self.equal((plan["weight_bytes"], plan["tokenizer_bytes"]), (segments["weights"], segments["tokenizer"]), "sizes")
        self.equal(plan["kernels"], len(artifact["kernels"]), "kernels")
        for mine, other in zip(plan["programs"], artifact["programs"], strict=True):
            self.equal(mine["dispatches"], len(other["dispatches"]), "dispatches")
            self.equal(mine["barriers"], sum(d["barrier_before"] for d in other["dispatches"]), "barriers")
            for key in ("name", "max_rows", "arena_bytes", "peak_live_bytes"):
                self.equal(mine[key], other[key], key)


del Commands  # not a test by itself
if __name__ == "__main__":
    main()
