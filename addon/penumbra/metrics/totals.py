"""This module writes the figures since the start as lines of text, and as a record for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from penumbra.metrics.amounts import Amounts, ExternalMetrics
from penumbra.metrics.journal import Journal
from penumbra.redaction.ruleset import in_words


def record(journal: Journal) -> dict[str, Any]:
    sums = journal.amounts
    return {
        "requests": sums.requests,
        "observed": journal.observed,
        "changed": sums.changed,
        "refused": sums.refused,
        "responses": sums.responses,
        "input_tokens": sums.input,
        "sent_tokens": [sums.sent_before, sums.sent_after],
        "new_results": sums.new_results,
        "new_tokens": [sums.new_before, sums.new_after],
        "overhead_tokens": sums.overhead,
        "milliseconds": round(sums.seconds * 1000, 1),
        "dollars": round(sums.dollars_saved, 6),
        "dollars_spent": round(sums.dollars_spent, 6),
        "unpriced": sums.unpriced,
        "prefix": {"compared": sums.compared, "broken": sums.broken},
        "stages": dict(journal.stages),
        "saved_by_tool": dict(_saved_by_tool(journal)),
        "redactions": dict(sums.secrets),
        "untouched": dict(journal.untouched),
    }


def lines(journal: Journal) -> list[str]:
    """Return the figures as lines of text, one for each fact."""
    sums = journal.amounts
    if not sums.requests:
        return ["Penumbra: no LLM requests yet."]
    lines = [
        f"requests    {sums.requests:,} read, {sums.changed:,} changed, {sums.refused:,} refused",
        f"tokens sent {_change(sums.sent_before, sums.sent_after)} (results of all requests, estimated)",
        f"new results {sums.new_results:,}: {_change(sums.new_before, sums.new_after)} tokens",
        *net_lines(sums),
        f"time        {sums.seconds * 1000 / sums.requests:.1f} ms a request",
    ]
    if journal.observed:
        text = f"{journal.observed:,} of these requests were not changed: the figures are of would-be changes"
        lines.insert(0, f"observed    {text}")
    lines += expiry_lines(sums)
    if sums.compared:
        lines.append(f"prefix      broken by Penumbra {sums.broken:,} times in {sums.compared:,} comparisons")
    for title, counter in (
        ("stages", journal.stages),
        ("out of time", journal.skipped),
        ("saved by", _saved_by_tool(journal)),
        ("redacted", {in_words(kind): count for kind, count in sums.secrets.items()}),
        ("untouched", journal.untouched),
        ("cache misses", sums.misses),
        ("errors", sums.errors),
    ):
        if counter:
            lines.append(f"{title:<11} {_top(counter)}")
    return lines + external_lines(journal.external)


def _saved_by_tool(journal: Journal) -> dict[str, int]:
    """Return the tokens saved, by tool. Each result counts once."""
    return {name: saved for name, sums in journal.tools.items() if (saved := sums.before - sums.after)}


def external_lines(sums: ExternalMetrics) -> list[str]:
    """Return lines about external compressors, one for each fact; no lines if there were no calls."""
    if not (sums.hits or sums.misses or sums.failures):
        return []
    unanswered = sums.failures.total()
    spent = f"{sums.input_tokens:,} tokens in, {sums.output_tokens:,} out, about ${sums.dollars:.4f}"
    lines = [
        f"strategy    {sums.hits:,} hits, {sums.misses:,} misses, {unanswered:,} without an answer",
        f"its cost    {sums.calls:,} calls ({sums.shared:,} shared), {spent}",
    ]
    return [*lines, f"no answer   {_top(sums.failures)}"] if sums.failures else lines


def net_lines(sums: Amounts) -> list[str]:
    """Return a line with the savings minus the overhead, and with shares; no line if nothing was saved."""
    if not sums.saved:
        return []
    line = f"net         {sums.net:,} tokens fewer, less {sums.overhead:,} for the tool, originals, repeats"
    if sums.responses and sums.input + sums.net > 0:
        line += f": {sums.net / (sums.input + sums.net):.1%} of input tokens"
    if sums.dollars + sums.dollars_net > 0:
        part = sums.dollars_net / (sums.dollars + sums.dollars_net)
        line += f"; about ${sums.dollars_net:,.2f}, {part:.1%} of the bill"
    return [line]


def expiry_lines(sums: Amounts) -> list[str]:
    """Return lines about requests whose cache had expired; no lines without such requests."""
    lines = []
    if sums.cold_turns:
        text = f"{sums.cold_turns.total():,} requests, whose cache was {_top(sums.cold_turns)}"
        lines.append(f"used pauses results sent before were shortened in {text}")
    if not (count := sums.pauses.total()):
        return lines
    line = f"expiry      {count:,} requests after the cache's life: {sums.expired:,} tokens read anew"
    if sums.dollars:
        line += f", ${sums.dollars_expired:,.2f}, {sums.dollars_expired / sums.dollars:.1%} of the bill"
    return [f"{line}; pauses {_top(sums.pauses)}", *lines]


def _top(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in Counter(counter).most_common(12))


def _change(before: int, after: int) -> str:
    share = f" (-{(before - after) / before:.1%})" if before > after else ""
    return f"{before:,} -> {after:,}{share}"


def expansion_lines(journal: Journal) -> list[str]:
    """Return lines about originals that the model asked for, and about recovered requests."""
    sums = journal.amounts
    lines = [f"recovered   {_top(journal.recoveries)}"] if journal.recoveries else []
    if not journal.answers:
        return [*lines, "Penumbra: the model has not asked for an original yet."]
    lines.append(
        f"expansions  {sums.asked:,} asked in {journal.answers:,} responses, {sums.found:,} found, "
        f"{sums.asked - sums.found:,} missed, {journal.bytes_given:,} bytes given, "
        f"{sums.hidden_calls:,} extra calls ({sums.hidden_tokens:,} input tokens)"
    )
    for title, groups in (("by tool", journal.tools), ("by family", journal.families)):
        lines.append(f"{title:<11} {_top({name: each.asked for name, each in groups.items() if each.asked})}")
    return lines
