#!/usr/bin/env python3
"""Compares the default path's logits with llama.cpp's on the same GGUF files and tokens: the tables of docs/numerics.md.

    bench/compare_logits.py --build build --llama llama.cpp --llama-bin llama.cpp/build/bin MODEL.gguf...

MODEL is a file without quantised weights. Compared are the files beside it (MODEL's name up to the last "-", and another type), and what
`g4c --quantize=TYPE` makes of it for each of --types. Both programs as they come: int8 activations and f16 K/V in g4; in llama.cpp what
it does by itself (its attention is then "flash", with half-precision sums) or, as a second column, without flash attention.

Two things are the truth in turn, both computed in float64 (test/numerics/oracle.py): the same file, which leaves only what the program
itself rounds; and MODEL, which adds what the file's weights lost. For each: the correlation of all logits, the largest error, the
divergence (KL) of next-token distributions, nats per token, and how often the most probable token is the same. A difference is g4's
less llama.cpp's, with its standard error by bootstrap over the texts; "worse" marks one beyond two standard errors.

Texts are the start of heldout.txt beside MODEL, cut into texts of --length tokens; or, for a model of test/data/text, whose weights are
random, its stored prompts with their greedy continuations, and random tokens. These do without <bos>: an expert chosen otherwise there,
by a near-tie, would change every row of every text alike, and no number of texts would show that it was chance.

Files that llama.cpp or g4 cannot run are listed. OPENBLAS_NUM_THREADS=1 makes it several times faster.

llama.cpp is not part of g4. --llama is its source folder, for the headers; --llama-bin the folder of its libraries. A C compiler is needed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "test/numerics"), str(ROOT / "test/data/tools")]
import common  # noqa: E402
import ggufio  # noqa: E402
import oracle  # noqa: E402
from compare_quantisers import texts as token_texts  # noqa: E402

RESAMPLES = 2000


# ---- what is measured: sums of each text, so that any choice of texts has its figures -------------------------------


def sums(got, want):
    """Of one text's logits [rows, vocabulary] against the truth: what correlation, divergence and agreement are made of."""
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if a.shape != b.shape or not np.all(np.isfinite(a)):
        raise ValueError(f"logits {a.shape}, expected {b.shape}, all finite")
    p, q = oracle.log_softmax(b), oracle.log_softmax(a)
    return np.array([a.size, a.sum(), b.sum(), (a * a).sum(), (b * b).sum(), (a * b).sum(), len(a), (np.exp(p) * (p - q)).sum(),
                     np.count_nonzero(a.argmax(axis=1) == b.argmax(axis=1))])


def correlation(total):
    """Pearson's, over all values. `total`: sums, [..., 9]."""
    n, a, b, aa, bb, ab = np.moveaxis(total, -1, 0)[:6]
    return (ab - a * b / n) / np.sqrt((aa - a * a / n) * (bb - b * b / n))


def divergence(total):
    return total[..., 7] / total[..., 6]


def agreement(total):
    return total[..., 8] / total[..., 6]


def resamples(texts, count=RESAMPLES):
    """How often each text is in each of `count` samples of as many texts, drawn with replacement. Both programs get the same ones."""
    return np.random.default_rng(1).multinomial(texts, np.full(texts, 1 / texts), count)


def difference(figure, ours, theirs):
    """A figure of ours less theirs, and its standard error. Sums of each text, [texts, 9]."""
    drawn = resamples(len(ours))
    return figure(ours.sum(axis=0)) - figure(theirs.sum(axis=0)), np.std(figure(drawn @ ours) - figure(drawn @ theirs))


@dataclass
class Measure:
    """One program against one truth."""

    texts: np.ndarray  # sums, [texts, 9]
    worst: float  # the largest error of a logit

    @staticmethod
    def of(got, want):
        pairs = list(zip(got, want, strict=True))
        return Measure(np.array([sums(a, b) for a, b in pairs]), max(float(np.abs(a - b).max()) for a, b in pairs))

    @property
    def total(self):
        return self.texts.sum(axis=0)


def row(name, ours, theirs):
    """A line of the table: g4 and llama.cpp, each a Measure against the same truth."""
    cells = [name]
    for figure, sign, form in ((correlation, -1, "{:.6f}"), (divergence, 1, "{:.6f}")):
        apart, error = difference(figure, ours.texts, theirs.texts)
        verdict = " worse" if sign * apart > 2 * error else ""
        cells += [form.format(figure(ours.total)), form.format(figure(theirs.total)), f"{apart:+.6f} ± {error:.6f}{verdict}"]
        if figure is correlation:
            cells += [f"{ours.worst:.3f}", f"{theirs.worst:.3f}"]
    return "| " + " | ".join([*cells, f"{agreement(ours.total):.1%}", f"{agreement(theirs.total):.1%}"]) + " |"


HEAD = ("| file | correlation: g4 | llama.cpp | difference | max error: g4 | llama.cpp | KL: g4 | llama.cpp | difference | top-1: g4 | llama.cpp |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|")


# ---- the programs ---------------------------------------------------------------------------------------------------


def build_llama(sources, libraries, folder):
    """bench/llama_logits.c against that llama.cpp."""
    out, libraries = Path(folder) / "llama_logits", Path(libraries).resolve()
    subprocess.run([os.environ.get("CC", "cc"), "-O1", ROOT / "bench/llama_logits.c", f"-I{sources}/include", f"-I{sources}/ggml/include",
                    libraries / "libllama.so", f"-Wl,-rpath,{libraries}", f"-Wl,-rpath-link,{libraries}", "-o", out], check=True)
    return out


def llama_logits(program, path, texts, attention):
    """Logits of each text, float32 [rows, vocabulary]."""
    script = "\n".join(f"{len(ids)} " + " ".join(str(int(i)) for i in ids) for ids in texts)
    done = subprocess.run([program, path, attention], input=script.encode(), capture_output=True, env={**os.environ, "GGML_NO_BACKTRACE": "1"})
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise common.Failure(f"llama.cpp ended with {done.returncode}: {said[0] if said else 'no message'}")
    lengths = [len(ids) for ids in texts]
    found = np.frombuffer(done.stdout, np.float32).reshape(sum(lengths), -1)
    return np.split(found, np.cumsum(lengths)[:-1])


def files(tools, model, types, folder):
    """(type, path) of the files to compare: those that exist, then those that g4c makes."""
    stem = model.stem.rpartition("-")[0]
    for path in sorted(model.parent.glob(f"{stem}-*.gguf")):
        if "-" not in path.stem[len(stem) + 1:]:
            yield path.stem[len(stem) + 1:], path
    for kind in types:
        made = Path(folder) / f"{stem}-{kind}.gguf"
        tools.call("g4c", model, f"--quantize={kind}", "--emit=gguf", "-o", made)
        yield f"{kind} by g4c", made
        made.unlink()


def exact_logits(path, texts):
    model = oracle.Model(path)
    return [model.logits(ids) for ids in texts]


def compare(tools, llama, model, texts, types, folder):
    """Prints the tables of one model."""
    truth, tables, refused = exact_logits(model, texts), {}, []
    for kind, path in files(tools, model, types, folder):
        try:
            artifact = tools.compile(path)
            ours = [tools.logits(artifact, ids) for ids in texts]
            artifact.unlink()
            theirs = {name: llama_logits(llama, path, texts, attention) for name, attention in (("as it comes", "auto"), ("without flash attention", "off"))}
        except common.Failure as failure:
            refused.append(f"{kind}: {failure}")
            continue
        own = truth if path == model else exact_logits(path, texts)
        for what, want in (("the same file in exact arithmetic", own), (f"{model.name} in exact arithmetic", truth)):
            measured = Measure.of(ours, want)
            for name, logits in theirs.items():
                tables.setdefault(f"Against {what}; llama.cpp {name}", []).append(row(kind, measured, Measure.of(logits, want)))
        print(f"{model.stem}: {kind} done", file=sys.stderr, flush=True)
    for title, rows in tables.items():
        print(f"\n{title}:\n\n{HEAD}", *rows, sep="\n", flush=True)
    for line in refused:
        print(f"\nNot compared: {line}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder with bin/g4c and bin/g4run")
    parser.add_argument("--llama", required=True, help="llama.cpp's source folder")
    parser.add_argument("--llama-bin", required=True, help="folder with libllama.so")
    parser.add_argument("--types", default="", help="types to make with g4c, separated by commas")
    parser.add_argument("--texts", type=int, default=24, help="at most how many texts (default: %(default)s)")
    parser.add_argument("--length", type=int, default=256, help="tokens of a text from heldout.txt, up to 512 (default: %(default)s)")
    parser.add_argument("models", nargs="+", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tools = common.Tools(options.build)
        tools.cache = Path(folder)
        llama = build_llama(options.llama, options.llama_bin, folder)
        for model in options.models:
            texts, known = token_texts(tools.bin, model, options.texts, options.length)
            texts = [ids if known else ids[1:] for ids in texts[:options.texts]]
            print(f"\n## {model.name}: {len(texts)} texts, {sum(map(len, texts))} tokens")
            compare(tools, llama, model, texts, [t for t in options.types.split(",") if t], folder)


if __name__ == "__main__":
    main()
