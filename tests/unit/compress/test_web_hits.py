"""Web search results keep every title and address before any text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Mode, Policy, Redacted, ToolOutput
from penumbra.compress.size import size
from penumbra.compress.stages.web_hits import is_hits, sample
from support.examples import examples

WORDS = [
    "sail",
    "mast",
    "wind",
    "cloth",
    "lift",
    "drag",
    "keel",
    "rope",
    "knot",
    "hull",
    "bow",
    "stern",
    "tide",
    "wave",
    "port",
    "deck",
]
MARKDOWN = "A search for 'sails' found 12 results:\n\n" + "".join(
    f"{n}. [{WORDS[n]} and {WORDS[n + 2]}](https://example.com/sails/{WORDS[n]})\nDate: Mar {n}, 2025\n\n"
    + " ".join(WORDS[(n * k + k // 3) % 16] for k in range(260 + n))
    + "\n\n"
    for n in range(1, 13)
)
FIELDS = "".join(
    f"Title: Sails {n}\nURL: https://example.com/{n}\nText: {'wind and cloth ' * 60}\nmore of it\n\n"
    for n in range(1, 13)
)


@pytest.mark.parametrize("text", [MARKDOWN, FIELDS], ids=["markdown", "fields"])
def test_all_addresses_stay(text: str) -> None:
    assert is_hits(text)
    short = sample(text, 3_000)
    assert size(short) <= 3_000
    assert re.findall(r"https?://[^\s)]+", short) == re.findall(r"https?://[^\s)]+", text)


def test_what_is_missing_is_counted() -> None:
    lines = [line for line in FIELDS.split("\n") if line.strip()]
    short = sample(FIELDS, 1_800).split("\n")
    left_out = sum(
        int(found[1]) for line in short if (found := re.fullmatch(r"\[([0-9]+) lines? left out\]", line))
    )
    kept = [line for line in short if not line.endswith(" left out]") or "characters" in line]
    assert left_out + len(kept) == len(lines)
    assert 0 < left_out < len(lines)
    few = sample(FIELDS, 300)
    assert few.endswith(" more hits]")
    more = int(few.split("[")[-1].split()[0])
    assert more + few.count("URL: ") == 12


def test_the_heading_of_a_second_list_stays() -> None:
    lists = "\n\n".join(f"Results of engine {name}\n\n{MARKDOWN[40:]}" for name in "ab")
    short = sample(lists, 4_000).split("\n")
    second = short.index("Results of engine b")
    assert short[second + 1].startswith("1. [")
    assert sum(line.startswith("1. [") for line in short) == 2


def test_a_page_that_is_fetched_is_no_search() -> None:
    policy = Policy(mode=Mode.STANDARD, lossy=True)
    for arguments, kind in (
        ({"query": "sails"}, "[web search result "),
        ({"url": "https://x.y"}, "[web page "),
    ):
        made = shorten(ToolOutput(MARKDOWN, "web_fetch", arguments, "c1"), policy, Redacted, lambda _: "")
        assert made.text.startswith(kind)


def test_through_the_pipeline() -> None:
    prefix = "<<<SHADOW:shadow_" + "0" * 18 + ">>>\n"
    policy = Policy(mode=Mode.STANDARD, lossy=True, overhead=prefix)
    result = shorten(ToolOutput(MARKDOWN, "search", {"query": ["sails"]}, "c1"), policy, Redacted, str)
    assert result.text.startswith("[web search result in part; ")
    assert result.text.count("https://example.com/sails/") == 12
    again = shorten(ToolOutput(result.text, "search", {"query": ["sails"]}, "c1"), policy, Redacted, str)
    assert again.text == result.text


@pytest.mark.parametrize("text", ["", "a page\n" * 90, "see [this](https://example.com) and that\n" * 9])
def test_pages_are_no_hits(text: str) -> None:
    assert not is_hits(text)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(
        st.sampled_from(["- [a](https://x.y/é)", "Title: t", "URL: https://x.y", "text 🎉", "", "w" * 900]),
        max_size=60,
    ),
    st.integers(100, 3_000),
)
def test_never_above_the_room(lines: list[str], room: int) -> None:
    assert size(sample("\n".join(lines), room)) <= room
