"""The examples of every rule, and rules that users add.

`¦` splits tokens so that no file contains a whole one; `⟦ ⟧` marks the bytes to be replaced.
"""

import re

import pytest

from penumbra import rules
from penumbra.redaction import LIBRARY_KEY, RuleError, judgement, rule, ruleset
from penumbra.redaction.finders.value_reading import patterns
from penumbra.redaction.judgement import judge
from penumbra.redaction.names import Strength
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.redaction.values import Style, has_shape
from penumbra.rule_schemas.schema import convert
from penumbra.rule_schemas.secret_rules import SecretFile, SecretRule
from support.work_counts import calls

RULES = rule.read()
REDACTOR = Redactor(LIBRARY_KEY)
MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)
FILES = {file.name: convert(SecretFile, file.content, "").rules for file in rules.load_folder("secrets")}
WRITTEN = [rule for written in FILES.values() for rule in written]
_SOMEWHERE = re.compile(r"(\[(?:\\.|[^\]\\])*\])\{0,\d+\}\??\[(?:\\.|[^\]\\])*\]\1\{0,\d+\}")
"""Matches a sign somewhere within a run of signs, `[a-z0-9]{0,99}[0-9][a-z0-9]{0,99}`. The run before the
sign may contain the sign, so each of its places is tried."""


def test_required_characters_are_looked_for_from_the_beginning_of_a_value() -> None:
    """`[a-z]{0,99}[0-9][a-z0-9]{0,198}` is equivalent and takes a twentieth of the time."""
    assert [each.id for each in RULES if _SOMEWHERE.search(each.regex)] == []


def _text(example: str) -> str:
    return example.replace("¦", "").replace("⟦", "").replace("⟧", "")


@pytest.mark.parametrize("file", FILES)
def test_examples_match(file: str) -> None:
    wrong = [
        (rule.id, result.text)
        for rule in FILES[file]
        for example in rule.examples.match
        if (result := REDACTOR.redact(_text(example)))
        and (
            PATTERN.sub("⟦⟧", result.text) != MARKED.sub("⟦⟧", example.replace("¦", ""))
            or sum(result.counts.values()) != len(MARKED.findall(example))
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("file", FILES)
def test_examples_match_by_their_rules_alone(file: str) -> None:
    by_id = {each.id: each for each in RULES}
    wrong = []
    for written in FILES[file]:
        alone = Redactor(LIBRARY_KEY, [by_id[written.id]])
        wrong += [
            (written.id, example)
            for example in written.examples.match
            if not alone.redact(_text(example)).counts.get(written.id)
        ]
    assert wrong == []


@pytest.mark.parametrize("file", FILES)
def test_counter_examples_stay(file: str) -> None:
    texts = [_text(example) for rule in FILES[file] for example in rule.examples.no_match]
    assert [text for text in texts if REDACTOR.redact(text).text != text] == []


def test_rules_have_examples_of_both_kinds() -> None:
    assert [rule.id for rule in WRITTEN if not rule.examples.match or not rule.examples.no_match] == []


def test_there_are_rules_for_many_formats() -> None:
    assert len(WRITTEN) > 600


@pytest.mark.parametrize("name", ["ACME_API_KEY=", "acme.token: ", '"acmeSecret": "', "acme deploy key = '"])
def test_secret_beside_its_name(name: str) -> None:
    ours = SecretRule("acme", "[a-f0-9]{40}", beside=("acme",))
    redactor = Redactor(LIBRARY_KEY, [rule.of(ours, "acme-key")])
    value = "0b" + "e1f5c9a7d34286" * 2 + "90ab12cd34"
    assert redactor.redact(name + value).counts
    assert not redactor.redact(f"acme commit = {value}").counts
    assert not redactor.redact(f"acme key of\n{value}").counts
    # The name must have the whole word for a secret, and must not end with a word such as `id`.
    for other in ("acme_path", "acme-patch", "acme.author", "ACME_CAPITAL", "acme_key_id", "acmeTokenSha"):
        assert not redactor.redact(f"{other}={value}").counts


@pytest.mark.parametrize("joint", ["_", "-"])
def test_words_after_a_prefix_are_no_token(joint: str) -> None:
    """`acme_migration_20240101_create_users_table` is a name. With random parts in place of the words, it would
    be a token."""
    ours = SecretRule("acme", f"acme{joint}[A-Za-z0-9_-]{{28,}}", anchors=(f"acme{joint}",), digits=4)
    redactor = Redactor(LIBRARY_KEY, [rule.of(ours, "acme-key")])
    for words in ("migration 20240101 create users table", "report of the whole 2024 quarter 3 for review"):
        assert not redactor.redact(f"acme {words}".replace(" ", joint)).counts
    for token in ("q8zk2mvt41lx9rwpz0bt6c73hd5n", "live q8zk2mvt41lx9rwpz0 bt6c73hd5n"):
        assert redactor.redact(f"acme {token}".replace(" ", joint)).counts


def test_rules_are_read_as_they_are_written() -> None:
    """Rules that are read without their examples equal the rules in the files."""
    for file in rules.load_folder("secrets"):
        for written, made in zip(FILES[file.name], rule.parse(file.name, file.content), strict=True):
            assert next(each for each in RULES if each.id == written.id) == made


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in WRITTEN}) == len(WRITTEN) == len(RULES)


def test_labels_fit_into_placeholders() -> None:
    assert [each.label for each in RULES if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", each.label)] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"rules": [{"id": "x", "label": "x", "regex": "a(b", "anchors": ["abc"]}]},
            "f.yaml: x: regex: missing ): a(b",
        ),
        (
            {"rules": [{"id": "x", "regex": "abc", "anchors": ["ab"]}]},
            "f.yaml: x: anchors[0]: got 'ab', allowed: a text of 3 characters at least",
        ),
        (
            {"rules": [{"id": "x", "regex": "abc", "anchors": ["abc"], "colour": 1}]},
            "f.yaml: x: colour: unknown key, allowed: id, regex, anchors, label, ",
        ),
        (
            {"rules": [{"id": "x", "regex": "abc", "anchors": ["abc"], "value": "red"}]},
            "f.yaml: x: value: got 'red', allowed: password or told or opaque or certain or given or login or basic",
        ),
        (
            {"rules": [{"id": "x", "anchors": ["abc"]}]},
            "f.yaml: x: regex: missing, allowed: a pattern of RE2",
        ),
        (["x"], "f.yaml: rules: got a list, allowed: a mapping with a list rules"),
    ],
)
def test_wrong_rule_is_refused_in_one_line(content: object, message: str) -> None:
    with pytest.raises(RuleError, match=re.escape(message)) as caught:
        list(rule.parse("f.yaml", content))
    assert "\n" not in str(caught.value)


SHAPES = rules.load("secrets/words/shapes.yaml")


@pytest.mark.parametrize("shape", SHAPES)
def test_values_have_the_shapes_of_which_they_are_examples(shape: str) -> None:
    examples = dict.fromkeys(SHAPES[shape]["is"], True) | dict.fromkeys(SHAPES[shape]["isnt"], False)
    assert {value: has_shape(value, shape) for value in examples} == examples


BETWEEN = rules.load("secrets/words/between.yaml")
GROUPS = [group for group in BETWEEN if group != "parts"]


@pytest.mark.parametrize("group", GROUPS)
def test_patterns_are_found_in_their_examples(group: str) -> None:
    found, expected = {}, {}
    for name, pattern in patterns(group).items():
        of_name = BETWEEN[group][name]
        find = pattern.search if of_name["like"][-1].endswith(r"\Z") else pattern.match
        for text in (*of_name["is"], *of_name["isnt"]):
            found[name, text] = find(text.encode()) is not None
            expected[name, text] = text in of_name["is"]
    assert found == expected


QUESTIONS = rules.load("secrets/words/judgement.yaml")
_CASE = re.compile(
    f"(?:({'|'.join(Strength.__members__)}) )?(?:({'|'.join(Style.__members__)}) )?(.*)", re.DOTALL
)


def _answer(question: str, example: str) -> bool:
    strength, style, value = _CASE.fullmatch(example).groups()  # type: ignore[union-attr]
    return judge(question, value, Strength[strength or "NONE"], Style[style or "CODE"])


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_have_the_answers_of_their_examples(question: str) -> None:
    asked = QUESTIONS[question]
    examples = dict.fromkeys(asked["is"], True) | dict.fromkeys(asked["isnt"], False)
    assert {value: _answer(question, value) for value in examples} == examples


@pytest.mark.parametrize("condition", ["ｌｅｎ(ｖａｌｕｅ)", "length.real", "[length]", "value"])
def test_conditions_hold_nothing_but_features(condition: str) -> None:
    with pytest.raises(ValueError, match=r"^no "):
        judgement.row_expression(f"yes if {condition}")


USERS = {
    "secrets/acme.yaml": {
        "label": "acme",
        "rules": [{"id": "acme-key", "regex": "acme_[a-z0-9]{20}", "anchors": ["acme_"]}],
    }
}
SECRET = "acme_q8zk2mvt41lx9rwpz0bt"


def test_engines_share_it() -> None:
    Redactor(b"k")
    assert calls(Redactor, b"another key") < 5_000
    replaced = ruleset.load("[[rules]]\nid = 'x'\nregex = 'acme_[a-z0-9]{20}'\nkeywords = ['acme_']", "mine")
    third = Redactor(b"k", ruleset.merged(rule.read(), replaced))
    assert SECRET not in third.redact(f"see {SECRET}").text


def test_rules_that_a_user_adds_and_removes_take_effect() -> None:
    before = Redactor(b"k")
    rules.add(USERS)
    try:
        assert SECRET not in Redactor(b"k").redact(f"see {SECRET}").text
        # An existing redactor keeps its rules.
        assert SECRET in before.redact(f"see {SECRET}").text
    finally:
        rules.add({})
    assert SECRET in Redactor(b"k").redact(f"see {SECRET}").text
