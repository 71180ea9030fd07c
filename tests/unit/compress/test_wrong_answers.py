"""Outputs that other tools are known to get wrong: none may lose its point here."""

from __future__ import annotations

import pytest

from penumbra.compress.calls.classify import classify
from penumbra.compress.families.shorten import apply


def shortened(line: str, text: str) -> str:
    """What becomes of the output of a command line where lines may be left out."""
    result = apply(text, classify("Bash", {"command": line}), lossy=True)
    return text if result is None else result.text


ONELINE = "".join(f"{number:07x} Change number {number}\n" for number in range(30))
FULL_LOG = "".join(
    f"commit {number:040x}\nAuthor: Ann Lee <ann@example.com>\nDate:   Mon Jan 5 10:00:00 2026 +0000\n\n    Change {number}\n\n"
    for number in range(30)
)
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
        ("echo done", "done\n"),
        ("true", ""),
    ],
)  # fmt: skip
def test_left_alone(line: str, text: str) -> None:
    assert shortened(line, text) == text


def test_a_clean_status_keeps_the_branch() -> None:
    text = (
        "On branch main\nYour branch is behind 'origin/main' by 3 commits, and can be fast-forwarded.\n"
        '  (use "git pull" to update your local branch)\n\nnothing to commit, working tree clean\n'
    )
    kept = shortened("git status", text)
    assert "behind 'origin/main' by 3 commits" in kept
    assert "nothing to commit, working tree clean" in kept


def test_a_push_to_a_branch_named_like_a_subcommand() -> None:
    text = "To github.com:acme/shop\n * [new branch]      changelog -> changelog\n"
    assert shortened("git push origin changelog", text) == text


def test_a_history_keeps_hashes_subjects_and_number() -> None:
    kept = shortened("git log", FULL_LOG)
    assert kept != FULL_LOG
    assert all(f"commit {number:040x}\n" in kept for number in range(30))
    assert all(f"\n    Change {number}\n" in kept for number in range(30))


def test_a_patch_keeps_hunks_and_changes() -> None:
    hunks = "".join(
        f"@@ -{n * 10},7 +{n * 10},7 @@ def f{n}():\n"
        + "".join(f"     same {n} {k}\n" for k in range(3))
        + f"-    old {n}\n+    new {n}\n"
        + "".join(f"     same {n} {k}\n" for k in range(4, 7))
        for n in range(1, 60)
    )
    text = f"diff --git a/x.py b/x.py\nindex 1111111..2222222 100644\n--- a/x.py\n+++ b/x.py\n{hunks}"
    kept = shortened("git diff", text).split("\n")
    for line in text.split("\n"):
        if line[:1] in ("+", "-", "@", "d"):
            assert line in kept
    left_out = sum(line.startswith("     same") for line in text.split("\n")) - sum(
        line.startswith("     same") for line in kept
    )
    # No number: a later stage may take whole hunks away.
    said = " [unchanged lines left out here and below; the numbers behind @@ count them]"
    assert kept.count(said) == 1
    assert kept.index(said) == text.split("\n").index("     same 1 0")
    assert left_out == 59 * 4


def test_a_pytest_failure_keeps_its_body() -> None:
    text = (
        "=== test session starts ===\n"
        + "".join(f"tests/test_a.py::test_{n} PASSED [ 1%]\n" for n in range(40))
        + "tests/test_a.py::test_x FAILED [100%]\n\n=== FAILURES ===\n___ test_x ___\n\n"
        "    def test_x():\n>       assert f() == 3\nE       assert 2 == 3\nE        +  where 2 = f()\n\n"
        "tests/test_a.py:9: AssertionError\n=== 1 failed, 40 passed in 0.11s ===\n"
    )
    kept = shortened("python -m pytest -v", text)
    assert "[40 passed in tests/test_a.py]\n" in kept
    for line in (
        "E       assert 2 == 3",
        "E        +  where 2 = f()",
        ">       assert f() == 3",
        "tests/test_a.py:9: AssertionError",
        "=== 1 failed, 40 passed in 0.11s ===",
    ):
        assert line in kept


def test_jest_behind_npm_test_keeps_names_diff_and_place() -> None:
    text = (
        "\n> shop@1.0.0 test\n> jest\n\n"
        + "".join(f"PASS src/m{n}.test.js\n" for n in range(30))
        + "FAIL src/cart.test.js\n  ● cart › adds up\n\n    expect(received).toBe(expected)\n\n    Expected: 3\n"
        "    Received: 2\n\n      at Object.toBe (src/cart.test.js:3:39)\n\nTests:       1 failed, 30 passed, 31 total\n"
    )
    kept = shortened("npm test", text)
    for line in (
        *(f"src/m{n}.test.js" for n in range(30)),
        "● cart › adds up",
        "Expected: 3",
        "Received: 2",
        "src/cart.test.js:3:39",
        "1 failed, 30 passed",
    ):
        assert line in kept


def test_go_failures_keep_their_messages() -> None:
    text = (
        "".join(f"=== RUN   TestA{n}\n--- PASS: TestA{n} (0.00s)\n" for n in range(30))
        + "=== RUN   TestB\n    b_test.go:14: got 5, want 4\n--- FAIL: TestB (0.00s)\nFAIL\nFAIL\tshop/b\t0.01s\n"
    )
    kept = shortened("go test -v ./...", text)
    assert len(kept) < len(text) / 4
    for line in ("    b_test.go:14: got 5, want 4", "--- FAIL: TestB (0.00s)", "FAIL\tshop/b\t0.01s"):
        assert line in kept


def test_compiler_messages_without_a_code_survive() -> None:
    text = "".join(f"   Compiling crate{n} v1.0.{n}\n" for n in range(40)) + (
        "error: cannot find macro `prinln` in this scope\n --> src/main.rs:3:5\n\nwarning: unused import\n"
    )
    kept = shortened("cargo build", text)
    assert "[40 crates downloaded, checked or compiled: crate0 to crate39]\n" in kept
    assert (
        "error: cannot find macro `prinln` in this scope\n --> src/main.rs:3:5\n\nwarning: unused import\n"
        in kept
    )


def test_counts_of_an_install_are_its_own() -> None:
    text = (
        "".join(
            f"npm warn deprecated pkg{n}@1.0.{n}: use another package, this one is no longer supported\n"
            for n in range(9)
        )
        + "\nadded 312 packages, and audited 313 packages in 14s\n\n3 vulnerabilities (1 moderate, 2 high)\n"
    )
    kept = shortened("npm install", text)
    assert f"[9 deprecated packages: {', '.join(f'pkg{n}@1.0.{n}' for n in range(9))}]" in kept
    assert (
        "added 312 packages, and audited 313 packages in 14s\n\n3 vulnerabilities (1 moderate, 2 high)\n"
        in kept
    )


def test_paths_that_were_asked_for_stay() -> None:
    text = "".join(f"target/debug/deps/lib{n}.d\n" for n in range(200)) + "vendor/x.min.js\n"
    kept = shortened("find target vendor -type f", text)
    assert kept == "target/debug/deps/\n" + "".join(f" lib{n}.d\n" for n in range(200)) + "vendor/x.min.js\n"
