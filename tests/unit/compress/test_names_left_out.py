"""Excerpts of commands say which files and addresses stand only in what they leave out."""

from __future__ import annotations

import pytest

from penumbra.compress.stages import names_left_out

NOISE = b"".join(b"step %d of the work is done\n" % number for number in range(40))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b"see src/app/main.py:12 and ./x/y.tsx.\n", ["src/app/main.py", "./x/y.tsx"]),
        (b"(/etc/hosts.conf) ~/a/b.c\n", ["/etc/hosts.conf", "~/a/b.c"]),
        (
            b"GET https://a.example/c?d=1 http://b.example/x.\n",
            ["https://a.example/c?d=1", "http://b.example/x"],
        ),
        (b"a/b.py a/b.py c/d.py\n", ["a/b.py", "c/d.py"]),
        (b"and/or 10/2.5ms v1.2/3.4 text/html one/two.py\n", []),
        (b"only/one.py\n", []),
    ],
)
def test_names(text: bytes, names: list[str]) -> None:
    told = names_left_out.line(NOISE + text + NOISE, [(0, 100)], 600)
    assert told == (f"\n[what is left out names, among others: {', '.join(names)}]" if names else "")


def test_what_is_kept_is_not_named_again() -> None:
    data = b"src/a.py src/b.py src/c.py\n" + NOISE + b"src/b.py src/d.py src/e.py\n"
    assert names_left_out.line(data, [(0, 27)], 600).endswith(": src/d.py, src/e.py]")


@pytest.mark.parametrize("most", [0, 10, 60, 200, 600])
def test_the_line_keeps_to_its_room(most: int) -> None:
    data = b" ".join(b"some/folder/file%d.py" % number for number in range(40))
    told = names_left_out.line(data, [], most)
    assert len(told) <= most
    assert told.count(", ") <= names_left_out.MOST
