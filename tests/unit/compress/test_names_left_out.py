"""Excerpts of commands say which files and addresses stand only in what they leave out."""

from __future__ import annotations

import pytest

from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Mode, Policy, Redacted, ToolOutput
from penumbra.compress.stages import names_left_out

NOISE = "".join(f"step {number} of the work is done\n" for number in range(40))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see src/app/main.py:12 and ./x/y.tsx.\n", ["src/app/main.py", "./x/y.tsx"]),
        ("(/etc/hosts.conf) ~/a/b.c\n", ["/etc/hosts.conf", "~/a/b.c"]),
        ("GET https://a.example/c?d=1 http://b.example/x.\n", ["https://a.example/c?d=1", "http://b.example/x"]),
        ("a/b.py a/b.py c/d.py\n", ["a/b.py", "c/d.py"]),
        (".github/ci.yml src/.hidden/x.py, a/b.c.d/e.f-g.h\n", [".github/ci.yml", "src/.hidden/x.py", "a/b.c.d/e.f-g.h"]),
        ("lib/größe.py, 源/文件.py\n", ["lib/größe.py", "源/文件.py"]),
        ('{"x":"src/a.py\\nsrc/b.py\\n\\"src/c.py\\" C:\\\\new/d.py \\n\\n' + "\\n" * 90 + '"}', ["src/a.py", "src/b.py", "src/c.py"]),
        ('x/a.py y/b.py"\\nsrc/c.py C:\\n/d.py\n', ["x/a.py", "y/b.py"]),
        ("and/or 10/2.5ms v1.2/3.4 text/html one/two.py\n", []),
        ("app/[id]/page.tsx app/[id].tsx src/a.{ts,js} src/.../b.py x/c.py…  …d/e.py --out=-a/b.py $HOME/a/b.py\n", []),
        ("https://a.example/w_(x) https://b.example/{id}/c https://c.example/d… git@d.example:e/f.git https:// \n", []),
        ("only/one.py\n", []),
    ],
)  # fmt: skip
def test_names(text: str, names: list[str]) -> None:
    told = names_left_out.line(NOISE + text + NOISE, NOISE, 600)
    assert told == (f"\n[what is left out names, among others: {', '.join(names)}]" if names else "")


def test_what_is_shown_is_not_named_again() -> None:
    text = "src/a.py src/b.py src/c.py\n" + NOISE + "src/b.py src/d.py src/e.py\n"
    assert names_left_out.line(text, "src/a.py src/c.py\n[failed: src/b.py]", 400).endswith(
        ": src/d.py, src/e.py]"
    )


@pytest.mark.parametrize("most", [0, 10, 60, 200, 400])
def test_the_line_keeps_to_its_room(most: int) -> None:
    text = " ".join(f"some/folder/fileé{number}.py" for number in range(40))
    told = names_left_out.line(text, "", most)
    assert len(told.encode()) <= most
    assert told.count(", ") <= names_left_out.MOST


def test_an_excerpt_names_nothing_that_stands_in_it() -> None:
    lines = [f"step {n} {n * 7919 % 1009} wrote some/folder/{n}/file.py for it" for n in range(1_500)]
    output = ToolOutput("\n".join(lines), "Bash", {"command": "./x"}, "c1")
    shown, _, told = shorten(
        output, Policy(Mode.STANDARD, lossy=True), Redacted, lambda text: ""
    ).text.partition(", among others: ")
    assert all(name not in shown for name in told.rstrip("]").split(", "))
    assert len(told) <= 400


def test_what_an_earlier_result_shows_is_not_named_again() -> None:
    text = "src/a.py src/b.py src/c.py src/d.py"
    assert names_left_out.line(text, "", 400, {b"src/a.py", b"src/c.py"}).endswith(": src/b.py, src/d.py]")
