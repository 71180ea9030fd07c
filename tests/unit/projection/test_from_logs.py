"""Projection of logged conversations: each result counts once as new, and again in every later request."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from penumbra.compress.token_estimate import estimate
from penumbra.config.settings import Settings
from penumbra.projection.figures import Figures
from penumbra.projection.from_logs import LogProjection
from penumbra.projection.projector import Projector, settings_of
from penumbra.session_logs import claude_code, codex
from penumbra.session_logs.log_entries import LogCounts, LoggedConversation
from support.session_log_files import ClaudeCodeLog, CodexLog, text_block, write_lines

LONG = "".join(f"tests/test_{number}.py::test_it PASSED\n" for number in range(400)) + "400 passed in 3 s\n"
TOKEN = "gh" + "p_lqcPuQybgKxtzX17jVL0GAPxirppHx92KGBZ"


@pytest.fixture(scope="module")
def projector() -> Iterator[Projector]:
    with closing(Projector(settings_of(Settings(), adopts=False))) as made:
        yield made


def _session(turns: int = 4) -> ClaudeCodeLog:
    """Return a session whose result is in all requests but the first."""
    log = ClaudeCodeLog()
    log.prompt("run the tests")
    log.called("m0", "toolu_01", "pytest -v")
    log.gave("toolu_01", LONG)
    for number in range(1, turns):
        log.said(f"m{number}", text_block("Done."))
        log.prompt("and again")
    return log


def _figures(
    projector: Projector, conversations: list[LoggedConversation], since: float = 0.0, at: float = 1.0
) -> Figures:
    projection = LogProjection(projector, Figures(), since)

    async def run() -> None:
        for conversation in conversations:
            await projection.add(conversation, "log", at)

    asyncio.run(run())
    return projection.figures


def _claude(tmp_path: Path, log: ClaudeCodeLog) -> list[LoggedConversation]:
    return list(claude_code.read(write_lines(tmp_path / "s.jsonl", log.lines), LogCounts()))


def test_a_result_counts_once_as_new_and_again_in_each_later_request(
    projector: Projector, tmp_path: Path
) -> None:
    figures = _figures(projector, _claude(tmp_path, _session(turns=4)))
    results, requests = figures.results, figures.requests
    assert (results.results, results.changed, requests.count) == (1, 1, 4)
    assert results.before == estimate(LONG)
    assert results.after < results.before / 3
    assert (results.resent_before, results.resent_after) == (2 * results.before, 2 * results.after)
    assert list(figures.rows) == [("Bash", "pytest")]
    # The tokens are written to the cache once at 1.25 of the price of $5 a million, and read twice at 0.1.
    assert results.dollars == pytest.approx((results.before - results.after) * (1.25 + 0.2) * 5 / 1e6)
    assert requests.declared > 0


def test_a_conversation_in_two_logs_counts_once(projector: Projector, tmp_path: Path) -> None:
    old = _claude(tmp_path, _session(turns=3))
    longer = _claude(tmp_path, _session(turns=5))
    alone = _figures(projector, longer)
    together = _figures(projector, [*old, *longer, *longer])
    assert together.results.dollars == pytest.approx(alone.results.dollars)
    assert replace(together.results, dollars=0) == replace(alone.results, dollars=0)
    assert together.requests.count == alone.requests.count == 5


def test_only_recent_conversations_count(projector: Projector, tmp_path: Path) -> None:
    conversations = _claude(tmp_path, _session(turns=4))
    assert _figures(projector, conversations, since=4e9).requests.count == 0
    times = [entry.at for entry in conversations[0].entries if hasattr(entry, "at")]
    late = _figures(projector, conversations, since=times[2])
    # The result is older, but two requests have carried it again.
    assert (late.results.results, late.requests.count) == (0, 2)
    assert late.results.resent_before == 2 * estimate(LONG)


def test_the_provider_s_own_count_is_taken_where_it_can_be_one(projector: Projector, tmp_path: Path) -> None:
    log = CodexLog()
    log.prompt("run the tests")
    log.called("call_1", "pytest -v")
    log.counted(9_000, cached=8_000)
    log.gave("call_1", LONG)
    log.said("Done.")
    log.counted(3)
    conversations = list(codex.read(write_lines(tmp_path / "rollout-1.jsonl", log.lines), LogCounts()))
    requests = _figures(projector, conversations).requests
    assert requests.counted_input == 9_000
    assert requests.input > 9_000 + estimate(LONG)


def test_secrets_are_counted_by_rule_and_never_shown(projector: Projector, tmp_path: Path) -> None:
    log = ClaudeCodeLog()
    log.prompt("show it")
    log.called("m1", "toolu_01", f"echo {TOKEN}")
    log.gave("toolu_01", f"{TOKEN}\n" + LONG)
    log.called("m2", "toolu_02", "cat token")
    log.gave("toolu_02", f"{TOKEN}\n")
    log.said("m3", text_block("Done."))
    figures = _figures(projector, _claude(tmp_path, log))
    assert figures.secrets == {"github-token": 2}
    assert len(figures.values) == 1
    large = figures.largest
    assert TOKEN not in repr(large)
    assert "[REDACTED:github-token:" in large[0].call
