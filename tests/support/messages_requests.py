"""Requests of the Messages API, and their rewriting without a proxy."""

import json

from penumbra.apis import recognise
from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.wire.document import Document

SCOPE = b"s" * 32
LOG = "\n".join(f"2026-01-01 00:00:{second % 60:02d} INFO worker idle, nothing to do" for second in range(60))
PRETTY = json.dumps({"items": [{"id": number, "name": f"item {number}"} for number in range(60)]}, indent=4)
SAME = "building\n" * 200 + "done in 3.1s"


def redact(text, hint=""):
    return Redacted(
        text.replace("hunter2", "[REDACTED:test:abcdef]"),
        {"test": text.count("hunter2")} if "hunter2" in text else {},
    )


def api(name):
    return next(entry for entry in recognise.apis() if entry.id == name)


def use(call_id, name="Bash", **arguments):
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": call_id, "name": name, "input": arguments}],
    }


def answer(call_id, content, **more):
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call_id, "content": content, **more}],
    }


def body(*messages, **more):
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}, *messages], **more}


def go(
    body,
    known=None,
    settings=None,
    name="anthropic-messages",
    references=None,
    redact=redact,
    line_indexes=None,
    **more,
):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = read.read(Document(data), api(name), settings or Settings(), SCOPE, **more)
    return rewrite.rewrite(Inputs(request, known or {}, redact, references), line_indexes or LineIndexes())


def contents(rewritten):
    found = []
    for message in json.loads(rewritten.body)["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_result":
                found.append(block["content"])
    return found


def how(rewritten):
    return [entry.facts.how for entry in rewritten.shown]


class References:
    def ref(self, original):
        return f"shadow_{len(original):018}"

    def prefix(self, ref):
        return f"<<<SHADOW:{ref}>>>\n"

    def overhead(self):
        return self.prefix(self.ref(""))
