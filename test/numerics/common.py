"""What the numerics tests share: running g4c and g4run, the compile cache, and the comparators.

A test file is a unittest module whose classes derive from `Case`; `main()` is its entry point. ctest passes the
build folder. A test that compared nothing fails: see `Case.tearDown`.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/data/tools"))
import ggufio  # noqa: E402
import header_only  # noqa: E402

TEXT = ROOT / "test/data/text"
FIXTURES = TEXT / "models"
NANO = ROOT / "models/gemma4-nano"

# The bound on logits where activations are float32, from the project's definition of "exact": it is two orders
# of magnitude below the effect of storing weights as F16 (0.08) and several times what float32 summation order does.
EXACT_LOGITS = 2e-3
# Two logits closer than this may change places when each is off by EXACT_LOGITS.
TIE = 2 * EXACT_LOGITS

EXACT = ("--activations=f32", "--kv=f32")


# ---- comparators: each answers None if all is well, else one line that says what is wrong -----------------------


def differs(got, want, bound):
    """Arrays of one shape, finite, and nowhere further apart than `bound`."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if got.size == 0:
        return "nothing to compare"
    if not np.all(np.isfinite(got)):
        return f"{np.count_nonzero(~np.isfinite(got))} of {got.size} values are not finite"
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    if error.max() <= bound:
        return None
    at = np.unravel_index(error.argmax(), error.shape)
    return f"differs by {error.max():.3g} at {[int(i) for i in at]} (bound {bound:.3g})"


def bits_differ(got, want):
    """Arrays equal bit for bit. NaN equals nothing: results must be finite."""
    got, want = np.ascontiguousarray(got), np.ascontiguousarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if got.size == 0:
        return "nothing to compare"
    if np.issubdtype(got.dtype, np.floating) and not np.all(np.isfinite(got)):
        return f"{np.count_nonzero(~np.isfinite(got))} of {got.size} values are not finite"
    same = got.view(np.uint8).reshape(-1, got.itemsize) == want.view(np.uint8).reshape(-1, got.itemsize)
    wrong = np.count_nonzero(~same.all(axis=1))
    if not wrong:
        return None
    gap = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    return f"{wrong} of {got.size} values differ in their bits (by up to {gap:.3g})"


def greedy_differs(got, want, top_logits, tie=TIE, least=1):
    """Greedy ids equal up to the first step whose two best reference logits are within `tie`, at least `least` steps.

    A difference at such a near-tie is nobody's fault, and what follows it is another text: the comparison ends there.
    """
    if len(got) != len(want):
        return f"{len(got)} tokens, expected {len(want)}"
    for step, (a, b) in enumerate(zip(got, want)):
        if a == b:
            continue
        margin = float(top_logits[step][0] - top_logits[step][1])
        if margin >= tie:
            return f"step {step}: token {a}, expected {b}, which leads by {margin:.3g}"
        return None if step >= least else f"only {step} steps before a near-tie"
    return None if len(want) >= least else "nothing to compare"


def correlation(got, want):
    """Pearson's, over all values; -1 where shapes differ or a value is not finite, so that any bound rejects it."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape or got.size < 2 or not np.all(np.isfinite(got)):
        return -1.0
    a, b = got.ravel() - got.mean(), want.ravel() - want.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else -1.0


def experts_differ(got, want, margin, tie=1e-3):
    """Chosen experts, [rows, used], equal as sets except in rows whose margin (log-probability) is below `tie`."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.size == 0:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    for row, (a, b) in enumerate(zip(np.sort(got, axis=-1), np.sort(want, axis=-1))):
        if not np.array_equal(a, b) and margin[row] >= tie:
            return f"row {row}: experts {a.tolist()}, expected {b.tolist()}, margin {margin[row]:.3g}"
    return None


# ---- programs -----------------------------------------------------------------------------------------------------


class Failure(Exception):
    """A program of ours failed where it should not have."""


class Tools:
    """The programs of one build folder and the artifacts compiled with them."""

    def __init__(self, build):
        self.build = Path(build).resolve()
        self.bin = self.build / "bin"
        self.cache = self.build / "numerics"
        self.cache.mkdir(exist_ok=True)

    def call(self, program, *args, timeout=600, expect=0, stdin=None):
        """Runs a program of ours and returns its CompletedProcess; an exit code other than `expect` is a Failure."""
        command = [str(self.bin / program), *map(str, args)]
        done = subprocess.run(command, capture_output=True, timeout=timeout, input=stdin)
        if expect is not None and done.returncode != expect:
            said = done.stderr.decode(errors="replace").strip()[-800:]
            raise Failure(f"{' '.join(command)}: exit code {done.returncode}\n{said}")
        return done

    def compile(self, gguf, *flags):
        """The artifact of `gguf` for this machine, compiled at most once per build of g4c, whichever test asks first."""
        gguf, flags = Path(gguf), (*flags, "--cpu=host")
        stamp = [(p.stat().st_size, p.stat().st_mtime_ns) for p in (self.bin / "g4c", gguf)]
        key = hashlib.sha256(json.dumps([str(gguf), flags, stamp]).encode()).hexdigest()[:16]
        prefix = f"{gguf.stem}-" + "".join(re.sub(r"[^a-z0-9]", "", f.partition("=")[2] or f) + "-" for f in flags)
        out = self.cache / f"{prefix}{key}.g4m"
        with open(self.cache / f"{prefix}lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not out.exists():
                for stale in self.cache.glob(f"{prefix}{'[0-9a-f]' * 16}.g4m"):
                    stale.unlink()
                self.call("g4c", gguf, "-o", out, *flags)
        return out

    def run(self, artifact, *args, **kwargs):
        return self.call("g4run", artifact, *args, **kwargs)

    def logits(self, artifact, ids, *args):
        """Logits of every row of a prompt, float32 [rows, vocabulary]."""
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            out = Path(folder) / "logits.npy"
            self.run(artifact, "--ids", join(ids), "-n", "0", "--logits", out, *args)
            return np.load(out)

    def taps(self, artifact, ids, *args):
        """Logits and the named intermediate values of one prompt, all rows demanded."""
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            folder = Path(folder)
            self.run(artifact, "--ids", join(ids), "-n", "0", "--logits", folder / "logits.npy", "--taps", folder, *args)
            return {p.stem: np.load(p) for p in folder.glob("*.npy")}

    def generate(self, artifact, ids, count, *args):
        """Greedy ids after a prompt; nothing stops or masks them unless `args` say so."""
        args = args or ("--ignore-eos", "--no-suppress")
        done = self.run(artifact, "--ids", join(ids), "-n", count, "--temp", "0", "--print-ids", *args)
        return printed_ids(done.stdout)

    def drive(self, artifact, steps, **options):
        """Runs scripted steps (test/tools/StepDriver.cpp): logits of all wanted rows, and one report a step."""
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            script, out = Path(folder) / "script.json", Path(folder) / "logits.npy"
            script.write_text(json.dumps({"steps": steps, **options}, default=int))
            done = self.call("step-driver", artifact, script, out)
            return np.load(out), [json.loads(line) for line in done.stdout.splitlines()]

    def inspect(self, artifact):
        return json.loads(self.call("g4run", "inspect", artifact, "--json").stdout)


def join(ids):
    return ",".join(str(int(i)) for i in ids)


def printed_ids(stdout):
    """The ids of the line that --print-ids writes."""
    for line in reversed(stdout.decode(errors="replace").splitlines()):
        if line.startswith('{"ids"'):
            return json.loads(line)["ids"]
    raise Failure("no line of ids in the output")


@contextlib.contextmanager
def scratch(tools):
    """A folder for one test's files, on the build folder's disk."""
    with tempfile.TemporaryDirectory(dir=tools.cache) as folder:
        yield Path(folder)


def llama_correlation():
    """What llama.cpp reaches on each quantised file: {(model, type): correlation}."""
    found = {}
    for line in (TEXT / "crosscheck.txt").read_text().splitlines():
        if match := re.fullmatch(r"(\S+) (\S+) max \S+ corr (\S+) top1 \S+", line):
            found[match[1], match[2]] = float(match[3])
    return found


def quantised_files(model):
    """(type, path) of each stored file of `model` for which there is a reference."""
    reference = np.load(FIXTURES / model / "quant_reference.npz")
    for path in sorted((FIXTURES / model).glob("*.gguf")):
        kind = path.stem[len(model) + 1:]
        if f"{kind}_p7_logits" in reference.files:
            yield kind, path


# ---- tests --------------------------------------------------------------------------------------------------------


class Case(unittest.TestCase):
    """A test that counts what it compared, and fails if that is nothing."""

    tools = None  # set by main()

    def setUp(self):
        self.compared = 0

    def tearDown(self):
        outcome = getattr(self, "_outcome", None)
        failed = outcome is not None and not outcome.success
        if not self.compared and not failed and not getattr(self, "skipped", False):
            self.fail("this test compared nothing")

    def ok(self, problem, what):
        """Counts one comparison; `problem` is a comparator's answer."""
        self.compared += 1
        if problem:
            self.fail(f"{what}: {problem}")

    def at_least(self, value, bound, what):
        self.compared += 1
        self.assertGreaterEqual(value, bound, what)

    def at_most(self, value, bound, what):
        self.compared += 1
        self.assertLessEqual(value, bound, what)

    def equal(self, value, want, what):
        self.compared += 1
        self.assertEqual(value, want, what)


def say(*words):
    """A figure for the log: measured, not judged."""
    print("   ", *words, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, help="build folder with bin/g4c and bin/g4run")
    options, rest = parser.parse_known_args()
    Case.tools = Tools(options.build)
    program = unittest.main(module="__main__", argv=[sys.argv[0], *rest], exit=False, verbosity=2)
    if not program.result.testsRun:
        sys.exit("no tests ran")
    sys.exit(not program.result.wasSuccessful())
