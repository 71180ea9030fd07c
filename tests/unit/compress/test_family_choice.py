"""Which family a text falls to: by call, by announcement, by seam, and never by looks alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import rules
from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.command_match import family_of
from penumbra.compress.calls.family_rules import families
from penumbra.compress.calls.shell import parse
from penumbra.compress.families.several_outputs import MAX_ANNOUNCEMENTS
from penumbra.compress.families.shorten import apply
from penumbra.compress.result import Loss
from penumbra.compress.size import size
from penumbra.rule_schemas.command_rules import FamilyRule
from support.examples import examples
from support.results import shortened


def family(line: str) -> str:
    return classify("Bash", {"command": line}).family


CALLS = {
    line: name
    for file in rules.load_folder("commands")
    for line, name in file.content.get("calls", {}).items()
}


@pytest.mark.parametrize("line", CALLS)
def test_families_of_lines(line: str) -> None:
    assert family(line) == (CALLS[line] or "")


def test_every_match_finds_its_family() -> None:
    """A rule that another one references completely would never be used."""
    shadowed = []
    for rule, _ in families().values():
        for line in rule.match:
            sample = " ".join(word.split("|")[0] for word in line.split()).replace("*", "x")
            parts = parse(sample)
            found = {family_of(part.argv) for part in parts}
            if parts and rule.name not in found and parts[0].argv[0] == sample.split()[0]:
                shadowed.append((rule.name, line, found))
    assert shadowed == []


DIFF = "diff --git a/package-lock.json b/package-lock.json\n@@ -1 +1 @@\n" + "+ added\n" * 80
LOCK = "diff --git a/package-lock.json b/package-lock.json\n[changes of this generated file left out: hunks 1, lines added 80, removed 0]\n"
STATUS = "".join(f"?? src/api/{name}.py\n" for name in range(40))
SHORT = "?? src/api/\n" + "".join(f" {name}.py\n" for name in range(40))


def test_seams() -> None:
    call = classify("Bash", {"command": "git status -s; echo '--- diff ---'; git diff | cat"})
    assert call.mixed
    result = apply(STATUS + "--- diff ---\n" + DIFF, call, lossy=True)
    assert result is not None
    assert result.text == SHORT + "--- diff ---\n" + LOCK.rstrip("\n")
    assert (result.loss, result.family) == (Loss.LOSSY, "git-status+git-diff")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("git status -s; git diff", STATUS + DIFF),
        ("git status -s; echo $x; git diff", STATUS + "1\n" + DIFF),
        ("git status -s; echo ---; git diff", STATUS + DIFF),
        ("git status -s; echo ---; git diff", "---\n" + STATUS + "---\n" + DIFF),
    ],
)
def test_unclear_seams_leave_all_as_it_is(line: str, text: str) -> None:
    assert apply(text, classify("Bash", {"command": line}), lossy=True) is None


FILE = "".join(f"def f{n}(a,  b):\n    return a + {n} - b\n\n" for n in range(60))
RUN = (
    "============================= test session starts ==============================\n"
    + "".join(f"tests/test_{n // 20}.py::test_case_{n} PASSED [{n // 3:3}%]\n" for n in range(300))
    + "============================= 300 passed in 1.23s ==============================\n"
)
LOG = "".join(f"step {n} of this run did {n * 7} things with item{n * 3}\n" for n in range(500))


@pytest.mark.parametrize(
    ("line", "files", "outputs"),
    [
        ("cat a.py; pytest -v", [FILE], "{0}{run}"),
        ("cat a.py && pytest -v | cat", [FILE], "{0}{run}"),
        ("pytest -v; cat a.py", [FILE], "{run}{0}"),
        ("cat a.py; pytest -v; sed -n 1,200p b.py", [FILE, FILE[:-9]], "{0}{run}{1}"),
        ("cat a.py; echo ---; pytest -v; echo ---; cat b.py", [FILE, FILE[:-9]], "{0}---\n{run}---\n{1}"),
        ("cat a.py; echo ---; ./run.sh", [FILE], "{0}---\n{log}"),
        ("./run.sh; echo == b ==; cat b.py", [FILE], "{log}== b ==\n{0}"),
    ],
    ids=lambda value: value if isinstance(value, str) and ";" in value else None,
)
def test_only_what_is_a_file_is_quoted_in_what_a_chain_of_commands_printed(
    line: str, files: list[str], outputs: str
) -> None:
    text = outputs.format(*files, run=RUN, log=LOG)
    made = shortened(text, "Bash", {"command": line}).text
    assert all(file in made for file in files)
    assert size(made) < size("".join(files)) + size(text.replace(FILE, "")) // 2
    assert "300 passed in 1.23s" in made or "[command output in part;" in made


@pytest.mark.parametrize(
    "line",
    [
        "docker ps; cat a.py",
        "cat a.py; git status",
        "cat a.py; make",
        "pytest -q; cat a.py; pytest -q",
        "cat a.py; git diff; pytest -q",
    ],
)
def test_where_a_file_may_have_such_lines_all_of_it_is_quoted(line: str) -> None:
    text = f"{FILE}rm  a.o\n  modified:   a.py\nNAME   STATUS   AGE\n{FILE}2 passed in 0.1s\n"
    assert apply(text, classify("Bash", {"command": line}), lossy=True) is None


def test_announcements() -> None:
    text = (
        "\n> shop@1.0.0 check\n> git status -s && git diff\n\n\n> shop@1.0.0 status\n> git status -s\n\n"
        + STATUS
    )
    result = apply(text, classify("Bash", {"command": "npm run check"}), lossy=False)
    assert result is not None
    assert result.text == text.replace(STATUS, SHORT)


def test_too_many_announcements_are_none() -> None:
    text = ("> git status -s\n" + STATUS) * (MAX_ANNOUNCEMENTS + 1)
    assert apply(text, classify("Bash", {"command": "npm run check"}), lossy=True) is None


def test_an_envelope_stays_as_it_is() -> None:
    text = "Exit code: 0\nWall time: 0.1 seconds\nOutput:\n" + STATUS
    result = apply(text, classify("shell_command", {"command": "git status -s"}), lossy=False)
    assert result is not None
    assert result.text == text.replace(STATUS, SHORT)


def test_without_a_family_nothing_happens() -> None:
    assert apply(STATUS, classify("Bash", {"command": "mytool"}), lossy=True) is None
    assert apply(STATUS, classify("Read", {"file_path": "x"}), lossy=True) is None
    assert apply(STATUS, Call(), lossy=True) is None


def test_filtered_lines_need_a_family_that_allows_it() -> None:
    assert apply(STATUS, classify("Bash", {"command": "git status -s | grep api"}), lossy=False) is not None
    assert apply(DIFF, classify("Bash", {"command": "git diff | grep -v x"}), lossy=True) is None


ONELINE = "".join(f"{number:07x} Change number {number}\n" for number in range(30))
TRACE = (
    "Traceback (most recent call last):\n"
    + "".join(f'  File "/srv/app/mod{n}.py", line {n}, in f{n}\n    g{n}()\n' for n in range(1, 14))
    + "KeyError: 'k'\n"
)
JAVA = (
    'Exception in thread "main" java.lang.IllegalStateException: no cart\n'
    + "".join(f"\tat com.example.shop.Cart.m{n}(Cart.java:{n})\n" for n in range(9))
    + "Caused by: java.io.IOException: disk full\n"
    + "".join(f"\tat com.example.shop.Disk.m{n}(Disk.java:{n})\n" for n in range(9))
)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("git log --oneline -30", ONELINE),
        ("git status", "On branch main\nChanges to be committed:\n\tnew file:   a.py\n\tnew file:   b.py\n\n"),
        ("git checkout -b logging-fix", "Switched to a new branch 'logging-fix'\n"),
        ("git show HEAD:docs/catalog.md", "# Catalog\n\nThe changelog is elsewhere.\n" * 20),
        ("git -C /srv/blog rev-parse HEAD", "910f777314b52a021e9a569078bbe0d1a9e209a2\n"),
        ("git blame src/status.py", "4c454f6b (Ann 2026-01-01 11:00:00 +0000 1) a = 1\n5fa4bee2 (Bob 2026-01-02 11:00:00 +0000 2) b = 2\n"),
        ("python app.py", TRACE),
        ("java -jar shop.jar", JAVA),
        ("go run main.go", "".join(f"row {n}: skipped error column\n" for n in range(40)) + "total: 42\n"),
        ("python manage.py migrate", "".join(f"  Applying shop.{n:04d}_step... OK\n" for n in range(40)) + "done\n"),
        ("npm run dev", "> vite\n\n  Local: http://localhost:5173/errors\n" + "".join(f"hmr update /src/a{n}.ts\n" for n in range(30))),
        ("grep -rn foo src", "".join(f"src/a.py:{n}: x = '/build/ .min. foo'\n" for n in range(1, 30))),
        ("find /srv/shop -name x", "".join(f"/srv/shop/d{n}/x\n" for n in range(150))),
        ("rg -c foo", "".join(f"src/m{n}.py:{n}\n" for n in range(30))),
        ("make check", "".join(f"checking that option {n} is no secret\n" for n in range(30))),
        ("cargo run", "".join(f"answer {n} = {n * n}\n" for n in range(30))),
        ("ls", "api\ncore\nREADME.md\n" * 10),
        ("docker logs web", "".join(f"2026-01-05T10:00:{n:02d} ERROR no such order {n}\n" for n in range(40))),
        ("git push origin changelog", "To github.com:acme/shop\n * [new branch]      changelog -> changelog\n"),
        ("echo done", "done\n"),
        ("true", ""),
    ],
)  # fmt: skip
def test_what_looks_like_the_output_of_a_family_is_left_alone(line: str, text: str) -> None:
    assert apply(text, classify("Bash", {"command": line}), lossy=True) is None


def any_hides_blocks(rule: FamilyRule) -> bool:
    """Whether a family, or one that it falls back to, may leave out what others wrote."""
    return rule.hides_blocks or any(families()[name].rule.hides_blocks for name in rule.fallback)


NAMES = list(families())
KEEPS_ERRORS = {name for name, (rule, _) in families().items() if not any_hides_blocks(rule)}
FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "PASSED",
            "ok",
            "✓ a",
            "test a ... ok",
            "=== RUN   TestA",
            "--- PASS: TestA (0.00s)",
            "src/a/b.py",
            "a.py:1:2: x",
            "diff --git a/go.sum b/go.sum",
            "@@ -1 +1 @@",
            "+a",
            " b",
            "error: x",
            "",
            "\r",
            "\x00",
            "é" * 30,
            "x" * 3000,
            "On branch main",
            "commit " + "a" * 40,
            "Author: A",
            "web-1 | x",
            "-rw-r--r-- 1 a b 1 x",
            "> tsc",
            "$ eslint .",
            "[INFO] ",
            "Collecting x",
            "#1 ...",
            "stdout | a",
            " Test Files  1 passed (1)",
            "Ran 1 test in 0.1s",
            "\ud800",
        ]
    ),
    max_size=40,
)


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(NAMES), FRAGMENTS, st.sampled_from(["\n", "\r\n", ""]), st.booleans())
def test_any_text(name: str, fragments: list[str], end: str, lossy: bool) -> None:
    """Never raises, never grows, gives the same twice, keeps errors, and loses only what it may."""
    text = end.join(fragments)
    result = apply(text, Call(category="bash", family=name, shell=True), lossy=lossy)
    assert result == apply(text, Call(category="bash", family=name, shell=True), lossy=lossy)
    if result is None:
        return
    assert size(result.text) < size(text)
    assert lossy or result.loss < Loss.LOSSY
    if name in KEEPS_ERRORS:
        assert result.text.count("error: x") == text.count("error: x")
