"""A server of OpenAI's completions that does what a test wants, right or wrong, and notes what it was asked."""

import asyncio
import contextlib
import itertools
import json
import threading
import time


class FakeServer:
    """`behave(number, answer)` is a coroutine per request; `answer` is an Answer. A context manager."""

    def __init__(self, behave):
        self.behave = behave
        self.bodies, self.headers, self.times = [], [], []  # of each request for a completion
        self.connections = self.running = self.most = self.disconnects = 0
        self.loop = asyncio.new_event_loop()

    def __enter__(self):
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        start = asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=1024)
        self.server = asyncio.run_coroutine_threadsafe(start, self.loop).result()
        self.url = "http://127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        async def end():
            self.server.close()
            others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        asyncio.run_coroutine_threadsafe(end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def serve(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            for turn in itertools.count():
                if writer.is_closing():
                    break
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                answer = Answer(reader, writer, headers, turn)
                if head.startswith("GET /v1/models "):
                    await answer.whole(200, {"data": [{"id": "fake"}]})
                elif head.startswith("POST /v1/completions "):
                    await self.complete(answer, json.loads(body))
                else:
                    await answer.whole(404, {"error": {"message": "no such path"}})
        writer.close()

    async def complete(self, answer, body):
        number, answer.body = len(self.bodies), body
        self.bodies.append(body)
        self.headers.append(answer.headers)
        self.times.append(time.monotonic())
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.behave(number, answer)
        except ConnectionError:
            self.disconnects += 1
            raise
        finally:
            self.running -= 1


class Answer:
    """One answer's pieces. Each is sent at once; a client that is gone raises ConnectionError."""

    def __init__(self, reader, writer, headers, turn):
        self.reader, self.writer, self.headers = reader, writer, headers
        self.turn = turn  # requests that the connection had before

    async def send(self, data):
        if self.reader.at_eof():
            raise ConnectionError
        self.writer.write(data)
        await self.writer.drain()

    async def whole(self, status, json_body, kind="application/json"):
        body = json_body if isinstance(json_body, bytes) else json.dumps(json_body).encode()
        await self.send(b"HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
                        % (status, kind.encode(), len(body), body))

    async def begin(self):
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                        b"Transfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data):
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, data):
        await self.chunk(b"data: %s\n\n" % json.dumps(data).encode())

    async def text(self, text="x "):
        await self.event({"choices": [{"index": 0, "text": text, "finish_reason": None}]})

    async def end(self, done=b"data: [DONE]\n\n"):
        await self.chunk(done) if done else None
        await self.send(b"0\r\n\r\n")

    async def wait(self, seconds):
        """Ends early with a ConnectionError when the client leaves."""
        with contextlib.suppress(asyncio.TimeoutError):
            if not await asyncio.wait_for(self.reader.read(1), seconds):
                raise ConnectionError

    async def stream(self, first=0.0, gap=0.0, cached=0):
        """All of an answer, as it should be."""
        tokens = self.body["max_tokens"]
        await self.begin()
        await self.wait(first)
        for i in range(tokens):
            if i:
                await self.wait(gap)
            await self.text()
        usage = {"prompt_tokens": len(self.body["prompt"]), "completion_tokens": tokens,
                 "prompt_tokens_details": {"cached_tokens": cached}}
        await self.event({"choices": [], "usage": usage})
        await self.end()
