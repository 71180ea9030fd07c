"""The pipeline around the stages: modes, conditions of stages, redaction, failures."""

import pytest

from penumbra.compress import failure_lines, pipeline
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Loss, Mode, Policy, Redacted, Shortened, ToolOutput
from penumbra.compress.stage import Stage

SECRET = "hunter2hunter2"


def hide(text: str) -> Redacted:
    """Redact the only known secret."""
    count = text.count(SECRET)
    return Redacted(text.replace(SECRET, "[REDACTED]"), {"known": count} if count else {})


def run(text: str, tool: str = "Bash", arguments: object = None, **policy: object) -> Shortened:
    arguments = {"command": "./run"} if arguments is None else arguments
    settings = Policy(**{"min_bytes": 0, **policy})
    return shorten(ToolOutput(text, tool, arguments), settings, hide, lambda original: "shadow_0")


def test_disabled_redacts_and_does_nothing_else() -> None:
    result = run(f"\x1b[31mpassword {SECRET}   \n\n\n\n", mode=Mode.DISABLED)
    assert result.text == "\x1b[31mpassword [REDACTED]   \n\n\n\n"
    assert result.stages == ("redaction",)
    assert result.redactions == {"known": 1}


def test_secret_split_by_colours_is_found_and_not_stored() -> None:
    half = len(SECRET) // 2
    result = run(f"key {SECRET[:half]}\x1b[1m{SECRET[half:]} end\n")
    assert result.text == "key [REDACTED] end\n"
    assert SECRET[half:] not in result.original


def test_original_keeps_its_colours_where_no_secret_hides_in_them() -> None:
    assert run("\x1b[31mred\x1b[0m\n").original == "\x1b[31mred\x1b[0m\n"


def test_secret_that_a_stage_uncovers_is_taken_out_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    spoiler = Stage("spoiler", Loss.NONE, lambda text, source: SECRET)
    monkeypatch.setattr(pipeline, "STRUCTURE", (spoiler,))
    assert run("a long enough text of several words").text == "[REDACTED]"


def test_stage_that_raises_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, source: object) -> str:
        raise ValueError("bug")

    broken_stage = Stage("broken", Loss.NONE, broken)
    monkeypatch.setattr(pipeline, "STRUCTURE", (broken_stage, *pipeline.STRUCTURE))
    result = run("same line here\n" * 50)
    assert result.stages == ("fold_repeated",)


@pytest.mark.parametrize("mode", [Mode.SAFE, Mode.STANDARD, Mode.AGGRESSIVE])
def test_small_results_get_the_safe_stages_only(mode: Mode) -> None:
    text = "\x1b[1m" + "same line here\n" * 10
    assert run(text, mode=mode, min_bytes=512).text == text[4:]


def test_safe_mode_has_no_structure_stages_unless_the_text_would_be_cut() -> None:
    text = "same line here\n" * 100
    assert run(text, mode=Mode.SAFE).text is text
    for result in (run(text, mode=Mode.STANDARD), run(text, mode=Mode.SAFE, max_output_bytes=1_000)):
        assert result.text == "same line here\n[the line above 99 more times]\n"
    row = "row {} of the ledger says {}\n".format
    rows = "".join(row(n, n * n) for n in range(1_000))
    assert run(rows, mode=Mode.SAFE, max_output_bytes=9_000, lossy=True).stages == ("truncate",)


def test_code_is_no_failure_where_a_file_is_cut() -> None:
    code = "".join(f'    raise ValueError("error: no {n * n}")\n' for n in range(1_000))
    for path, is_code in (("a.py", True), ("a.log", False)):
        cut = run(code, "Read", {"file_path": path}, mode=Mode.SAFE, max_output_bytes=9_000).text
        assert (failure_lines.HEADING in cut) is not is_code
        assert len(cut) > 8_000


def test_lossy_stages_wait_for_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    halve = Stage("halve", Loss.LOSSY, lambda text, source: text[: len(text) // 2])
    monkeypatch.setattr(pipeline, "STRUCTURE", (halve,))
    text = "word " * 100
    assert run(text, lossy=False).text == text
    allowed = run(text, lossy=True)
    assert allowed.text == text[:250]
    assert allowed.loss is Loss.LOSSY


def test_the_reference_before_a_lossy_text_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    shave = Stage("shave", Loss.LOSSY, lambda text, source: text[: len(text) * 3 // 4])
    monkeypatch.setattr(pipeline, "STRUCTURE", (shave,))
    text = "".join(f"word {n:02}\n" for n in range(250))
    assert run(text, lossy=True, overhead="<" * 700).text == text
    assert run(text, lossy=True, overhead="<" * 10).text == text[: len(text) * 3 // 4]
    # A small saving is not worth a reference.
    assert run(text[:600], lossy=True, overhead="<" * 10).text == text[:600]


def test_stage_that_grows_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    grow = Stage("grow", Loss.NONE, lambda text, source: text + "!")
    monkeypatch.setattr(pipeline, "STRUCTURE", (grow,))
    assert run("text").text == "text"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "/a/b.py"}),
        ("Bash", {"command": "sed -n '1,120p' x.py"}),
        ("Edit", {"file_path": "/a/b.py"}),
    ],
)
def test_text_that_is_quoted_back_stays(tool: str, arguments: object) -> None:
    text = "    a = b | c | d   \n" * 30 + "\n\n\n\n" + '    x = "tail"  \n'
    assert run(text, tool, arguments, lossy=True).text == text


def test_our_own_shadow_is_left_alone() -> None:
    text = "<<<SHADOW:shadow_" + "0" * 18 + ">>>\n" + "same line here\n" * 3000
    assert run(text).text is text


def test_binary_is_suppressed_and_nothing_follows() -> None:
    result = run("\x7fELF" + "\x01\x02\ufffd\x03x" * 100)
    assert result.text == "[Binary output suppressed: 704 bytes]"
    assert result.stages == ("binary",)
    assert result.loss is Loss.LOSSY


def test_structure_comes_before_the_cap() -> None:
    text = "same line here\n" * 10_000
    result = run(text)
    assert result.stages == ("fold_repeated",)
    assert len(result.text) < 100
