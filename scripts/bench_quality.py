"""Measure the tokens that shortening saves and the information that the model would have missed.

Conversations are forwarded by the proxy's own functions, and each result is compared with its sent form:

    saved     estimated tokens that the provider did not get, of all tokens of results
    pieces    names, paths and numbers that the model used later and could only know from that result
    kept      pieces that the model still had in its request when it used them
    edits     old texts of edits that stood whole in one result, and still do

Without files, conversations are made from this clone's files and a seed: one result of each kind in any size,
of which the model then uses lines from anywhere and edits files that it has read. FILES are your own recorded
conversations, with one request in each line; the last request is taken. A piece that is left out counts as
lost, although the model can ask for it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_cost import MESSAGES, WORD, Body, Forwarder, anthropic, of_file, plain, recording, speaker
from bench_outputs import SIZES, Outputs

from penumbra.apis import recognise
from penumbra.compress import token_estimate
from penumbra.compress.calls.classify import classify
from penumbra.compress.result import Mode
from penumbra.config.settings import Settings
from penumbra.conversation import read
from penumbra.conversation.result_text import tool_output
from penumbra.redaction import default
from penumbra.wire.document import Document

WAYS = {
    "safe": Settings(adopt="compress", mode=Mode.SAFE),
    "lossless": Settings(adopt="compress", lossy="off"),
    "standard": Settings(adopt="compress"),
    "aggressive": Settings(adopt="compress", mode=Mode.AGGRESSIVE),
}
USED = 4
"""Lines of each result that the model uses in a conversation that is made."""
OLD = frozenset({"old_string", "old_str", "oldString", "old_text"})
NUMBER = re.compile(r"^[ \t]{0,8}[0-9]{1,7}(?:→|\t|: |\| ?)", re.MULTILINE)
LINE = "{:<26} {:>8} {:>10} {:>7} {:>8} {:>7} {:>6} {:>7}"


@dataclass(frozen=True)
class Result:
    """A `Result` is a tool result in its sent form and in its original form."""

    text: str
    family: str
    message: int


@dataclass
class Score:
    """A `Score` sums the figures of one family, or of all."""

    results: int = 0
    before: int = 0
    after: int = 0
    pieces: int = 0
    kept: int = 0
    edits: int = 0
    whole: int = 0

    def line(self, name: str) -> str:
        return LINE.format(
            name,
            f"{self.results:,}",
            f"{self.before:,}",
            f"{1 - self.after / max(1, self.before):.1%}",
            f"{self.pieces:,}",
            f"{self.kept / self.pieces:.1%}" if self.pieces else "",
            f"{self.edits:,}" if self.edits else "",
            f"{self.whole / self.edits:.1%}" if self.edits else "",
        )


@dataclass
class Scores:
    """`Scores` sum the figures of one way of forwarding by family."""

    families: dict[str, Score] = field(default_factory=dict)
    conversations: int = 0
    unharmed: int = 0
    """Conversations in which no piece was lost and every edit is whole."""

    def add(self, body: Body, forwarded: bytes) -> None:
        """Add one conversation."""
        before, after = results(body["api"], plain(body)), results(body["api"], forwarded)
        said = body[MESSAGES[body["api"]]]
        lost = 0
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            score = self.families.setdefault(old.family, Score())
            score.results += 1
            score.before += token_estimate.estimate(old.text)
            score.after += token_estimate.estimate(new.text)
            for word, used in pieces(before, index, said).items():
                there = any(word in one.text for one in after if one.message < used)
                score.pieces += 1
                score.kept += there
                lost += not there
            for text, used in edits(said):
                if text in NUMBER.sub("", old.text) and old.message < used:
                    there = any(text in NUMBER.sub("", one.text) for one in after if one.message < used)
                    score.edits += 1
                    score.whole += there
                    lost += not there
        self.conversations += 1
        self.unharmed += not lost

    def total(self) -> Score:
        total = Score()
        for score in self.families.values():
            for name in vars(score):
                setattr(total, name, getattr(total, name) + getattr(score, name))
        return total


def results(api_id: str, data: bytes) -> list[Result]:
    """Return the results of a request in their order."""
    api = next(one for one in recognise.apis() if one.id == api_id)
    request = read.read(Document(data), api, WAYS["standard"], b"s" * 32)
    if request is None:
        return []
    found: list[Result] = []
    for item in request.items:
        call = classify(item.tool, tool_output(request, item).arguments)
        family = f"{call.category}, {call.family}" if call.family else call.category
        found.append(Result(item.text, family, item.result.turn))
    return found


def pieces(found: Sequence[Result], index: int, said: Sequence[Body]) -> dict[str, int]:
    """Return the pieces that the model could know only from this result, with the messages that use them."""
    own = found[index]
    words = {word for word in WORD.findall(own.text) if len(word) >= 3 and telling(word)}
    for other in found[:index]:
        words -= set(WORD.findall(other.text))
    used: dict[str, int] = {}
    for position, message in enumerate(said):
        if speaker(message) == "result":
            continue
        there = words & set(WORD.findall(json.dumps(message, ensure_ascii=False)))
        if position > own.message and speaker(message) == "model":
            used |= dict.fromkeys(there, position)
        words -= there
    return used


def telling(word: str) -> bool:
    """Return whether a word is more than an ordinary word of a language."""
    return bool(re.search(r"[0-9_$./-]|[a-z][A-Z]", word))


def edits(said: Sequence[Body]) -> Iterator[tuple[str, int]]:
    """Return old texts of edits, each with the number of its message."""
    for position, message in enumerate(said):
        if speaker(message) == "model":
            for text in old_texts(message):
                yield text, position


def old_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value[:1] == "{":
        try:
            value = json.loads(value)
        except ValueError:
            return
    if isinstance(value, list):
        for item in value:
            yield from old_texts(item)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in OLD and isinstance(inner, str) and len(inner.strip()) >= 12:
                yield inner
            else:
                yield from old_texts(inner)


def made(seed: int) -> Body:
    """Return a conversation with one result of each kind, of which lines from anywhere are used later."""
    outputs = Outputs(seed)
    turns: list[dict[str, Any]] = []
    used: list[str] = []
    for name in outputs.kinds():
        result = outputs.result(name, outputs.chance.choice(SIZES[:-1]))
        call = {"tool": result.tool, "arguments": result.arguments, "result": result.text}
        turns.append({"calls": [call]})
        lines = [line for line in NUMBER.sub("", result.text).split("\n") if len(line) > 11]
        if name.startswith("file") and len(lines) > 3:
            at = outputs.chance.randrange(len(lines) - 2)
            edit = {"file_path": "/srv/app/src/reader.py", "old_string": lines[at], "new_string": "pass"}
            turns.append({"calls": [{"tool": "Edit", "arguments": edit, "result": "done"}]})
        elif lines:
            used += [outputs.chance.choice(lines)[:200] for _ in range(USED)]
            turns.append({"say": "\n".join(used[-USED:]), "calls": []})
    messages: list[Body] = [{"role": "user", "content": "make it work"}]
    for number, turn in enumerate(turns):
        messages += [message for message in anthropic(f"t{number}", turn) if message["content"]]
    return {"api": "anthropic-messages", "model": "claude-opus-5-5", "max_tokens": 9, "messages": messages}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", type=Path, help="conversations: one request a line, in order")
    parser.add_argument("--made", type=int, default=12, help="conversations that are made (default: 12)")
    parser.add_argument(
        "--way", choices=WAYS, action="append", help="only in this way; more than one is possible"
    )
    wanted = parser.parse_args()
    bodies = [of_file(path)[-1] for path in wanted.files]
    if not bodies:
        bodies = [
            *(made(seed) for seed in range(wanted.made)),
            *(list(played)[-1] for played in recording(1)),
        ]
    redact = default().redact
    for way in wanted.way or WAYS:
        scores = Scores()
        for body in bodies:
            scores.add(body, Forwarder(WAYS[way], redact).forward(body))
        print(LINE.format(way, "results", "tokens", "saved", "pieces", "kept", "edits", "whole"))
        for name, score in sorted(scores.families.items(), key=lambda item: -item[1].before):
            print(score.line(name))
        print(scores.total().line("all"))
        print(f"nothing lost in {scores.unharmed} of {scores.conversations} conversations\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
