"""bench/compare.py against programs of known speed: the ratio it gives, the noise it refuses, the failures it passes on."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from programs import ROOT, Case, main

# Rates by round: each program counts its calls in a file.
PROGRAM = """#!{python}
import json, sys
from pathlib import Path
turn = Path(__file__ + ".turn")
n = int(turn.read_text()) if turn.exists() else 0
turn.write_text(str(n + 1))
args = dict(zip(sys.argv[1::1], sys.argv[2::1]))
rates = {rates}
rate = rates[n // {calls} % len(rates)]
if rate is None:
    sys.exit("out of memory")
print(json.dumps({answer}))
"""
G4 = """{"variant": "fake", "results": [
  {"test": t, "tokens": int(args["--" + t]), "batch": int(b), "depth": 0, "tokens_per_second": rate * int(b)}
  for t in ("prefill", "decode") for b in args["--batch"].split(",") if args["--" + t] != "0"]}"""
LLAMA = '[{"avg_ts": rate, "build_commit": "abc"}]'
BATCHED = '{"speed_pp": rate, "speed_tg": rate}'


class Compare(Case):
    def run_with(self, g4, llama, *more, batched=(1.0,), calls=1):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for program, rates, answer, each in (("g4run", g4, G4, 1), ("llama-bench", llama, LLAMA, calls),
                                                 ("llama-batched-bench", batched, BATCHED, 1)):
                file = folder / program
                file.write_text(PROGRAM.format(python=sys.executable, rates=list(rates), answer=answer, calls=each))
                file.chmod(0o755)
            record = folder / "record.jsonl"
            done = subprocess.run([sys.executable, ROOT / "bench/compare.py", "model.gguf", "--artifact", "model.g4m", "--g4run", folder / "g4run",
                                   "--llama-bin", folder, "--record", record, *more], capture_output=True, text=True)
            return done, [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []

    def test_ratio_is_the_median_of_the_rounds(self):
        done, rows = self.run_with([30.0, 33.0, 30.0], [10.0, 10.0, 10.0], "--rounds", "3", "--prefill", "64", "--decode", "0")
        self.equal(done.returncode, 0, done.stderr)
        (row,) = rows
        self.equal((row["test"], row["tokens"], row["g4"], row["llama.cpp"], row["ratio"], row["rounds"], row["variant"], row["llama.cpp commit"]),
                   ("prefill", 64, 30.0, 10.0, 3.0, 3, "fake", "abc"), "the recorded row")
        self.equal({"cpu", "cores", "features", "g4 commit", "threads"} <= set(row), True, "what it was measured on")
        self.equal("  3.00" in done.stdout, True, done.stdout)

    def test_several_sequences_go_to_the_batched_program(self):
        done, rows = self.run_with([10.0], [10.0], "--rounds", "2", "--prefill", "0", "--decode", "8", "--batch", "1,4", batched=(20.0,))
        self.equal(done.returncode, 0, done.stderr)
        self.equal([(r["batch"], r["ratio"]) for r in rows], [(1, 1.0), (4, 2.0)], "ratios")

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
