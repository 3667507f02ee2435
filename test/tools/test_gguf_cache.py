"""g4run with a GGUF file: compiled once, kept, found again, made anew when damaged, dropped when old."""

import ctypes
import os
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from programs import NANO, ROOT, Case, main, scratch

SMALL = ROOT / "test/data/text/models/e-style/e-style-Q8_0.gguf"


def unprivileged():
    """For a child process: root, too, may write only what permissions say. (CAP_DAC_OVERRIDE leaves the bounding set.)"""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) != 0:
        raise OSError("CAP_DAC_OVERRIDE cannot be dropped")


def unignored():
    """For a child process: signals end it, even if the tests run where they are ignored, as in a background job."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class GgufCache(Case):
    def start(self, folder, *args, cache="cache", path=None, before=unignored):
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / cache)}
        if path is not None:
            environment["PATH"] = path
        return subprocess.Popen([self.tools.bin / "g4run", *map(str, args)], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=before)

    def finish(self, process, expect=0):
        out, err = process.communicate(timeout=300)
        self.equal(process.returncode, expect, err.decode())
        return out.decode(), err.decode()

    def call(self, folder, *args, expect=0, **options):
        return self.finish(self.start(folder, *args, **options), expect)

    @staticmethod
    def artifacts(folder):
        return sorted((folder / "cache/g4").glob("*.g4m"))

    IDS = ("--ids", "2,5,7", "-n", "3", "--temp", "0", "--print-ids")

    def test_a_life(self):
        with scratch(self.tools) as folder:
            model = folder / "model.gguf"
            shutil.copy(SMALL, model)
            # Two at once: one compiles, the other waits for it.
            both = [self.start(folder, model, *self.IDS) for _ in range(2)]
            results = [self.finish(p) for p in both]
            self.equal(results[0][0], results[1][0], "answers")
            self.equal(sum("compiling" in err for _, err in results), 1, f"compilations: {results}")
            first, = self.artifacts(folder)
            made = first.stat().st_ino

            answer, said = self.call(folder, model, *self.IDS)
            self.equal((said, answer), ("", results[0][0]), "found again")
            self.equal(self.artifacts(folder)[0].stat().st_ino, made, "the same file")
            listing, _ = self.call(folder, "cache", "list")
            self.equal(first.name in listing and "in 1 artifact in " in listing, True, listing)

            # Other options and another state of the file are other artifacts.
            _, said = self.call(folder, "inspect", model, "--compile-options=--activations=f32 --kv=f32")
            self.equal("compiling" in said, True, said)
            os.utime(model, ns=(1, 1))
            self.call(folder, "inspect", model)
            self.equal(len(self.artifacts(folder)), 3, "artifacts")

            # What does not load is made anew.
            newest = max(self.artifacts(folder), key=lambda p: p.stat().st_mtime_ns)
            with open(newest, "r+b") as file:
                file.truncate(5000)
            answer, said = self.call(folder, model, *self.IDS)
            self.equal(("compiling" in said, answer), (True, results[0][0]), "after damage")

            # Over the limit those go that were used least recently.
            for i, path in enumerate(sorted(self.artifacts(folder), key=lambda p: p == newest)):
                os.utime(path, (1000 + i, 1000 + i))
            size = newest.stat().st_size
            self.call(folder, "inspect", model, "--compile-options=--max-rows=64", f"--cache-limit={2 * size + size // 2}")
            left = self.artifacts(folder)
            self.equal((len(left), newest in left), (2, True), f"left: {left}")
            self.call(folder, "cache", "clear")
            self.equal(list((folder / "cache/g4").iterdir()), [], "after clear")

    def test_failures_leave_nothing(self):
        with scratch(self.tools) as folder:
            bad = folder / "bad.gguf"
            bad.write_bytes(SMALL.read_bytes()[:3000])
            _, said = self.call(folder, bad, *self.IDS, expect=1)
            self.equal((said.count("\n"), "truncated or damaged" in said), (1, True), said)
            self.equal(list((folder / "cache/g4").iterdir()), [], "files")
            self.call(folder, SMALL, *self.IDS, "--compile-options=--no-such-option", expect=2)
            self.equal(list((folder / "cache/g4").iterdir()), [], "files")
            (folder / "cache/g4/killed-0123456789abcdef.lock").write_bytes(b"")
            foreign = folder / "cache/g4/bar.g4m"
            foreign.write_bytes(b"")
            (folder / "cache/g4/empty-0123456789abcdef.g4m").write_bytes(b"")
            listing, _ = self.call(folder, "cache", "list")
            self.equal(("bar" in listing, "in 1 artifact in" in listing), (False, True), listing)
            self.equal(self.call(folder, "cache", "clear"), ("removed 1 artifact, 0 B\n", ""), "of ours")
            foreign.unlink()
            self.equal(list((folder / "cache/g4").iterdir()), [], "what a killed process left")
            self.call(folder, "cache", "list", cache="none")
            out, said = self.call(folder, self.tools.compile(SMALL), "--compile-options=--kv=f32", *self.IDS, expect=1)
            self.equal("is for GGUF files" in said, True, said)
            (folder / "a b").mkdir()
            (folder / "a b/rules").write_text("attn_q q8_0\n")
            self.call(folder, "inspect", SMALL, f"--compile-options=--quantize-rules='{folder}/a b/rules'")
            _, said = self.call(folder, "inspect", SMALL, "--compile-options=--kv='f32", expect=2)
            self.equal("does not end" in said, True, said)
            self.call(folder, "cache", "clear")
            # Of two models it is for the one that is compiled.
            (folder / "text").write_text("some words " * 200)
            for model, other in ((SMALL, self.tools.compile(SMALL)), (self.tools.compile(SMALL), SMALL)):
                self.call(folder, "kl", model, "--reference", other, folder / "text", "-c", "64", "--compile-options=--kv=f32")
            self.equal(len(self.artifacts(folder)), 1, "compiled once")
            _, said = self.call(folder, SMALL, *self.IDS, "--cache-limit=many", expect=2)
            self.equal("no size" in said, True, said)

    def test_a_signal_ends_the_compilation_and_leaves_nothing(self):
        nano = NANO / "gemma4-nano-BF16.gguf"
        with scratch(self.tools) as folder:
            for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)):
                process = self.start(folder, nano, *self.IDS)
                said = process.stderr.readline()
                self.equal(b"compiling" in said, True, said)
                process.send_signal(number)  # to it alone: Ctrl-C on a terminal would reach g4c too
                self.finish(process, expect=code)
                self.equal(list((folder / "cache/g4").iterdir()), [], f"files after {number.name}")

    def test_a_file_without_a_suffix_and_a_cache_that_can_only_be_read(self):
        with scratch(self.tools) as folder:
            blob, cache = folder / "sha256-0123456789abcdef", folder / "cache/g4"
            blob.symlink_to(SMALL)
            answer, _ = self.call(folder, blob, *self.IDS)
            artifact, = self.artifacts(folder)
            self.equal(artifact.name.startswith(blob.name + "-"), True, artifact)
            try:
                cache.chmod(0o555)
                self.equal(self.call(folder, blob, *self.IDS, before=unprivileged), (answer, ""), "with its lock file")
                cache.chmod(0o755)
                next(cache.glob("*.lock")).unlink()
                cache.chmod(0o555)
                self.equal(self.call(folder, blob, *self.IDS, before=unprivileged), (answer, ""), "without")
                _, said = self.call(folder, "inspect", blob, "--compile-options=--kv=f32", before=unprivileged, expect=1)
                self.equal((said.count("\n"), "cannot write" in said, "Permission denied" in said), (1, True, True), said)
                out, said = self.call(folder, "cache", "clear", before=unprivileged, expect=1)
                self.equal(("removed 0 artifacts" in out, "cannot remove" in said or "cannot write" in said), (True, True), said)
            finally:
                cache.chmod(0o755)
            # No output replaces what compiling reads or made: the other parts of a split model, the artifact.
            part, other = folder / "m-00001-of-00002.gguf", folder / "m-00002-of-00002.gguf"
            shutil.copy(SMALL, part)
            shutil.copy(SMALL, other)
            for model, output in ((part, part), (part, other), (blob, blob), (blob, SMALL), (blob, artifact)):
                before = output.read_bytes()
                for args in ((model, *self.IDS, "--logits", output), ("bench", model, "--json", output),
                             ("bench", model, "--profile", output)):
                    _, said = self.call(folder, *args, expect=1)
                    self.equal((said.count("\n"), "is the input" in said), (1, True), f"{args}: {said}")
                self.equal(output.read_bytes() == before, True, f"{output} is untouched")
            self.equal(self.artifacts(folder), [artifact], "nothing was compiled")

    def test_without_a_compiler(self):
        with scratch(self.tools) as folder:
            alone = folder / "g4run"
            shutil.copy(self.tools.bin / "g4run", alone)
            done = subprocess.run([alone, SMALL, *self.IDS], capture_output=True, env={"HOME": str(folder), "PATH": "/nowhere"})
            self.equal(done.returncode, 1, done.stderr)
            self.equal(done.stderr.count(b"\n") == 1 and b"needs g4c" in done.stderr, True, done.stderr)
            # In PATH it is found.
            done = subprocess.run([alone, "inspect", SMALL], capture_output=True,
                                  env={"HOME": str(folder), "PATH": f"/nowhere:{self.tools.bin}"})
            self.equal((done.returncode, (folder / ".cache/g4").is_dir()), (0, True), done.stderr)


if __name__ == "__main__":
    main()
