"""Bad input through the programs themselves: one clear line, exit code 1, nothing written, whatever is wrong with the file."""

import resource
import shutil
import signal
import subprocess
import time

import numpy as np

import common
from common import FIXTURES, ROOT, Case

MODEL = FIXTURES / "dense-keqv/dense-keqv-Q4_K_M.gguf"


class BadFiles(Case):

    def refused(self, command, what, out=None, must_fail=True, **popen):
        """A refusal: exit code 1, one line on stderr, no output file. With must_fail=False, success is as good."""
        done = subprocess.run([str(c) for c in command], capture_output=True, timeout=120, **popen)
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode == 0 and not must_fail:
            self.ok(None, what)
            return False
        self.equal(done.returncode, 1, f"{what}: exit code; said {said[-300:]!r}")
        self.equal(len(said.splitlines()), 1, f"{what}: lines on stderr: {said[:600]!r}")
        self.at_least(len(said), 20, f"{what}: length of {said!r}")
        if out is not None:
            left = sorted(p.name for p in out.parent.iterdir() if p != command[1])
            self.equal(left, [], f"{what}: files written")
        return True

    def g4c(self, gguf, out, *flags):
        return [self.tools.bin / "g4c", gguf, "-o", out, "--cpu=host", *flags]


class Gguf(BadFiles):

    def setUp(self):
        super().setUp()
        self.whole = MODEL.read_bytes()
        self.header = header_size(MODEL)

    def each(self, variants, must_fail, *flags):
        refusals = 0
        with common.scratch(self.tools) as folder:
            bad, out = folder / "bad.gguf", folder / "out.g4m"
            for what, raw in variants:
                bad.write_bytes(raw)
                refusals += self.refused(self.g4c(bad, out, *flags), what, out, must_fail)
                out.unlink(missing_ok=True)
        return refusals

    def test_truncated_files_are_refused(self):
        cuts = {0, 1, 3, 4, 8, 16, 23, 24, self.header - 1, self.header, self.header + 1, len(self.whole) - 1}
        cuts |= set(np.linspace(25, len(self.whole) - 40000, 24, dtype=int).tolist())
        self.each(((f"cut at {n} of {len(self.whole)}", self.whole[:n]) for n in sorted(cuts)), True)

    def test_mutated_headers_are_refused_or_harmless(self):
        """Bytes of the header overwritten at random. What still describes a model may compile; nothing may crash."""
        rng = np.random.default_rng(7)

        def variants():
            for i in range(120):
                raw = bytearray(self.whole)
                for _ in range(int(rng.integers(1, 4))):
                    raw[int(rng.integers(self.header))] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
                yield f"mutation {i}", bytes(raw)

        # Stops before code generation: the header has done all its harm by then.
        self.at_least(self.each(variants(), False, "--emit=gemma"), 5, "refused mutations")

    def test_missing_and_unreadable_files_are_refused(self):
        with common.scratch(self.tools) as folder:
            out = folder / "out.g4m"
            self.refused(self.g4c(folder / "absent.gguf", out), "absent file", out)
            self.refused(self.g4c(ROOT / "test", out), "a folder", out)
            self.refused(self.g4c(ROOT / "README.md", out), "a text file", out)

    def test_output_to_an_impossible_place_is_refused(self):
        with common.scratch(self.tools) as folder:
            self.refused(self.g4c(MODEL, folder / "absent/out.g4m"), "absent folder", folder / "x")


class Interrupted(BadFiles):
    """An artifact appears whole or not at all."""

    def test_a_full_disk_leaves_no_artifact(self):
        """The file size limit stands in for the disk's end: writes past it fail, at several places in the file."""
        size = self.tools.compile(MODEL).stat().st_size
        for limit in (0, 4096, size - 1):
            with self.subTest(limit=limit), common.scratch(self.tools) as folder:

                def full(limit=limit):
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

                out = folder / "out.g4m"
                self.refused(self.g4c(MODEL, out), f"disk full after {limit} of {size} bytes", out, preexec_fn=full)

    def test_a_killed_g4c_leaves_no_artifact(self):
        whole = time.monotonic()
        with common.scratch(self.tools) as folder:
            self.tools.call("g4c", MODEL, "-o", folder / "out.g4m", "--cpu=host")
        whole = time.monotonic() - whole
        for share in (0.2, 0.6, 0.9, 0.97):
            with self.subTest(after=share), common.scratch(self.tools) as folder:
                out = folder / "out.g4m"
                child = subprocess.Popen(self.g4c(MODEL, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(share * whole)
                child.kill()
                child.wait()
                # It may have been done already; then the artifact must be a good one.
                self.compared += 1
                if out.exists():
                    self.tools.call("g4run", "inspect", out)

    def test_an_existing_artifact_survives_a_failed_compile(self):
        with common.scratch(self.tools) as folder:
            out, bad = folder / "out.g4m", folder / "bad.gguf"
            shutil.copyfile(self.tools.compile(MODEL), out)
            before = out.read_bytes()
            bad.write_bytes(MODEL.read_bytes()[:50000])
            self.tools.call("g4c", bad, "-o", out, expect=1)
            self.ok(None if out.read_bytes() == before else "changed", "the old artifact")


class Artifacts(BadFiles):

    def each(self, variants, must_fail, *arguments):
        refusals = 0
        with common.scratch(self.tools) as folder:
            bad = folder / "bad.g4m"
            for what, raw in variants:
                bad.write_bytes(raw)
                refusals += self.refused([self.tools.bin / "g4run", *arguments, bad], f"{what}, {arguments}", None, must_fail)
        return refusals

    def setUp(self):
        super().setUp()
        self.whole = self.tools.compile(MODEL).read_bytes()

    def test_truncated_artifacts_are_refused(self):
        cuts = {0, 1, 7, 8, 16, 64, 4096, len(self.whole) - 1}
        cuts |= set(np.linspace(100, len(self.whole) - 4097, 16, dtype=int).tolist())
        self.each([(f"cut at {n} of {len(self.whole)}", self.whole[:n]) for n in sorted(cuts)], True, "inspect")

    def flips(self, rng, count, first, end):
        for at in rng.integers(first, end, count):
            raw = bytearray(self.whole)
            raw[at] ^= 1 << int(rng.integers(8))
            yield f"bit flipped in byte {at}", bytes(raw)

    def test_flipped_bits_in_the_prelude_are_refused(self):
        self.each(self.flips(np.random.default_rng(11), 24, 0, 64), True, "inspect")

    def test_flipped_bits_are_refused_with_verify(self):
        """Every byte that is not padding between segments counts."""
        flips = self.flips(np.random.default_rng(12), 40, 4096, len(self.whole))
        self.at_least(self.each(flips, False, "inspect", "--verify"), 36, "refused flips of 40")

    def test_another_version_says_to_recompile(self):
        raw = bytearray(self.whole)
        raw[8] ^= 0x40  # the format version follows the magic of 8 bytes
        with common.scratch(self.tools) as folder:
            (folder / "bad.g4m").write_bytes(raw)
            done = self.tools.call("g4run", "inspect", folder / "bad.g4m", expect=1)
            self.ok(None if b"g4c" in done.stderr or b"compile" in done.stderr else done.stderr.decode(), "message")

    def test_files_that_are_no_artifacts_are_refused(self):
        for path in (ROOT / "README.md", ROOT / "test", ROOT / "absent.g4m"):
            self.refused([self.tools.bin / "g4run", "inspect", path], str(path))
            self.refused([self.tools.bin / "g4run", path, "-p", "Hello"], str(path))


def header_size(path):
    """Bytes of a GGUF file before its tensor data."""
    file = common.ggufio.read(path)
    return path.stat().st_size - sum(-(-t.size // common.ggufio.ALIGNMENT) * common.ggufio.ALIGNMENT for t in file.tensors)


if __name__ == "__main__":
    common.main()
