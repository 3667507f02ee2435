"""g4run loadtest: what it asks for, what it measures and counts, against a server that is told what to do, and ours."""

import json
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from fake_server import FakeServer
from programs import NANO, ROOT, Case, main, scratch
from serving import Serving

TIMES = {"count", "p50", "p95", "p99", "max", "mean"}
FIELDS = {"server", "model", "g4run", "workload", "seconds", "requests", "complete", "cancelled", "failed", "unfinished",
          "complete_per_second", "prompt_tokens", "cached_tokens", "answer_tokens", "prompt_tokens_per_second",
          "answer_tokens_per_second", "first_token_seconds", "inter_token_seconds", "per_token_seconds", "request_seconds",
          "errors"}
WORKLOAD = {"seed", "clients", "rate", "prompt_tokens", "answer_tokens", "shared_prefix", "prefixes", "cancel"}
LATE = 2.0  # seconds that a busy machine may take longer than it should


async def well(number, answer):
    await answer.stream()


class LoadTest(Case):
    def load(self, server, *args, expect=0):
        """The JSON of a test."""
        url = server if isinstance(server, str) else server.url
        done = self.tools.call("g4run", "loadtest", url, "--json", "-", *args, expect=expect, timeout=60)
        self.said = done.stderr.decode()
        out = json.loads(done.stdout) if done.stdout else None
        if out:
            self.equal((set(out), set(out["workload"]), set(out["request_seconds"])), (FIELDS, WORKLOAD, TIMES), "fields")
        return out

    def within(self, value, least, what):
        self.at_least(value, least, what)
        self.at_most(value, least + LATE, what)


class Measures(LoadTest):
    def test_times_and_counts(self):
        async def behave(number, answer):
            await answer.stream(first=0.15, gap=0.03, cached=16)

        with FakeServer(behave) as server:
            out = self.load(server, "--clients", 3, "--requests", 12, "--prompt-tokens", 20, "--answer-tokens", 5)
        self.equal([out[k] for k in ("model", "requests", "complete", "cancelled", "failed", "unfinished")],
                   ["fake", 12, 12, 0, 0, 0], "counts")
        self.equal((out["prompt_tokens"], out["cached_tokens"], out["answer_tokens"]), (240, 192, 60), "tokens")
        for name, count, least in (("first_token", 12, 0.15), ("inter_token", 48, 0), ("per_token", 12, 0.025),
                                   ("request", 12, 0.27)):
            times = out[f"{name}_seconds"]
            self.equal(times["count"], count, name)
            self.within(times["p50"], least, name)
            self.equal(times["p50"] <= times["p95"] <= times["p99"] <= times["max"], True, name)
        self.at_least(out["inter_token_seconds"]["mean"], 0.025, "gaps")
        self.within(out["seconds"], 4 * 0.27, "four requests after another")
        self.at_most(abs(out["answer_tokens_per_second"] * out["seconds"] - 60), 1e-6, "rate")
        self.equal((server.most, server.connections), (3, 3), "as many at once as clients, on connections that are kept")

    def test_requests_are_those_of_the_seed(self):
        args = ["--prompt-tokens", "5:40", "--answer-tokens", "lognormal:10", "--shared-prefix", 30, "--prefixes", 2,
                "--requests", 20, "--clients", 4]
        asked = []
        for seed in (1, 1, 2):
            with FakeServer(well) as server:
                self.equal(self.load(server, *args, "--seed", seed)["complete"], 20, "complete")
            asked.append(sorted(json.dumps(body) for body in server.bodies))
        self.equal(asked[0] == asked[1], True, "the same seed")
        self.equal(set(asked[0]) & set(asked[2]), set(), "another seed")
        bodies = [json.loads(body) for body in asked[0]]
        self.equal(len({tuple(b["prompt"][:30]) for b in bodies}), 2, "prefixes")
        self.equal(all(35 <= len(b["prompt"]) <= 70 for b in bodies), True, "lengths")
        self.at_least(len({b["max_tokens"] for b in bodies}), 5, "lengths of answers")
        self.equal(all(b["stream"] and b["ignore_eos"] and b["stream_options"]["include_usage"] for b in bodies), True, "body")

    def test_a_rate_waits_for_no_answer(self):
        async def behave(number, answer):
            await answer.stream(first=1.0)

        with FakeServer(behave) as server:
            out = self.load(server, "--rate", 40, "--requests", 30, "--answer-tokens", 1)
        self.equal(out["complete"], 30, "complete")
        self.at_least(server.most, 10, "at once")
        gaps = [b - a for a, b in zip(server.times, server.times[1:])]
        self.within(sum(gaps), 0.25, "arrivals, 0.75 s on average")
        self.at_least(len({round(g, 3) for g in gaps}), 5, "unlike gaps")

    def test_cancellations_disconnect(self):
        async def behave(number, answer):
            await answer.stream(gap=0.05)

        with FakeServer(behave) as server:
            out = self.load(server, "--cancel", 1, "--requests", 12, "--answer-tokens", 40)
            end = time.monotonic() + LATE
            while server.disconnects < 12 and time.monotonic() < end:
                time.sleep(0.01)
            self.equal((server.running, server.disconnects), (0, 12), "disconnected")
        self.equal((out["cancelled"], out["complete"], out["failed"]), (12, 0, 0), "counts")
        self.at_least(out["answer_tokens"], 12, "pieces that came")
        self.at_most(out["answer_tokens"], 12 * 39, "pieces that came")

    def test_a_time_ends_it(self):
        async def behave(number, answer):
            await answer.stream(first=0.1)

        with FakeServer(behave) as server:
            out = self.load(server, "--seconds", 0.8, "--clients", 2)
        self.within(out["seconds"], 0.8, "time")
        self.at_least(out["complete"], 2, "some")
        self.equal(out["complete"], out["requests"], "those that ran did end")

    def test_many_clients_are_one_thread(self):
        async def behave(number, answer):
            await answer.stream(first=1.0)

        with FakeServer(behave) as server:
            command = [self.tools.bin / "g4run", "loadtest", server.url, "--clients", "200", "--requests", "200", "--json", "-"]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                end = time.monotonic() + 20
                while server.most < 200 and time.monotonic() < end:
                    time.sleep(0.01)
                threads = re.search(r"^Threads:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text(), re.M)[1]
                out = json.loads(process.communicate()[0])
        self.equal((server.most, threads, out["complete"]), (200, "1", 200), "at once, threads, complete")

    def test_table_and_file(self):
        with FakeServer(well) as server, scratch(self.tools) as folder:
            done = self.tools.call("g4run", "loadtest", server.url, "--requests", 3, "--json", folder / "out.json")
            out = json.loads((folder / "out.json").read_text())
        said = done.stdout.decode()
        self.equal(done.stderr, b"", "standard error is no terminal")
        self.equal(out["complete"], 3, "complete")
        self.equal(said.startswith(f"'fake' at {server.url}/v1, 4 clients\n3 requests in "), True, said)
        rows = re.findall(r"^(first token|inter-token|per token of an answer|request) +(\d+) +\d", said, re.M)
        self.equal(dict(rows), {"first token": "3", "inter-token": "189", "per token of an answer": "3", "request": "3"}, said)
        page = (ROOT / "docs/commands/loadtest.md").read_text()
        for field in FIELDS | WORKLOAD | TIMES:
            self.equal(f"`{field}`" in page, True, f"{field} in docs/commands/loadtest.md")

    def test_key_and_model(self):
        with FakeServer(well) as server:
            out = self.load(server, "--requests", 1, "--api-key", "secret", "--model", "other")
        self.equal((server.headers[0]["authorization"], server.bodies[0]["model"]), ("bearer secret", "other"), "sent")
        self.equal((out["model"], server.connections), ("other", 1), "nobody asked for the models")


class Failures(LoadTest):
    async def odd(self, number, answer):
        """Each way to fail once, and twice none."""
        kind = number % 12
        if kind == 0:
            return await answer.whole(429, {"error": {"message": "too many requests"}})
        if kind == 1:
            return await answer.whole(500, b"<html>no\x1b[2J", "text/html")
        if kind == 2:
            return await answer.whole(200, {"choices": [{"text": "no stream"}]})
        if kind == 3:
            await answer.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
            return answer.writer.close()
        if kind == 4:  # on a new connection, after that: only kept ones are tried again
            return answer.writer.close()
        if kind in (10, 11):
            return await answer.stream()
        await answer.begin()
        await answer.text()
        if kind == 5:
            answer.writer.close()  # in the middle of the body
        elif kind == 6:
            await answer.end(done=b"")  # a whole body, but no whole stream
        elif kind == 7:
            await answer.event({"error": {"message": "out of pages"}})
            await answer.end()
        elif kind == 8:
            await answer.chunk(b"data: {\n\n")
            await answer.end()
        else:
            await answer.send(b"zz\r\n")  # no length of a chunk
            await answer.wait(30)

    def test_each_kind_is_counted(self):
        with FakeServer(self.odd) as server:
            out = self.load(server, "--clients", 1, "--requests", 12)
        errors = {e["kind"]: (e["count"], e["first"]) for e in out["errors"]}
        self.equal(errors["HTTP 429"], (1, "too many requests"), "429")
        self.equal(errors["HTTP 500"], (1, "<html>no\x1b[2J"), "500")
        self.equal(errors["error in stream"], (1, "out of pages"), "error event")
        self.equal({k: v[0] for k, v in errors.items()}, {"HTTP 429": 1, "HTTP 500": 1, "connection": 1, "cut short": 2,
                                                          "error in stream": 1, "protocol": 4}, "kinds")
        self.equal((out["complete"], out["failed"], out["requests"]), (2, 10, 12), "counts")

    def test_none_answered_is_a_failure(self):
        async def refuse(number, answer):
            await answer.whole(429, {"error": {"message": "too many requests"}})

        with FakeServer(refuse) as server:
            out = self.load(server, "--requests", 5, expect=1)
        self.equal((out["failed"], self.said.count("\n")), (5, 1), self.said)
        self.equal("no request was answered: HTTP 429" in self.said, True, self.said)
        with FakeServer(lambda number, answer: refuse(number, answer) if number else well(number, answer)) as server:
            self.equal(self.load(server, "--requests", 5)["failed"], 4, "one of five was answered")

    def test_nobody_listens(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = "http://127.0.0.1:%d" % closed.getsockname()[1]
            self.equal(self.load(url, expect=1), None, "no report")
            self.equal((self.said.count("\n"), "refused" in self.said), (1, True), self.said)
            out = self.load(url, "--model", "m", "--requests", 3, expect=1)
            self.equal([(e["kind"], e["count"]) for e in out["errors"]], [("connection", 3)], "errors")

    def test_a_silent_server_times_out(self):
        async def silent(number, answer):
            if number == 1:
                await answer.begin()
                await answer.text()
            await answer.wait(30)

        with FakeServer(silent) as server:
            out = self.load(server, "--requests", 2, "--clients", 2, "--timeout", 1, expect=1)
        self.equal([(e["kind"], e["count"]) for e in out["errors"]], [("timeout", 2)], "errors")
        self.within(out["seconds"], 1, "time")

    def test_connections_that_servers_close(self):
        async def behave(number, answer):
            await answer.stream()
            if number % 2:
                answer.writer.close()  # unsaid

        with FakeServer(behave) as server:
            out = self.load(server, "--requests", 20, "--clients", 2, "--answer-tokens", 2)
        self.equal((out["complete"], out["failed"], len(server.bodies)), (20, 0, 20), "counts")

    def test_a_kept_connection_is_replaced(self):
        async def behave(number, answer):
            await answer.stream() if answer.turn == 0 else answer.writer.close()

        with FakeServer(behave) as server:
            out = self.load(server, "--model", "m", "--requests", 4, "--clients", 1)
        self.equal((out["complete"], out["failed"], len(server.bodies)), (4, 0, 4 + 3), "each but the first asked twice")
        self.equal(len({json.dumps(b) for b in server.bodies}), 4, "the same again")

    def test_streams_cut_anywhere(self):
        async def behave(number, answer):
            whole = b'data: {"choices":[{"text":"a"}]}\r\n\r\n: wait\r\n\r\ndata: {"choices":[{"text":"\xc3\xa4"}]}\r\n\r\n' \
                    b"data: [DONE]\r\n\r\n"
            if number == 0:
                await answer.begin()
                for i in range(len(whole)):
                    await answer.chunk(whole[i:i + 1])
                return await answer.end(done=b"")
            await answer.send(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + whole)  # until it closes
            answer.writer.close()

        with FakeServer(behave) as server:
            out = self.load(server, "--requests", 4, "--clients", 1, "--prompt-tokens", 7)
        self.equal((out["complete"], out["answer_tokens"], out["prompt_tokens"]), (4, 8, 28), "without a usage")
        self.equal(out["cached_tokens"], None, "nobody said")

    def test_ctrl_c_reports(self):
        async def behave(number, answer):
            await answer.stream() if number < 3 else await answer.wait(30)

        with FakeServer(behave) as server:
            command = [self.tools.bin / "g4run", "loadtest", server.url, "--clients", "2", "--json", "-"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                end = time.monotonic() + 20
                while len(server.bodies) < 5 and time.monotonic() < end:
                    time.sleep(0.01)
                process.send_signal(signal.SIGINT)
                said, errors = process.communicate(timeout=20)
        out = json.loads(said)
        self.equal((process.returncode, errors), (130, b""), "interrupted")
        self.equal((out["complete"], out["unfinished"], out["failed"]), (3, 2, 0), "counts")

    def test_bad_usage(self):
        for words, args in (("is encrypted", ["https://h"]), ("begin with http://", ["localhost:8080"]), ("url", []),
                            ("'5:4' ends before", ["http://h", "--prompt-tokens", "5:4"]),
                            ("--clients excludes --rate", ["http://h", "--rate", 1, "--clients", 2]),
                            ("--cancel", ["http://h", "--cancel", 1.5]), ("--seed", ["http://h", "--seed", "x"])):
            done = self.tools.call("g4run", "loadtest", *args, expect=2)
            self.equal((words in done.stderr.decode(), done.stderr.count(b"\n")), (True, 1), f"{args}: {done.stderr}")


class Ours(LoadTest):
    """g4run serve, with fewer places than clients."""

    def test_lengths_prefixes_and_cancellations(self):
        model = self.tools.compile(NANO / "gemma4-nano-Q8_0.gguf")
        with Serving(self.tools, model, "--max-seqs", 4) as server:
            url = f"http://127.0.0.1:{server.port}"
            args = ["--clients", 6, "--requests", 24, "--prompt-tokens", 40, "--answer-tokens", 12, "--shared-prefix", 64]
            out = self.load(url, *args)
            self.equal((out["complete"], out["failed"]), (24, 0), out["errors"])
            self.equal((out["prompt_tokens"], out["answer_tokens"]), (24 * 104, 24 * 12), "exact lengths")
            self.at_least(out["cached_tokens"], 18 * 32, "a page or two for those that came later")
            self.equal(out["first_token_seconds"]["count"], 24, "first tokens")
            out = self.load(url, *args[:-4], "--answer-tokens", "20:60", "--cancel", 0.5, "--seed", 3)
            self.equal((out["complete"] + out["cancelled"], out["failed"]), (24, 0), out["errors"])
            self.at_least(min(out["complete"], out["cancelled"]), 4, "of both")
            self.equal(self.load(url, *args, "--model", "other", expect=1)["errors"][0]["kind"], "HTTP 404", "no such model")
            self.equal(self.load(url, "--prompt-tokens", 1 << 20, "--requests", 1, expect=1)["errors"][0]["kind"][:6],
                       "HTTP 4", "a prompt beyond the context")


if __name__ == "__main__":
    main()
