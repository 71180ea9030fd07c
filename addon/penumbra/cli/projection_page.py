"""A projection as one HTML file: no script, nothing loaded from elsewhere, all that was logged escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from penumbra.cli import projection_text
from penumbra.errors import one_line
from penumbra.projection.figures import Figures, LargeResult

_MOST_ROWS = 200
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
_NOTE = (
    "A projection: the results as a proxy would have sent them. Tokens are estimates. System prompts and "
    "declarations of tools are in recorded requests, not in session logs; what the model would have asked "
    "back is not known. Prices: list prices, with prompt caching."
)
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #6a5acd66 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: 0 }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p.note { opacity: .75; max-width: 50rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem }
dt { font-weight: 600 }
dd { margin: 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; white-space: normal }
td:nth-child(-n+2) { min-width: 6rem; max-width: 20rem; overflow-wrap: break-word }
td.bar { background: linear-gradient(to left, var(--bar) var(--part), transparent var(--part)) }
details { border-bottom: 1px solid var(--line); padding: .3rem 0 }
summary { cursor: pointer; overflow-wrap: anywhere }
pre { overflow: auto; max-height: 30rem; border: 1px solid var(--line); padding: .6rem; font-size: 12.5px }
"""


def page(figures: Figures, read: Sequence[str]) -> str:
    """The file."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Penumbra: a projection</title><style>{_STYLE}</style></head><body>",
            "<h1>What Penumbra would have saved</h1>",
            f'<p class="note">{_NOTE}</p>',
            *_listed([*read, *(projection_text.headline(figures) if figures.requests.count else ())]),
            *_table(figures),
            *_largest(figures.largest),
            "</body></html>\n",
        ]
    )


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield "<dl>"
    for line in lines:
        term, _, words = line.partition("  ")
        yield f"<dt>{_escaped(term)}</dt><dd>{_escaped(words.strip())}</dd>"
    yield "</dl>"


def _table(figures: Figures) -> Iterator[str]:
    ranked = figures.ranked
    if not ranked:
        return
    heads = (
        "Tool",
        "Family",
        "Results",
        "Tokens",
        "Would be",
        "Share",
        "With resends",
        "Dollars",
    )
    yield "<h2>By tool and command family</h2><div class=wide><table><thead><tr>"
    yield "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>"
    most = max(1, ranked[0][1].saved)
    for (tool, kind), sums in ranked[:_MOST_ROWS]:
        share = f"{100 * (sums.after - sums.before) / sums.before:.1f} %" if sums.before else ""
        cells = [kind, f"{sums.results:,}", f"{sums.before:,}", f"{sums.after:,}", share]
        part = f"--part: {max(0.0, 100 * sums.saved / most):.1f}%"
        yield f"<tr><td>{_escaped(tool or '(unknown)')}</td>" + "".join(
            f"<td>{_escaped(cell)}</td>" for cell in cells
        )
        yield f'<td class="bar" style="{part}">{-sums.saved:,}</td>'
        yield f"<td>{projection_text.dollars(-sums.dollars) if sums.dollars else ''}</td></tr>"
    yield "</tbody></table></div>"
    if len(ranked) > _MOST_ROWS:
        yield f"<p>… and {len(ranked) - _MOST_ROWS:,} more.</p>"


def _largest(largest: Sequence[LargeResult]) -> Iterator[str]:
    if largest:
        yield "<h2>The largest results, and what they would be</h2>"
    for large in largest:
        facts = large.facts
        how = ", ".join(facts.stages) or ("as it came" if facts.how == "kept" else facts.how)
        head = f"{facts.tokens_before:,} → {facts.tokens_after:,} tokens, {large.tool}: {large.call}"
        yield f"<details><summary>{_escaped(head)}</summary><p>{_escaped(f'{how}; {large.source}')}</p>"
        yield f"<pre>{escape(large.form)}</pre></details>"


def _escaped(text: str) -> str:
    return escape(one_line(text))
