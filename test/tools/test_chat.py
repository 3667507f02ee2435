"""g4run chat: through a terminal, and through pipes."""

import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import NANO, Case, main
from terminal import Terminal

PROMPT = "\n>"


class Chat(Case):
    @classmethod
    def setUpClass(cls):
        cls.model = cls.tools.compile(NANO / "gemma4-nano-Q8_0.gguf")
        shown = cls.tools.call("g4run", "tokenize", cls.model, "--no-bos", "<turn|><eos>").stdout.decode()
        cls.endless = [f"--logit-bias={token}=-inf" for token in shown.strip().split(",")]

    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def open(self, *args, env=None, **options):
        environment = {"XDG_STATE_HOME": self.folder.name, **(env or {})}
        terminal = Terminal([self.tools.bin / "g4run", "chat", self.model, "--temp", "0", *args], env=environment,
                            **options)
        self.addCleanup(terminal.close)
        terminal.wait(PROMPT)
        return terminal

    def sees(self, terminal, pattern, **options):
        self.compared += 1
        return terminal.wait(pattern, **options)

    def piped(self, text, *args, expect=0):
        done = self.tools.call("g4run", "chat", self.model, "--temp", "0", *args, stdin=text.encode(), expect=expect)
        return done.stdout.decode(), done.stderr.decode()

    # ---- on a terminal

    def test_answers_and_remembers(self):
        t = self.open()
        self.sees(t, r"Gemma4 Nano\ncontext of 2048 tokens")
        t.enter("What is the capital of France?")
        self.sees(t, r"> What is the capital of France\?\n.*Paris.*\n\n>")
        t.enter("/stats")
        first = self.sees(t, r"prompt +(\d+) tokens, (\d+) of them kept from before.*\nanswer.*\ncontext +\d+ of 2048")
        self.equal(int(first[2]), 0, "kept of the first prompt")
        t.enter("And of Italy?")
        self.sees(t, r"> And of Italy\?\n[^\n]+\n\n>")
        t.keys("C-l")
        t.enter("/stats")
        second = self.sees(t, r"/stats\nprompt +(\d+) tokens, (\d+) of them kept")
        # All that the first turn's prompt and answer have in common with the second prompt is kept.
        self.at_least(int(second[2]), 8, "kept of the second prompt")
        t.keys("C-d")
        self.sees(t, r"exit code 0")

    def test_ctrl_c_stops_the_answer_not_the_program(self):
        t = self.open(*self.endless)
        t.enter("Tell me a story.")
        self.sees(t, r"Tell me a story\.\n\S{3}")
        t.keys("C-c")
        self.sees(t, r"\[stopped\]\n\n>")
        t.enter("/stats")
        self.sees(t, r"answer +\d+ tokens")
        t.keys("C-c")
        self.sees(t, r"Ctrl-C again, or Ctrl-D, leaves\n\n>")
        t.keys("C-c")
        self.sees(t, r"exit code 130")

    def test_lines_typed_during_an_answer_wait_their_turn(self):
        t = self.open(*self.endless, "-n", "500", height=120)  # long enough to type during it
        t.enter("Tell me a story.")
        self.sees(t, r"story\.\n\S{3}")
        t.enter("/stats")
        t.type("/think maybee")
        t.keys("BSpace", "Enter")  # edited as at the prompt
        t.paste("What is\n3 + 4?")
        t.keys("Enter")
        t.type("Hel")
        self.equal("/stats" in t.screen(), False, "keys on the screen during the answer")
        self.sees(t, r"-n allows\]\n\n> /stats\nprompt +\d+ tokens[^>]+\n\n> /think maybe\nusage: /think on\|off\n\n"
                     r"> What is\n\s*3 \+ 4\?\n[^>]+-n allows\]\n\n> Hel$")
        t.enter("lo")
        self.sees(t, r"> Hello\n[^>]+\n\n>$")

    def test_ctrl_c_forgets_lines_typed_ahead(self):
        t = self.open(*self.endless, "-n", "200")
        t.enter("Tell me a story.")
        self.sees(t, r"story\.\n\S{3}")
        t.enter("And another.")
        t.enter("/stats")
        self.sees(t, r"> And another\.\n\S")
        t.keys("C-c")
        self.sees(t, r"\[stopped\]\n\n>$")
        t.enter("/think on")
        self.sees(t, r"\[stopped\]\n\n> /think on\nthe model thinks[^>]+>$")
        t.keys("C-d")
        self.sees(t, r"exit code 0")
        t.type("typed to the shell")  # whose terminal echoes again
        self.sees(t, r"exit code 0\ntyped to the shell")

    def test_pasted_lines_are_one_message(self):
        t = self.open()
        t.paste("/help is no command here:\nWhat is the capital\nof France?\n")
        self.sees(t, r"> /help is no command here:\n\s*What is the capital\n\s*of France\?")
        t.keys("Enter")
        self.sees(t, r"of France\?\n[^\n]+\n\n>")
        path = Path(self.folder.name) / "saved.json"
        t.enter(f"/save {path}")
        self.sees(t, r"saved 2 messages")
        messages = json.loads(path.read_text())["messages"]
        self.equal(messages[0]["content"], "/help is no command here:\nWhat is the capital\nof France?", "message")
        t.type("two")
        t.keys("M-Enter")
        t.type("lines")
        self.sees(t, r"> two\n\s*lines")
        t.keys("C-c")
        self.sees(t, r"Ctrl-C again")

    def test_thoughts_are_dim(self):
        t = self.open()
        t.enter("/think on")
        self.sees(t, r"the model thinks before it answers")
        t.enter("What is 3 + 4?")
        self.sees(t, r"What is 3 \+ 4\?\n[^\n]+.*\n[^\n]*7[^\n]*\n\n>")
        screen = t.screen(colours=True)
        self.equal(bool(re.search(r"4\?.*\x1b\[2m[^\x1b]+\x1b\[0m", screen, re.S)), True, f"dim text in {screen!r}")
        self.equal("<channel|>" in screen, False, "marks on the screen")
        t.enter("/think maybe")
        self.sees(t, r"usage: /think on\|off")

    def test_no_color(self):
        t = self.open("--think", env={"NO_COLOR": "1"})
        t.enter("What is 3 + 4?")
        self.sees(t, r"\[thought\]\n.*\[answer\]\n.*\n>")
        self.equal("\x1b[" in t.screen(colours=True), False, "escape sequences with NO_COLOR")

    def test_unknown_commands_get_a_hint(self):
        t = self.open()
        t.enter("/rest")
        self.sees(t, r"no command /rest: did you mean /reset\?")
        t.enter("/help")
        for command in ("/help", "/reset", "/system", "/think", "/save", "/load", "/stats", "/quit"):
            self.sees(t, rf"\n  {command}\b")
        t.enter("/quit")
        self.sees(t, r"exit code 0")

    def test_ten_thousand_characters(self):
        t = self.open()
        t.type("word " * 2000 + "end")
        self.sees(t, r"d end$")
        t.keys("Enter")
        self.sees(t, r"d end\n[^\n]+\n\n>$")
        t.enter("/stats")
        stats = self.sees(t, r"prompt +(\d+) tokens")
        self.at_least(int(stats[1]), 2000, "tokens of the message")
        t.paste("x7q " * 2500)
        self.sees(t, r"q$")
        t.keys("Enter")  # more tokens than the context has
        self.sees(t, r"no room for this message: with it there are \d+\s+tokens, and the context is 2048")
        t.keys("Up", "Up", "Up", "C-u")  # back to the first, and erase it
        t.type("Hi")
        self.sees(t, r"\n> Hi$")

    def test_utf8_wide_characters_and_editing(self):
        t = self.open()
        t.type("日本 caf\u00e9 👍 x")
        t.keys("BSpace", "BSpace", "BSpace")  # the x, the space, one whole character
        t.type("!")
        t.keys("Home", "Delete")  # 日
        t.type("東")
        self.sees(t, r"> 東本 caf\u00e9 !$")
        t.keys("Enter")
        self.sees(t, r"> 東本 caf\u00e9 !\n.*\n>$")
        path = Path(self.folder.name) / "saved.json"
        t.enter(f"/save {path}")
        self.sees(t, r"saved 2 messages")
        self.equal(json.loads(path.read_text())["messages"][0]["content"], "東本 caf\u00e9 !", "message")

    def test_history_outlives_the_program_and_can_be_edited(self):
        t = self.open()
        t.enter("/system be brief")
        self.sees(t, r"system message set")
        t.keys("C-d")
        self.sees(t, r"exit code 0")
        t.close()
        t = self.open()
        t.keys("Up")
        self.sees(t, r"> /system be brief")
        t.keys("C-w")
        t.enter("kind")
        self.sees(t, r"> /system be kind\nsystem message set")
        mode = os.stat(Path(self.folder.name) / "g4" / "history").st_mode & 0o777
        self.equal(mode, 0o600, "mode of the history file")

    def test_window_resize(self):
        t = self.open(width=100)
        t.type("one two three four five six seven eight nine ten eleven twelve")
        t.resize(40, 20)
        t.type(" thirteen")
        self.sees(t, r"twelve thirteen")
        t.resize(90, 24)
        t.type(" fourteen")
        t.keys("Home")
        t.type("zero ")
        t.keys("End", "Enter")
        self.sees(t, r"\n\n>$", history=True)
        path = Path(self.folder.name) / "saved.json"
        t.enter(f"/save {path}")
        self.sees(t, r"saved 2 messages")
        self.equal(json.loads(path.read_text())["messages"][0]["content"],
                   "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen", "message")

    def test_a_full_context_is_said_and_reset_helps(self):
        t = self.open(*self.endless, "--context", "64")
        t.enter("Tell me a story.")
        self.sees(t, r"the context of 64 tokens is full\. /reset begins a new conversation", timeout=40)
        t.enter("And then?")
        self.sees(t, r"no room for this message")
        t.enter("/reset")
        self.sees(t, r"a new conversation\n\n>")
        t.enter("Hi")
        self.sees(t, r"> Hi\n\S")

    def test_one_answer_on_a_terminal_and_in_a_pipe(self):
        ask = ["--temp", "0", "--think", "-p", "What is 3 + 4?"]
        t = Terminal([self.tools.bin / "g4run", self.model, *ask])
        self.addCleanup(t.close)
        self.sees(t, r"exit code 0")
        screen = t.screen(colours=True)
        self.equal(bool(re.search(r"\x1b\[2m[^\x1b]+\x1b\[0m", screen)) and "channel" not in screen, True, screen)
        piped = self.tools.run(self.model, *ask).stdout.decode()
        self.equal(piped.startswith("<|channel>thought\n") and "\x1b" not in piped, True, piped)

    def test_sigterm_ends_the_prompts_line(self):
        t = self.open()
        t.type("half a li")
        self.sees(t, r"> half a li$")
        child = subprocess.run(["pgrep", "-P", t.tmux("list-panes", "-F", "#{pane_pid}").strip()], capture_output=True, check=True)
        os.kill(int(child.stdout), signal.SIGTERM)
        self.sees(t, r"> half a li\n(Terminated\s*)?exit code 143")

    # ---- through pipes

    def test_pipes_have_no_prompts_and_no_colours(self):
        out, err = self.piped("What is the capital of France?\n\nAnd of Italy?\n")
        self.equal(err, "", "standard error")
        self.equal("Paris" in out and "\x1b" not in out and ">" not in out, True, out)
        self.equal(len(out.splitlines()), 2, out)

    def test_standard_output_of_a_pipe_has_answers_alone(self):
        ask = "What is the capital of France?\n"
        answer, _ = self.piped(ask)
        saved = Path(self.folder.name) / "saved.json"
        out, err = self.piped(f"/help\n/system\n/think off\n{ask}/stats\n/save {saved}\n/load {saved}\n/reset\n")
        self.equal(out, answer, "standard output")
        for note in ("/help  ", "no system message", "without thinking", "prompt  ", "saved 2", "loaded 2", "a new conversation"):
            self.equal(note in err, True, f"{note} in {err}")
        out, err = self.piped(ask, "-n", "3")
        self.equal(err, "[3 tokens, the most that -n allows]\n", "note")
        self.equal(answer.startswith(out.strip()) and len(out) > 1, True, out)

    def test_a_line_that_fails_in_a_pipe_fails_the_chat(self):
        good, long = "What is the capital of France?", "word " * 3000
        for bad, reason in ((long, "no room for this message"), ("/rest", "no command /rest"), ("/load /nonexistent", "No such file")):
            out, err = self.piped(f"{good}\n{bad}\n{good}\n/quit\n", expect=1)
            self.equal(out.count("Paris"), 2, f"answers in {out}")
            self.equal(err.startswith("g4run: line 2: ") and reason in err and err.count("\n") == 1, True, err)

    def test_ctrl_c_ends_a_chat_in_a_pipe(self):
        command = [self.tools.bin / "g4run", "chat", self.model, *self.endless]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as chat:
            chat.stdin.write(b"Tell me a story.\n/help\n")
            chat.stdin.flush()
            self.equal(len(chat.stdout.read(1)), 1, "an answer begins")
            chat.send_signal(signal.SIGINT)
            _, err = chat.communicate(timeout=20)
        self.equal((chat.returncode, err), (130, b"[stopped]\n"), "exit code, and nothing of the next line")

    def test_a_conversation_is_saved_and_loaded(self):
        path = Path(self.folder.name) / "a.json"
        self.piped(f"What is the capital of France?\n/think on\n/system Be brief.\n/save {path}\n")
        saved = json.loads(path.read_text())
        self.equal([m["role"] for m in saved["messages"]], ["system", "user", "assistant"], "roles")
        self.equal(saved["enable_thinking"], True, "thinking")
        again = Path(self.folder.name) / "b.json"
        self.piped(f"/load {path}\n/save {again}\n")
        self.equal(json.loads(again.read_text()), saved, "saved again")
        self.piped(f"/save {again}\n", "--load", path)
        self.equal(json.loads(again.read_text()), saved, "saved after --load")
        # The file is what g4run --chat reads, too.
        saved["messages"].append({"role": "user", "content": "Thanks."})
        path.write_text(json.dumps(saved))
        self.tools.run(self.model, "--chat", path, "-n", "5")

    def test_options_change_a_loaded_conversation(self):
        path, again = Path(self.folder.name) / "a.json", Path(self.folder.name) / "b.json"
        turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        path.write_text(json.dumps({"messages": [{"role": "system", "content": "old"}, *turns], "enable_thinking": False}))
        for flags, system, thinks in (((), "old", False), (("--system", "new", "--think"), "new", True)):
            self.piped(f"/save {again}\n", "--load", path, *flags)
            saved = json.loads(again.read_text())
            self.equal((saved["messages"], saved["enable_thinking"]),
                       ([{"role": "system", "content": system}, *turns], thinks), f"{flags}")

    def test_stats_are_those_of_this_conversation(self):
        path = Path(self.folder.name) / "a.json"
        _, notes = self.piped(f"Hi\n/stats\n/save {path}\n/reset\n/stats\nHi\n/load {path}\n/stats\n", "-n", "3")
        stats = re.findall(r"prompt +(\d+) tokens.*\nanswer +(\d+) tokens.*\ncontext +(\d+) of", notes)
        self.equal(["0" in values for values in stats], [False, True, True], notes)
        self.equal(stats[1:], [("0", "0", "0")] * 2, notes)

    def test_the_history_is_not_saved_over(self):
        t = self.open()
        history = Path(self.folder.name) / "g4" / "history"
        t.enter("/stats")
        self.sees(t, r"context +0 of")
        t.enter(f"/save {history}")
        self.sees(t, r"it is the\s+input")
        self.equal(history.read_text().startswith("/stats\n"), True, "the history")

    def test_bad_files_are_refused_and_the_chat_goes_on(self):
        path = Path(self.folder.name) / "bad.json"
        cases = {b"{": "not valid JSON", b"[]": "list 'messages'", b'{"messages": 3}': "list 'messages'",
                 b'{"messages": [3]}': "message 1: not an object",
                 b'{"messages": [{"role": "tool", "content": "x"}]}': "message 1: it is not of the user",
                 b'{"messages": [{"role": "user", "content": [1]}]}': "message 1: part 1 has no type",
                 b'{"messages": [{"role": "user", "content": "x"}]}': "the last message has no answer",
                 b'{"messages": [], "enable_thinking": 1}': "neither true nor false",
                 b'\xff{"messages": []}': "not valid JSON", b"[" * 100000: "not valid JSON"}
        for content, reason in cases.items():
            path.write_bytes(content)
            _, err = self.piped(f"/load {path}\n/think on\n", expect=1)
            self.equal((reason in err, err.count("\n")), (True, 2), f"{content[:60]}: {err}")
            self.equal("thinks" in err, True, "the chat goes on")
            self.piped("", "--load", path, expect=1)
        _, err = self.piped(f"/load {path}.absent\n/save /nonexistent/x.json\n", expect=1)
        self.equal(err.count("\n"), 2, err)

    def test_thoughts_do_not_cost_the_next_prompt(self):
        # A thought longer than the sliding window (128): the next prompt leaves it out, and still nothing before it is
        # computed again.
        _, notes = self.piped("/think on\nWhat is 3 + 4?\n/stats\nWhat is 5 + 6?\n/stats\n", *self.endless, "-n", "300")
        stats = [tuple(map(int, m)) for m in re.findall(r"prompt +(\d+) tokens, (\d+) of them kept", notes)]
        self.equal(len(stats), 2, notes)
        self.at_least(stats[1][1], stats[0][0] - 16, f"kept of the second prompt: {stats}")


if __name__ == "__main__":
    main()
