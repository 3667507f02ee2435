#!/usr/bin/env python3
"""Compares the speed of g4 with llama.cpp's on one GGUF file: rounds of both in turn, ratios within a round.

    bench/compare.py model.gguf --artifact model.g4m --llama-bin llama.cpp/build/bin --prefill 512 --decode 32 --batch 1,4

g4run bench and llama-bench (for more than one sequence llama-batched-bench) run one after the other, round by round, with the same
threads, so that what else the machine does meets both. Printed are medians, and the median and spread of the rounds' ratios.
Spread is the distance between the quartiles, in parts of the median. A test whose ratio spreads wider than --max-spread is no result: it
is marked, left out of --record, and makes the exit code 1.

--record FILE appends a line of JSON for each result: machine, commits, threads, both rates, ratio, spread, rounds.
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


def g4_rates(args, threads):
    """{(test, tokens, batch, depth): tokens/s} and the code variant that ran."""
    report = parse(run([args.g4run, "bench", args.artifact, "--threads", threads, "--reps", 1, "--prefill", args.prefill, "--decode",
                        args.decode, "--batch", args.batch, "--depth", args.depth, "--json", "-"]), "g4run bench")
    rates = {(r["test"], r["tokens"], r["batch"], r["depth"]): r["tokens_per_second"] for r in report["results"]}
    return rates, report["variant"]


def llama_rate(args, threads, test, tokens, batch, depth):
    """tokens/s and the build's commit."""
    if batch == 1:
        out = run([args.llama_bin / "llama-bench", "-m", args.model, "-t", threads, "-r", 1, "-o", "json", "-d", depth,
                   "-p", tokens if test == "prefill" else 0, "-n", tokens if test == "decode" else 0])
        (row,) = parse(out, "llama-bench")
        return row["avg_ts"], row["build_commit"]
    context = batch * (depth + tokens + 8)
    out = run([args.llama_bin / "llama-batched-bench", "-m", args.model, "-t", threads, "-c", context, "-b", 2048, "-ub", 512,
               "-npp", tokens if test == "prefill" else max(depth, 1), "-ntg", tokens if test == "decode" else 1, "-npl", batch,
               "--output-format", "jsonl"])
    rows = [line for line in out.splitlines() if line.startswith("{")]
    if not rows:
        raise Failure("llama-batched-bench printed no result")
    return parse(rows[-1], "llama-batched-bench")["speed_pp" if test == "prefill" else "speed_tg"], None


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
    ap.add_argument("model", type=Path, help="GGUF file")
    ap.add_argument("--artifact", type=Path, required=True, help="what g4c made of it")
    ap.add_argument("--g4run", type=Path, default=ROOT / "build/bin/g4run")
    ap.add_argument("--llama-bin", type=Path, required=True, help="folder with llama-bench")
    ap.add_argument("--prefill", default="512", metavar="N,...", help="tokens of a prompt; 0: none")
    ap.add_argument("--decode", default="32", metavar="N,...", help="tokens to make; 0: none")
    ap.add_argument("--batch", default="1", metavar="N,...")
    ap.add_argument("--depth", default="0", metavar="N,...")
    ap.add_argument("--threads", type=int, default=0, help="default: all cores")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--max-spread", type=float, default=0.15)
    ap.add_argument("--record", type=Path, metavar="FILE")
    args = ap.parse_args(argv)
    if args.rounds < 2:
        ap.error("--rounds must be at least 2: one round has no spread")
    args.tests = [(test, tokens, batch, depth)
                  for depth, batch in itertools.product(numbers(args.depth), numbers(args.batch))
                  for test, list_ in (("prefill", args.prefill), ("decode", args.decode)) for tokens in numbers(list_) if tokens]
    if not args.tests:
        ap.error("no test is left")
    return args


def compare(args):
    threads = args.threads or len(os.sched_getaffinity(0))
    rounds = {test: [] for test in args.tests}
    variant = build = None
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        ours, variant = g4_rates(args, threads)
        for test in args.tests:
            rate, built = llama_rate(args, threads, *test)
            build = build or built
            rounds[test].append((ours[test], rate))
    print(f"{args.model.name}, {variant}, {threads} threads, {args.rounds} rounds, g4 {commit()}, llama.cpp {build or 'unknown'}")
    print(f"{'test':9} {'tokens':>6} {'batch':>5} {'depth':>6} {'g4 t/s':>9} {'llama t/s':>9} {'ratio':>6} {'spread':>6}")
    results, noisy = [], 0
    for (test, tokens, batch, depth), pairs in rounds.items():
        ratios = [a / b for a, b in pairs]
        ratio, width = statistics.median(ratios), spread(ratios)
        g4, llama = (statistics.median(rates) for rates in zip(*pairs))
        bad = width > args.max_spread
        noisy += bad
        print(f"{test:9} {tokens:6} {batch:5} {depth:6} {g4:9.1f} {llama:9.1f} {ratio:6.2f} {width:6.0%}{'  too noisy: no result' if bad else ''}")
        if not bad:
            results.append({"model": args.model.name, "test": test, "tokens": tokens, "batch": batch, "depth": depth, "g4": round(g4, 2),
                            "llama.cpp": round(llama, 2), "ratio": round(ratio, 3), "spread": round(width, 3), "rounds": args.rounds,
                            "threads": threads, "variant": variant, "g4 commit": commit(), "llama.cpp commit": build, **machine()})
    if args.record and results:
        with open(args.record, "a", encoding="utf-8") as out:
            out.writelines(json.dumps(r) + "\n" for r in results)
    return 1 if noisy else 0


def main(argv=None):
    args = options(argv)
    try:
        return compare(args)
    except Failure as failure:
        print(f"compare.py: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
