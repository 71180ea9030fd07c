"""Values kept in memory and put back into edits."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.redaction import placeholder
from penumbra.redaction.engine import Redactor
from penumbra.redaction.restore import Restorer, restored
from penumbra.redaction.vault import Vault

VALUE = 'p"ss\\wörd\n\U0001f511'
MARK = placeholder.make("password", b"k", VALUE.encode())
OTHER = placeholder.make("password", b"k", b"other")


def test_scan_hands_out_what_it_replaced(redactor: Redactor) -> None:
    scan = redactor.scan("DB_PASSWORD=n0t-A.real_One\n")
    ((mark, value),) = scan.values.items()
    assert value == "n0t-A.real_One"
    assert scan.text == f"DB_PASSWORD={mark}\n"
    assert restored(scan.text, scan.values, in_json=False) == "DB_PASSWORD=n0t-A.real_One\n"


def test_values_come_back_for_their_own_file_only() -> None:
    vault = Vault()
    vault.remember("scope", {MARK: VALUE}, "/a/.env")
    vault.remember("scope", {OTHER: "other"})
    assert vault.for_path("scope", "/a/.env") == {MARK: VALUE}
    assert vault.for_path("scope", "/b/.env") == {}
    assert vault.for_path("scope", "") == {}
    assert vault.for_path("elsewhere", "/a/.env") == {}
    assert vault.knows("scope", f"{MARK} {OTHER} [REDACTED:x:aaaaaa]") == {MARK, OTHER}
    vault.forget("scope")
    assert vault.for_path("scope", "/a/.env") == {}


def test_values_turn_back_into_placeholders() -> None:
    vault = Vault()
    vault.remember("scope", {MARK: "abc", OTHER: "abcdef"})
    assert vault.hide("scope", "x abcdef y abc") == f"x {OTHER} y {MARK}"
    assert vault.hide("elsewhere", "abc") == "abc"


def test_two_values_of_one_fingerprint_are_never_written() -> None:
    vault = Vault()
    vault.remember("scope", {MARK: "one"}, "/f")
    vault.remember("scope", {MARK: "two"}, "/f")
    assert vault.for_path("scope", "/f") == {}


def test_vault_is_bounded() -> None:
    vault = Vault(scopes=2, values=3, characters=10)
    for number in range(5):
        vault.remember("a", {f"[REDACTED:x:aaaaa{'abcdefg'[number]}]": "v" * 3}, "/f")
    assert len(vault.for_path("a", "/f")) == 3
    vault.remember("a", {MARK: "w" * 9}, "/f")
    assert vault.for_path("a", "/f") == {MARK: "w" * 9}
    vault.remember("b", {MARK: "x"}, "/f")
    vault.remember("c", {MARK: "x"}, "/f")
    assert vault.for_path("a", "/f") == {}
    assert vault.for_path("c", "/f") == {MARK: "x"}


def test_nothing_shows_in_repr() -> None:
    vault = Vault()
    vault.remember("scope", {MARK: VALUE}, "/f")
    assert repr(vault) == "<Vault of 1 scopes>"


def test_restored_json_is_json() -> None:
    text = json.dumps({"old_string": f"password: {MARK}\n", "n": OTHER})
    assert json.loads(restored(text, {MARK: VALUE}, in_json=True)) == {
        "old_string": f"password: {VALUE}\n",
        "n": OTHER,
    }


PIECES = st.sampled_from(
    [MARK, OTHER, "[", "]", "[REDACTED:", "[REDACTED:password:", "REDACTED", "x", ":", "[REDACTED:x:abc"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join), st.data())
def test_fragments_join_to_the_whole(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    restorer = Restorer({MARK: VALUE})
    out = [restorer.feed(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join([*out, restorer.finish()]) == restored(text, {MARK: VALUE}, in_json=True)


def test_only_a_possible_placeholder_is_held_back() -> None:
    restorer = Restorer({MARK: "v"})
    assert restorer.feed("ab [RED") == "ab "
    assert restorer.feed("UCE") == "[REDUCE"
    assert restorer.feed("x" + MARK[:-1]) == "x"
    assert restorer.feed("]y") == "vy"
    assert restorer.feed("[" + "REDACTED:" + "z" * 100) == "[REDACTED:" + "z" * 100
    assert restorer.feed("[") == ""
    assert restorer.finish() == "["
