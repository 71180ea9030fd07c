"""Secrets in rows of uneven tables, and of SQL with expressions."""

import base64
import json
import re

import pytest

from penumbra import redact
from penumbra.redaction.finders import assignments
from support.work_counts import lines

PASSWORDS = ["Tr0ub4dor99xK", "Gr4nite77Wolf", "m0untain58Qrs"]


@pytest.mark.parametrize("between", ["", "\n", "# note\n", "ragged\n", "\n# note\nragged\n"])
def test_odd_lines_do_not_end_a_table(between: str) -> None:
    rows = (f"{number},{value},a\n" for number, value in enumerate(PASSWORDS))
    redacted = redact("id,password,name\n" + between.join(rows))
    assert not any(value in redacted for value in PASSWORDS)


MARK = "[REDACTED:password:ldf6dg]"


@pytest.mark.parametrize(
    "head",
    [
        *("# id,password,name", "$ id,password,name", "%id,password,name"),
        *(f"id,{MARK} password,name", f'id,"my {MARK} password",name', f"id,password {MARK},name"),
        *(f"{MARK},password,name", f"id,password,{MARK}"),
    ],
)
def test_signs_and_placeholders_in_a_head_hide_no_column(head: str) -> None:
    rows = [f"{number},{value},a\n" for number, value in enumerate(PASSWORDS)]
    redacted = redact("".join([f"{head}\n", *rows]))
    assert not any(value in redacted for value in PASSWORDS)
    assert redacted.startswith(head)


def test_many_odd_lines_end_a_table() -> None:
    row = "2,m0untain58Qrs,a\n"
    assert redact("id,password,name\n1,Tr0ub4dor99xK,a\n" + "\n" * 4 + row).endswith(row)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO users (id, password) VALUES (coalesce(max(id),0), '@'), (1, '@'), (f('a)', (2)) + 1, '@');",
        (
            "CREATE TABLE users (id INT NOT NULL AUTO_INCREMENT CHECK ((id > 0) AND (id < f(9))), password TEXT);\n"
            "INSERT INTO users VALUES (1, '@'), (2, '@'), (3, '@');"
        ),
    ],
)
def test_brackets_in_sql_are_counted(statement: str) -> None:
    for value in PASSWORDS:
        statement = statement.replace("@", value, 1)
    redacted = redact(statement)
    assert not any(value in redacted for value in PASSWORDS)


@pytest.mark.parametrize(
    "name", ["O\\'Brien", "it''s", "ends\\\\", "a, b", "Ren\\'e, (x)", "two\nlines", '"q"']
)
def test_quotes_in_cells_of_sql(name: str) -> None:
    """The cell before the secret may contain any quotes and backslashes, also in a JSON string."""
    statement = f"INSERT INTO users (id, name, password) VALUES (1, '{name}', '@'), (2, 'b', '@'), (3, '{name}', '@');"
    for value in PASSWORDS:
        statement = statement.replace("@", value, 1)
    for text in (statement, json.dumps({"out": statement}), json.dumps([json.dumps({"out": statement})])):
        redacted = redact(text)
        assert not any(value in redacted for value in PASSWORDS)
        assert redacted.count("[REDACTED:") == len(PASSWORDS)


@pytest.mark.parametrize(
    "piece",
    [
        "insert into t (password) values (f(",
        "create table a (id int (",
        "id,password\n\nx\n",
        "id,password\n1,x\n\n",
        base64.b64encode(b'{"id":1,"name":"first of the list","note":"n"}').decode() + "\n",
    ],
)
def test_work_on_rows_grows_with_the_text(piece: str) -> None:
    redact(piece * 160)  # The first search compiles patterns.
    small, large = (lines(redact, piece * times) for times in (40, 160))
    assert large <= 4.5 * small + 500


@pytest.mark.parametrize("unclosed", ["('" + "\\" * 80, "\\r\\n" * 40 + "x"])
def test_backslashes_in_sql_are_read_in_one_way(unclosed: str) -> None:
    """With backtracking patterns, each of these texts would take exponential time."""
    assert redact(f"INSERT INTO users (password) VALUES {unclosed}\n;").startswith("INSERT INTO")


def test_the_end_of_a_long_value_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of all names in a long value end at the end of the long value."""
    rest, read = assignments.REST, 0

    class Counting:
        def match(self, data: bytes, at: int) -> re.Match[bytes] | None:
            nonlocal read
            found = rest.match(data, at)
            read += len(found[0]) if found else 0
            return found

    monkeypatch.setattr(assignments, "REST", Counting())
    text = ("pw=+9k" * 1_000 + "\n") * 2
    data = text.encode()
    spans = list(assignments.assigned(data, data))
    assert {span.end for span in spans} >= {6_000, 12_001}
    assert 0 < read <= len(data)


def test_a_head_of_more_cells_than_are_read_is_none() -> None:
    table = "password," * 80 + "\n" + "Tr0ub4dor7," * 80
    assert redact(table) == table
