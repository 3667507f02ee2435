#!/usr/bin/env python3
"""Compares g4c's quantisers with llama.cpp's on the same weights: the table of docs/quantisation.md.

    bench/compare_quantisers.py --build build --ggml libggml-base.so MODEL.gguf...

The models' matrices must be f32, f16 or bf16. ggml's library is not part of g4; from llama.cpp's sources:

    gcc -O2 -fPIC -shared -Iggml/include -Iggml/src ggml/src/ggml.c ggml/src/ggml-quants.c ... -o libggml-base.so

or take the one that a build of llama.cpp leaves in its bin folder.
"""

import argparse
import ctypes
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder with bin/g4c")
    parser.add_argument("--ggml", required=True, help="libggml-base.so")
    parser.add_argument("models", nargs="+", type=Path)
    options = parser.parse_args()
    library = ctypes.CDLL(options.ggml)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    for path in options.models:
        matrices = {t.name: t for t in ggufio.read(path).tensors if len(t.shape) > 1 and t.shape[0] > 1 and "ffn_gate_inp" not in t.name}
        print(f"\n{path.name}\n\n| type | bits | llama.cpp | g4c | ratio | worst matrix |\n|---|---|---|---|---|---|")
        for kind in TYPES:
            _, block, size = ggufio.TYPES[kind]
            exact = {name: oracle.values(t) for name, t in matrices.items() if t.shape[-1] % block == 0}
            exact = {name: x.reshape(-1, x.shape[-1]) for name, x in exact.items()}
            with tempfile.TemporaryDirectory() as folder:
                ours = with_g4c(Path(options.build) / "bin/g4c", path, kind, list(exact), folder)
            errors = np.array([[np.sum((with_ggml(library, kind, x) - x)**2), np.sum((ours[n].reshape(x.shape) - x)**2)]
                               for n, x in exact.items()])
            scale = np.sqrt(sum(np.sum(x**2) for x in exact.values()))
            llama, g4 = np.sqrt(errors.sum(axis=0)) / scale
            worst = np.sqrt(errors[:, 1] / errors[:, 0]).max()
            print(f"| {kind} | {8 * size / block:.2f} | {llama:.5f} | {g4:.5f} | {g4 / llama:.3f} | {worst:.3f} |", flush=True)


if __name__ == "__main__":
    main()
