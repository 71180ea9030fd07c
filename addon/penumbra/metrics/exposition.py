"""The figures as Prometheus reads them (text format 0.0.4).

Written here and not by a client library: everything is counted already, so that of a library only this page
of printing would be used. Base units; no label has a value for each session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penumbra import __version__
from penumbra.metrics.amounts import ResultSums
from penumbra.metrics.journal import SECONDS, Journal
from penumbra.metrics.totals import Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "penumbra_"
Sample = tuple[dict[str, str], float]
Family = tuple[str, str, str, list[Sample]]


def text(
    metrics: Metrics, store: Mapping[str, float] | None = None, database: Mapping[str, float] | None = None
) -> str:
    """All figures. `store`: those of a shared store, None without one; `database`: those of this machine's
    database."""
    kept = [*_of("store", _STORE, store or {}), *_of("database", _DATABASE, database or {})]
    families = [*_families(metrics), *kept]
    return "".join(line + "\n" for family in families for line in _lines(*family))


_STORE = {
    "up": "Whether the shared store takes what is written.",
    "owed_rows": "Rows that wait to be written to it.",
    "round_trips_total": "Round trips to it.",
    "commands_total": "Commands in them.",
    "sent_bytes_total": "Sent to it.",
    "received_bytes_total": "Received from it.",
    "seconds_total": "Spent in round trips.",
    "failures_total": "Times that it failed.",
    "outages_total": "Times that it failed after it had been well.",
    "conflicts_total": "Decisions that another proxy had made first.",
    "forgotten_rows_total": "Rows that were owed and are lost.",
    "guessed_results_total": "Results that others had sent in a form that nobody could be asked for.",
}


_DATABASE = {
    "up": "Whether the database on this machine's disk answers and can be written.",
    "waiting_bytes": "What waits to be written to it.",
    "failures_total": "Times that it was asked for something and did not answer.",
    "forgotten_rows_total": "Rows that there was no room for while they waited to be written.",
}


def _of(what: str, helps: Mapping[str, str], values: Mapping[str, float]) -> Iterator[Family]:
    for name, value in values.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        yield f"{what}_{name}", kind, helps[name], [({}, value)]


def _families(metrics: Metrics) -> Iterator[Family]:
    journal = metrics.journal
    sums = journal.amounts
    yield "build_info", "gauge", "The version.", [({"version": __version__}, 1)]
    yield from _counted(journal)
    yield _tokens("result_tokens", "Estimated, in every request that carried them.", {
        "before": sums.sent_before,
        "after": sums.sent_after,
    })  # fmt: skip
    yield _tokens("new_result_tokens", "Estimated, each result once.", {
        "before": sums.new_before,
        "after": sums.new_after,
    })  # fmt: skip
    yield _labelled("overhead_tokens", "kind", "Input tokens that would not have been sent without.", {
        "declared": sums.declared,
        "put_back": sums.put_back,
        "hidden_calls": sums.hidden_tokens,
        "read_again": sums.read_again_tokens,
    })  # fmt: skip
    yield _labelled("billed_tokens", "kind", "By the provider's count.", {
        "uncached": sums.uncached,
        "cached": sums.cached,
        "written": sums.written,
        "output": sums.output,
    })  # fmt: skip
    yield _labelled("dollars", "kind", "At list prices, as far as they are known.", {
        "billed": sums.dollars,
        "saved": sums.dollars_saved,
        "spent": sums.dollars_spent,
        "missed": sums.dollars_missed,
    })  # fmt: skip
    yield _labelled("cache_misses", "cause", "Prompts that were read anew.", sums.misses)
    yield _labelled("expired_caches", "pause", "Prompts read anew after a pause, by its length.", sums.pauses)
    told = "Requests whose earlier results changed after a pause, by how the cache was found."
    yield _labelled("cold_turns", "cache", told, sums.cold_turns)
    yield _labelled("secrets_redacted", "rule", "Newly found.", sums.secrets)
    yield _labelled("errors", "kind", "Statuses from 400 on, and what else went wrong.", sums.errors)
    yield _labelled("untouched_requests", "reason", "Left alone.", journal.untouched)
    yield _labelled("stages", "stage", "New results that a stage changed.", metrics.stages)
    yield from _of_groups("tool", journal.tools.items())
    yield from _of_groups("family", journal.families.items())
    yield _histogram(journal)


def _counted(journal: Journal) -> Iterator[Family]:
    sums = journal.amounts
    for name, help_text, value in (
        ("requests", "Requests that were read.", sums.requests),
        ("changed_requests", "Requests that were changed.", sums.changed),
        ("refused_requests", "Requests that were not sent.", sums.refused),
        ("results", "New tool results.", sums.new_results),
        ("expansions", "Originals that the model asked for.", sums.asked),
        ("expansions_found", "Those of them that were there.", sums.found),
        ("hidden_calls", "Calls behind the client's.", sums.hidden_calls),
        ("expired_tokens", "Input tokens of prompts whose cache had expired.", sums.expired),
        ("compared_prompts", "Prompts that the provider compared with earlier ones.", sums.compared),
        (
            "broken_prefixes",
            "Compared prompts whose earlier part Penumbra changed unintentionally.",
            sums.broken,
        ),
        ("missed_tokens", "Input tokens that should have come from the cache.", sums.missed),
    ):
        yield f"{name}_total", "counter", help_text, [({}, value)]


def _tokens(name: str, help_text: str, values: dict[str, int]) -> Family:
    return _labelled(name, "state", help_text, values)


def _labelled(name: str, label: str, help_text: str, values: dict[str, int] | dict[str, float]) -> Family:
    return f"{name}_total", "counter", help_text, [({label: key}, value) for key, value in values.items()]


def _of_groups(label: str, groups: Iterable[tuple[str, ResultSums]]) -> Iterator[Family]:
    groups = list(groups)
    tokens: list[Sample] = []
    for name, sums in groups:
        for state, count in (("before", sums.before), ("after", sums.after)):
            tokens.append(({label: name, "state": state}, count))
    yield f"{label}_tokens_total", "counter", f"Of new results, by {label}.", tokens
    asked: list[Sample] = [({label: name}, sums.asked) for name, sums in groups if sums.asked]
    yield f"{label}_expansions_total", "counter", f"Originals that were asked for, by {label}.", asked


def _histogram(journal: Journal) -> Family:
    samples: list[Sample] = []
    below = 0
    for end in SECONDS:
        below += journal.seconds[end]
        samples.append(({"le": f"{end:g}"}, below))
    total = sum(journal.seconds.values())
    samples += [({"le": "+Inf"}, total), ({"": "sum"}, journal.amounts.seconds), ({"": "count"}, total)]
    return "added_seconds", "histogram", "Time added to a request.", samples


def _lines(name: str, kind: str, help_text: str, samples: list[Sample]) -> Iterator[str]:
    name = _PREFIX + name
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        end = "_bucket" if "le" in labels else ""
        if "" in labels:
            labels, end = {}, f"_{labels['']}"
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{end}{{{pairs}}} {value!r}" if pairs else f"{name}{end} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
