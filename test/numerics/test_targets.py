"""g4-runner, and code for other processors than this one, under emulators: bit for bit what g4run computes here."""

import re
import shutil
import subprocess

import numpy as np

import common
import tiny
from common import EXACT, EXACT_LOGITS, FIXTURES, Case, header_only

# 7 rows: the kernels' tile of several rows, and the rest of it.
IDS = np.load(FIXTURES / "e-style/quant_reference.npz")["p7_ids"]
# Emulated processors: with NEON's dot products, with i8mm too, and with neither.
DOTPROD, I8MM, OLD = "neoverse-n1", "max", "cortex-a72"


class Emulated(Case):

    def emulator(self, program, *arguments):
        if not shutil.which(program):
            self.fail(f"{program} is missing: scripts/setup.sh installs it")
        return [program, *arguments]

    def arm(self, processor):
        """The command that runs g4-runner on an AArch64 processor."""
        runner = self.tools.build / "aarch64/bin/g4-runner"
        if not runner.exists():
            self.fail(f"{runner} is missing: scripts/setup.sh installs what its build needs; then configure and build again")
        return [*self.emulator("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", processor), runner]

    def x86(self, processor):
        return [*self.emulator("qemu-x86_64", "-cpu", processor), self.tools.bin / "g4-runner"]

    def here(self):
        return [self.tools.bin / "g4-runner"]

    def run_on(self, machine, artifact, *arguments, expect=0):
        done = subprocess.run([*map(str, machine), str(artifact), "--threads", "1", *map(str, arguments)],
                              capture_output=True, timeout=300)
        said = done.stderr.decode(errors="replace").strip()
        self.assertEqual(done.returncode, expect, f"{' '.join(map(str, machine))}: {said}")
        return done.stdout, said

    def logits_on(self, machine, artifact, *arguments):
        """Logits of every row of IDS, and the level of the code that ran."""
        with common.scratch(self.tools) as folder:
            _, said = self.run_on(machine, artifact, "--ids", common.join(IDS), "--logits", folder / "logits.npy", "--stats", *arguments)
            return np.load(folder / "logits.npy"), re.search(r"^code +([^,]+),", said, re.M)[1]

    def same_on(self, machine, artifact, want, level, what, *arguments):
        got, ran = self.logits_on(machine, artifact, *arguments)
        common.say(f"{what}: ran {ran}")
        self.equal(ran, level, f"{what}: level of the code")
        self.ok(common.bits_differ(got, want), f"{what}, {ran}")

    def artifact(self, folder, gguf, *flags):
        """Not the shared cache: no other test has use for foreign code."""
        self.tools.call("g4c", gguf, "-o", folder / "model.g4m", *flags)
        return folder / "model.g4m"


class Runner(Emulated):

    def test_gives_what_g4run_gives(self):
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q4_0.gguf")
        want = self.tools.logits(artifact, IDS)
        for arguments in ((), ("--chunk", "3")):
            got, _ = self.logits_on(self.here(), artifact, *arguments)
            self.ok(common.bits_differ(got, want), f"logits {arguments}")
        out, _ = self.run_on(self.here(), artifact, "--ids", common.join(IDS), "-n", 8)
        self.equal(common.printed_ids(out), self.tools.generate(artifact, IDS, 8), "greedy text")

    def test_refuses_what_it_cannot_run(self):
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q4_0.gguf")
        for arguments, code, words in (
            (("--ids", "2,99999"), 1, "token 99999 is not in a vocabulary of 1024"),
            (("--ids", "2", "--variant", "mips"), 1, "no code variant 'mips'"),
            (("--ids", "2", "--weights", "seed:1"), 1, "weights"),
            (("--ids", "two"), 2, "--ids: 'two' is not a token id"),
            (("--ids", "2", "--weights", "1"), 2, "--weights: '1' is not seed:N"),
            ((), 2, "--ids or --bench is required"),
        ):
            _, said = self.run_on(self.here(), artifact, *arguments, expect=code)
            self.equal(len(said.splitlines()), 1, f"{arguments}: one line")
            self.assertIn(words, said)

    def test_measures(self):
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q4_0.gguf")
        out, _ = self.run_on(self.here(), artifact, "--bench", "--ids", common.join(IDS))
        rates = re.findall(r"^(prompt|generation) +([\d.]+) tokens/s", out.decode(), re.M)
        self.equal([name for name, rate in rates if float(rate) > 0], ["prompt", "generation"], "measured")


class X86(Emulated):

    def test_any_processor_with_avx2(self):
        """No instruction beyond the level's: the emulated processor has none. What it lacks is refused by name."""
        with common.scratch(self.tools) as folder:
            artifact = self.artifact(folder, FIXTURES / "e-style/e-style-Q4_0.gguf", "--cpu=x86-64-v3")
            self.same_on(self.x86("Haswell-noTSX"), artifact, self.tools.logits(artifact, IDS), "x86-64-v3", "Haswell")
            _, said = self.run_on(self.x86("Nehalem"), artifact, "--ids", 2, expect=1)
        self.assertRegex(said, r"g4-runner: .*: no code variant runs on this machine: 'x86-64-v3' needs avx2 [^;]*; this machine is x86-64 with popcnt$")
        self.compared += 1


class Aarch64(Emulated):

    def test_both_levels_and_both_architectures_in_one_artifact(self):
        artifact = self.tools.compile(FIXTURES / "e-style/e-style-Q4_0.gguf", "--cpu=aarch64")
        want = self.tools.logits(artifact, IDS)
        text = self.tools.generate(artifact, IDS, 8)
        for processor, level, choice in ((DOTPROD, "armv8.2-dotprod", ()), (I8MM, "armv8.6-i8mm", ("--variant", "armv8.6-i8mm"))):
            self.same_on(self.arm(processor), artifact, want, level, f"e-style-Q4_0 on {processor}", *choice)
            out, _ = self.run_on(self.arm(processor), artifact, "--ids", common.join(IDS), "-n", 8, *choice)
            self.equal(common.printed_ids(out), text, f"greedy text on {processor}")
        _, said = self.run_on(self.arm(OLD), artifact, "--ids", 2, expect=1)
        self.assertRegex(said, r"'armv8.2-dotprod' needs neon dotprod; .*; this machine is AArch64 with neon$")

    def test_dense_and_moe(self):
        for gguf in ("dense-keqv/dense-keqv-Q8_0.gguf", "moe/moe-Q4_K_M.gguf"):
            with self.subTest(file=gguf), common.scratch(self.tools) as folder:
                want = self.tools.logits(self.tools.compile(FIXTURES / gguf), IDS)
                artifact = self.artifact(folder, FIXTURES / gguf, "--cpu=armv8.2-dotprod")
                self.same_on(self.arm(DOTPROD), artifact, want, "armv8.2-dotprod", gguf)

    def test_exact_activations(self):
        gguf = FIXTURES / "dense-keqv/dense-keqv-F32.gguf"
        reference = np.load(FIXTURES / "dense-keqv/reference.npz")
        self.equal(list(reference["p7_ids"]), list(IDS), "the prompt")
        with common.scratch(self.tools) as folder:
            artifact = self.artifact(folder, gguf, "--cpu=armv8.2-dotprod", *EXACT)
            got, _ = self.logits_on(self.arm(DOTPROD), artifact)
        self.ok(common.differs(got, reference["p7_logits"], EXACT_LOGITS), "the reference")
        self.ok(common.bits_differ(got, self.tools.logits(self.tools.compile(gguf, *EXACT), IDS)), "this machine")

    def test_every_weight_type(self):
        """One model with all of them, of made-up weights, which are the same on every machine."""
        shape = tiny.dense(hidden=256, heads=8, head_dims=(32, 32), kv_heads=(8, 8), ff=256)
        file = header_only.model("every type", shape, "f32", tiny.VOCABULARY)
        kinds = sorted(common.ggufio.TYPES)
        matrices = [t for t in file.tensors if t.name.startswith("blk.") and len(t.shape) == 2]
        self.at_least(len(matrices), len(kinds), "matrices")
        for tensor, kind in zip(matrices, kinds):
            tensor.kind = kind
        with common.scratch(self.tools) as folder:
            file.write(folder / "model.gguf")
            artifact = self.artifact(folder, folder / "model.gguf", "--weights=none", "--cpu=host,armv8.2-dotprod")
            packed = {w["layout"] for w in self.tools.inspect(artifact)["weights"]}
            self.equal(set(kinds) - packed, set(), "types not in the artifact")
            want = self.tools.logits(artifact, IDS, "--weights=seed:1")
            self.same_on(self.arm(DOTPROD), artifact, want, "armv8.2-dotprod", f"{len(kinds)} types", "--weights=seed:1")


if __name__ == "__main__":
    common.main()
