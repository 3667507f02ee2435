"""The installed tree and the package: complete, movable, and enough to build the examples and run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "numerics"))
import common  # noqa: E402
from common import NANO, ROOT, Case  # noqa: E402


def run(*command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **kwargs)
    if done.returncode:
        raise common.Failure(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def cached(build, name):
    """A variable of the build's CMake cache."""
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found[1] if found else ""


class Installed(Case):

    def test_examples_build_from_the_installed_tree_and_run(self):
        artifact = self.tools.compile(NANO / "gemma4-nano-Q8_0.gguf")
        with common.scratch(self.tools) as folder:
            prefix, moved, build = folder / "first", folder / "moved", folder / "build"
            run("cmake", "--install", self.tools.build, "--prefix", prefix)
            prefix.rename(moved)  # nothing in it may remember where it was installed
            for text in moved.rglob("*.cmake"):
                self.ok(str(ROOT) in text.read_text() and f"names {ROOT}" or None, text.name)
            run("cmake", "-S", moved / "share/doc/g4/examples", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={moved}",
                f"-DCMAKE_CXX_COMPILER={cached(self.tools.build, 'CMAKE_CXX_COMPILER')}", "-DCMAKE_BUILD_TYPE=Release",
                f"-DCMAKE_CXX_COMPILER_LAUNCHER={cached(self.tools.build, 'CMAKE_CXX_COMPILER_LAUNCHER')}")
            run("cmake", "--build", build)

            question = "What is the capital of France?"
            answer = run(build / "generate", artifact, question)
            said = self.tools.run(artifact, "-p", question, "--temp", "0", "-n", "256").stdout.decode().strip()
            self.ok(None if said and said in answer else f"{answer!r} without {said!r}", "generate answers as g4run does")
            batch = run(build / "batch", artifact, "Say hello.", question, "Count to three.")
            self.equal(batch.count("\n> ") + batch.startswith("> "), 3, "answers of the batch")
            streams = run(build / "streams", artifact, "Say hello.", question, "Count to three.")
            self.equal(streams.count("\n> ") + streams.startswith("> "), 3, "answers of the streams")
            lines = run(build / "embed", artifact, "a cat", "a cat", "the capital of France").splitlines()
            same, other = (float(line.split()[0]) for line in lines)
            self.at_least(same, 0.9999, "cosine of a text with itself")
            self.at_most(other, 0.999, "cosine of unlike texts")
            bad = subprocess.run([build / "generate", ROOT / "README.md", question], capture_output=True, text=True)
            self.equal((bad.returncode, bad.stderr.count("\n")), (1, 1), f"a file that is no artifact: {bad.stderr!r}")

    def test_public_headers_include_nothing_that_is_not_installed(self):
        with common.scratch(self.tools) as folder:
            run("cmake", "--install", self.tools.build, "--prefix", folder)
            root = folder / "include/g4"
            for header in root.rglob("*.h"):
                for name in re.findall(r'#include "([^"]+)"', header.read_text()):
                    self.ok(None if (root / name).exists() else f"includes {name}", header.name)

    def test_the_debian_package_holds_programs_library_and_pages(self):
        with common.scratch(self.tools) as folder:
            run("cpack", "--config", self.tools.build / "CPackConfig.cmake", "-G", "DEB", "-B", folder)
            (package,) = folder.glob("*.deb")
            run("dpkg-deb", "-x", package, folder / "root")
            for name in ("bin/g4c", "bin/g4run", "bin/g4-runner", "include/g4/runtime/api/g4.h", "share/doc/g4/LICENSE"):
                self.ok(None if (folder / "root/usr" / name).is_file() else "is missing", name)
            fields = run("dpkg-deb", "-f", package)
            for wanted in ("libllvm22", "libmlir-22", "libc6"):
                self.ok(None if re.search(rf"^Depends:.*\b{wanted}", fields, re.MULTILINE) else fields, f"depends on {wanted}")
            for program in ("g4run", "g4c"):
                version = run(folder / "root/usr/bin" / program, "--version")
                self.ok(None if re.search(r"\d+\.\d+\.\d+", version) else version, f"version of the packaged {program}")


if __name__ == "__main__":
    common.main()
