"""Prefixes that tools put before lines hide no name in one line and no value in another."""

from __future__ import annotations

import pytest

from penumbra import redact

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
