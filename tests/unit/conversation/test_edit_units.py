"""What stays around a change of a file: the unit that an edit takes."""

from __future__ import annotations

from penumbra.conversation.said_lines import EditUnits

BODY = [f"        step({n})" for n in range(12)]
METHODS = [
    "export class Store {",
    *("    private open = true;", ""),
    *("    /** Opens it. */", "    first() {", *BODY, "", *BODY, "    }", ""),
    *("    second() {", *BODY, "    }", "}", ""),
    *("function last() {", *BODY, "", *BODY, "}"),
]


def test_methods_of_a_class_are_units_and_paragraphs_within_them_are_none() -> None:
    begin = [METHODS[position].strip() for position in EditUnits.of(METHODS).beginnings]
    assert begin == ["export class Store {", "/** Opens it. */", "second() {", "function last() {"]


def test_statements_of_a_function_are_none() -> None:
    lines = ["func Load() error {", "\topen()", "", "\tread()", "}", "", "func Save() {", "\twrite()", "}"]
    assert EditUnits.of(lines).beginnings == [0, 6]


def test_the_whole_unit_around_a_change_stays() -> None:
    units = EditUnits.of(METHODS)
    change = METHODS.index(BODY[6])
    assert METHODS[units.before(change)].strip() == "/** Opens it. */"
    assert METHODS[units.behind(change + 1)].strip() == "second() {"


def test_what_is_near_a_change_stays_in_any_case_and_what_is_far_does_not() -> None:
    short = [line for n in range(60) for line in (f"key_{n}: value", "")]
    units = EditUnits.of(short)
    assert 60 - units.before(60) == 6
    assert units.behind(61) - 61 >= 6
    endless = [f"    value_{n}" for n in range(200)]
    units = EditUnits.of(endless)
    assert (units.before(100), units.behind(100)) == (70, 130)
