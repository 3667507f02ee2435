"""What is said about the command lines: pages quote --help as it is, completion and manual pages know every option."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import ROOT, Case, main

PROGRAMS = ("g4run", "g4c", "g4-runner")
QUOTE = re.compile(r"<!-- output of (.+?) -->\n```\w*\n(.*?)```", re.S)


class Descriptions(Case):
    def out(self, *args):
        return self.tools.call(*args).stdout.decode()

    def options(self, help_text):
        """The long names that lines of --help begin with."""
        lines = re.findall(r"(?m)^  (-.*?)(?:  |$)", help_text)
        return set(re.findall(r"--[a-z][a-z-]+", " ".join(lines))) - {"--help", "--help-list"}

    def test_pages_quote_what_the_programs_print(self):
        found = set()
        for page in sorted((ROOT / "docs").rglob("*.md")):
            for command, quote in QUOTE.findall(page.read_text()):
                self.equal(quote.strip(), self.out(*command.split()).strip(), f"{page.name}: {command}")
                found.add(command)
        commands = re.findall(r"^  (\w+)  ", self.out("g4run", "--help").partition("Subcommands:")[2], re.M)
        self.at_least(len(commands), 8, "commands in --help")
        for command in commands:
            self.equal(f"g4run {command} --help" in found, True, f"a page quotes g4run {command} --help")
        self.equal({"g4run --help", "g4c --help", "g4-runner --help"} <= found, True, "the programs' own pages")

    def test_completion_knows_every_option(self):
        for program, ask in (("g4run", ["completion"]), ("g4c", None), ("g4-runner", None)):
            helps = self.out(program, "--help")
            if ask:
                for command in re.findall(r"^  (\w+)  ", helps.partition("Subcommands:")[2], re.M):
                    helps += self.out(program, command, "--help")
            names = self.options(helps)
            self.at_least(len(names), 10, "options")
            for shell in ("bash", "zsh", "fish"):
                script = self.out(program, *ask, shell) if ask else self.out(program, f"--completion={shell}")
                for name in names:
                    written = f"-l {name[2:]}" if shell == "fish" else name
                    self.equal(written in script, True, f"{program} {shell}: {name}")

    def complete(self, program, line):
        """What bash offers at the end of `line`."""
        ask = ["completion", "bash"] if program == "g4run" else ["--completion=bash"]
        script = self.out(program, *ask)
        probe = f"""{script}
words=({line}) ; [[ "{line}" == *" " ]] && words+=("")
COMP_WORDS=("${{words[@]}}") COMP_CWORD=$((${{#words[@]}} - 1))
compopt() {{ :; }}
_{program}
printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "--norc"], input=probe.encode(), capture_output=True, cwd=ROOT / "models", timeout=20)
        self.equal(done.stderr, b"", "bash")
        return set(done.stdout.decode().split())

    def test_bash_completes(self):
        self.at_least(len({"chat", "bench", "gemma4-nano"} & self.complete("g4run", "g4run ")), 3, "commands and files")
        self.equal(self.complete("g4run", "g4run cha"), {"chat"}, "a command")
        self.equal(self.complete("g4run", "g4run bench --pro"), {"--profile"}, "an option of a command")
        self.equal(self.complete("g4run", "g4run cache c"), {"clear"}, "a command of a command")
        self.equal(self.complete("g4run", "g4run completion "), {"bash", "zsh", "fish"}, "choices")
        self.equal(self.complete("g4c", "g4c --dry"), {"--dry-run"}, "an option of g4c")
        self.equal(self.complete("g4-runner", "g4-runner --st"), {"--stats"}, "an option of g4-runner")
        self.equal("f32" in self.complete("g4c", "g4c --emit = "), False, "values of another option")
        self.equal("exec" in self.complete("g4c", "g4c --emit = "), True, "values of an option")

    def test_scripts_are_valid(self):
        for program, ask in (("g4run", ["completion", "{}"]), ("g4c", ["--completion={}"]), ("g4-runner", ["--completion={}"])):
            for shell in ("bash", "zsh", "fish"):
                script = self.out(program, *(a.format(shell) for a in ask))
                if not shutil.which(shell):
                    continue  # bash is always there
                done = subprocess.run([shell, "-n"], input=script.encode(), capture_output=True)
                self.equal((done.returncode, done.stderr), (0, b""), f"{program} {shell}")

    def test_manual_pages(self):
        for program in PROGRAMS:
            page = self.tools.build / f"share/man/man1/{program}.1"
            self.equal(page.read_text(), self.out(program, "--man"), "the built page")
            text = page.read_text().replace("\\-", "-").replace("\\&", "")
            for name in self.options(self.out(program, "--help")):
                self.equal(name in text, True, f"{program}.1: {name}")
            for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES"):
                self.equal(f".SH {section}\n" in text, True, f"{program}.1: {section}")
            if shutil.which("groff"):
                done = subprocess.run(["groff", "-man", "-Tascii", "-ww", page], capture_output=True)
                self.equal(done.stderr, b"", f"groff on {program}.1")

    def test_exit_codes_and_single_lines(self):
        for program, args in (("g4run", ["--nonsense"]), ("g4run", ["chat"]), ("g4run", ["completion", "tcsh"]),
                              ("g4run", ["cache"]), ("g4c", ["--completion=tcsh"]), ("g4c", ["--nonsense", "x"]),
                              ("g4-runner", []), ("g4-runner", ["x.g4m"]), ("g4-runner", ["--completion=tcsh"]),
                              ("g4-runner", ["x.g4m", "--ids", "2,,3"])):
            done = self.tools.call(program, *args, expect=2)
            self.equal((done.stderr.count(b"\n"), done.stdout), (1, b""), f"{program} {args}: {done.stderr}")
        for program in PROGRAMS:
            self.equal(bool(re.match(rf"{program} \d+\.\d+\.\d+", self.out(program, "--version"))), True, "version")


if __name__ == "__main__":
    main()
