#!/usr/bin/env python3
"""Compares the speed of g4 with llama.cpp's on one GGUF file: rounds of both in turn, ratios within a round.

    bench/compare.py model.gguf --artifact model.g4m --llama-bin llama.cpp/build/bin --prefill 512 --decode 32 --batch 1,4

g4run bench and llama-bench (for more than one sequence llama-batched-bench) run one after the other, round by round, with the same
threads, so that what else the machine does meets both. Each is started once per round (llama-batched-bench once for prompts and once for
decoding), since llama.cpp takes long to load a model.

Printed, as Markdown, are medians, and the median and spread of the rounds' ratios. Spread is the distance between the quartiles, in parts
of the median. A test whose ratio spreads wider than --max-spread is no result: it is marked, left out of --record, and makes the exit code 1.
"of read" is what g4 reads per step, as a share of what the machine read from memory in the same run; "of peak" what it multiplies, as a share
of the machine's peak for these weights: docs/commands/bench.md.

--record FILE appends a line of JSON for each result: machine, commits, threads, both rates, ratio, spread, rounds. --show FILE prints such
a file as a table and measures nothing.
llama.cpp is not part of g4. Its programs are the targets llama-bench and llama-batched-bench of its own build.
"""

import argparse
import itertools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONG_PROMPT = 2048  # tokens: over a minute for llama.cpp on two cores


class Failure(Exception):
    """Ends the program with one line."""


def run(command):
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise Failure(f"cannot run {command[0]}: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Failure(f"{Path(command[0]).name} ended with {done.returncode}: {said[-1] if said else 'no message'}")
    return done.stdout


def parse(text, what):
    try:
        return json.loads(text)
    except ValueError:
        raise Failure(f"{what} printed no JSON") from None


def g4_results(args, threads):
    """{(test, tokens, batch, depth): result} of g4run bench, and the code variant that ran."""
    report = parse(run([args.g4run, "bench", args.artifact, "--threads", threads, "--reps", 1, "--prefill", args.prefill, "--decode",
                        args.decode, "--batch", args.batch, "--depth", args.depth, "--json", "-"]), "g4run bench")
    return {(r["test"], r["tokens"], r["batch"], r["depth"]): r for r in report["results"]}, report["variant"]


def commas(values):
    return ",".join(str(v) for v in sorted(set(values)))


def llama_bench(args, threads):
    """{(test, tokens, 1, depth): tokens/s} and the build's commit."""
    # Its warm-up is the whole prompt: a long one is its own.
    is_long = args.decode == "0" and min(map(int, args.prefill.split(","))) >= LONG_PROMPT
    rows = parse(run([args.llama_bin / "llama-bench", "-m", args.model, "-t", threads, "-r", 1, "-o", "json", "-p", args.prefill, "-n",
                      args.decode, "-d", args.depth] + ["--no-warmup"] * is_long), "llama-bench")
    rates = {}
    for row in rows:
        test, tokens = ("prefill", row["n_prompt"]) if row["n_prompt"] else ("decode", row["n_gen"])
        rates[test, tokens, 1, row["n_depth"]] = row["avg_ts"]
    return rates, rows[0]["build_commit"] if rows else None


def llama_batched(args, threads, test, tests):
    """The same of several sequences, for `tests` that are all `test`."""
    # It always reads a prompt first, which is the depth for decoding, and makes at least one token.
    prompts, made = ([t for _, t, _, _ in tests], [1]) if test == "prefill" else ([max(d, 1) for _, _, _, d in tests], [t for _, t, _, _ in tests])
    batches = [b for _, _, b, _ in tests]
    out = run([args.llama_bin / "llama-batched-bench", "-m", args.model, "-t", threads, "-c", max(batches) * (max(prompts) + max(made) + 8),
               "-b", 2048, "-ub", 512, "-npp", commas(prompts), "-ntg", commas(made), "-npl", commas(batches), "--output-format", "jsonl"])
    rows = [parse(line, "llama-batched-bench") for line in out.splitlines() if line.startswith("{")]
    by = {(row["pp"], row["tg"], row["pl"]): row for row in rows}
    if test == "prefill":
        return {(test, t, b, d): by[t, 1, b]["speed_pp"] for _, t, b, d in tests if (t, 1, b) in by}
    return {(test, t, b, d): by[max(d, 1), t, b]["speed_tg"] for _, t, b, d in tests if (max(d, 1), t, b) in by}


def llama_rates(args, threads):
    """{(test, tokens, batch, depth): tokens/s} and the build's commit."""
    rates, build = {}, None
    if any(batch == 1 for _, _, batch, _ in args.tests):
        rates, build = llama_bench(args, threads)
    for test in ("prefill", "decode"):
        tests = [t for t in args.tests if t[0] == test and t[2] > 1]
        if tests:
            rates |= llama_batched(args, threads, test, tests)
    return rates, build


def spread(values):
    if len(values) < 2:
        return float("inf")
    quarter = statistics.quantiles(values, n=4, method="inclusive")
    return (quarter[2] - quarter[0]) / statistics.median(values)


def machine():
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"^model name\s*:\s*(.*)$", info, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.*)$", info, re.MULTILINE)
    wanted = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
    return {"cpu": name[1] if name else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "features": [f for f in wanted if flags and f in flags[1].split()]}


def commit():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def numbers(text):
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a list of numbers: {text!r}") from None


def options(argv):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", type=Path, nargs="?", help="GGUF file")
    ap.add_argument("--artifact", type=Path, help="what g4c made of it")
    ap.add_argument("--g4run", type=Path, default=ROOT / "build/bin/g4run")
    ap.add_argument("--llama-bin", type=Path, help="folder with llama-bench")
    ap.add_argument("--prefill", default="512", metavar="N,...", help="tokens of a prompt; 0: none")
    ap.add_argument("--decode", default="32", metavar="N,...", help="tokens to make; 0: none")
    ap.add_argument("--batch", default="1", metavar="N,...")
    ap.add_argument("--depth", default="0", metavar="N,...")
    ap.add_argument("--threads", type=int, default=0, help="default: all cores")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--max-spread", type=float, default=0.15)
    ap.add_argument("--record", type=Path, metavar="FILE")
    ap.add_argument("--show", type=Path, metavar="FILE")
    args = ap.parse_args(argv)
    if args.show:
        return args
    if not (args.model and args.artifact and args.llama_bin):
        ap.error("needs a model, --artifact and --llama-bin")
    if args.rounds < 2:
        ap.error("--rounds must be at least 2: one round has no spread")
    args.tests = [(test, tokens, batch, depth)
                  for depth, batch in itertools.product(numbers(args.depth), numbers(args.batch))
                  for test, list_ in (("prefill", args.prefill), ("decode", args.decode)) for tokens in numbers(list_) if tokens]
    if not args.tests:
        ap.error("no test is left")
    if any(test == "prefill" and batch > 1 and depth for test, _, batch, depth in args.tests):
        ap.error("llama-batched-bench reads no prompts at a depth: measure --prefill with --batch 1 or --depth 0")
    return args


COLUMNS = ("model", "test", "tokens", "batch", "depth", "g4 t/s", "llama.cpp t/s", "ratio", "spread", "of read", "of peak")


def table_row(r, note=""):
    share = lambda name: f"{r[name]:.0%}" if r.get(name) is not None else ""  # noqa: E731
    return "| " + " | ".join((r["model"], r["test"], str(r["tokens"]), str(r["batch"]), str(r["depth"]), f"{r['g4']:.1f}", f"{r['llama.cpp']:.1f}",
                              f"{r['ratio']:.2f}{note}", f"{r['spread']:.0%}", share("of read"), share("of peak"))) + " |"


def heading():
    return f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def show(path):
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lines = [table_row(row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failure(f"{path} is no record: {error}") from None
    print("\n".join([heading(), *lines]))
    return 0


def compare(args):
    threads = args.threads or len(os.sched_getaffinity(0))
    rounds = {test: [] for test in args.tests}
    variant = build = None
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        ours, variant = g4_results(args, threads)
        theirs, built = llama_rates(args, threads)
        build = build or built
        for test in args.tests:
            if test not in theirs:
                raise Failure(f"llama.cpp printed no result for {' '.join(str(part) for part in test)}")
            rounds[test].append((ours[test], theirs[test]))
    print(f"{args.model.name}, {variant}, {threads} threads, {args.rounds} rounds, g4 {commit()}, llama.cpp {build or 'unknown'}\n\n{heading()}")
    results, noisy = [], 0
    for (test, tokens, batch, depth), pairs in rounds.items():
        ratios = [g4["tokens_per_second"] / llama for g4, llama in pairs]
        middle = lambda values: round(statistics.median(values), 3)  # noqa: E731
        result = {"model": args.model.name, "test": test, "tokens": tokens, "batch": batch, "depth": depth,
                  "g4": middle(g4["tokens_per_second"] for g4, _ in pairs), "llama.cpp": middle(llama for _, llama in pairs),
                  "ratio": middle(ratios), "spread": round(spread(ratios), 3),
                  "read GB/s": middle(g4["read_bandwidth"] / 1e9 for g4, _ in pairs),
                  "of read": middle(g4["step"]["bandwidth_share"] for g4, _ in pairs) if test == "decode" else None,
                  "of peak": middle(g4["step"]["peak_share"] or 0 for g4, _ in pairs) if test == "prefill" else None,
                  "rounds": args.rounds, "threads": threads, "variant": variant, "g4 commit": commit(), "llama.cpp commit": build, **machine()}
        bad = spread(ratios) > args.max_spread
        noisy += bad
        print(table_row(result, " (too noisy: no result)" if bad else ""))
        if not bad:
            results.append(result)
    if args.record and results:
        with open(args.record, "a", encoding="utf-8") as out:
            out.writelines(json.dumps(r) + "\n" for r in results)
    return 1 if noisy else 0


def main(argv=None):
    args = options(argv)
    try:
        return show(args.show) if args.show else compare(args)
    except Failure as failure:
        print(f"compare.py: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
