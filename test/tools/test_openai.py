"""g4run serve with OpenAI's own Python package as its client."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from programs import NANO, Case, Failure, main
from serving import Serving

REQUIREMENTS = Path(__file__).with_name("openai-requirements.txt")


def package_folder(tools):
    """Where the package is, as the requirements name it: fetched with pip once per build folder. Failing that, the test fails."""
    folder = tools.build / "openai-package"
    stamp = folder / hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:",
                   "--no-deps", "--target", str(folder), "-r", str(REQUIREMENTS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=250)
        if done.returncode:
            raise Failure(f"{' '.join(command)}:\n{done.stderr.strip()[-800:]}")
        stamp.touch()
    return folder


class OpenAi(Case):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(package_folder(cls.tools)))
        global openai
        import openai

        model = cls.tools.compile(NANO / "gemma4-nano-Q8_0.gguf")
        cls.server = cls.enterClassContext(Serving(cls.tools, model, "--api-key", "key", "--max-context", "512"))
        cls.server.headers["Authorization"] = "Bearer key"
        cls.client = cls.enterClassContext(cls.client_with("key"))
        cls.name = cls.client.models.list().data[0].id

    @classmethod
    def client_with(cls, key):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key=key, max_retries=0, timeout=60)

    def chat(self, text="What is the capital of France?", **options):
        options = {"temperature": 0, "max_completion_tokens": 40, **options}
        return self.client.chat.completions.create(model=self.name, messages=[{"role": "user", "content": text}], **options)

    def test_chat_and_stream(self):
        answer = self.chat()
        choice = answer.choices[0]
        self.equal((choice.finish_reason, choice.message.role, answer.model), ("stop", "assistant", self.name), "choice")
        self.equal("Paris" in choice.message.content, True, choice.message.content)
        self.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens, "usage")
        self.at_least(answer.usage.prompt_tokens_details.cached_tokens, 0, "cached tokens")
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.equal("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), choice.message.content, "streamed")
        self.equal([c.choices[0].finish_reason for c in chunks if c.choices][-1], "stop", "reason")
        self.equal(chunks[-1].usage.completion_tokens, answer.usage.completion_tokens, "usage of the stream")
        self.equal({c.id for c in chunks}, {chunks[0].id}, "one id")
        with self.client.chat.completions.stream(model=self.name, messages=[{"role": "user", "content": "What is the capital of France?"}],
                                                 temperature=0, max_completion_tokens=40) as stream:
            self.equal(stream.get_final_completion().choices[0].message.content, choice.message.content, "the helper's own sum")

    def test_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        for entry in content:
            self.equal((len(entry.top_logprobs), entry.top_logprobs[0].token), (2, entry.token), "best first")
        streamed = [e for c in self.chat(stream=True, logprobs=True, top_logprobs=2) for e in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])]
        self.equal([e.logprob for e in streamed], [e.logprob for e in content], "streamed")
        old = self.client.completions.create(model=self.name, prompt="Hello", max_tokens=3, logprobs=2, echo=True, temperature=0)
        logprobs = old.choices[0].logprobs
        self.equal((old.choices[0].text.startswith("Hello"), logprobs.token_logprobs[0], len(logprobs.tokens)),
                   (True, None, len(logprobs.text_offset)), "the older form")

    def test_many_and_stops(self):
        answer = self.chat(n=3, seed=5, temperature=1.2)
        self.equal([c.index for c in answer.choices], [0, 1, 2], "n")
        again = self.chat(n=3, seed=5, temperature=1.2)
        self.equal([c.message.content for c in again.choices], [c.message.content for c in answer.choices], "seed")
        stopped = self.chat(stop=["capital"]).choices[0]
        self.equal(("capital" in stopped.message.content, stopped.finish_reason), (False, "stop"), stopped.message.content)
        two = self.client.completions.create(model=self.name, prompt=["One", "Two"], max_tokens=2)
        self.equal([c.index for c in two.choices], [0, 1], "prompts")

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=-1)
        self.equal((caught.exception.param, caught.exception.type), ("temperature", "invalid_request_error"), "a bad field")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat("word " * 600)
        self.equal(caught.exception.code, "context_length_exceeded", "too long")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(tools=[{"type": "function", "function": {"name": "f"}}])
        self.equal(caught.exception.param, "tools", "not there yet")
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="other", messages=[{"role": "user", "content": "x"}])
        with self.client_with("wrong") as client, self.assertRaises(openai.AuthenticationError):
            client.models.list()

    def test_cancellation(self):
        before = self.server.metric('answers_ended_total{how="cancelled"}')
        stream = self.chat("Tell me a story.", stream=True, max_completion_tokens=400, extra_body={"ignore_eos": True})
        self.equal(next(iter(stream)).choices[0].delta.role, "assistant", "it began")
        stream.close()
        self.server.wait_for("it is cancelled", lambda: self.server.metric('answers_ended_total{how="cancelled"}') == before + 1)
        self.equal(self.server.metric("answers_running"), 0, "nothing runs")


if __name__ == "__main__":
    main()
