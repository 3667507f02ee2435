#!/usr/bin/env python3
"""Checks the rules of the source tree that no compiler checks; docs/development.md explains them.

usage: check_tree.py [--build FOLDER] | --self-test
Prints one line per finding. Exit code 1 if any is an error.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = (".cpp", ".h", ".td", ".fbs", ".py", ".sh", ".mlir")
# Data and generated text: no rules of ours.
EXEMPT = ("models/", "test/data/", "docs/generated/", "test/fuzz/corpus/")
WARN_LINES, MAX_LINES = 600, 1000

# Which folders' headers a folder may include. What is missing here may include anything.
RUNTIME_FORBIDS = re.compile(r'#include\s+[<"](mlir|mlir-c|llvm|llvm-c|lld|dialects|passes|compiler)/')
COMPILER_ALLOWS = ("runtime/base/", "runtime/module/", "runtime/text/")
MACHINE_PATHS = re.compile(r"(?<![\w.$}/-])/(home/\w+|root|work|farm|tmp/\w+)/")


def include_findings(path, text):
    """runtime/, g4run and g4-runner know no LLVM; compiler/, dialects/ and passes/ share only formats with runtime/."""
    if path.startswith(("runtime/", "tools/common/", "tools/g4run/", "tools/g4-runner/", "compiler/import/gguf/")):
        for match in RUNTIME_FORBIDS.finditer(text):
            if not (path.startswith("compiler/import/gguf/") and match[1] == "compiler"):
                yield "error", f"includes {match[1]}/, but must build without the compiler"
    if path.startswith(("compiler/", "dialects/", "passes/", "tools/g4c/", "tools/g4-opt/")):
        for header in re.findall(r'#include\s+"(runtime/[^"]+)"', text):
            if not header.startswith(COMPILER_ALLOWS):
                yield "error", f"includes {header}: the compiler may use only {', '.join(COMPILER_ALLOWS)}"


def size_findings(path, text):
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield "error", f"{lines} lines; {MAX_LINES} is the limit"
    elif lines > WARN_LINES:
        yield "warning", f"{lines} lines; is it still one thing?"


def habit_findings(path, text):
    if path.endswith(".h") and "#pragma once" not in text:
        yield "error", "a header without #pragma once"
    if path.endswith((".cpp", ".h")):
        if not path.startswith("tools/") and re.search(r"\bgetenv\s*\(", text):
            yield "error", "getenv outside tools/: take an option instead"
        if not path.startswith("tools/") and re.search(r"\bcl::(opt|list)\b", text):
            yield "error", "cl::opt outside tools/ is a hidden global: take an options struct instead"
    if not path.startswith("test/lint/") and (match := MACHINE_PATHS.search(text)):
        yield "error", f"path of one machine: {match[0]}"


def listed_findings(path, text, files):
    """Every source file is named by CMake: by its stem in a CMakeLists.txt of its folder or above, or with its folder anywhere."""
    if not path.endswith(".cpp"):
        return
    place = Path(path)
    tail = f"{place.parent.name}/{place.name}"
    for lists, content in files.items():
        if lists.endswith("CMakeLists.txt"):
            above = Path(lists).parent
            if above in place.parents and re.search(rf"(?<!\w){re.escape(place.stem)}(?!\w)", content):
                return
        if lists.endswith(("CMakeLists.txt", ".cmake")) and tail in content:
            return
    yield "error", "in no CMakeLists.txt: it is never compiled"


def kebab(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def pass_findings(files):
    """Each pass has three files of one name: X.cpp, an entry XPass in Passes.td, and test/lit/passes/<folder>/x.mlir.

    A lowering between dialects is LowerAToBPass, in passes/lower/AToB.cpp.
    """
    for path, text in files.items():
        if re.fullmatch(r"passes/\w+/Passes\.td", path):
            folder = path.split("/")[1]
            for name in re.findall(r"^def (?:Lower(?=\w+To))?(\w+)Pass\s*:", text, re.M):
                for needed in (f"passes/{folder}/{name}.cpp", f"test/lit/passes/{folder}/{kebab(name)}.mlir"):
                    if needed not in files:
                        yield path, "error", f"{name}Pass has no {needed}"
        elif (match := re.fullmatch(r"passes/(\w+)/(\w+)\.cpp", path)) and "GEN_PASS_DEF_" in text:
            definitions = files.get(f"passes/{match[1]}/Passes.td", "")
            if not re.search(rf"^def (Lower)?{match[2]}Pass\s*:", definitions, re.M):
                yield path, "error", f"defines a pass, but Passes.td has no {match[2]}Pass"


def link_findings(files):
    """Relative links in Markdown lead somewhere."""
    folders = {parent.as_posix() for path in files for parent in Path(path).parents}
    for path, text in files.items():
        if not path.endswith(".md") or path.startswith(EXEMPT):
            continue
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            full = os.path.normpath(os.path.join(os.path.dirname(path), target))
            if full not in files and full not in folders and not full.startswith("docs/generated"):
                yield path, "error", f"link to {target}, which does not exist"


def quote_findings(files):
    """Code that Markdown quotes from a file, marked <!-- quoted from FILE -->, still stands there."""
    for path, text in files.items():
        if path.endswith(".md") and not path.startswith(EXEMPT):
            for source, quote in re.findall(r"<!-- quoted from (\S+) -->\n```\w*\n(.*?)```", text, re.S):
                if source not in files or quote not in files[source]:
                    yield path, "error", f"quotes what no longer stands in {source}: {quote.splitlines()[0].strip()}"


def findings(files):
    """All findings of a tree {path: text}."""
    for path, text in files.items():
        if path.startswith(EXEMPT) or not path.endswith(CODE):
            continue
        for check in (include_findings, size_findings, habit_findings):
            yield from ((path, *finding) for finding in check(path, text))
        yield from ((path, *finding) for finding in listed_findings(path, text, files))
    yield from pass_findings(files)
    yield from link_findings(files)
    yield from quote_findings(files)


def binary_findings(build):
    """g4run needs no LLVM at run time."""
    program = Path(build) / "bin/g4run"
    if not program.exists():
        yield str(program), "error", "does not exist"
        return
    shown = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", shown):
        if re.search(r"LLVM|MLIR|lld|clang", library):
            yield "bin/g4run", "error", f"links {library}"


def read_tree():
    """{path: text} of every file that is or could be committed."""
    try:
        listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                                 text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):  # not a checkout: an unpacked archive
        listing = [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.is_file()]
        listing = [p for p in listing if not p.startswith(("build", ".git/"))]
    files = {}
    for path in listing:
        known = path.endswith((*CODE, ".md", ".cmake", "CMakeLists.txt"))
        if (ROOT / path).is_file():
            files[path] = (ROOT / path).read_text(errors="replace") if known and not path.startswith(EXEMPT) else ""
    return files


def self_test():
    """Each rule finds what it is there to find, and nothing in a tree that keeps it."""
    good = {
        "CMakeLists.txt": "",
        "README.md": "[a](docs/a.md)\n<!-- quoted from runtime/kv/Pool.h -->\n```cpp\n#pragma once\n```\n",
        "docs/a.md": "",
        "runtime/kv/CMakeLists.txt": "g4_library(g4_kv SOURCES Pool.cpp)",
        "runtime/kv/Pool.cpp": '#include "runtime/kv/Pool.h"\n#include <vector>\n',
        "runtime/kv/Pool.h": "#pragma once\n",
        "compiler/emit/CMakeLists.txt": "SOURCES Emit.cpp",
        "compiler/emit/Emit.cpp": '#include "runtime/module/Writer.h"\n#include "mlir/IR/Builders.h"\n',
        "passes/gemma/CMakeLists.txt": "FuseProjections.cpp",
        "passes/gemma/Passes.td": 'def FuseProjectionsPass : Pass<"gemma-fuse-projections">',
        "passes/gemma/FuseProjections.cpp": "#define GEN_PASS_DEF_FUSEPROJECTIONSPASS",
        "test/lit/passes/gemma/fuse-projections.mlir": "",
    }
    errors = [f for f in findings(good) if f[1] == "error"]
    assert not errors, errors
    wrong = {
        "llvm in runtime": {"runtime/kv/Pool.h": '#pragma once\n#include "llvm/ADT/StringRef.h"'},
        "mlir in g4run": {"tools/g4run/Main.h": '#pragma once\n#include <mlir/IR/Builders.h>'},
        "device in compiler": {"compiler/emit/Emit.cpp": '#include "runtime/device/Device.h"'},
        "long file": {"runtime/kv/Pool.h": "#pragma once\n" * (MAX_LINES + 1)},
        "no pragma once": {"runtime/kv/Pool.h": ""},
        "getenv": {"runtime/kv/Pool.cpp": 'std::getenv("X")'},
        "cl::opt": {"compiler/emit/Emit.cpp": "static llvm::cl::opt<bool> x;"},
        "machine path": {"docs/b.py": "open('" + "/ro" + "ot/x')"},
        "unlisted source": {"runtime/kv/Tree.cpp": ""},
        "listed under a longer name": {"runtime/kv/ool.cpp": ""},
        "pass without entry": {"passes/gemma/Passes.td": ""},
        "pass without source": {"passes/gemma/Passes.td": "def FuseProjectionsPass :\ndef OtherPass :",
                                "test/lit/passes/gemma/other.mlir": ""},
        "stale quote": {"README.md": "<!-- quoted from runtime/kv/Pool.h -->\n```cpp\n#pragma twice\n```\n"},
        "dead link": {"README.md": "[a](docs/b.md)"},
    }
    for name, change in wrong.items():
        assert any(f[1] == "error" for f in findings({**good, **change})), f"not found: {name}"
    untested = {k: v for k, v in good.items() if not k.endswith(".mlir")}
    assert any(f[1] == "error" for f in findings(untested)), "not found: pass without test"
    assert any(f[1] == "warning" for f in findings({**good, "runtime/kv/Pool.h": "#pragma once\n" * (WARN_LINES + 1)}))
    print(f"{len(wrong) + 2} rules can fail")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", help="build folder: also check what g4run links")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    files = read_tree()
    found = list(findings(files))
    if options.build:
        found += binary_findings(options.build)
    for path, level, message in found:
        print(f"{path}: {level}: {message}")
    errors = sum(level == "error" for _, level, _ in found)
    print(f"{len(files)} files, {errors} errors, {len(found) - errors} warnings")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
