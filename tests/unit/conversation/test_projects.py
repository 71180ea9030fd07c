"""The project of a conversation, by the words of the user."""

import re
from collections.abc import Iterator

import pytest
import re2

from penumbra import rules
from penumbra.apis.session import find
from support.apis import APIS, Api
from support.engines import Callers

KNOWN = rules.load("sessions.yaml")
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize(("text", "folder"), KNOWN["folder_examples"])
def test_every_example_of_a_folder(text: str, folder: str) -> None:
    assert find(text) == folder


def test_every_pattern_has_an_example() -> None:
    for pattern in KNOWN["folders"]:
        assert any(re2.search(pattern, text) for text, folder in KNOWN["folder_examples"] if folder), pattern


@pytest.fixture(scope="module")
def callers() -> Iterator[Callers]:
    made = Callers(database="memory")
    yield made
    made.close()


def project(callers: Callers, api: Api, *words: str) -> str:
    """Return the project of a conversation with these words of the user, and one result."""
    turns = [("user", word) for word in words] + [("call", "call_1", "ls"), ("result", "call_1", "README.md")]
    return callers.send(api, api.body(turns), api.credential("k")).project


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_a_project_is_named_by_the_end_of_its_folder_and_a_hash(callers: Callers, api: Api) -> None:
    here = "<environment_context>\n  <cwd>{}</cwd>\n</environment_context>"
    name = project(callers, api, here.format("/home/me/shop"), "Go.")
    assert re.fullmatch(r"shop \([0-9a-f]{4}\)", name)
    assert project(callers, api, here.format("/home/me/shop"), "Go on.") == name
    other = project(callers, api, here.format("/srv/shop"), "Go there.")
    assert other != name
    assert other.startswith("shop (")
    assert project(callers, api, "Fix it.") == ""


def test_a_project_name_has_no_secret_and_comes_from_no_result(callers: Callers) -> None:
    name = project(callers, APIS[0], f"<cwd>/srv/{SECRET}</cwd>")
    assert name
    assert SECRET[:8] not in name
    turns = [("user", "Which?"), ("call", "call_1", "cat x"), ("result", "call_1", "<cwd>/srv/other</cwd>")]
    assert callers.send(APIS[0], APIS[0].body(turns), APIS[0].credential("k")).project == ""
