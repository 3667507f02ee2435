"""g4c --quantize: what it writes, that it runs as what it writes, and what becomes of the model's quality."""

import json
import re
import resource
import signal
import subprocess
import time

import numpy as np

import common
import oracle
from common import EXACT, EXACT_LOGITS, FIXTURES, NANO, Case, ggufio, say

BF16 = NANO / "gemma4-nano-BF16.gguf"

# Relative error (RMS) that llama.cpp's quantisers make on all matrices of BF16; bench/compare_quantisers.py prints it.
LLAMA_CPP = {
    "mxfp4": 0.1152, "q4_0": 0.0861, "iq4_nl": 0.0762, "q4_k": 0.0714, "q4_1": 0.0783, "q5_0": 0.0428, "q5_k": 0.0362,
    "q5_1": 0.0379, "q6_k": 0.0177, "q8_0": 0.0054,
}
# llama.cpp's numbers for general.file_type.
FILE_TYPES = {"q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q4_k": 15, "q5_k": 17, "q6_k": 18, "iq4_nl": 25, "mxfp4": 38}


class Quantise(Case):

    def gguf(self, source, folder, *flags, name="out.gguf"):
        """The file that g4c --emit=gguf writes."""
        self.tools.call("g4c", source, *flags, "--emit=gguf", "-o", folder / name)
        return ggufio.read(folder / name)

    def rules(self, folder, text):
        path = folder / "rules.txt"
        path.write_text(text)
        return f"--quantize-rules={path}"

    def artifact(self, source, folder, *flags, name="out.g4m"):
        self.tools.call("g4c", source, "--cpu=host", "-o", folder / name, *flags)
        return folder / name

    def same_tensors(self, got, want, what, but=()):
        self.equal([t.name for t in got.tensors], [t.name for t in want.tensors], f"{what}: names and order")
        for a, b in zip(got.tensors, want.tensors):
            if b.name not in but:
                self.equal((a.kind, a.shape, bytes(a.data) == bytes(b.data)), (b.kind, b.shape, True), f"{what}: {b.name}")


class Files(Quantise):

    def test_an_untouched_model_is_written_as_it_was(self):
        for path in (BF16, FIXTURES / "e-style/e-style-Q4_K_M.gguf", FIXTURES / "moe/moe-split-F16.gguf"):
            with self.subTest(file=path.name), common.scratch(self.tools) as folder:
                got, want = self.gguf(path, folder), ggufio.read(path)
                self.same_tensors(got, want, path.name)
                self.equal(got.keys, want.keys, "metadata")
                self.equal((folder / "out.gguf").read_bytes() == path.read_bytes(), True, "the whole file")

    def test_every_type(self):
        """All matrices to one type: kinds, errors and keys of what comes out; vectors stay."""
        want = ggufio.read(BF16)
        exact = {t.name: oracle.values(t) for t in want.tensors if t.kind == "bf16"}
        for kind, bound in LLAMA_CPP.items():
            block = ggufio.TYPES[kind][1]
            with self.subTest(type=kind), common.scratch(self.tools) as folder:
                rules = self.rules(folder, f"proj\\.weight$ keep\n. {kind}\n")
                got = self.gguf(BF16, folder, rules)
                changed = [n for n, x in exact.items() if not re.search(r"proj\.weight$", n)]
                self.same_tensors(got, want, kind, but=changed)
                error = size = 0
                for name in changed:
                    tensor = got.tensor(name)
                    self.equal((tensor.kind, exact[name].shape[1] % block), (kind, 0), name)
                    error += np.sum((oracle.values(tensor) - exact[name])**2)
                    size += np.sum(exact[name]**2)
                say(f"{kind}: relative error {np.sqrt(error / size):.5f}, llama.cpp's {bound}")
                self.at_most(np.sqrt(error / size), bound, f"relative error of {kind}")
                self.equal(ggufio.decode(got.keys["general.file_type"]), FILE_TYPES[kind], "general.file_type")
                self.equal(ggufio.decode(got.keys["general.quantization_version"]), 2, "general.quantization_version")
                self.equal({k: v for k, v in got.keys.items() if k != "general.file_type"},
                           {k: v for k, v in want.keys.items() if k != "general.file_type"}, "the other keys")

    def test_defaults(self):
        with common.scratch(self.tools) as folder:
            kinds = {t.name: t.kind for t in self.gguf(BF16, folder, "--quantize=Q4_K").tensors}
            for name, kind in {
                    "token_embd.weight": "q6_k", "per_layer_token_embd.weight": "q6_k", "per_layer_model_proj.weight": "bf16",
                    "blk.0.attn_q.weight": "q4_k", "blk.0.attn_v.weight": "q6_k", "blk.1.attn_v.weight": "q4_k",
                    "blk.0.ffn_down.weight": "q6_k", "blk.1.ffn_down.weight": "q4_k", "blk.0.inp_gate.weight": "q8_0",
                    "blk.0.proj.weight": "q8_0", "blk.0.attn_norm.weight": "f32", "output_norm.weight": "f32"
            }.items():
                self.equal(kinds[name], kind, name)
            # Experts, whose rows of 32 are no super-block; the router stays.
            kinds = {t.name: t.kind for t in self.gguf(FIXTURES / "moe/moe-split-F16.gguf", folder, "--quantize=q4_k").tensors}
            self.equal(kinds["blk.0.ffn_gate_inp.weight"], "f32", "router")
            experts = {kind for name, kind in kinds.items() if "_exps" in name and name.endswith("weight")}
            self.at_least(len(experts - {"f16", "f32"}), 1, f"quantised experts: {experts}")

    def test_from_another_quantisation(self):
        """Requantised from blocks; and a type that can hold them does."""
        source = FIXTURES / "e-style/e-style-Q4_0.gguf"
        four = {t.name: t for t in ggufio.read(source).tensors if t.kind == "q4_0"}
        self.at_least(len(four), 20, "q4_0 tensors")
        with common.scratch(self.tools) as folder:
            for kind, bound in (("q8_0", 0), ("q5_0", 0), ("bf16", 0.0025), ("q4_k", 0.08)):
                got = self.gguf(source, folder, self.rules(folder, f". {kind}"))
                for name, tensor in four.items():
                    exact, values = oracle.values(tensor), oracle.values(got.tensor(name))
                    self.at_most(np.sqrt(np.sum((values - exact)**2) / np.sum(exact**2)), bound, f"{name} as {kind}")


class Artifacts(Quantise):

    def test_an_artifact_computes_what_the_gguf_file_holds(self):
        """Both ways to the same weights, to the last bit of the logits; the evaluator, which quantises too, agrees."""
        for source, kind in ((BF16, "q4_k"), (FIXTURES / "moe/moe-F32.gguf", "q4_0")):
            with self.subTest(file=source.name, type=kind), common.scratch(self.tools) as folder:
                ids = np.arange(2, 42) * 7 % 1000
                flags = (f"--quantize={kind}", *EXACT)
                direct = self.tools.logits(self.artifact(source, folder, *flags), ids)
                self.gguf(source, folder, f"--quantize={kind}")
                through = self.tools.logits(self.artifact(folder / "out.gguf", folder, *EXACT, name="file.g4m"), ids)
                self.ok(common.bits_differ(direct, through), "through a file")
                self.tools.call("g4-opt", source, f"--gemma-pipeline=quantize={kind} activations=f32 kv=f32", "--evaluate",
                                f"--ids={common.join(ids)}", f"--out={folder}")
                self.ok(common.differs(direct, np.load(folder / "logits.npy"), EXACT_LOGITS), "evaluator")
                plain = self.tools.logits(self.tools.compile(source, *EXACT), ids)
                self.at_least(float(np.abs(plain - direct).max()), EXACT_LOGITS, "the weights did change")

    def test_builds_are_reproducible_and_go_on_from_a_stage(self):
        source = FIXTURES / "unified/unified-F32.gguf"
        with common.scratch(self.tools) as folder:
            matrix = folder / "imatrix.gguf"
            write_imatrix(matrix, ggufio.read(source), np.random.default_rng(1))
            flags = ("--quantize=q4_k", f"--imatrix={matrix}", "--max-rows=32")
            one = self.artifact(source, folder, *flags, name="one.g4m").read_bytes()
            self.equal(self.artifact(source, folder, *flags, name="two.g4m").read_bytes() == one, True, "two builds")
            self.tools.call("g4c", source, *flags, "--emit=exec", "-o", folder / "stage.mlir")
            resumed = self.artifact(folder / "stage.mlir", folder, "--max-rows=32", name="resumed.g4m").read_bytes()
            self.equal(resumed == one, True, "from a printed stage")
            files = [self.gguf(source, folder, *flags[:2], name=name) and (folder / name).read_bytes() for name in ("one.gguf", "two.gguf")]
            self.equal(files[0] == files[1], True, "two files")
            self.gguf(folder / "stage.mlir", folder, name="stage.gguf")
            self.equal((folder / "stage.gguf").read_bytes() == files[0], True, "a file from a printed stage")
            self.gguf(source, folder, flags[0], name="plain.gguf")
            self.equal((folder / "plain.gguf").read_bytes() == files[0], False, "the importance matrix makes a difference")


def write_imatrix(path, model, rng, experts=1):
    """An importance matrix as llama.cpp writes it, with made-up sums. Returns {name: importance [experts, columns]}."""
    file, importance = ggufio.File(), {}
    file["general.type"] = "imatrix"
    for t in model.tensors:
        if not t.name.startswith("blk.") or not t.name.endswith(".weight") or len(t.shape) < 2:
            continue
        matrices = t.shape[0] if len(t.shape) == 3 else 1
        sums = rng.lognormal(0, 1.5, (matrices, t.shape[-1])).astype(np.float32)
        importance[t.name] = sums
        file.add(f"{t.name}.in_sum2", sums.shape, "f32", sums * 100)
        file.add(f"{t.name}.counts", (matrices, 1), "f32", np.full((matrices, 1), 100, np.float32))
    file.write(path)
    return importance


class Importance(Quantise):

    def test_it_lowers_the_error_that_it_weighs(self):
        """Column by column, and for each expert by its own."""
        for source, pattern in ((BF16, "ffn_down"), (FIXTURES / "moe/moe-F32.gguf", "ffn_gate_up_exps|ffn_gate_exps")):
            with self.subTest(file=source.name), common.scratch(self.tools) as folder:
                model = ggufio.read(source)
                importance = write_imatrix(folder / "imatrix.gguf", model, np.random.default_rng(2))
                rules = self.rules(folder, f"({pattern})\\.weight q4_0\n")
                plain = self.gguf(source, folder, rules, name="plain.gguf")
                weighed = self.gguf(source, folder, rules, f"--imatrix={folder / 'imatrix.gguf'}")
                self.equal(ggufio.decode(weighed.keys["quantize.imatrix.file"]), "imatrix.gguf", "key")
                self.equal("quantize.imatrix.file" in plain.keys, False, "no key without it")
                for t in model.tensors:
                    if not re.search(f"({pattern})\\.weight", t.name):
                        continue
                    exact, weight = oracle.values(t), importance[t.name]
                    weight = weight[:, None, :] if exact.ndim == 3 else weight
                    errors = [np.sum(weight * (oracle.values(f.tensor(t.name)) - exact)**2) for f in (plain, weighed)]
                    self.at_most(errors[1] / errors[0], 0.85, t.name)

    def test_it_must_fit(self):
        with common.scratch(self.tools) as folder:
            write_imatrix(folder / "other.gguf", ggufio.read(FIXTURES / "moe/moe-F32.gguf"), np.random.default_rng(3))
            for matrix, said in ((folder / "other.gguf", b"is of another model: it has "), (BF16, b"not an importance matrix"),
                                 (folder / "absent.gguf", b"absent.gguf")):
                done = self.tools.call("g4c", BF16, "--quantize=q4_k", f"--imatrix={matrix}", "-o", folder / "x.g4m", expect=1)
                self.equal((done.stderr.count(b"\n"), said in done.stderr), (1, True), f"{matrix.name}: {done.stderr}")
            self.equal((folder / "x.g4m").exists(), False, "output")


class Refusals(Quantise):

    def test_a_value_that_is_none_is_named(self):
        with common.scratch(self.tools) as folder:
            model = ggufio.read(FIXTURES / "unified/unified-F32.gguf")
            tensor = model.tensor("blk.1.ffn_up.weight")
            data = np.array(np.frombuffer(bytes(tensor.data), np.float32))
            data[5 * tensor.shape[1] + 3] = np.nan
            tensor.data = data
            model.write(folder / "nan.gguf")
            for flags in (("-o", folder / "out.g4m", "--cpu=host"), ("--emit=gguf", "-o", folder / "out.gguf")):
                done = self.tools.call("g4c", folder / "nan.gguf", "--quantize=q4_0", *flags, expect=1)
                self.equal((done.stderr.count(b"\n"), b"row 5 of tensor 'blk.1.ffn_up.weight'" in done.stderr), (1, True), done.stderr)
            self.equal([p.name for p in folder.iterdir()], ["nan.gguf"], "files")

    def test_a_full_disk_or_a_kill_leaves_nothing(self):
        with common.scratch(self.tools) as folder:
            command = [self.tools.bin / "g4c", BF16, "--quantize=q4_k", "--emit=gguf", "-o", folder / "out.gguf"]
            begin = time.monotonic()
            subprocess.run(command, check=True, capture_output=True)
            whole, size = time.monotonic() - begin, (folder / "out.gguf").stat().st_size
            want = (folder / "out.gguf").read_bytes()
            (folder / "out.gguf").unlink()
            for limit in (0, 4096, size // 2, size - 1):

                def full(limit=limit):
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

                done = subprocess.run(command, capture_output=True, preexec_fn=full, check=False)
                self.equal((done.returncode, done.stderr.count(b"\n")), (1, 1), f"disk full after {limit}: {done.stderr}")
                self.equal(list(folder.iterdir()), [], "files")
            for share in (0.3, 0.6, 0.9):
                child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(share * whole)
                child.kill()
                child.wait()
                # It may have been done already; then the file must be whole.
                left = [p.read_bytes() == want for p in folder.iterdir()]
                self.at_most(len(left), 1, "files")
                self.equal(all(left), True, "a whole file")
                (folder / "out.gguf").unlink(missing_ok=True)


class Quality(Quantise):
    """How far next-token distributions move from those of the unquantised model: no further than in llama.cpp's files."""

    def test_stored_models(self):
        """Each of llama.cpp's files, and g4c's with the same types: weights and, within what chance does, divergence."""
        totals = np.zeros(2)
        for model in ("e-style", "dense-keqv"):
            source, reference = FIXTURES / model / f"{model}-F32.gguf", np.load(FIXTURES / model / "reference.npz")
            exact = {t.name: oracle.values(t) for t in ggufio.read(source).tensors}
            quality = oracle.Quality(source, [reference["p40_ids"], reference["p100_ids"]], known=False)
            for kind, path in common.quantised_files(model):
                stored = [t for t in ggufio.read(path).tensors if t.kind not in ("f32", "f16")]
                if not stored:
                    continue
                with self.subTest(file=path.name), common.scratch(self.tools) as folder:
                    rules = "".join(f"^{t.name.replace('.', '[.]')}$ {t.kind}\n" for t in stored)
                    made = self.gguf(source, folder, self.rules(folder, rules))
                    files = [{t.name: oracle.values(f(t)) for t in stored} for f in (lambda t: made.tensor(t.name), lambda t: t)]
                errors = [np.sqrt(sum(np.sum((values[n] - exact[n])**2) for n in values)) for values in files]
                (got, _), (theirs, _) = map(quality.measure, files)
                apart = got - theirs
                say(f"{path.name}: error {errors[0] / errors[1]:.3f} times llama.cpp's, KL {got.mean():.5f}, llama.cpp's {theirs.mean():.5f}")
                self.at_most(errors[0], errors[1], f"{path.name}: error of the weights")
                self.at_most(apart.mean(), 2 * apart.std() / np.sqrt(len(apart)), f"{path.name}: divergence beyond llama.cpp's")
                totals += got.mean(), theirs.mean()
        self.at_most(totals[0], totals[1], "divergence of all files together")

    def divergence(self, artifact):
        with common.scratch(self.tools) as folder:
            text = folder / "text.txt"  # a part is enough to tell
            text.write_bytes((NANO / "heldout.txt").read_bytes()[:16000])
            done = self.tools.run("kl", artifact, "--reference", self.tools.compile(BF16, *EXACT), text, "-c", "256", "--json")
        return json.loads(done.stdout)

    def test_divergence(self):
        for kind, theirs in (("q8_0", "Q8_0"), ("q4_k", "Q4_K_M")):
            files = [self.tools.compile(BF16, f"--quantize={kind}", *EXACT), self.tools.compile(NANO / f"gemma4-nano-{theirs}.gguf", *EXACT)]
            got, want = map(self.divergence, files)
            sizes = [path.stat().st_size for path in files]
            say(f"{kind}: KL {got['kl']['value']:.6f}, perplexity {got['perplexity']['value']:.4f}; llama.cpp's {theirs}: "
                f"{want['kl']['value']:.6f}, {want['perplexity']['value']:.4f}; {sizes[0] / sizes[1]:.3f} of the size")
            self.at_least(got["kl"]["value"], 1e-6, "a divergence")
            self.at_most(got["kl"]["value"], want["kl"]["value"], kind)
            self.at_most(sizes[0], sizes[1], "size")


if __name__ == "__main__":
    common.main()
