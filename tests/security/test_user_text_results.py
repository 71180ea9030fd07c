"""Results that agents write into the user's text are searched, and shortened where nothing else can be
meant."""

import json
from functools import partial
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis.user_text import Passage, Passages
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.wire.document import Document
from support.apis import APIS, BY_ID
from support.engines import rewritten
from support.planted import GITHUB, PASSWORD

sent = partial(rewritten, redact=Redactor(b"k").redact)
EXAMPLES: list[dict[str, Any]] = rules.load("user_results.yaml")["examples"]
WITH = [one for one in EXAMPLES if one["results"]]
FORMS = [api.id for api in APIS]


def form(api: str, said: str, text: str) -> dict[str, Any]:
    """Return a conversation in which the user's last text has results."""
    turns: list[Any] = [("user", "hi"), ("said", said), ("user", text)]
    if api == "anthropic-messages":
        turns = [(kind, [{"type": "text", "text": one}]) for kind, one in turns]
    return {"model": "claude-haiku-4-5", BY_ID[api].member: BY_ID[api].written(turns)}


def chat(said: str, text: str) -> dict[str, Any]:
    return form("openai-chat", said, text)


def passages(document: Document) -> list[Passage]:
    """Return the results in the user's texts of a list of messages."""
    reader = Passages()
    messages = enumerate(document.items(document.root))
    return [each for turn, message in messages for each in reader.add(document, message, turn)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one["text"][:50])
def test_examples_of_the_rule_file(example: dict[str, Any]) -> None:
    document = Document(json.dumps(chat(example["said"], example["text"])["messages"]).encode())
    found = passages(document)
    assert [example["text"][one.start : one.end] for one in found] == example["results"]
    for one in found:
        assert one.certain is example["certain"]
        assert one.tool == example.get("tool", one.tool)
        assert one.command == example.get("command", one.command)


@pytest.mark.parametrize("api", FORMS)
@pytest.mark.parametrize("example", WITH, ids=lambda one: one["text"][:50])
def test_secrets_go_and_nothing_else_changes(api: str, example: dict[str, Any]) -> None:
    """No other byte of the user's text changes in any spelling."""
    old = example["results"][-1]
    text = example["text"]
    document = Document(json.dumps(chat(example["said"], text)["messages"]).encode())
    at = passages(document)[-1].start
    text = f"{text[:at]}a €\n{old}\nDB_PASSWORD={PASSWORD} \\ {GITHUB}{text[at + len(old) :]}"
    data = json.dumps(form(api, example["said"], text), indent=1).encode().replace(b"<", rb"\u003c")
    done = sent(api, data)
    body = json.loads(done.body)
    assert PASSWORD not in done.body.decode()
    assert GITHUB not in done.body.decode()
    marks = PATTERN.findall(json.dumps(body))
    assert len(marks) == 2
    clean = text.replace(PASSWORD, marks[0]).replace(GITHUB, marks[1])
    assert body == form(api, example["said"], clean)
    start = (
        data.index(
            json.dumps(text[: at + 1].replace("<", "\x00"))[1:-1].replace("\\u0000", r"\u003c").encode()
        )
        if at
        else 0
    )
    assert done.body[:start] == data[:start]
    assert sent(api, data, known=done.decisions).body == done.body
    assert sent(api, data, known=done.decisions).decisions == {}
    assert sent(api, done.body).body == done.body


@pytest.mark.parametrize(
    "text", ["DB_PASSWORD=" + PASSWORD, f"what is {GITHUB}?", "My Observation: " + GITHUB]
)
def test_user_words_stay(text: str) -> None:
    data = json.dumps(chat("hello", text)).encode()
    assert sent("openai-chat", data).body == data


def test_user_words_around_a_result_stay() -> None:
    text = f"{GITHUB} is mine <bash-stdout>{GITHUB}</bash-stdout> and {PASSWORD} too"
    body = json.loads(sent("openai-chat", json.dumps(chat("hello", text)).encode()).body)
    said = body["messages"][2]["content"]
    assert said.startswith(f"{GITHUB} is mine <bash-stdout>[REDACTED:")
    assert said.endswith(f"]</bash-stdout> and {PASSWORD} too")


LOG = "".join(f"\x1b[32mstep {number % 3}\x1b[0m done      \n" for number in range(400)) + "ERROR: it broke\n"


@pytest.mark.parametrize("name", ["sh", r"sh\ud800"], ids=["name", "name with half a surrogate pair"])
@pytest.mark.parametrize("api", FORMS)
def test_certain_results_in_user_texts_are_shortened(api: str, name: str) -> None:
    said = f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>'
    text = f"<tool_response>\n{LOG}</tool_response>"
    data = json.dumps(form(api, said, text)).encode()
    done = sent(api, data)
    assert len(done.body) < len(data) / 2
    assert "ERROR: it broke" in done.body.decode()
    body = json.dumps(json.loads(done.body))
    assert "<tool_response>" in body
    assert "</tool_response>" in body
    assert sent(api, data, known=done.decisions).body == done.body


@pytest.mark.parametrize("said", ["hello", "I could call a tool."])
@pytest.mark.parametrize("behind", ["", " what is this?"])
def test_uncertain_results_in_user_texts_are_not_shortened(said: str, behind: str) -> None:
    data = json.dumps(chat(said, f"<tool_response>\n{LOG}</tool_response>{behind}")).encode()
    assert sent("openai-chat", data).body == data


def test_results_of_one_text_are_shortened_each_for_itself() -> None:
    said = '<tool_call>{"name": "sh", "arguments": {}}</tool_call>' * 2
    text = f"<tool_response>\n{LOG}</tool_response>\n<tool_response>\n{LOG}b\n</tool_response>"
    done = sent("openai-chat", json.dumps(chat(said, text)).encode())
    content = json.loads(done.body)["messages"][2]["content"]
    assert content.count("<tool_response>\n") == content.count("</tool_response>") == 2
    assert len(done.decisions) == 2
    assert len(content) < len(text) / 2


def test_a_command_that_the_text_names_makes_its_result_loud() -> None:
    said = [{"role": "user", "content": "<bash-input>gh auth token</bash-input>"}]
    said.append(
        {"role": "user", "content": "<bash-stdout>Zk82hVtLqPxw73</bash-stdout><bash-stderr></bash-stderr>"}
    )
    data = json.dumps({"model": "m", "messages": said}).encode()
    assert "Zk82hVtLqPxw73" not in sent("openai-chat", data).body.decode()


def test_next_block_is_the_result_of_a_header() -> None:
    said = {"role": "assistant", "content": "<execute_command><command>make</command></execute_command>"}
    header = {"type": "text", "text": "[execute_command for 'make'] Result:"}
    details = {"type": "text", "text": f"<environment_details>\n{GITHUB}\n</environment_details>"}
    blocks = [header, {"type": "text", "text": LOG + GITHUB}, details]
    data = json.dumps({"model": "m", "messages": [said, {"role": "user", "content": blocks}]}).encode()
    content = json.loads(sent("openai-chat", data).body)["messages"][1]["content"]
    assert content[0] == header
    assert content[2] == details
    assert GITHUB not in content[1]["text"]
    assert len(content[1]["text"]) < len(LOG) / 2


@pytest.mark.parametrize(
    "text",
    ["<tool_response>" * 9_000, "<tool_response>a</tool_response>" * 9_000, "Observation: a\n" * 9_000],
)
def test_hostile_texts(text: str) -> None:
    data = json.dumps(chat("<tool_call>", text)).encode()
    assert sent("openai-chat", data, redact_secrets=False).body


def test_a_file_read_for_an_edit_keeps_its_text() -> None:
    said = '<tool_call>{"name": "read_file", "arguments": {"path": "src/a.py"}}</tool_call>'
    code = "".join(f"def f{number}(a):\n    return a * {number * 7919}\n" for number in range(200))
    data = json.dumps(chat(said, f"<tool_response>\n{code}</tool_response>")).encode()
    assert sent("openai-chat", data).body == data


def test_a_result_of_a_call_that_is_not_known_is_only_searched() -> None:
    said = "Thought: let me see\n<code>\nprint(log)\n</code>"
    data = json.dumps(chat(said, f"Observation:\n{LOG}")).encode()
    assert sent("openai-chat", data).body == data
