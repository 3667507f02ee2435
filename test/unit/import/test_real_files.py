"""Files as their makers write them: keys, spellings, type mixes and layouts of published Gemma 4 GGUF files.

The models are their shapes only, with a small vocabulary. Each case is compiled to an artifact (`g4c --weights=none`), all five
sizes among them, within a minute each; g4c may say what is expected and nothing else.
"""

import struct
import sys
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "numerics"))
import common  # noqa: E402
import tiny  # noqa: E402
from common import NANO, Case, ggufio, header_only, say  # noqa: E402

SHAPES = header_only.SHAPES


def published(kind, quant="q4_0"):
    return header_only.model(kind, SHAPES[kind], quant, tiny.VOCABULARY)


def matrices(file):
    return [t for t in file.tensors if len(t.shape) > 1]


def counts(file):
    kinds = [t.kind for t in file.tensors]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def give(file, tensors, **numbers):
    """Gives the first tensors the types that `numbers` counts, where their rows are whole blocks."""
    for kind, count in numbers.items():
        taken = [t for t in tensors if t.shape[-1] % ggufio.TYPES[kind][1] == 0][:count]
        tensors = [t for t in tensors if t not in taken]
        for t in taken:
            t.kind = kind


def unused_kv(file, s):
    """The K/V tensors of sharing layers that files of older checkpoints have."""
    for i in range(s.layers):
        if not s.own_kv(i):
            for x in "kv":
                file.add(f"blk.{i}.attn_{x}.weight", (s.kv_width(i), s.hidden), "q4_0")
            file.add(f"blk.{i}.attn_k_norm.weight", (s.head_dim(i),))


def usual_keys(file, **sampling):
    """What converters write beside the model's own keys."""
    file["general.type"] = "model"
    file["general.size_label"] = "7.5B"
    file["general.tags"] = ["any-to-any"]
    file["general.file_type"] = 15
    file["general.quantization_version"] = 2
    file.keys["general.sampling.top_k"] = struct.pack("<Ii", ggufio.I32, 64)
    file["general.sampling.top_p"] = 0.95
    file["general.sampling.temp"] = 1.0
    file["quantize.imatrix.file"] = "imatrix.gguf"
    file["quantize.imatrix.entries_count"] = 275
    for key, value in sampling.items():
        file["general.sampling." + key] = value


class RealFiles(Case):

    def compiles(self, file, what, *says, expect=0):
        """g4c makes an artifact of the file within a minute and says one line with each of `says`, no other."""
        with common.scratch(self.tools) as folder:
            file.write(folder / "model.gguf")
            start = time.monotonic()
            done = self.tools.call("g4c", folder / "model.gguf", "--weights=none", "--cpu=x86-64-v3", "-o", folder / "out.g4m", expect=expect)
            seconds = time.monotonic() - start
            self.equal((folder / "out.g4m").exists(), expect == 0, f"{what}: output written")
        say(f"{what}: {seconds:.1f} s")
        self.at_most(seconds, 60, f"{what}: seconds to compile")
        lines = done.stderr.decode().splitlines()
        self.equal(len(lines), len(says), f"{what}: lines said: {lines}")
        for line, part in zip(lines, says):
            self.ok(None if part in line else line, f"{what}: says {part!r}")
        return lines

    def evaluate(self, path, ids):
        with common.scratch(self.tools) as folder:
            self.tools.call("g4-opt", path, "--evaluate", f"--ids={common.join(ids)}", f"--out={folder}")
            return np.load(folder / "logits.npy")


class Published(RealFiles):

    def test_e2b_with_an_importance_matrix(self):
        """E2B Q4_K_M: 601 tensors of five types; bf16 per-layer projection, K/V of the sharing layers stored and unused."""
        s, file = SHAPES["e2b"], published("e2b", "q4_k_m")
        unused_kv(file, s)
        usual_keys(file)
        rest = [t for t in matrices(file) if t.kind != "bf16"]
        give(file, rest[::-1], q6_k=53, q5_k=70, q4_k=194)
        self.equal(counts(file), {"bf16": 1, "f32": 283, "q4_k": 194, "q5_k": 70, "q6_k": 53}, "types")
        self.at_least(len(file.keys), 44, "keys")
        self.compiles(file, "E2B Q4_K_M")

    def test_moe_with_fallbacks(self):
        """26B-A4B Q4_K_M: rows of 704 are no multiple of 256, so the experts' down projections are of other types."""
        file = published("26b-a4b", "q4_k_m")
        usual_keys(file)
        down = [t for t in matrices(file) if t.shape[-1] % 256]
        give(file, down, q5_0=32, q8_0=28)
        give(file, [t for t in matrices(file) if t not in down and t.kind != "f32"], q6_k=14, q4_k=192)
        self.equal(counts(file), {"f32": 392, "q4_k": 192, "q5_0": 32, "q6_k": 14, "q8_0": 28}, "types")
        self.equal(len(file.tensors), 658, "tensors")
        self.compiles(file, "26B-A4B Q4_K_M")

    def test_moe_in_nvfp4(self):
        """26B-A4B NVFP4: split experts, and a scale and an input scale beside each nvfp4 tensor."""
        s, file = SHAPES["26b-a4b"], published("26b-a4b", "q8_0")
        for i in range(s.layers):
            tiny.take(file, f"blk.{i}.ffn_gate_up_exps.weight")
            for half in ("gate", "up"):
                file.add(f"blk.{i}.ffn_{half}_exps.weight", (s.experts, s.expert_ff, s.hidden), "nvfp4")
                file.add(f"blk.{i}.ffn_{half}_exps.scale", (s.experts,))
                file.add(f"blk.{i}.ffn_{half}_exps.input_scale", (s.experts,))
            file.tensor(f"blk.{i}.ffn_down_exps.weight").kind = "nvfp4"  # its scale is the one that every file has
            file.add(f"blk.{i}.ffn_down_exps.input_scale", (s.experts,))
            down = file.tensor(f"blk.{i}.ffn_down.weight")
            down.kind = "nvfp4"
            file.add(f"blk.{i}.ffn_down.scale", (1,))
            file.add(f"blk.{i}.ffn_down.input_scale", (1,))
        self.at_least(len(file.tensors), 838, "tensors")
        self.compiles(file, "26B-A4B NVFP4")
        tiny.take(file, "blk.7.ffn_up_exps.scale")
        self.compiles(file, "a scale is missing", "missing tensor 'blk.7.ffn_up_exps.scale'", expect=1)

    def test_quantisation_aware_files_of_several_makers(self):
        """Q4_0 whose embedding is Q6_K, Q4_0 or Q8_0; rope, K/V head and pattern keys of each generation."""
        for kind, embedding in (("12b", "q4_0"), ("31b", "q8_0")):  # others have the embedding of the next case
            file = published(kind)
            file.tensor("token_embd.weight").kind = embedding
            usual_keys(file)
            self.compiles(file, f"{kind} with a {embedding} embedding")

    def test_ollamas_one_file(self):
        """Text, vision and audio in one file; keys sorted; K/V heads as one number; the tokenizer called llama; a Q6_K embedding."""
        file = published("e4b")
        file["gemma4.attention.head_count_kv"] = 2
        file["tokenizer.ggml.model"] = "llama"
        file["tokenizer.ggml.pre"] = "gemma4"
        for key, value in (("block_count", 16), ("embedding_length", 768), ("feed_forward_length", 3072), ("attention.head_count", 12),
                           ("patch_size", 16), ("num_channels", 3), ("attention.layer_norm_epsilon", 1e-6)):
            file["gemma4.vision." + key] = value
        for key, value in (("block_count", 12), ("attention.head_count", 8), ("conv_kernel_size", 5)):
            file["gemma4.audio." + key] = value
        for i in range(16):
            file.add(f"v.blk.{i}.attn_q.weight", (768, 768), "f16")
            file.add(f"v.blk.{i}.ln1.weight", (768,))
        for i in range(12):
            file.add(f"a.blk.{i}.conv_dw.weight", (1024, 5), "f32")
        file.add("v.patch_embd.weight", (768, 3, 16, 16), "f16")
        file.add("v.clamp_data", (452,))
        file.add("mm.input_projection.weight", (2560, 768), "bf16")
        self.equal(file.tensor("token_embd.weight").kind, "q6_k", "embedding")
        file.keys = dict(sorted(file.keys.items()))
        self.equal(list(file.keys).index("gemma4.attention.head_count") < list(file.keys).index("gemma4.block_count"), True, "key order")
        self.compiles(file, "Ollama's layout", "note: ignored 47 tensors of vision and audio encoders")

    def test_fine_tunes(self):
        """Another name and template, extra tensors of the tool that merged it, halves for norms."""
        file = published("12b")
        file["general.name"] = "Safetensors"
        file["tokenizer.chat_template"] = "{{ messages[0].content }}"
        for t in file.tensors:
            if len(t.shape) == 1 and "norm" in t.name:
                t.kind = "f16"
        file.add("blk.0.attn_q.lora_a", (16, 3840))
        file.add("extra", (3,))
        self.compiles(file, "a merged fine-tune", "note: ignored 2 tensors that a Gemma 4 text model does not have, the first 'blk.0.attn_q.lora_a'")

    def test_a_file_without_a_template_chats_in_turns_and_goes_on_from_a_text(self):
        """As a base model's, or one whose converter left it out: nothing else tells them apart."""
        whole = NANO / "gemma4-nano-Q4_0.gguf"
        note = b"g4run: note: the model file has no chat template"
        with common.scratch(self.tools) as folder:
            base = ggufio.read(whole)
            del base.keys["tokenizer.chat_template"]
            base.write(folder / "base.gguf")
            self.tools.call("g4c", folder / "base.gguf", "-o", folder / "base.g4m", "--cpu=host")
            same = self.tools.compile(whole)
            text = ("-p", "What is the capital of France?", "-n", 8, "--temp", 0)
            for flags in (["--raw"], [], ["--think"], ["--system", "Be brief."]):
                got, want = (self.tools.run(model, *flags, *text) for model in (folder / "base.g4m", same))
                self.at_least(len(got.stdout), 5, "bytes of text")
                self.equal(got.stdout, want.stdout, f"the text with {flags}")
                noted = got.stderr.startswith(note) and got.stderr.count(b"\n") == 1
                self.equal((noted, want.stderr), (flags != ["--raw"], b""), f"the note: {got.stderr}")
            lines = b'{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}\n' * 2
            got = self.tools.call("g4run", folder / "base.g4m", "--jsonl", "-", "-", stdin=lines)
            self.equal((got.stderr.count(note), got.stdout.count(b'"text"')), (1, 2), "lines of conversations")
            got = self.tools.call("g4run", "chat", folder / "base.g4m", "-n", 4, stdin=b"Hi\nHello\n")
            self.equal(got.stderr.count(note), 1, "a chat")

    def test_older_keys(self):
        file = published("12b")
        file["gemma4.attention.head_count_kv"] = 8
        file["gemma4.attention.global_head_count_kv"] = 1
        file["gemma4.rope.local.freq_base"] = 1e4
        file["gemma4.rope.partial_rotary_factor"] = 0.25
        del file.keys["gemma4.rope.freq_base_swa"]
        tiny.take(file, "rope_freqs.weight")
        self.compiles(file, "keys of older files")

    def test_a_share_of_a_head_turns_as_the_factors_say(self):
        whole, ids = NANO / "gemma4-nano-Q4_0.gguf", range(5, 45)
        with common.scratch(self.tools) as folder:
            logits = {}
            for share in (0.25, 0.5):
                file = ggufio.read(whole)
                tiny.take(file, "rope_freqs.weight")
                file["gemma4.rope.partial_rotary_factor"] = share
                file.write(folder / "model.gguf")
                logits[share] = self.evaluate(folder / "model.gguf", ids)
                if share == 0.25:
                    self.tools.call("g4c", folder / "model.gguf", "-o", folder / "model.g4m", "--cpu=host")
                    compiled = self.tools.logits(folder / "model.g4m", ids)
        self.ok(common.bits_differ(compiled, self.tools.logits(self.tools.compile(whole), ids)), "a quarter, compiled")
        want = self.evaluate(whole, ids)
        self.ok(common.bits_differ(logits[0.25], want), "a quarter")
        self.ok(None if common.bits_differ(logits[0.5], want) else "the same logits", "half: other logits")

    def test_every_type_on_embedding_head_and_per_layer_table(self):
        """Which type a tensor has is the file's business: tied and untied, any of them, and all of the layers' matrices."""
        shape = tiny.e_style(hidden=256, ff=256, layers=4, head_dims=(128, 256), per_layer=64, heads=2)
        tried = 0
        for kind in ggufio.TYPES:
            for tied in (True, False):
                file = header_only.model("any type", shape, "f32", tiny.VOCABULARY)
                table = file.tensor("token_embd.weight")
                if not tied:
                    file.add("output.weight", table.shape, kind)
                for t in matrices(file):
                    if t.shape[-1] % ggufio.TYPES[kind][1] == 0:
                        t.kind = kind
                self.equal([file.tensor(n).kind for n in ("token_embd.weight", "per_layer_token_embd.weight")], [kind] * 2, "types")
                with common.scratch(self.tools) as folder:
                    file.write(folder / "model.gguf")
                    done = self.tools.call("g4-opt", folder / "model.gguf", "--gemma-pipeline")
                self.equal(done.stderr.decode(), "", f"{kind}, {'tied' if tied else 'untied'}")
                tried += 1
        self.equal(tried, 2 * 28, "files")

    def test_unusable_sampling_defaults_are_left_out(self):
        file = header_only.model("sampling", tiny.dense(), "f32", tiny.VOCABULARY)
        values = {"temp": float("nan"), "top_k": -1, "top_p": 1.5, "min_p": "warm"}
        for key, value in values.items():
            file["general.sampling." + key] = value
        with common.scratch(self.tools) as folder:
            file.write(folder / "model.gguf")
            done = self.tools.call("g4c", folder / "model.gguf", "--weights=none", "--cpu=x86-64-v3", "-o", folder / "out.g4m")
            self.equal((folder / "out.g4m").exists(), True, "compiled")
        said = done.stderr.decode().splitlines()
        self.equal(len(said), len(values), f"lines: {said}")
        for key, line in zip(values, said):
            self.ok(None if f"warning: general.sampling.{key} is no number from 0 to" in line else line, key)


class Refused(RealFiles):
    """Files that g4 does not compile: one line that says what they are."""

    def refused(self, what, raw, part):
        with common.scratch(self.tools) as folder:
            (folder / "model.gguf").write_bytes(raw)
            done = self.tools.call("g4c", folder / "model.gguf", "-o", folder / "out.g4m", expect=1)
            self.equal(sorted(p.name for p in folder.iterdir()), ["model.gguf"], f"{what}: files")
        said = done.stderr.decode()
        self.equal(said.count("\n"), 1, f"{what}: lines of {said!r}")
        self.ok(None if part in said and "model.gguf" in said else said, f"{what}: says {part!r}")

    def test_other_architectures(self):
        for architecture, part in (("gemma3", "older Gemma model"), ("gemma3n", "older Gemma model"), ("llama", "another kind of model"),
                                   ("gemma4-assistant", "draft model"), ("clip", "image and audio encoders")):
            file = ggufio.File()
            file["general.architecture"] = architecture
            with common.scratch(self.tools) as folder:
                file.write(folder / "x.gguf")
                raw = (folder / "x.gguf").read_bytes()
            self.refused(architecture, raw, part)

    def test_other_containers(self):
        self.refused("version 1", struct.pack("<4sIII", b"GGUF", 1, 0, 0), "GGUF version 1 is not supported")
        self.refused("big-endian", struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "big-endian GGUF files are not supported")
        self.refused("a later version", struct.pack("<4sIQQ", b"GGUF", 9, 0, 0), "GGUF version 9 is not supported; 2 and 3 are")
        self.refused("a safetensors file", b'\x08\0\0\0\0\0\0\0{"a":{}}' * 4, "not a GGUF file")

    def test_a_type_that_nobody_knows(self):
        file = published("e2b")
        ggufio.TYPES["new"] = (77, 32, 18)
        try:
            file.tensor("token_embd.weight").kind = "new"
            lines = self.compiles(file, "type 77", "'token_embd.weight' has type 77 (unknown), which holds no weights that g4 knows; supported: f32,", expect=1)
        finally:
            del ggufio.TYPES["new"]
        self.ok(None if "nvfp4" in lines[0] else lines[0], "the supported types are listed")


class Parts(RealFiles):
    """A model split over files as llama.cpp's gguf-split does."""

    def split(self, folder, file, count):
        """Writes the parts of `file`; their paths."""
        paths = [folder / f"m-{i + 1:05}-of-{count:05}.gguf" for i in range(count)]
        for i, path in enumerate(paths):
            part = ggufio.File(dict(file.keys) if i == 0 else {}, file.tensors[i::count])
            part.keys["split.no"] = struct.pack("<IH", ggufio.U16, i)
            part.keys["split.count"] = struct.pack("<IH", ggufio.U16, count)
            part.keys["split.tensors.count"] = struct.pack("<Ii", ggufio.I32, len(file.tensors))
            part.write(path)
        return paths

    def test_any_part_gives_the_logits_of_the_whole(self):
        ids = range(300, 340)
        with common.scratch(self.tools) as folder:
            for name, shape in (("dense", tiny.dense()), ("experts", tiny.moe())):
                file = tiny.model(shape)
                file.write(folder / "whole.gguf")
                want = self.evaluate(folder / "whole.gguf", ids)
                for path in self.split(folder, file, 3):
                    self.ok(common.bits_differ(self.evaluate(path, ids), want), f"{name}: {path.name}")

    def test_compiled_parts_give_the_logits_of_the_whole(self):
        """Weights, rope factors and tokenizer come from whichever part has them."""
        whole = NANO / "gemma4-nano-Q4_0.gguf"
        with common.scratch(self.tools) as folder:
            parts = self.split(folder, ggufio.read(whole), 4)
            out = folder / "parts.g4m"
            self.tools.call("g4c", parts[2], "-o", out, "--cpu=host")
            ids = range(5, 25)
            self.ok(common.bits_differ(self.tools.logits(out, ids), self.tools.logits(self.tools.compile(whole), ids)), "logits")

    def test_a_missing_part_is_one_line(self):
        with common.scratch(self.tools) as folder:
            paths = self.split(folder, tiny.model(tiny.dense()), 3)
            paths[1].unlink()
            done = self.tools.call("g4c", paths[0], "-o", folder / "out.g4m", expect=1)
            said = done.stderr.decode()
            self.equal(said.count("\n"), 1, said)
            self.ok(None if "part 2 of 3" in said and paths[1].name in said else said, "says which")


if __name__ == "__main__":
    common.main()
