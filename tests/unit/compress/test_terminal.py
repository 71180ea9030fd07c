"""Terminal output is written as a screen shows it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.stages.terminal import render
from support.examples import examples

ESC = "\x1b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{ESC}[1;31mred{ESC}[0m\r\nnext", "red\r\nnext"),
        (f"{ESC}[38:2::1:2:3mcolon{ESC}[m", "colon"),
        (f"{ESC}]8;;http://x.y/z\x07link{ESC}]8;;\x07 on", "link on"),
        (f"{ESC}]0;title{ESC}\\text", "text"),
        (f"{ESC}(Bplain{ESC}[?25l{ESC}[?25h", "plain"),
        ("\x9b31mred\x9bm", "red"),
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("abcdef\rX\n", "abcdef\nX\n"),
        (f"loading...\r{ESC}[Kdone\n", "done\n"),
        ("N\bNA\bAM\bM", "NAM"),
        ("_\bu_\bn", "un"),
        ("spin |\b/\b-\b\\\b ok", "spin  ok"),
        ("end\r\r\n", "end\r\n"),
        (f"a: 1%\nb: 1%\n{ESC}[2Aa: 9%\nb: 9%\nok", "a: 9%\nb: 9%\nok"),
        (f"one\ntwo{ESC}[1F{ESC}[2Knew", "new\ntwo"),
        (f"{ESC}[2J{ESC}[Hfresh", "fresh"),
        (f"before\n{ESC}[2J{ESC}[Hafter", "before\nafter"),
        (f"ab{ESC}[3Gcd", "abcd"),
        (f"x{ESC}[4Cy", "x    y"),
        (f"{ESC}[{ESC}[m31mnested", "nested"),
        ("bell\x07\x0f", "bell"),
        # Moves to far places make no text longer.
        (f"ab{ESC}[300Cc\n", "ab c\n"),
        (f"ab{ESC}[300Gc\n", "ab c\n"),
        (f"{ESC}[60;399Hx", "x"),
        (f"{ESC}[60;399Hx{ESC}[H" * 200, "x" * 200),
        (f"{ESC}]0;title\x07Error: 1\rok{ESC}[300Cc", "Error: 1\nok c"),
        ("x Error: boom at a.py:3" + "\b" * 23 + "\b".join("abcdefgh"), "x Error: boom at a.py:3abcdefgh"),
    ],
)
def test_shown(text: str, shown: str) -> None:
    assert render(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\n", "crlf\r\nlines\r\n", "form\x0cfeed", "nul\x00separated\x00names\x00",
        "mojibake â\x80\x9b quote é\x9b", "next line \x85 here", r"literal \x1b[31m in source", "",
    ],
)  # fmt: skip
def test_nothing_to_show_is_the_same_object(text: str) -> None:
    assert render(text) is text


def test_an_error_that_progress_writes_over_is_kept() -> None:
    assert render("error: disk full\rok               \n") == "error: disk full\nok               \n"
    assert render(f"ERROR timeout{'.' * 3}\r{ESC}[2Kretrying\n") == "ERROR timeout...\nretrying\n"


def test_a_file_keeps_carriage_returns_and_backspaces() -> None:
    assert render(f"old\rmac\rlines {ESC}[1mbold{ESC}[0m a\bb", moves=False) == "old\rmac\rlines bold a\bb"


pieces = st.lists(
    st.sampled_from(
        [*"a\n\r\b[]m\x9b\x9dé\x07K;", ESC, "bc ", "error", "\r\n"]
        + [f"{ESC}[{n}{kind}" for n in ("", "1", "2", "9;4") for kind in "ABCDEFGHJKPXms"]
        + [f"{ESC}M", f"{ESC}c", f"{ESC}7", f"{ESC}8", f"{ESC}]0;t\x07"]
    ),
    max_size=40,
).map("".join)


@settings(max_examples=examples(300))
@given(pieces)
def test_drawn_twice_is_drawn_once(text: str) -> None:
    shown = render(text)
    assert ESC not in shown
    assert "\x07" not in shown
    assert render(shown) == shown
    assert len(shown) <= len(text)


@settings(max_examples=examples(150))
@given(st.text(max_size=80))
def test_any_text_can_be_drawn(text: str) -> None:
    shown = render(text)
    assert len(shown) <= len(text)
    if not set(text) & set("\x07\x08\x0e\x0f\x1b\x9b\x9d\r"):
        assert shown is text


def test_long_lines_and_many_moves() -> None:
    line = "x" * 3_000_000
    assert render(line + "\r" + "y" * 10) == f"{line}\n{'y' * 10}"
    assert render("progress\r" * 200_000 + "end") == "progress\nend"
    assert render("a\b" * 200_000) == "a"


@pytest.mark.parametrize(
    ("removed", "added"),
    [("  x = 1", "  x = 1  "), ("  x = 1\t", "  x = 1"), ("  x = 1\r", "  x = 1")],
    ids=["blanks added", "tab removed", "line end changed"],
)
def test_colours_go_from_lines_with_invisible_differences(removed: str, added: str) -> None:
    plain = f" a = 0\n-{removed}\n+{added}\n b = 2\n"
    coloured = f" a = 0\n\x1b[31m-{removed}\x1b[m\n\x1b[32m+{added}\x1b[m\n b = 2\n"
    assert render(coloured, moves=False) == plain
