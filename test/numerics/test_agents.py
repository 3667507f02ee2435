"""Conversations as chat clients and agents hold them, on the shipped model: what a turn computes again, memory, and hit rates."""

import json
import subprocess

import numpy as np

import common
from common import NANO, Case, say

ALL = 10**6  # steps


class Driver:
    """A scheduler-driver that is talked to, a command at a time."""

    def __init__(self, tools, artifact, **options):
        self.process = subprocess.Popen([tools.bin / "scheduler-driver", artifact, json.dumps(options)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def resident(self):
        """Bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def common_length(a, b):
    n = min(len(a), len(b))
    differ = np.nonzero(np.asarray(a[:n]) != np.asarray(b[:n]))[0]
    return int(differ[0]) if len(differ) else n


class Conversation:
    """Messages, and what each turn computed that had been computed before."""

    def __init__(self, driver, system, thinking=False):
        self.driver, self.thinking = driver, thinking
        self.messages = [{"role": "system", "content": system}]
        self.histories = []  # ids of prompts with their answers
        self.prompt = []
        self.thoughtful = 0  # turns with thoughts, which the next prompt does not have

    def ask(self, content):
        self.messages.append({"role": "user", "content": content})
        return self.submit()

    def submit(self, tokens=96):
        chat = {"messages": self.messages, "enable_thinking": self.thinking}
        said = self.driver(submit={"chat": chat, "tokens": tokens, "seed": 1 + len(self.histories), "stop": True})
        self.prompt = said["ids"]
        self.answer = said["answer"]
        return self.answer

    def end(self):
        """Takes the answer into the messages. Tokens of the prompt that an earlier one had too and that were computed again."""
        got = self.driver(take=self.answer)
        known = max((common_length(self.prompt, h) for h in self.histories), default=0)
        self.thoughtful += got["thoughts"] > 0
        self.histories.append(self.prompt + got["ids"])
        self.messages.append({"role": "assistant", "content": got["text"]})
        return max(known - got["cached"], 0)

    def turn(self, content):
        self.ask(content)
        self.driver(step=ALL)
        return self.end()

    def again(self):
        """The last answer once more."""
        self.messages.pop()
        self.submit()
        self.driver(step=ALL)
        return self.end()

    def back(self, turns):
        """Forgets the last turns."""
        del self.messages[len(self.messages) - 2 * turns:]


class Agents(Case):

    def setUp(self):
        super().setUp()
        self.text = (NANO / "heldout.txt").read_text().split()
        self.rng = np.random.default_rng(11)

    def words(self, count):
        start = int(self.rng.integers(0, len(self.text) - count))
        return " ".join(self.text[start:start + count])

    def question(self, words):
        """That many words, and a sum, which the model likes to think about."""
        a, b = self.rng.integers(11, 89, 2)
        return f"{self.words(words)} What is {a} + {b}?".strip()

    def open(self, **options):
        return Driver(self.tools, self.tools.compile(NANO / "gemma4-nano-Q8_0.gguf"), **options)

    def trace(self, driver, thinking):
        """The conversation, and (what was done, tokens computed again) of 30 turns."""
        talk = Conversation(driver, self.words(100), thinking)
        done = [("first", talk.turn(self.question(160)))]
        talk.back(1)
        done.append(("edit", talk.turn("Now: " + self.question(0))))
        while len(done) < 30:
            kind = ("grow", "grow", "again", "long", "edit", "grow", "grow", "edit", "branch", "grow")[len(done) % 10]
            if kind == "edit":  # another last message
                talk.back(1)
                done.append((kind, talk.turn("Now: " + self.question(0))))
            elif kind == "again":
                done.append((kind, talk.again()))
            elif kind == "branch":
                talk.back(2)
                done.append((kind, talk.turn("But: " + self.question(0))))
            else:
                done.append((kind, talk.turn(self.question(160 if kind == "long" else 0))))
        return talk, done

    def test_turns_compute_at_most_a_page_again(self):
        """Turns that add a message; the last answer once more; the last message, also a long one, written anew; two turns
        forgotten. Thoughts are not in the next prompt."""
        for thinking in (False, True):
            with self.subTest(thinking=thinking), self.open(sequences=2, kv_tokens=16384) as driver:
                talk, done = self.trace(driver, thinking)
                stats, last = driver(step=0), len(talk.prompt)
                say(f"thinking {thinking}: {talk.thoughtful} turns with thoughts, {last} tokens in the last prompt, {stats['prompt_tokens']} in all, {stats['cached_tokens']} "
                    f"of them found; computed again: {' '.join(f'{kind} {n}' for kind, n in done)}")
                self.at_least(talk.thoughtful, 10 if thinking else 0, "turns with thoughts")
                self.at_least(last, 500, "tokens of the last prompt")
                for number, (kind, again) in enumerate(done):
                    self.at_most(again, stats["page_tokens"], f"turn {number} ({kind}): tokens computed again")

    def test_memory_stays_over_500_turns(self):
        """Once every page has been used, which is soon: they are few."""
        with self.open(sequences=1, kv_tokens=4096) as driver:
            resident, talk = [], None
            for turn in range(500):
                if talk is None or len(talk.prompt) > 1400:
                    talk = Conversation(driver, self.words(30), turn % 2 == 0)
                talk.turn(self.words(12))
                resident.append(driver.resident() / 2**20)
            stats = driver(step=0)
            slope = np.polyfit(np.arange(100, 500), resident[100:], 1)[0] * 100
            say(f"{resident[0]:.1f} MiB after 1 turn, {resident[99]:.1f} after 100, {resident[-1]:.1f} after 500: {slope:+.3f} in 100; "
                f"{stats['evicted_pages']} pages given up")
            self.at_least(stats["evicted_pages"], 100, "pages given up: else the cache just grows")
            self.at_most(slope, 1, "MiB in 100 turns")

    def test_sixteen_clients(self):
        with self.open(sequences=16, prefill_rows=64, kv_tokens=32768) as driver:
            system = self.words(60)
            talks = [Conversation(driver, system, i % 4 == 0) for i in range(16)]
            left = {talk.ask(self.words(10)): (talk, 5) for talk in talks}
            most = 0
            while left:
                for answer in driver(step=1)["ended"]:
                    talk, turns = left.pop(answer)
                    most = max(most, talk.end())
                    if turns > 1:
                        left[talk.ask(self.words(10))] = talk, turns - 1
            stats = driver(step=0)
            rate = stats["cached_tokens"] / stats["prompt_tokens"]
            say(f"{stats['finished']} answers in {stats['steps']} steps; {stats['cached_tokens']} of {stats['prompt_tokens']} tokens of "
                f"prompts found ({rate:.0%}), at most {most} computed again")
            self.equal(stats["finished"], 80, "answers")
            self.at_most(most, stats["page_tokens"], "tokens computed again in a turn")
            self.at_least(rate, 0.5, "part of the prompts' tokens that was found")


if __name__ == "__main__":
    common.main()
