"""A `g4run serve` for tests, and the few ways in which they ask it."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import tempfile
import time

from programs import Failure


class Serving:
    """One running server. A context manager: what is left of it in the end is killed."""

    def __init__(self, tools, model, *args, port=0):
        self.headers = {"Content-Type": "application/json"}  # of every request
        self.log = tempfile.TemporaryFile()
        command = [str(tools.bin / "g4run"), "serve", str(model), "--port", str(port), *map(str, args)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log)
        self.said = []
        for line in iter(self.process.stdout.readline, b""):
            self.said.append(line.decode().rstrip("\n"))
            if match := re.match(r"serving +http://(.*):(\d+)$", self.said[-1]):
                self.host, self.port = match[1], int(match[2])
                return
        self.process.wait()
        raise Failure(f"{' '.join(command)}: exit code {self.process.returncode}\n{self.errors()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def errors(self):
        """What it has said on standard error."""
        self.log.seek(0)
        return self.log.read().decode()

    def connect(self, timeout=60):
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout))

    def ask(self, method, path, body=None, headers=None):
        """Status, headers, and the body: parsed if it is JSON, else bytes."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        with self.connect() as connection:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            response = connection.getresponse()
            data = response.read()
            kind = response.getheader("Content-Type", "")
            return response.status, response.headers, json.loads(data) if kind == "application/json" and data else data

    def post(self, path, body, expect=200):
        status, _, answer = self.ask("POST", path, body)
        if status != expect:
            raise Failure(f"{path} {body}: {status} {answer}")
        return answer

    def chat(self, text, **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def complete(self, prompt, **fields):
        return self.post("/v1/completions", {"prompt": prompt, **fields})

    def stream(self, path, body):
        """The JSON of a stream's events, which must end with [DONE]."""
        status, headers, data = self.ask("POST", path, {**body, "stream": True})
        if status != 200 or not headers["Content-Type"].startswith("text/event-stream"):
            raise Failure(f"{path} {body}: {status} {data}")
        events = [e for e in data.decode().split("\n\n") if not e.startswith(":")]
        if events[-2:] != ["data: [DONE]", ""] or not all(e.startswith("data: ") for e in events[:-1]):
            raise Failure(f"no whole stream: {events[-3:]}")
        return [json.loads(e[6:]) for e in events[:-2]]

    def metric(self, name):
        """A metric's value, all its labels together; `name` may be a regular expression with labels."""
        text = self.ask("GET", "/metrics")[2].decode()
        found = re.findall(rf"^g4_{name}(?:{{.*}})? (\S+)$", text, re.M)
        if not found:
            raise Failure(f"no metric {name}")
        return sum(map(float, found))

    def wait_for(self, what, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise Failure(f"{what}: not within {seconds} s")
            time.sleep(0.02)

    def threads(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"^Threads:\s+(\d+)", status.read(), re.M)[1])

    def end(self, how=signal.SIGTERM, timeout=60):
        """Its exit code after a signal."""
        self.process.send_signal(how)
        return self.process.wait(timeout)
