"""A program on a pseudo-terminal, seen as a person sees it: tmux keeps the screen."""

import os
import re
import shlex
import subprocess
import tempfile
import time


class Terminal:
    """A tmux server of its own with one window that runs `command`."""

    def __init__(self, command, width=80, height=24, env=None):
        self.folder = tempfile.TemporaryDirectory(prefix="g4-terminal-")
        self.socket = os.path.join(self.folder.name, "tmux")
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **(env or {})}
        self.environment.pop("TMUX", None)
        words = " ".join(shlex.quote(str(w)) for w in command)
        exports = " ".join(f"{k}={shlex.quote(v)}" for k, v in (env or {}).items())
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height),
                  f"env {exports} {words}; echo \"exit code $?\"; sleep 1000")

    def tmux(self, *args, stdin=None):
        done = subprocess.run(["tmux", "-u", "-S", self.socket, *args], capture_output=True, env=self.environment,
                              input=stdin, timeout=20)
        if done.returncode:
            raise RuntimeError(f"tmux {args[0]}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode()

    def keys(self, *names):
        """Keys by tmux's names: "Enter", "C-c", "M-Enter"."""
        self.tmux("send-keys", *names)

    def enter(self, text):
        """Types a line and sends it."""
        self.type(text)
        self.keys("Enter")

    def type(self, text):
        for start in range(0, len(text), 2000):
            self.tmux("send-keys", "-l", "--", text[start:start + 2000])

    def paste(self, text):
        """As a terminal pastes: marked, if the program asked for marks."""
        self.tmux("load-buffer", "-", stdin=text.encode())
        self.tmux("paste-buffer", "-p", "-d")

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, history=False, colours=False):
        """The text, wrapped lines joined; with what has scrolled away, with escape sequences if asked for."""
        text = self.tmux("capture-pane", "-p", "-J", *(["-S", "-"] if history else []), *(["-e"] if colours else []))
        return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))

    def wait(self, pattern, timeout=20, **options):
        """The match of `pattern` once it is there."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            screen = self.screen(**options)
            if match := re.search(pattern, screen, re.S):
                return match
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} on the screen:\n{screen}")

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, env=self.environment)
        self.folder.cleanup()
