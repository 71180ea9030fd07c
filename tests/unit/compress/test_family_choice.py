"""Which family a text falls to: by call, by announcement, by seam, and never by looks alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.match import families, family_of
from penumbra.compress.calls.shell import parse
from penumbra.compress.families.shorten import MAX_ANNOUNCEMENTS, apply
from penumbra.compress.result import Loss
from penumbra.compress.size import size


def family(line: str) -> str:
    return classify("Bash", {"command": line}).family


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("git log --oneline", "git-lines"),
        ("git log -p", "git-diff"),
        ("git log --stat", "git-stat"),
        ("git log", "git-log"),
        ("git diff --name-only", "paths"),
        ("git diff --stat", "git-stat"),
        ("git diff", "git-diff"),
        ("git -C x show HEAD", "git-diff"),
        ("rg --files", "paths"),
        ("rg foo", "grep"),
        ("grep -rl foo", "paths"),
        ("docker compose logs web", "docker-logs"),
        ("podman pull x", "docker-pull"),
        ("kubectl -n a get pods -w", "table"),
        ("kubectl get pods -o json", ""),
        ("kubectl get pods -o yaml", "manifest"),
        ("kubectl get pods -oyaml", "manifest"),
        ("kubectl get pods --output=yaml", "manifest"),
        ("kubectl get pods --output yaml", "manifest"),
        ("npx playwright test --reporter=list", "playwright"),
        ("npx playwright test --reporter json", ""),
        ("git branch -vv", "git-lines"),
        ("python -m pytest", "pytest"),
        ("npx -y vitest", "vitest"),
        ("pnpm test", "package-script"),
        ("yarn build", "package-script"),
        ("pnpm install", "npm"),
        ("yarn", "npm"),
        ("yarn foo", "package-script"),
        ("uv sync --frozen", "pip"),
        ("uv add httpx", "pip"),
        ("uv tool install ruff", "pip"),
        ("git stash pop", "git-status"),
        ("git stash show -p", "git-diff"),
        ("tar -tzf x.tgz", "paths"),
        ("npm ls", "npm-tree"),
        ("cargo nextest run", "cargo-test"),
        ("cargo clippy -- -D warnings", "rustc"),
        ("cargo build --message-format=json", "cargo-json"),
        ("./gradlew build", "gradle"),
        ("gcc-13 a.c", "compiler"),
        ("arm-none-eabi-gcc a.c", "compiler"),
        ("cmake --build build", "make"),
        ("cmake -B build", "cmake"),
        ("ninja -C out", "make"),
        ("npx tsc --noEmit", "tsc"),
        ("uvx ruff check", "diagnostics"),
        ("gh pr list", "table"),
        ("gh run view 3 --log", "gh-log"),
        ("tofu plan", "terraform"),
        ("./mvnw test", "maven"),
        ("dotnet test", "dotnet-test"),
        ("python -m pip install x", "pip"),
        ("uv pip install x", "pip"),
        ("sudo apt-get install x", "apt"),
        ("python manage.py test", "pytest"),
        ("make test", "make"),
        ("timeout 60 go test ./...", "go-test"),
        ("bash -lc 'pytest -q'", "pytest"),
        ("docker compose exec web pytest", "pytest"),
        ("find . -name x -exec rm {} +", ""),
        ("mytool diff", ""),
        ("echo git diff", ""),
        ("git diff; git status", ""),
        ("git diff a; git diff b", "git-diff"),
        ("cd x && export A=1 && git diff", "git-diff"),
        ("pwd && git diff", "git-diff"),
        ("cat a.py", ""),
    ],
)
def test_families_of_lines(line: str, name: str) -> None:
    assert family(line) == name


def test_every_match_finds_its_family() -> None:
    """A rule that another one shadows completely would never be used."""
    shadowed = []
    for rule in families():
        for line in rule["match"]:
            sample = " ".join(word.split("|")[0] for word in line.split()).replace("*", "x")
            parts = parse(sample)
            found = {family_of(part.argv) for part in parts}
            if parts and rule["name"] not in found and parts[0].argv[0] == sample.split()[0]:
                shadowed.append((rule["name"], line, found))
    assert shadowed == []


DIFF = "diff --git a/package-lock.json b/package-lock.json\n@@ -1 +1 @@\n" + "+ added\n" * 80
LOCK = "diff --git a/package-lock.json b/package-lock.json\n[changes of this generated file left out: hunks 1, lines added 80, removed 0]\n"
STATUS = "?? src/api/a.py\n?? src/api/b.py\n?? src/api/c.py\n?? src/api/d.py\n"
SHORT = "?? src/api/\n a.py\n b.py\n c.py\n d.py\n"


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


NAMES = [rule["name"] for rule in families()]
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


@settings(max_examples=300, deadline=None)
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
    if name not in ("git-diff", "vitest", "jest", "bun-test", "package-script", "make"):
        assert result.text.count("error: x") == text.count("error: x")
