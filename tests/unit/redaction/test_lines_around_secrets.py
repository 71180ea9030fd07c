"""Prefixes of lines, and lines before and after, hide no secret."""

import re
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import redact, rules
from penumbra.redaction import LIBRARY_KEY, rule
from penumbra.redaction.redactor import Redactor
from penumbra.rule_schemas.schema import convert
from penumbra.rule_schemas.secret_rules import SecretFile
from support.examples import examples

REDACTOR = Redactor(LIBRARY_KEY)
MARKED = re.compile("⟦([^⟧\n]*)⟧")
LINES = (
    "GITHUB_USER=octocat",
    "APP_NAME=shop-frontend",
    "PORT=8080",
    "AKIRA_LEVEL=debug1234",
    "  at handler (/srv/app/index.js:12:5)",
    "drwxr-xr-x 2 root root 4096 Nov 3 10:11 src",
    "9fceb02d0ae598e95dc970b74767f19372d61af8",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  go.sum",
    "https://example.net/a/b?c=d",
    "node_modules/@types/node/index.d.ts",
    "class UserPrivateKey:",
    "    return load(path)",
    "live_reload=true",
    "abcdefghijklmnop",
    "version2",
    "done",
)
FORMS = ("A_KEY={}", "a: {}", "{}", 'export A="{}"', "  - {}")


def _values() -> list[tuple[str, str]]:
    """Return (rule, secret) of all examples whose rule matches the secret alone."""
    bare = {each.id for each in rule.read() if not each.group}
    examples = (
        (each.id, text)
        for file in rules.load_folder("secrets")
        for each in convert(SecretFile, file.content, "").rules
        if each.id in bare
        for text in each.examples.match
    )
    marked = ((name, MARKED.findall(text.replace("¦", ""))) for name, text in examples)
    return [(name, values[0]) for name, values in marked if len(values) == 1]


VALUES = _values()


def _check(lines: list[str], secrets: dict[int, str], end: str) -> None:
    """Check that only the secret in each line has changed."""
    got = REDACTOR.redact(end.join(lines) + end).text.split(end)
    assert len(got) == len(lines) + 1
    for at, (line, redacted) in enumerate(zip(lines, got, strict=False)):
        if at not in secrets:
            assert redacted == line
            continue
        before, _, behind = line.partition(secrets[at])
        assert redacted.startswith(before)
        assert redacted.endswith(behind)


@pytest.mark.parametrize("part", range(4))
def test_lines_above_and_below(part: int) -> None:
    for _, value in VALUES[part::4]:
        lines: list[str] = []
        for at, line in enumerate(LINES):
            lines += [line, FORMS[at % len(FORMS)].format(value), LINES[at - 1], "end"]
        _check(lines, dict.fromkeys(range(1, len(lines), 4), value), "\n")


def test_there_are_examples() -> None:
    assert len(VALUES) > 350


@settings(max_examples=examples(300))
@given(st.data())
def test_secrets_beside_each_other(data: st.DataObject) -> None:
    lines: list[str] = []
    secrets: dict[int, str] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        lines += data.draw(st.lists(st.sampled_from(LINES), max_size=2))
        value = data.draw(st.sampled_from(VALUES))[1]
        secrets[len(lines)] = value
        lines.append(data.draw(st.sampled_from(FORMS)).format(value))
    lines.append(data.draw(st.sampled_from(LINES)))
    _check(lines, secrets, data.draw(st.sampled_from(("\n", "\r\n"))))


@pytest.mark.parametrize("width", [40, 50, 60])
def test_a_token_that_a_terminal_broke_goes_whole(width: int) -> None:
    """At least three lines of one width show that the token was broken. The line after them stays."""
    at_anchor = {each.id for each in rule.read() if not each.before}
    long = [
        value
        for name, value in VALUES
        if name in at_anchor and len(value) > 2 * width - 9 and re.fullmatch(r"[\w.+/-]+=*", value)
    ]
    assert long
    for value in islice(long, 5):
        text = f"{'x' * 9} {value}"
        broken = [text[at : at + width] for at in range(0, len(text), width)]
        redacted = REDACTOR.redact("\n".join([*broken, "PORT=8080", ""])).text
        assert value[-12:] not in redacted
        assert redacted.endswith("\nPORT=8080\n")


VALUE = "Wint3r-Falk3n-77"
FRONTS = {
    "time": "2031-03-04T10:22:31.1234567Z ",
    "time, level and thread": "2031-03-04 10:22:31,123 INFO  [worker-3] ",
    "syslog": "Mar  4 10:22:31 web-1 app[301]: ",
    "service": "api-1       | ",
    "comment of the shell": "# ",
    "comment of C": "// ",
    "number": "   12\t",
    "file and number": "src/app/config.yml:12:",
    "diff": "+",
}
TEXTS = {
    "csv": f"id,user,db_password,role\n1,bob,{VALUE},admin",
    "psql": f" id | db_password\n----+------------\n  1 | {VALUE}\n(1 row)",
    "block": f"db_password: |\n  {VALUE}",
    "yaml": f"env:\n- name: DB_PASSWORD\n  value: {VALUE}",
    "xml": f"<property>\n  <name>db.password</name>\n  <value>{VALUE}</value>\n</property>",
    "netrc": f"machine db.example.net\n  login bob\n  password {VALUE}",
}


@pytest.mark.parametrize("front", FRONTS)
def test_value_on_another_line(front: str) -> None:
    for kind, text in TEXTS.items():
        lines = "\n".join(FRONTS[front] + line for line in text.split("\n"))
        assert VALUE not in redact(lines), kind
        assert redact(lines).count("\n") == lines.count("\n"), kind


def test_table_that_ends_a_string() -> None:
    text = '{"stdout":"id,user,db_password,role\\n1,bob,' + VALUE + ',admin","exit_code":0}'
    assert VALUE not in redact(text)
