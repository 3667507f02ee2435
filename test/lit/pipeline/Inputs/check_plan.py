"""usage: check_plan.py < a printed exec stage

Checks the program's barriers and memory plan against the definition, pair by pair: dispatches of one phase do not touch what
another of it writes; buffers that are live in the same phase do not overlap; the arena ends where the last of them does.
"""

import re
import sys

CAPACITY, buffers, aliases, pages, dispatches, phase = {}, {}, {}, {}, [], 0
arena = peak = None
for line in sys.stdin:
    if found := re.match(r"\s*exec\.program .*", line):
        number = {k: int(v) for k, v in re.findall(r"(\w+) = (\d+) : i64", line)}
        CAPACITY = {"rows": number["max_rows"], "tail": number["max_tail_rows"], "logits": number["max_logit_rows"], "single": 1}
        arena, peak = number["arena_bytes"], number["peak_live_bytes"]
    elif found := re.match(r'\s*(%\w+) = exec\.buffer "\S+" at (\d+) : <(\w+), (\d+) x (\d+) x [fi](\d+)>', line):
        name, at, kind, copies, columns, bits = found.groups()
        size = int(copies) * int(columns) * int(bits) // 8 * CAPACITY[kind]
        buffers[name] = (int(at), -(-size // 128) * 128)
    elif found := re.match(r"\s*(%\w+) = exec\.columns (%\w+) ", line):
        aliases[found[1]] = aliases.get(found[2], found[2])
    elif found := re.match(r"\s*(%\w+) = exec\.kv layer (\d+) ", line):
        pages[found[1]] = "layer " + found[2]
    elif re.match(r"\s*exec\.barrier", line):
        phase += 1
    elif found := re.match(r"\s*exec\.(?:dispatch @\w+ reads\((.*?) : .*?\) writes\((.*?) : |return (.*?) \[)", line):
        reads, writes = (found[1] or found[3]).split(", "), (found[2] or "").split(", ")
        named = [{pages.get(v, aliases.get(v, v)) for v in values} for values in (reads, writes)]
        dispatches.append((phase, *({v for v in side if v in buffers or v.startswith("layer")} for side in named)))

wrong = []
for i, (p, reads, writes) in enumerate(dispatches[:-1]):
    for q, more_reads, more_writes in dispatches[i + 1:-1]:
        if p == q and (writes & (more_reads | more_writes) or reads & more_writes):
            wrong.append(f"no barrier between two dispatches of phase {p}")
lives = {}
for p, reads, writes in dispatches:
    for v in (reads | writes) & set(buffers):
        first, _ = lives.get(v, (p, p))
        lives[v] = (first, p)
for a, (first, last) in lives.items():
    at, size = buffers[a]
    for b, (first_b, last_b) in lives.items():
        at_b, size_b = buffers[b]
        if a < b and first <= last_b and first_b <= last and at < at_b + size_b and at_b < at + size:
            wrong.append(f"{a} and {b} are live together and overlap")
live = [sum(buffers[v][1] for v, (first, last) in lives.items() if first <= p <= last) for p in range(phase + 1)]
end = max(at + size for at, size in (buffers[v] for v in lives))
if (arena, peak) != (end, max(live)):
    wrong.append(f"arena {arena} and peak {peak}, expected {end} and {max(live)}")
print(f"{len(dispatches) - 1} dispatches, {phase} barriers, {len(lives)} buffers, {arena} bytes")
print("\n".join(wrong) or "no fault found")
sys.exit(bool(wrong) or len(dispatches) < 5 or len(lives) < 5)
