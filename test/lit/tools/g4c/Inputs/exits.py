"""usage: exits.py CODE LINES program [arguments]

Succeeds when the program exits with CODE and writes LINES lines ("any": any number) to stderr. Passes its output on.
"""

import subprocess
import sys

code, lines, *command = sys.argv[1:]
done = subprocess.run(command, capture_output=True, check=False)
sys.stdout.buffer.write(done.stdout)
sys.stderr.buffer.write(done.stderr)
said = done.stderr.count(b"\n")
wrong = []
if done.returncode != int(code):
    wrong.append(f"exit code {done.returncode}, expected {code}")
if lines != "any" and said != int(lines):
    wrong.append(f"{said} lines of messages, expected {lines}")
for line in wrong:
    print("exits.py:", line, file=sys.stderr)
sys.exit(bool(wrong))
