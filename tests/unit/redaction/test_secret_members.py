"""Secrets in lists and maps with a name of secrets, in halves, and below prompts: only values are replaced."""

import json

import pytest

from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from support.work_counts import lines

VALUES = ("Tr0ub4dor99xK", "gR4n!te-77w0lf")
CONTAINERS = {
    "json": '{"passwords": ["{0}", "{1}"], "port": 1}',
    "pretty": '{\n  "passwords": [\n    "{0}",\n    "{1}"\n  ]\n}',
    "singular": '{"password": ["{0}", "{1}"]}',
    "keys": 'api_keys = ["{0}", "{1}"]',
    "map": '{"passwords": {"bob": "{0}", "eve": "{1}"}}',
    "tuple": 'PASSWORDS = ("{0}", "{1}")',
    "go": 'var passwords = []string{"{0}", "{1}"}',
    "java": 'List<String> passwords = List.of("{0}", "{1}");',
    "typed": 'const passwords: string[] = ["{0}", "{1}"];',
    "shell": "PASSWORDS=({0} {1})",
    "ruby": "PASSWORDS = %w[{0} {1}]",
    "yaml": "password:\n  - {0}\n  - {1}\nhost: db1\n",
    "yaml, flat": "passwords:\n- '{0}'\n- \"{1}\"\nhost: db1\n",
    "yaml, map": "passwords:\n  bob: {0}\n  eve: {1}\nhost: db1\n",
    "prompt": "$ login\nEnter password:\n{0}\nPassword:\n{1}\nWelcome\n",
    "default": 'PASSWORD = os.environ.get("PASSWORD") or "{0}"\nDB_PASSWORD = env["DB"] or "{1}"\n',
    "full width": "密码：{0}，\nパスワード： {1}\npassword＝{0}\n",
}


def _only_the_values_go(redactor: Redactor, text: str) -> None:
    scan = redactor.scan(text)
    assert not any(value in scan.text for value in VALUES)
    assert PATTERN.sub(lambda mark: scan.values[mark[0]], scan.text) == text
    assert set(scan.values.values()) <= set(VALUES)


@pytest.mark.parametrize("form", CONTAINERS)
def test_all_members_go(redactor: Redactor, form: str) -> None:
    text = CONTAINERS[form].replace("{0}", VALUES[0]).replace("{1}", VALUES[1])
    _only_the_values_go(redactor, text)
    _only_the_values_go(redactor, json.dumps({"out": text}, ensure_ascii=False))


def test_quotes_of_different_depth_join_nothing(redactor: Redactor) -> None:
    """Two quotes of different levels enclose no value, so JSON within JSON stays valid."""
    inner = json.dumps({"token": '\\"&q8Zk2mVt41Lx9RwPz0-\\"&'})
    json.loads(json.loads(redactor.redact(json.dumps([inner])).text)[0])


@pytest.mark.parametrize(
    "joint",
    [
        *('" + "', "' + '", "' . '", "'.'", '" & "', "' || '", '" .. "', '" +\n    "', '"\n    + "'),
        *('"\n    "', '" \\\n  "'),
    ],
)
def test_halves_that_a_program_puts_together_go(redactor: Redactor, joint: str) -> None:
    quote = joint[0]
    token = "gh" + "p_lqcPuQybgKxtzX17jVL0GAPxirppHx92KGBZ"
    for name, value in (("password", VALUES[0]), ("other", token)):
        halves = value[:6] + joint + value[6:]
        text = f"{name} = {quote}{halves}{quote};\n"
        for whole in (text, json.dumps({"out": text})):
            scan = redactor.scan(whole)
            assert value[6:] not in scan.text
            assert PATTERN.sub(lambda mark: scan.values[mark[0]], scan.text) == whole  # noqa: B023


@pytest.mark.parametrize(
    "piece", ["passwords:\n  - a1\n", "passwords:\n  - b: c\n", "passwords = [x1, ", '"a" + "b" + ']
)
def test_work_on_members_grows_with_the_text(redactor: Redactor, piece: str) -> None:
    redactor.redact(piece)
    small, large = (lines(redactor.redact, piece * times) for times in (50, 200))
    assert large <= 4.5 * small + 500
