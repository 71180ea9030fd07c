"""This module makes HTML pages. Each page is one file, with no scripts and no links to other hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from penumbra.errors import one_line

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
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


def page(title: str, note: str, body: Iterable[str]) -> str:
    """Return a page with a heading, a note below the heading, and the lines of HTML in `body`."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Penumbra: {escaped(title)}</title><style>{_STYLE}</style></head><body>",
            f'<h1>{escaped(title)}</h1><p class="note">{escaped(note)}</p>',
            *body,
            "</body></html>\n",
        ]
    )


def terms(lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "<dl>"
    yield from (f"<dt>{escaped(term)}</dt><dd>{escaped(text)}</dd>" for term, text in lines)
    yield "</dl>"


def table(
    title: str, heads: Sequence[str], rows: Iterable[tuple[Sequence[str], float]], bar: int
) -> Iterator[str]:
    """Yield the HTML of a table with a heading. Each row has its cells and the length (0 to 1) of the bar in
    the cell of column `bar`."""
    yield f"<h2>{escaped(title)}</h2><div class=wide><table><thead><tr>"
    yield "".join(f"<th>{head.capitalize()}</th>" for head in heads)
    yield "</tr></thead><tbody>"
    for cells, part in rows:
        style = f' class="bar" style="--part: {100 * max(0.0, part):.1f}%"'
        drawn = (f"<td{style if at == bar else ''}>{escaped(cell)}</td>" for at, cell in enumerate(cells))
        yield f"<tr>{''.join(drawn)}"
    yield "</tbody></table></div>"


def escaped(text: str) -> str:
    return escape(one_line(text))
