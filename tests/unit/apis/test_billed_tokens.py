"""Every token of a turn is counted once, whatever its provider calls it."""

import pytest

from penumbra.apis.prefix_hash import prompt_head
from penumbra.apis.usage import BilledTokens
from penumbra.wire.document import Document


@pytest.mark.parametrize(
    "usage",
    [
        {
            "input_tokens": 5,
            "cache_read_input_tokens": 90,
            "cache_creation_input_tokens": 7,
            "output_tokens": 3,
        },
        {"inputTokens": 5, "cacheReadInputTokens": 90, "cacheWriteInputTokens": 7, "outputTokens": 3},
    ],
)
def test_where_what_was_cached_stands_beside(usage):
    billed = BilledTokens.of(usage)
    assert billed == BilledTokens(5, 90, 7, 3)
    assert billed.prompt == 102


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 95, "prompt_tokens_details.cached_tokens": 90, "completion_tokens": 3},
        {
            "prompt_tokens": 95,
            "prompt_cache_hit_tokens": 90,
            "prompt_cache_miss_tokens": 5,
            "completion_tokens": 3,
        },
        {"input_tokens": 95, "input_tokens_details.cached_tokens": 90, "output_tokens": 3},
        {
            "promptTokenCount": 95,
            "cachedContentTokenCount": 90,
            "candidatesTokenCount": 1,
            "thoughtsTokenCount": 2,
        },
    ],
)
def test_where_it_is_a_part(usage):
    assert BilledTokens.of(usage) == BilledTokens(5, 90, 0, 3)


def test_without_an_input_nothing_is_known():
    assert BilledTokens.of({"output_tokens": 3}) is None
    assert BilledTokens.of({}) is None
    assert BilledTokens.of({"prompt_eval_count": 4, "eval_count": 2}) == BilledTokens(4, 0, 0, 2)


def test_the_head_of_a_prompt_is_what_stands_in_front_of_the_messages():
    def head(text):
        return prompt_head(Document(text.encode()))

    plain = head('{"tools":[{"name":"a"}],"system":[{"text":"You."}],"messages":[1]}')
    assert plain == head('{"messages":[2],"system":[{"text":"You."}],"tools":[{"name":"a"}]}')
    assert plain.tools != head('{"tools":[{"name":"b"}],"system":[{"text":"You."}]}').tools
    assert plain.system != head('{"tools":[{"name":"a"}],"system":[{"text":"I."}]}').system
    billing = '{"system":[{"text":"x-anthropic-billing-header: cch=%s;\\nYou."}]}'
    assert head(billing % "a1") == head(billing % "b2")
    assert (
        head('{"request":{"contents":[],"tools":[1]}}').tools
        != head('{"request":{"contents":[],"tools":[2]}}').tools
    )
