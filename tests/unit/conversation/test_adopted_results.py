"""Results that the provider may have got without Penumbra keep their form, but not their secrets."""

import json
from typing import Any

import pytest

from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.model import Rewritten
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.wire.document import Document
from support.messages_requests import LOG, SAME, SCOPE, answer, api, body, contents, go, how, use
from support.planted import GITHUB, anthropic

OLD = f"GITHUB_TOKEN={GITHUB}\n" + "the same line\n" * 400
LONG = SAME * 4
MARKED = [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]
DONE = [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "And now?"}]
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
COMPRESS, RAW = Settings(adopt="compress"), Settings(adopt="raw")


def history(*results: str) -> list[Any]:
    """Return messages with these results, each of which the model has answered."""
    messages: list[Any] = []
    for number, text in enumerate(results):
        messages += [use(f"toolu_{number}"), answer(f"toolu_{number}", text)]
    return [*messages, *DONE]


def chat(text: str = OLD) -> dict[str, Any]:
    call = {"id": "call_01AbCdEfGhIjKlMnOpQrSt", "type": "function"}
    call["function"] = {"name": "Bash", "arguments": "{}"}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": text},
    ]
    return {"model": "m", "messages": [*messages, *DONE]}


def thinking() -> dict[str, Any]:
    made = anthropic(OLD)
    made["messages"] += [
        {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "Done."}]},
        {"role": "user", "content": [{"type": "text", "text": "?", "cache_control": {"type": "ephemeral"}}]},
    ]
    return made


def sent(api: str, made: Any, adopt: str = "auto") -> tuple[str, Rewritten]:
    rewritten = go(made, settings=Settings(adopt=adopt), name=api, redact=Redactor(b"k").redact)
    return rewritten.body.decode(), rewritten


@pytest.mark.parametrize(
    ("made", "settings", "name", "expected"),
    [
        (body(*history(LONG), system=MARKED), None, "anthropic-messages", "adopted"),
        (body(*history(LONG)), None, "anthropic-messages", "shortened"),
        (body(*history(LONG)), RAW, "anthropic-messages", "adopted"),
        (body(*history(LONG), system=MARKED), COMPRESS, "anthropic-messages", "shortened"),
        (body(*history("x\n\n\n\n" * 9), system=MARKED), None, "anthropic-messages", "kept"),
        (chat("x \n" * 2000), None, "openai-chat", "adopted"),
        (chat("same line\n" * 100), None, "openai-chat", "shortened"),
    ],
    ids=["marked", "unmarked", "raw", "compress", "short", "chat, long", "chat, short"],
)
def test_results_that_may_be_cached_keep_their_form(
    made: Any, settings: Any, name: str, expected: str
) -> None:
    assert how(go(made, settings=settings, name=name)) == [expected]
    # No other step asks for a new form of an adopted result.
    document = Document(json.dumps(made).encode())
    request = read.read(document, api(name), settings or Settings(), SCOPE)
    assert bool(rewrite.undecided(request, {})) == (expected != "adopted")


def test_results_before_thinking_stay_and_stay_so() -> None:
    thought = {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "a"}]}
    first = [use("toolu_1"), answer("toolu_1", LONG), thought, {"role": "user", "content": "next"}]
    adopted = go(body(*first))
    assert how(adopted) == ["adopted"]
    assert how(go(body(*first, use("toolu_2"), answer("toolu_2", LONG + "!")))) == ["adopted", "shortened"]
    again = go(body(*first), known=adopted.decisions, settings=COMPRESS)
    assert how(again) == ["adopted"]
    assert again.decisions == {}


def test_a_result_that_the_client_changed_later_counts_as_new() -> None:
    messages = [use("toolu_1"), answer("toolu_1", LOG), use("toolu_2"), answer("toolu_2", "b")]
    first = go(body(*messages, system=MARKED))
    messages[1] = answer("toolu_1", "[trimmed by the client] hunter2 " + SAME)
    changed = go(body(*messages, *DONE, system=MARKED), known=first.decisions)
    assert how(changed) == ["shortened", "kept"]
    assert "hunter2" not in contents(changed)[0]


def test_only_the_secret_goes_for_good() -> None:
    data, rewritten = sent("openai-chat", chat())
    assert PATTERN.sub(GITHUB, data) == json.dumps(chat())
    assert PATTERN.search(data)
    assert [dict(one.facts.redactions) for one in rewritten.shown] == [{"github-token": 1}]
    (decision,) = rewritten.decisions.values()
    assert decision.text is not None
    assert GITHUB not in decision.text
    assert decision.text.endswith("the same line\n" * 400)


@pytest.mark.parametrize(
    ("api", "made", "adopt"),
    [("openai-chat", chat(), "raw"), ("anthropic-messages", thinking(), "auto")],
    ids=["operator", "bound thinking"],
)
def test_secrets_stay_if_the_operator_or_bound_thinking_requires_it(api: str, made: Any, adopt: str) -> None:
    """The operator asks for it, or the provider would refuse thinking with another prefix."""
    assert sent(api, made, adopt)[0] == json.dumps(made)
    assert sent(api, made, "compress")[0] != json.dumps(made)


def test_thinking_before_a_result_binds_nothing() -> None:
    made = thinking()
    made["messages"][1]["content"].insert(0, made["messages"][3]["content"].pop(0))
    assert GITHUB not in sent("anthropic-messages", made)[0]
