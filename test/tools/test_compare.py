"""bench/compare.py against programs of known speed: the ratio it gives, the noise it refuses, the failures it passes on."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from programs import ROOT, Case, main

# Rates by round: each program counts its calls in a file. `lines`: of JSON.
PROGRAM = """#!{python}
import json, sys
from pathlib import Path
turn = Path(__file__ + ".turn")
n = int(turn.read_text()) if turn.exists() else 0
turn.write_text(str(n + 1))
args = dict(zip(sys.argv[1::1], sys.argv[2::1]))
rates = {rates}
rate = rates[n % len(rates)]
if rate is None:
    sys.exit("out of memory")
for line in {lines}:
    print(json.dumps(line))
"""
G4 = """[{"variant": "fake", "results": [
  {"test": t, "tokens": int(args["--" + t]), "batch": int(b), "depth": int(d), "tokens_per_second": rate * int(b), "read_bandwidth": 2e10,
   "step": {"bandwidth_share": 0.75, "peak_share": 0.5}}
  for t in ("prefill", "decode") for b in args["--batch"].split(",") for d in args["--depth"].split(",") if args["--" + t] != "0"]}]"""
LLAMA = """[[{"n_prompt": int(p), "n_gen": int(n), "n_depth": int(d), "avg_ts": rate, "build_commit": "abc"}
  for d in args["-d"].split(",") for p, n in ((args["-p"], 0), (0, args["-n"])) if int(p) + int(n)]]"""
BATCHED = """[{"pp": int(p), "tg": int(t), "pl": int(b), "speed_pp": rate * int(b), "speed_tg": rate * int(b) / 2}
  for p in args["-npp"].split(",") for t in args["-ntg"].split(",") for b in args["-npl"].split(",")]"""


class Compare(Case):
    def run_with(self, g4, llama, *more, batched=(1.0,)):
        """What compare.py did and the lines that it recorded; self.starts: how often it started each program."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for program, rates, lines in (("g4run", g4, G4), ("llama-bench", llama, LLAMA), ("llama-batched-bench", batched, BATCHED)):
                file = folder / program
                file.write_text(PROGRAM.format(python=sys.executable, rates=list(rates), lines=lines))
                file.chmod(0o755)
            record = folder / "record.jsonl"
            done = subprocess.run([sys.executable, ROOT / "bench/compare.py", "model.gguf", "--artifact", "model.g4m", "--g4run", folder / "g4run",
                                   "--llama-bin", folder, "--record", record, *more], capture_output=True, text=True)
            self.starts = {p: int((folder / f"{p}.turn").read_text()) for p in ("g4run", "llama-bench", "llama-batched-bench")
                           if (folder / f"{p}.turn").exists()}
            return done, [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []

    def test_ratio_is_the_median_of_the_rounds(self):
        done, rows = self.run_with([30.0, 33.0, 30.0], [10.0, 10.0, 10.0], "--rounds", "3", "--prefill", "64", "--decode", "0")
        self.equal(done.returncode, 0, done.stderr)
        (row,) = rows
        self.equal((row["test"], row["tokens"], row["g4"], row["llama.cpp"], row["ratio"], row["rounds"], row["variant"], row["llama.cpp commit"]),
                   ("prefill", 64, 30.0, 10.0, 3.0, 3, "fake", "abc"), "the recorded row")
        self.equal({"cpu", "cores", "features", "g4 commit", "threads"} <= set(row), True, "what it was measured on")
        self.equal((row["of peak"], row["of read"], row["read GB/s"]), (0.5, None, 20.0), "shares")
        line = "| model.gguf | prefill | 64 | 1 | 0 | 30.0 | 10.0 | 3.00 | 5% |  | 50% |"
        self.equal(line in done.stdout.splitlines(), True, done.stdout)

    def test_several_sequences_go_to_the_batched_program(self):
        done, rows = self.run_with([10.0], [10.0], "--rounds", "2", "--prefill", "0", "--decode", "8", "--batch", "1,4", batched=(20.0,))
        self.equal(done.returncode, 0, done.stderr)
        self.equal([(r["batch"], r["ratio"], r["of read"]) for r in rows], [(1, 1.0, 0.75), (4, 1.0, 0.75)], "ratios")
        self.equal(self.starts, {"g4run": 2, "llama-bench": 2, "llama-batched-bench": 2}, "starts")

    def test_each_program_starts_once_per_round(self):
        done, rows = self.run_with([10.0], [10.0], "--rounds", "2", "--prefill", "64", "--decode", "8", "--depth", "0,100")
        self.equal(done.returncode, 0, done.stderr)
        self.equal([(r["test"], r["depth"]) for r in rows], [("prefill", 0), ("decode", 0), ("prefill", 100), ("decode", 100)], "tests")
        self.equal(self.starts, {"g4run": 2, "llama-bench": 2}, "starts")
        done, rows = self.run_with([10.0], [10.0], "--rounds", "2", "--prefill", "64", "--decode", "8", "--batch", "4,8", batched=(20.0,))
        self.equal([(r["test"], r["batch"], r["ratio"]) for r in rows],
                   [("prefill", 4, 0.5), ("decode", 4, 1.0), ("prefill", 8, 0.5), ("decode", 8, 1.0)], "tests")
        self.equal(self.starts, {"g4run": 2, "llama-batched-bench": 4}, "starts: for prompts and for decoding")
        done, rows = self.run_with([10.0], [10.0], "--prefill", "64", "--batch", "4", "--depth", "100")
        self.equal((done.returncode, "no prompts at a depth" in done.stderr), (2, True), done.stderr)

    def test_a_record_is_shown_as_a_table(self):
        with tempfile.TemporaryDirectory() as name:
            record = Path(name) / "record.jsonl"
            done, _ = self.run_with([30.0], [10.0], "--rounds", "2", "--prefill", "64", "--decode", "8", "--record", record)
            shown = subprocess.run([sys.executable, ROOT / "bench/compare.py", "--show", record], capture_output=True, text=True)
            self.equal((shown.returncode, shown.stdout.splitlines()), (0, done.stdout.splitlines()[2:]), "table")
            record.write_text("{}\n")
            shown = subprocess.run([sys.executable, ROOT / "bench/compare.py", "--show", record], capture_output=True, text=True)
            self.equal((shown.returncode, "is no record" in shown.stderr), (2, True), shown.stderr)

    def test_noise_is_no_result(self):
        done, rows = self.run_with([10.0, 30.0, 20.0, 40.0], [10.0], "--rounds", "4", "--prefill", "64", "--decode", "0")
        self.equal((done.returncode, rows), (1, []), done.stdout)
        self.equal("too noisy" in done.stdout, True, done.stdout)
        done, rows = self.run_with([10.0, 30.0, 20.0, 40.0], [10.0], "--rounds", "4", "--prefill", "64", "--decode", "0", "--max-spread", "9")
        self.equal((done.returncode, len(rows)), (0, 1), done.stdout)

    def test_failures_are_one_line(self):
        done, rows = self.run_with([10.0], [10.0, None], "--rounds", "2", "--prefill", "64", "--decode", "0")
        self.equal((done.returncode, rows), (2, []), done.stdout)
        self.equal(done.stderr.splitlines()[-1], "compare.py: llama-bench ended with 1: out of memory", "the line")
        done, _ = self.run_with([10.0], [10.0], "--rounds", "1")
        self.equal(done.returncode, 2, "one round")
        self.equal("no spread" in done.stderr, True, done.stderr)
        self.equal(os.path.exists(ROOT / "bench/__pycache__"), False, "nothing is left in the tree")


if __name__ == "__main__":
    main()
