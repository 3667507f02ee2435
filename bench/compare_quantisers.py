#!/usr/bin/env python3
"""Compares g4c's quantisers with llama.cpp's on the same weights: the tables of docs/quantisation.md.

    bench/compare_quantisers.py --build build --ggml libggml-base.so MODEL.gguf...

All matrices but the router become one type where their rows are whole blocks. For each type: the relative error of the weights, and how far
the model's next-token distributions move from those of the unquantised file: the divergence (KL), and the perplexity. Texts are, for a
model of test/data/text, whose weights are random, its stored prompts with their greedy continuations and 80 texts of 64 random tokens;
for another, the start of heldout.txt beside it. There perplexity is the text's; for random weights it is that of texts drawn from the
unquantised model. Products are exact (test/numerics/oracle.py) and experts are those that the unquantised model chooses: only the
weights differ. OPENBLAS_NUM_THREADS=1 makes it several times faster.

The models' matrices must be f32, f16 or bf16. ggml's library is not part of g4; from llama.cpp's sources:

    gcc -O2 -fPIC -shared -Iggml/include -Iggml/src ggml/src/ggml.c ggml/src/ggml-quants.c ... -o libggml-base.so

or take the one that a build of llama.cpp leaves in its bin folder.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "test/numerics"), str(ROOT / "test/data/tools")]
import ggufio  # noqa: E402
import oracle  # noqa: E402

TYPES = ("mxfp4", "q4_0", "iq4_nl", "q4_k", "q4_1", "q5_0", "q5_k", "q5_1", "q6_k", "q8_0")


def with_ggml(library, kind, values):
    """A matrix quantised by ggml, without importance matrix."""
    rows, columns = values.shape
    number, block, size = ggufio.TYPES[kind]
    source, out = np.ascontiguousarray(values, np.float32), np.zeros(rows * columns // block * size, np.uint8)
    library.ggml_quantize_chunk(ctypes.c_int(number), source.ctypes.data_as(ctypes.c_void_p),
                                out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0), ctypes.c_int64(rows),
                                ctypes.c_int64(columns), None)
    return oracle.values(ggufio.Tensor("", values.shape, kind, out))


def with_g4c(g4c, path, kind, names, folder):
    """The named tensors as g4c quantises them, {name: values}."""
    rules, out = Path(folder) / "rules.txt", Path(folder) / "out.gguf"
    rules.write_text("".join(f"^{name.replace('.', '[.]')}$ {kind}\n" for name in names))
    subprocess.run([g4c, path, f"--quantize-rules={rules}", "--emit=gguf", "-o", out], check=True)
    file = ggufio.read(out)
    return {name: oracle.values(file.tensor(name)) for name in names}


def texts(programs, path, chunks, length=512):
    """Lists of ids, and whether the ids are a text that the model knows."""
    stored = path.parent / "reference.npz"
    if stored.exists():
        reference = np.load(stored)
        prompts = [name.removesuffix("_ids") for name in reference.files if name.endswith("_ids") and f"{name[:-4]}_greedy_ids" in reference.files]
        rng, known = np.random.default_rng(1), [np.concatenate([reference[f"{p}_ids"], reference[f"{p}_greedy_ids"]]) for p in prompts]
        return known + [np.concatenate([[2], rng.integers(5, 1000, 63)]) for _ in range(80)], False
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder) / "tokenizer.g4m"
        subprocess.run([programs / "g4c", path, "--weights=none", "-o", artifact], check=True)
        done = subprocess.run([programs / "g4run", "tokenize", artifact, "-f", path.parent / "heldout.txt", "--json"], check=True, capture_output=True)
    ids = np.array(json.loads(done.stdout)["ids"][1:])
    return [np.concatenate([[2], ids[i * (length - 1):(i + 1) * (length - 1)]]) for i in range(chunks)], True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder with bin/g4c and bin/g4run")
    parser.add_argument("--ggml", required=True, help="libggml-base.so")
    parser.add_argument("--chunks", type=int, default=8, help="how many times 512 tokens of heldout.txt (default: %(default)s)")
    parser.add_argument("models", nargs="+", type=Path)
    options = parser.parse_args()
    library = ctypes.CDLL(options.ggml)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    programs = Path(options.build) / "bin"
    for path in options.models:
        matrices = {t.name: t for t in ggufio.read(path).tensors if len(t.shape) > 1 and t.shape[0] > 1 and "ffn_gate_inp" not in t.name}
        quality = oracle.Quality(path, *texts(programs, path, options.chunks))
        rows = sum(map(len, quality.ids))
        print(f"\n{path.name}, perplexity {quality.perplexity(quality.exact):.4f}, {rows} rows\n")
        print("| type | bits | error: llama.cpp | g4c | ratio (worst matrix) | KL: llama.cpp | g4c | difference | perplexity: llama.cpp | g4c |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for kind in TYPES:
            _, block, size = ggufio.TYPES[kind]
            exact = {name: oracle.values(t) for name, t in matrices.items() if t.shape[-1] % block == 0}
            if not exact:
                continue
            with tempfile.TemporaryDirectory() as folder:
                ours = with_g4c(programs / "g4c", path, kind, list(exact), folder)
            theirs = {n: with_ggml(library, kind, x.reshape(-1, x.shape[-1])).reshape(x.shape) for n, x in exact.items()}
            errors = np.array([[np.sum((theirs[n] - x)**2), np.sum((ours[n] - x)**2)] for n, x in exact.items()])
            scale = np.sqrt(sum(np.sum(x**2) for x in exact.values()))
            llama, g4 = np.sqrt(errors.sum(axis=0)) / scale
            worst = np.sqrt(errors[:, 1] / errors[:, 0]).max()
            (kl_llama, ppl_llama), (kl_g4, ppl_g4) = quality.measure(theirs), quality.measure(ours)
            apart = kl_g4 - kl_llama
            print(f"| `{kind}` | {8 * size / block:.2f} | {llama:.5f} | {g4:.5f} | {g4 / llama:.3f} ({worst:.3f}) | {kl_llama.mean():.6f} | {kl_g4.mean():.6f} "
                  f"| {apart.mean():+.6f} ± {apart.std() / np.sqrt(len(apart)):.6f} | {ppl_llama:.4f} | {ppl_g4:.4f} |", flush=True)


if __name__ == "__main__":
    main()
