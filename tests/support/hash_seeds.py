"""Texts that are the same in every process, whatever the seed of `hash`. Run as a script with the part of the
examples to try, K/N, this module prints a digest for each of its functions."""

import sys
from collections.abc import Callable, Iterator
from hashlib import sha256

from penumbra import redact, rules
from penumbra.compress.calls.classify import classify
from penumbra.compress.families.shorten import apply
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Mode, Policy, Redacted, ToolOutput
from support import examples
from support import messages_requests as requests
from support import secret_contexts as contexts


def _examples() -> Iterator[tuple[str, str]]:
    every = [
        (example["call"], example["text"])
        for file in rules.load_folder("commands")
        for example in file.content["examples"]
    ]
    yield from examples.some(every)


def families() -> Iterator[str]:
    """Yield every example of the command rules, shortened by its family alone."""
    for line, text in _examples():
        yield repr(apply(text, classify("Bash", {"command": line}), lossy=True))


def pipeline() -> Iterator[str]:
    """Yield every example of the command rules through the whole pipeline, and one long text of similar
    lines."""
    modes = list(Mode)
    for number, (line, text) in enumerate(_examples()):
        first = number % len(modes)
        for mode in examples.some(modes[first:] + modes[:first]):
            policy = Policy(mode=mode, lossy=True, min_bytes=0, max_output_bytes=3_000)
            output = ToolOutput(text * 9, "Bash", {"command": line}, "c")
            yield repr(shorten(output, policy, Redacted, lambda _: "r"))
    text = "".join(f"line {n % 7} error {n}\n" for n in range(9_000)) + '{"a": 1}   \n' * 40
    policy = Policy(lossy=True, max_output_bytes=9_000)
    yield shorten(ToolOutput(text, "Bash", {"command": "x"}), policy, Redacted, lambda _: "r").text


def outlines() -> Iterator[str]:
    """Yield excerpts of a long file, many of whose names are equally frequent."""
    lines = [
        f"{'def' if n % 9 == 0 else 'call'} thing_{n % 700}(other_{n % 331}, third_{n % 123})"
        for n in range(3_000)
    ]
    names = {f"thing_{n}": 0.3 + n / 1_000 for n in range(0, 700, 7)}
    names |= {f"other_{n}": 0.7 for n in range(0, 331, 5)}
    output = ToolOutput("\n".join(lines), "Read", {"file_path": "a.py"}, mentioned=lambda: names)
    yield shorten(output, Policy(lossy=True, max_output_bytes=15_000), Redacted, lambda _: "r").text


def redaction() -> Iterator[str]:
    """Yield texts with more and more secrets, redacted."""
    texts = [
        contexts.fill(text, contexts.values(n)["base62"], "api_key")
        for n, text in enumerate(contexts.NAMED.values())
    ]
    for n in examples.some(range(0, len(texts), 16)):
        yield redact("\n".join(texts[: n + 16]))


def rewriting() -> Iterator[str]:
    """Yield a rewritten request with results of several kinds."""
    turns = [
        turn
        for number, text in enumerate((requests.SAME, requests.PRETTY, requests.LOG), 1)
        for turn in (requests.use(f"toolu_{number}"), requests.answer(f"toolu_{number}", text))
    ]
    yield str(requests.go(requests.body(*turns)).body)


PARTS: tuple[Callable[[], Iterator[str]], ...] = (families, pipeline, outlines, redaction, rewriting)

if __name__ == "__main__":
    examples.part = examples.Part.read(sys.argv[1])
    for part in PARTS:
        digest, size = sha256(), 0
        for text in part():
            digest.update(text.encode("utf-8", "surrogatepass"))
            size += len(text)
        print(part.__name__, size, digest.hexdigest())
