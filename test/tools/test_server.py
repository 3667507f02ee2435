"""g4run serve over plain HTTP: every endpoint, bad requests, clients that leave, dawdle or come in crowds, and its end."""

import json
import socket
import threading
import time

from programs import NANO, Case, main, scratch
from serving import Serving

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
LONG = {"prompt": "Once upon a time", "max_tokens": 1500, "ignore_eos": True, "temperature": 0}


class Served(Case):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.model = cls.tools.compile(NANO / "gemma4-nano-Q8_0.gguf")
        cls.server = cls.enterClassContext(Serving(cls.tools, cls.model, *cls.FLAGS))

    def error(self, method, path, body=None, headers=None, status=400):
        """The error object of an answer that must have this status."""
        got, _, answer = self.server.ask(method, path, body, headers)
        self.equal(got, status, f"{method} {path} {body!r}: {answer}")
        self.equal(sorted(answer["error"]), ["code", "message", "param", "type"], f"{path}: fields of the error")
        return answer["error"]

    def raw(self, data, read=True):
        """Sends bytes as they are; what comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as client:
            client.sendall(data)
            answer = b""
            while read and (piece := client.recv(65536)):
                answer += piece
            return answer


def text_of(events, key="content"):
    return "".join(c["delta"].get(key, "") for e in events for c in e["choices"])


class Answers(Served):
    def test_chat_as_the_command_line(self):
        question = "What is the capital of France?"
        want = self.tools.run(self.model, "-p", question, "--temp", "0").stdout.decode()
        answer = self.server.chat(question, temperature=0)
        self.equal(answer["object"], "chat.completion", "object")
        choice = answer["choices"][0]
        self.equal((choice["message"]["role"], choice["finish_reason"]), ("assistant", "stop"), "choice")
        self.equal(choice["message"]["content"].strip(), want.strip(), "greedy text")
        usage = answer["usage"]
        self.equal(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"], "usage")
        for name in ("queue_ms", "prompt_ms", "predicted_ms", "first_token_ms", "total_ms", "predicted_per_second"):
            self.at_least(answer["timings"][name], 0, name)

        events = self.server.stream(CHAT, {"messages": [{"role": "user", "content": question}], "temperature": 0,
                                           "stream_options": {"include_usage": True}})
        self.equal(text_of(events), choice["message"]["content"], "streamed")
        self.equal(events[0]["choices"][0]["delta"]["role"], "assistant", "first chunk")
        self.equal(events[-2]["choices"][0]["finish_reason"], "stop", "last chunk")
        self.equal(events[-1]["choices"], [], "usage chunk")
        again = events[-1]["usage"]
        self.equal((again["prompt_tokens"], again["completion_tokens"]), (usage["prompt_tokens"], usage["completion_tokens"]), "usage")
        self.at_least(len(events), usage["completion_tokens"], "one event a token")
        self.equal(all("usage" in e for e in events), True, "usage is null before")
        plain = self.server.stream(CHAT, {"messages": [{"role": "user", "content": question}], "temperature": 0})
        self.equal(any("usage" in e for e in plain), False, "usage unasked")

    def test_thoughts(self):
        question = {"messages": [{"role": "user", "content": "What is 2 + 2?"}], "temperature": 0, "max_tokens": 200}
        off = self.server.post(CHAT, {**question, "reasoning_effort": "none"})
        self.equal("reasoning_content" in off["choices"][0]["message"], False, "no thoughts unasked")
        for how in ({"enable_thinking": True}, {"chat_template_kwargs": {"enable_thinking": True}}, {"reasoning_effort": "high"}):
            on = self.server.post(CHAT, {**question, **how})
            self.at_least(on["usage"]["prompt_tokens"], off["usage"]["prompt_tokens"] + 1, f"{how}: another prompt")
            message = on["choices"][0]["message"]
            self.equal("<|channel>" in json.dumps(message), False, "marks are no text")
            events = self.server.stream(CHAT, {**question, **how})
            self.equal((text_of(events), text_of(events, "reasoning_content")),
                       (message["content"], message.get("reasoning_content", "")), f"{how}: streamed")

    def test_completions_and_stops(self):
        base = {"prompt": "The capital of France is", "temperature": 0, "max_tokens": 12, "ignore_eos": True}
        whole = self.server.post(COMPLETIONS, base)
        text = whole["choices"][0]["text"]
        self.equal((whole["object"], whole["choices"][0]["finish_reason"]), ("text_completion", "length"), "form")
        self.equal(whole["usage"]["completion_tokens"], 12, "tokens")
        stop = text[len(text) // 2:][:3]
        for given in (stop, [stop], ["no such text", stop]):
            answer = self.server.post(COMPLETIONS, {**base, "stop": given})["choices"][0]
            self.equal((answer["text"], answer["finish_reason"]), (text[:text.find(stop)], "stop"), f"stop {given!r}")
        events = self.server.stream(COMPLETIONS, {**base, "stop": stop})
        self.equal("".join(c["text"] for e in events for c in e["choices"]), text[:text.find(stop)], "streamed stop")
        self.equal(events[-1]["choices"][0]["finish_reason"], "stop", "streamed reason")

    def test_prompts_of_all_kinds(self):
        ids = self.server.post("/tokenize", {"prompt": "Hello there"})["tokens"]
        options = {"temperature": 0, "max_tokens": 5, "ignore_eos": True}
        want = self.server.complete("Hello there", **options)["choices"][0]["text"]
        self.equal(self.server.complete(ids, **options)["choices"][0]["text"], want, "ids")
        many = self.server.complete(["Hello there", "Other", "Hello there"], **options)
        texts = [c["text"] for c in many["choices"]]
        self.equal((texts[0], texts[2], len(texts)), (want, want, 3), "texts")
        self.equal([c["index"] for c in many["choices"]], [0, 1, 2], "indices")
        both = self.server.complete([ids, ids], **options)
        self.equal([c["text"] for c in both["choices"]], [want, want], "lists of ids")

    def test_seeds_and_many_answers(self):
        options = {"n": 3, "seed": 11, "max_tokens": 8, "temperature": 1.5, "ignore_eos": True}
        first = [c["text"] for c in self.server.complete("A list:", **options)["choices"]]
        self.equal([c["text"] for c in self.server.complete("A list:", **options)["choices"]], first, "the same seed")
        self.at_least(len(set(first)), 2, "answers of one request differ")
        events = self.server.stream(COMPLETIONS, {"prompt": "A list:", **options})
        streamed = ["".join(c["text"] for e in events for c in e["choices"] if c["index"] == i) for i in range(3)]
        self.equal(streamed, first, "streamed")
        other = [c["text"] for c in self.server.complete("A list:", **{**options, "seed": 12})["choices"]]
        self.equal(other[0], first[1], "answer i draws with the seed + i")

    def test_bias_and_penalties(self):
        first = self.server.complete("Hello", temperature=0, max_tokens=1, logprobs=1)["choices"][0]
        token = self.server.post("/tokenize", {"prompt": "zebra", "add_special_tokens": False})["tokens"][0]
        forced = self.server.complete("Hello", temperature=0, max_tokens=3, logit_bias={str(token): 100}, logprobs=0)
        piece = self.server.post("/detokenize", {"tokens": [token]})["content"]
        self.equal(forced["choices"][0]["text"], piece * 3, f"a bias of 100 (without: {first['text']!r})")
        varied = self.server.complete("Hello", temperature=0, max_tokens=3, logit_bias={str(token): 100}, ignore_eos=True,
                                      repetition_penalty=1000.0)["choices"][0]["text"]
        self.equal(varied == piece * 3, False, "repetition penalty")

    def test_logprobs(self):
        chat = self.server.chat("Name a colour.", temperature=0, logprobs=True, top_logprobs=3, max_tokens=6)
        content = chat["choices"][0]["logprobs"]["content"]
        self.equal("".join(e["token"] for e in content), chat["choices"][0]["message"]["content"], "tokens make the text")
        for entry in content:
            top = entry["top_logprobs"]
            self.equal((len(top), top[0]["token"], top[0]["logprob"]), (3, entry["token"], entry["logprob"]), "greedy is the best")
            self.equal(sorted((t["logprob"] for t in top), reverse=True), [t["logprob"] for t in top], "best first")
            self.equal(bytes(entry["bytes"]).decode(errors="replace"), entry["token"], "bytes")
            self.at_least(0, entry["logprob"], "a logarithm")

        prompt = "The capital of France is"
        echo = {"prompt": prompt, "echo": True, "logprobs": 2, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
        choice = self.server.post(COMPLETIONS, echo)["choices"][0]
        self.equal(choice["text"].startswith(prompt), True, choice["text"])
        logprobs = choice["logprobs"]
        count = len(self.server.post("/tokenize", {"prompt": prompt})["tokens"])
        self.equal({key: len(value) for key, value in logprobs.items()},
                   dict.fromkeys(("tokens", "token_logprobs", "top_logprobs", "text_offset"), count + 2), "lengths")
        self.equal((logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]), (None, None), "nothing before the first")
        for token, offset in list(zip(logprobs["tokens"], logprobs["text_offset"]))[1:]:
            self.equal(choice["text"][offset:offset + len(token)], token, "offset")
        scored = self.server.post(COMPLETIONS, {**echo, "max_tokens": 0})["choices"][0]
        self.equal((scored["text"], scored["logprobs"]["token_logprobs"]), (prompt, logprobs["token_logprobs"][:count]), "only scored")
        events = self.server.stream(COMPLETIONS, echo)
        self.equal([x for e in events for c in e["choices"] for x in (c["logprobs"] or {}).get("token_logprobs", [])],
                   logprobs["token_logprobs"], "streamed")
        self.equal(self.server.complete(prompt, echo=True, max_tokens=0)["choices"][0]["text"], prompt, "echo alone")

    def test_tokens(self):
        answer = self.server.post("/tokenize", {"content": "caf\u00e9 <bos>", "with_pieces": True})
        self.equal((answer["count"], len(answer["pieces"])), (len(answer["tokens"]),) * 2, "counts")
        plain = self.server.post("/tokenize", {"prompt": "caf\u00e9", "add_special_tokens": False})["tokens"]
        self.equal(self.server.post("/detokenize", {"tokens": plain})["content"], "caf\u00e9", "there and back")
        self.equal(self.server.post("/tokenize", {"prompt": "caf\u00e9"})["tokens"][1:], plain, "BOS in front")
        chat = self.server.post("/tokenize", {"messages": [{"role": "user", "content": "Hi"}]})
        self.equal(chat["count"], self.server.chat("Hi", max_tokens=1)["usage"]["prompt_tokens"], "a conversation")

    def test_what_it_is(self):
        models = self.server.ask("GET", "/v1/models")[2]
        name = models["data"][0]["id"]
        self.equal(self.server.ask("GET", "/v1/models/" + name.replace(" ", "%20"))[2], models["data"][0], "one model")
        self.equal(self.error("GET", "/v1/models/other", status=404)["code"], "model_not_found", "another model")
        self.equal(self.server.chat("Hi", max_tokens=1, model=name)["model"], name, "by its name")
        self.equal(self.server.ask("GET", "/health")[2], {"status": "ok"}, "health")
        props = self.server.ask("GET", "/props?x=1")[2]
        self.equal((props["vocabulary"], "messages" in props["chat_template"]), (3072, True), "props")
        self.at_least(self.server.metric("answers_ended_total"), 1, "metrics")
        status, headers, body = self.server.ask("HEAD", "/health")
        self.equal((status, body, headers["Content-Length"]), (200, b"", "15"), "HEAD")
        self.equal([line.split()[0] for line in self.server.said][-1], "serving", "what it says at its start")
        self.equal({"model", "code", "memory"} <= {line.split()[0] for line in self.server.said}, True, self.server.said)

    def test_prefixes_are_kept(self):
        prompt = " ".join(f"number {i}" for i in range(60))
        self.server.complete(prompt, max_tokens=1)
        usage = self.server.complete(prompt + " and", max_tokens=1)["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        self.at_least(cached, usage["prompt_tokens"] - 130, "the same beginning")


class BadRequests(Served):
    FLAGS = ("--read-time", "1", "--max-context", "256")

    def test_fields(self):
        good = {CHAT: {"messages": [{"role": "user", "content": "Hi"}]}, COMPLETIONS: {"prompt": "Hi"}}
        both = [({"temperature": -1}, "temperature"), ({"n": 0}, "n"), ({"stop": ""}, "stop"), ({"stream": "yes"}, "stream"),
                ({"logit_bias": {"99999": 1}}, "logit_bias"), ({"response_format": {"type": "json_object"}}, "response_format"),
                ({"stream_options": {}}, "stream_options"), ({"max_tokens": "many"}, "max_tokens")]
        cases = {CHAT: [({"messages": []}, "messages"), ({"messages": [{"role": "nobody", "content": "x"}]}, "messages"),
                        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
                        ({"tools": [{"type": "function"}]}, "tools"), ({"top_logprobs": 2}, "top_logprobs"),
                        ({"reasoning_effort": "some"}, "reasoning_effort")],
                 COMPLETIONS: [({"prompt": [[3072]]}, "prompt"), ({"prompt": None}, "prompt"), ({"logprobs": 99}, "logprobs"),
                               ({"suffix": "x"}, "suffix")]}
        for path, more in cases.items():
            for fields, param in both + more:
                for stream in ({}, {"stream": True}):
                    if "stream" in fields or ("stream_options" in fields and stream):
                        continue
                    error = self.error("POST", path, {**good[path], **stream, **fields})
                    self.equal((error["param"], error["type"]), (param, "invalid_request_error"), f"{path} {fields}")
            self.equal(self.error("POST", path, {**good[path], "model": "gpt"}, status=404)["code"], "model_not_found", path)

    def test_bodies_and_paths(self):
        for body in (b"", b"{", b"[]", b"7", b'{"prompt":"\xff"}', b"[" * 100000, b'{"a":' * 5000):
            for path in (CHAT, COMPLETIONS, "/tokenize", "/detokenize"):
                self.error("POST", path, body)
        self.error("GET", "/nothing", status=404)
        self.error("POST", "/v1/nothing", {}, status=404)
        self.error("GET", CHAT, status=405)
        self.error("DELETE", "/health", status=405)
        status, headers, _ = self.server.ask("POST", "/metrics", {})
        self.equal((status, headers["Allow"]), (405, "GET, HEAD, OPTIONS"), "Allow")

    def test_too_long(self):
        for path, body in ((COMPLETIONS, {"prompt": [5] * 256}), (CHAT, {"messages": [{"role": "user", "content": "word " * 300}]})):
            self.equal(self.error("POST", path, body)["code"], "context_length_exceeded", path)
        full = self.server.complete([5] * 250, max_tokens=1000, ignore_eos=True)
        self.equal((full["choices"][0]["finish_reason"], full["usage"]["total_tokens"] <= 257), ("length", True), "to the end")

    def test_protocol(self):
        for bad, status in ((b"nonsense\r\n\r\n", b"400"), (b"GET /health HTTP/1.1\r\nX: " + b"y" * 40000 + b"\r\n\r\n", b"431"),
                            (b"POST /tokenize HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
                            (b"POST /tokenize HTTP/1.1\r\nContent-Length: 5\r\n\r\nab", b"408"), (b"GET /hea", b"408")):
            answer = self.raw(bad)
            self.equal(answer.split(b" ")[1:2], [status], f"{bad[:40]}: {answer[:80]}")
            self.equal(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"] != "", True, "an error object")
        big = self.raw(b"POST /tokenize HTTP/1.1\r\nContent-Length: 17000000\r\n\r\n" + b"x" * 17000000)
        self.equal(big.split(b" ")[1], b"413", "a body that is sent nevertheless")
        old = self.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: 42\r\n\r\n" + b'{"prompt":"a","max_tokens":2,"stream":true}'[:42])
        self.equal(old.split(b" ")[1], b"400", "a cut body")
        body = b'{"prompt":"a","max_tokens":2,"stream":true}'
        old = self.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.equal((b"Transfer-Encoding" in old, old.endswith(b"data: [DONE]\n\n")), (False, True), "HTTP/1.0")
        asked = (b"POST /tokenize HTTP/1.1\r\nContent-Length: 14\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n" + b'{"prompt":"a"}')
        self.equal(self.raw(asked).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"), True, "100-continue")
        two = self.raw(b"GET /health HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
        self.equal(two.count(b"HTTP/1.1 200 OK"), 2, "two requests at once")
        chunked = b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\ne\r\n" + b'{"prompt":"a"}' + b"\r\n0\r\n\r\n"
        self.equal(b'"tokens":' in self.raw(chunked), True, "a chunked body")
        self.equal(self.raw(b""[:0] + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n").split(b" ")[1], b"200", "still there")


class Clients(Served):
    FLAGS = ("--max-seqs", "4", "--max-queue", "4")

    def start(self, body=LONG, path=COMPLETIONS):
        """A stream whose first bytes have come."""
        client = socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
        self.addCleanup(client.close)
        data = json.dumps({**body, "stream": True}).encode()
        client.sendall(b"POST %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
        self.equal(client.recv(12), b"HTTP/1.1 200", "a stream begins")
        return client

    def test_who_leaves_is_cancelled(self):
        before = self.server.metric('answers_ended_total{how="cancelled"}')
        self.start().close()
        self.server.wait_for("a stream is cancelled", lambda: self.server.metric('answers_ended_total{how="cancelled"}') == before + 1)
        client = socket.create_connection(("127.0.0.1", self.server.port))
        data = json.dumps(LONG).encode()
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        self.server.wait_for("it runs", lambda: self.server.metric("answers_running") == 1)
        client.close()
        self.server.wait_for("a whole answer too", lambda: self.server.metric('answers_ended_total{how="cancelled"}') == before + 2)
        self.server.wait_for("nothing runs", lambda: self.server.metric("answers_running") == 0)
        self.at_least(self.server.metric("http_disconnects_total"), 2, "disconnects")

    def test_idle_connections_cost_no_threads(self):
        before = self.server.threads()
        clients = []
        for _ in range(256):
            client = socket.create_connection(("127.0.0.1", self.server.port), timeout=60)
            self.addCleanup(client.close)
            client.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            self.equal(client.recv(12), b"HTTP/1.1 200", "an answer")
            clients.append(client)
        self.at_least(self.server.metric("http_connections"), 256, "they stay")
        self.equal(self.server.threads(), before, "threads")
        self.equal(self.server.complete("Hello", max_tokens=2)["usage"]["completion_tokens"] > 0, True, "others are answered")
        for client in clients:
            client.close()
        self.server.wait_for("they go", lambda: self.server.metric("http_connections") == 1)

    def test_a_slow_reader_stalls_nobody(self):
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", self.server.port))
        slow.settimeout(60)
        body = {**LONG, "logprobs": 20, "max_tokens": 400} # about 1 MB
        data = json.dumps({**body, "stream": True}).encode()
        slow.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(data) + data)
        self.server.wait_for("it ends for the engine", lambda: self.server.metric("answer_tokens_total") >= 400
                             and self.server.metric("answers_running") == 0)
        start = time.monotonic()
        quick = self.server.stream(COMPLETIONS, {"prompt": "Hello", "max_tokens": 5, "ignore_eos": True})
        self.at_least(10, time.monotonic() - start, "seconds for another")
        self.equal(len(quick) > 0, True, "another stream")
        answer = b""
        while piece := slow.recv(65536):
            answer += piece
        slow.close()
        self.equal(answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), True, f"{len(answer)} bytes, all in the end")
        self.equal(answer.count(b'"token_logprobs":'), 400, "none lost")

    def test_a_full_queue(self):
        streams = [self.start() for _ in range(8)]
        error = self.error("POST", COMPLETIONS, LONG, status=429)
        self.equal(error["code"], "queue_full", "code")
        self.error("POST", COMPLETIONS, {**LONG, "prompt": ["a", "b"]}, status=429)
        for stream in streams:
            stream.close()
        self.server.wait_for("all go", lambda: self.server.metric("answers_running") + self.server.metric("answers_waiting") == 0)
        self.equal(self.server.complete("Hello", max_tokens=1)["object"], "text_completion", "then it is free")

    def test_many_at_once(self):
        options = {"max_tokens": 20, "temperature": 0, "ignore_eos": True}
        want = {i: self.server.complete(f"Item {i} of", **options)["choices"][0]["text"] for i in range(8)}
        got = {}


        def ask(i):
            got[i] = self.server.complete(f"Item {i} of", **options)["choices"][0]["text"]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.equal(got, want, "together as alone")


class Access(Served):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(scratch(cls.tools))
        (folder / "keys").write_text("\n  secret-one  \nsecret-two\n")
        cls.FLAGS = ("--api-key-file", folder / "keys", "--api-key", "third", "--cors-origin", "https://chat.example", "--name", "mine")
        super().setUpClass()

    def test_keys(self):
        for path in ("/v1/models", "/metrics", "/props"):
            for key in (None, "Bearer wrong", "Bearer secret-on", "secret-one", "Basic secret-one"):
                error = self.error("GET", path, headers={"Authorization": key} if key else {}, status=401)
                self.equal(error["code"], "invalid_api_key", f"{path} {key}")
            for key in ("secret-one", "secret-two", "third"):
                self.equal(self.server.ask("GET", path, headers={"Authorization": f"Bearer {key}"})[0], 200, key)
        self.error("POST", CHAT, {}, status=401)
        self.equal(self.server.ask("GET", "/health")[0], 200, "health needs none")
        models = self.server.ask("GET", "/v1/models", headers={"Authorization": "Bearer third"})[2]
        self.equal(models["data"][0]["id"], "mine", "--name")

    def test_pages(self):
        page = {"Origin": "https://chat.example", "Authorization": "Bearer third"}
        status, headers, _ = self.server.ask("OPTIONS", CHAT, headers={**page, "Access-Control-Request-Headers": "authorization, x-y"})
        self.equal((status, headers["Access-Control-Allow-Origin"], headers["Access-Control-Allow-Headers"],
                    "POST" in headers["Access-Control-Allow-Methods"]), (204, page["Origin"], "authorization, x-y", True), "preflight")
        status, headers, _ = self.server.ask("GET", "/v1/models", headers=page)
        self.equal((status, headers["Access-Control-Allow-Origin"]), (200, page["Origin"]), "an answer")
        self.equal(self.server.ask("POST", CHAT, b"{", headers=page)[1]["Access-Control-Allow-Origin"], page["Origin"], "an error")
        self.error("GET", "/v1/models", headers={**page, "Origin": "https://other.example"}, status=403)
        own = {**page, "Origin": f"http://127.0.0.1:{self.server.port}"}
        self.equal(self.server.ask("GET", "/v1/models", headers=own)[0], 200, "its own pages")


class Ends(Case):
    @classmethod
    def setUpClass(cls):
        cls.model = cls.tools.compile(NANO / "gemma4-nano-Q8_0.gguf")

    def ask_long(self, server, tokens, results, **fields):
        def run():
            try:
                results.append(server.stream(COMPLETIONS, {**LONG, "max_tokens": tokens, **fields}))
            except Exception as error:  # noqa: BLE001: any way to fail is a result
                results.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def test_term_lets_answers_end(self):
        with Serving(self.tools, self.model) as server, server.connect() as idle:
            idle.request("GET", "/health")
            idle.getresponse().read()
            results = []
            threads = [self.ask_long(server, 200, results) for _ in range(3)]
            server.wait_for("they run", lambda: server.metric("answers_running") >= 3 or len(results) > 0)
            self.equal(server.end(), 0, "exit code")
            for thread in threads:
                thread.join()
            self.equal([r[-1]["choices"][0]["finish_reason"] for r in results], ["length"] * 3, f"{results}"[:300])
            self.equal("running requests" in server.errors(), True, "it says what it waits for")

    def test_term_with_a_limit(self):
        with Serving(self.tools, self.model, "--drain-time", "0") as server:
            results = []
            thread = self.ask_long(server, 100000, results, prompt="Once")
            server.wait_for("it runs", lambda: server.metric("answers_running") == 1)
            self.equal(server.end(), 0, "exit code")
            thread.join()
            self.equal(results[0][-1]["error"]["code"], "shutting_down", f"{results}"[:300])
        with Serving(self.tools, self.model, port=server.port) as again:
            self.equal((again.port, again.complete("Hello", max_tokens=1)["object"]), (server.port, "text_completion"), "a restart")
            self.equal(again.end(), 0, "idle")

    def test_what_cannot_be_served(self):
        with Serving(self.tools, self.model) as server:
            cases = [(("--port", server.port), "cannot listen on '127.0.0.1' port .*: Address already in use"),
                     (("--host", "no.such.host.invalid"), "cannot listen on 'no.such.host.invalid' port 8080: "),
                     (("--host", "192.0.2.1"), "cannot listen on '192.0.2.1' port 8080: Cannot assign requested address"),
                     (("--api-key-file", "/nonexistent"), "cannot read '/nonexistent'")]
            for flags, pattern in cases:
                done = self.tools.call("g4run", "serve", self.model, *flags, expect=1)
                self.equal(done.stderr.count(b"\n"), 1, done.stderr)
                self.assertRegex(done.stderr.decode(), pattern)
        for flags in (("--port", "65536"), ("--log-level", "loud"), ("--max-seqs", "0"), ("--api-key", "")):
            self.equal(self.tools.call("g4run", "serve", self.model, *flags, expect=2).stderr.count(b"\n"), 1, f"{flags}")


if __name__ == "__main__":
    main()
