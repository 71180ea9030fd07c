"""This module writes the figures in Prometheus's text format 0.0.4. Times are in seconds, sizes in bytes. No
label has a separate value for each session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain

from penumbra import __version__
from penumbra.metrics.journal import SECONDS, Journal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "penumbra_"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
Sample = tuple[str, Mapping[str, str], float]
"""A sample has the suffix of its name, its labels and its value."""
Family = tuple[str, str, str, Iterable[Sample]]
"""A metric has its name, type, help and samples."""


def text(
    journal: Journal, store: Mapping[str, float] | None = None, database: Mapping[str, float] | None = None
) -> str:
    """Return all figures. `store` has the figures of a shared store, or is None. `database` has the figures
    of this machine's database."""
    kept = chain(_of("store", _STORE, store or {}), _of("database", _DATABASE, database or {}))
    families = chain(_families(journal), _of_groups(journal), [_histogram(journal)], kept)
    return "".join(line + "\n" for family in families for line in _lines(*family))


_STORE = {
    "up": "1 while the shared store accepts writes.",
    "owed_rows": "Rows that wait to be written to it.",
    "round_trips_total": "Round trips to it.",
    "commands_total": "Commands in them.",
    "sent_bytes_total": "Sent to it.",
    "received_bytes_total": "Received from it.",
    "seconds_total": "Spent in round trips.",
    "failures_total": "Times that it failed.",
    "outages_total": "Times that it failed after it had been well.",
    "conflicts_total": "Decisions that another proxy had made first.",
    "forgotten_rows_total": "Delayed rows that are lost.",
    "guessed_results_total": "Other proxies' results whose form could not be looked up.",
}
_DATABASE = {
    "up": "Whether the database on this machine's disk answers and can be written.",
    "waiting_bytes": "Bytes that wait to be written to it.",
    "failures_total": "Times that it was asked for something and did not answer.",
    "forgotten_rows_total": "Rows that were dropped before they were written, because too many bytes waited.",
}
_COUNTS = {
    "requests": ("requests", "Requests that were read."),
    "changed_requests": ("changed", "Requests that were changed."),
    "refused_requests": ("refused", "Requests that were not sent."),
    "results": ("new_results", "New tool results."),
    "expansions": ("asked", "Originals that the model asked for."),
    "expansions_found": ("found", "Those of them that were there."),
    "hidden_calls": ("hidden_calls", "Hidden calls."),
    "expired_tokens": ("expired", "Input tokens of prompts whose cache had expired."),
    "compared_prompts": ("compared", "Prompts that the provider compared with earlier ones."),
    "broken_prefixes": ("broken", "Compared prompts whose earlier part Penumbra changed unintentionally."),
    "missed_tokens": ("missed", "Input tokens that should have come from the cache."),
}
"""Counters without labels: the field of `Amounts` and the help, by name."""
_PARTS = {
    "result_tokens": (
        "state",
        "Estimated, in every request that carried them.",
        {"before": "sent_before", "after": "sent_after"},
    ),
    "new_result_tokens": (
        "state",
        "Estimated, each result once.",
        {"before": "new_before", "after": "new_after"},
    ),
    "overhead_tokens": (
        "kind",
        "Input tokens that would not have been sent without.",
        {
            "declared": "declared",
            "put_back": "put_back",
            "hidden_calls": "hidden_tokens",
            "read_again": "read_again_tokens",
        },
    ),
    "billed_tokens": (
        "kind",
        "By the provider's count.",
        {name: name for name in ("uncached", "cached", "written", "output")},
    ),
    "dollars": (
        "kind",
        "At list prices, as far as they are known.",
        {"billed": "dollars", "saved": "dollars_saved", "spent": "dollars_spent", "missed": "dollars_missed"},
    ),
}
"""Metrics with a label, by name: the label, the help, and the field of `Amounts` for each value of the
label."""
_COLD_TURNS = "Requests whose earlier results changed after a pause, by how the cache was found."


def _families(journal: Journal) -> Iterator[Family]:
    sums = journal.amounts
    yield "build_info", "gauge", "The version.", [("", {"version": __version__}, 1)]
    for name, (member, help_text) in _COUNTS.items():
        yield f"{name}_total", "counter", help_text, [("", {}, getattr(sums, member))]
    labelled = [
        *(
            (name, label, help_text, {value: getattr(sums, member) for value, member in parts.items()})
            for name, (label, help_text, parts) in _PARTS.items()
        ),
        ("cache_misses", "cause", "Prompts that were read anew.", sums.misses),
        ("expired_caches", "pause", "Prompts read anew after a pause, by its length.", sums.pauses),
        ("cold_turns", "cache", _COLD_TURNS, sums.cold_turns),
        ("secrets_redacted", "rule", "Newly found.", sums.secrets),
        ("errors", "kind", "Statuses from 400 on, and other failures.", sums.errors),
        ("untouched_requests", "reason", "Left alone.", journal.untouched),
        ("stages", "stage", "New results that a stage changed.", journal.stages),
    ]
    for name, label, help_text, values in labelled:
        yield f"{name}_total", "counter", help_text, [("", {label: key}, n) for key, n in values.items()]


def _of(what: str, helps: Mapping[str, str], values: Mapping[str, float]) -> Iterator[Family]:
    for name, value in values.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        yield f"{what}_{name}", kind, helps[name], [("", {}, value)]


def _of_groups(journal: Journal) -> Iterator[Family]:
    for label, groups in (("tool", journal.tools.items()), ("family", journal.families.items())):
        tokens: list[Sample] = []
        for name, sums in groups:
            for state, count in (("before", sums.before), ("after", sums.after)):
                tokens.append(("", {label: name, "state": state}, count))
        yield f"{label}_tokens_total", "counter", f"Of new results, by {label}.", tokens
        asked = [("", {label: name}, sums.asked) for name, sums in groups if sums.asked]
        yield f"{label}_expansions_total", "counter", f"Originals that were asked for, by {label}.", asked


def _histogram(journal: Journal) -> Family:
    ends = [f"{end:g}" for end in SECONDS]
    below = accumulate(journal.seconds[end] for end in SECONDS)
    total = journal.seconds.total()
    samples: list[Sample] = [("_bucket", {"le": end}, n) for end, n in zip(ends, below, strict=True)]
    samples += [("_bucket", {"le": "+Inf"}, total)]
    samples += [("_sum", {}, journal.amounts.seconds), ("_count", {}, total)]
    return "added_seconds", "histogram", "Time added to a request.", samples


def _lines(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> Iterator[str]:
    name = _PREFIX + name
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for end, labels, value in samples:
        pairs = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
        yield f"{name}{end}{{{pairs}}} {value!r}" if pairs else f"{name}{end} {value!r}"
