"""What the provider has seen without us stays as it was."""

from penumbra.config.settings import Settings
from support.messages_requests import LOG, SAME, answer, body, contents, go, how, use


def answered(*results):
    """A history in which every result has been answered already."""
    messages = []
    for number, text in enumerate(results):
        messages += [use(f"toolu_{number}"), answer(f"toolu_{number}", text)]
    return [*messages, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "next"}]


LONG = SAME * 4


MARKED = [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]


def test_what_the_provider_has_seen_raw_stays_raw():
    cached = body(*answered(LONG), system=MARKED)
    assert how(go(cached)) == ["adopted"]
    assert how(go(body(*answered(LONG)))) == ["shortened"]
    assert how(go(body(*answered(LONG)), settings=Settings(adopt="raw"))) == ["adopted"]
    assert how(go(cached, settings=Settings(adopt="compress"))) == ["shortened"]
    assert how(go(body(*answered("x\n\n\n\n" * 9), system=MARKED))) == ["kept"]


def test_results_in_front_of_thinking_stay_raw():
    thinking = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "a"}],
    }
    history = [use("toolu_1"), answer("toolu_1", LONG), thinking, {"role": "user", "content": "next"}]
    tail = [use("toolu_2"), answer("toolu_2", LONG + "!")]
    assert how(go(body(*history))) == ["adopted"]
    assert how(go(body(*history, *tail))) == ["adopted", "shortened"]


def test_adopted_results_stay_adopted():
    history = answered(LONG)
    first = go(body(*history, system=MARKED))
    second = go(body(*history, system=MARKED), known=first.decisions, settings=Settings(adopt="compress"))
    assert how(second) == ["adopted"]
    assert second.decisions == {}


def test_a_text_that_the_client_changed_in_a_history_of_ours_is_new():
    messages = [use("toolu_1"), answer("toolu_1", LOG), use("toolu_2"), answer("toolu_2", "b")]
    first = go(body(*messages, system=MARKED))
    messages[1] = answer("toolu_1", "[trimmed by the client] hunter2 " + SAME)
    changed = go(
        body(
            *messages, {"role": "assistant", "content": "a"}, {"role": "user", "content": "n"}, system=MARKED
        ),
        known=first.decisions,
    )
    assert how(changed) == ["shortened", "kept"]
    assert "hunter2" not in contents(changed)[0]


def test_chat_histories_are_taken_for_cached_once_they_are_long():
    def chat(text):
        calls = [
            {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"command":"make"}'}}
        ]
        messages = [
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": text},
        ]
        return {
            "model": "m",
            "messages": [*messages, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}],
        }

    assert how(go(chat("x \n" * 2000), name="openai-chat")) == ["adopted"]
    assert how(go(chat("same line\n" * 100), name="openai-chat")) == ["shortened"]
