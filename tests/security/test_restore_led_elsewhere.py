"""Attempts to lead a value that is put back into another file than the one that it was read from."""

import json
from typing import Any

import pytest

from penumbra.apis.formats import REQUESTS
from penumbra.apis.prompt import declared_schemas
from penumbra.redaction import placeholder
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.restore.restorer import Folder, Read, Values, restorer_of
from penumbra.wire.document import Document
from support.agents.apis import BY_NAME
from support.agents.disk import OPTIONS, PATH, Disk, give_tools, mark, play
from support.upstream import ToolCall

VALUE = "hunter2-and-more"
MARK = placeholder.make("password", b"k", VALUE.encode())
ENV = "/repo/.env"
ABSOLUTE = Values([Read(ENV, {MARK: VALUE})])
RELATIVE = Values([Read(".env", {MARK: VALUE})])
DECLARED = {"Edit": "file_path", "apply_patch": "", "Both": ""}


def sent(text: str, step: int, tool: str = "Edit", values: Values = ABSOLUTE, **more: Any) -> str:
    """Return what the client gets of arguments that arrive in pieces of `step` characters."""
    folder = Folder(more.pop("root", "/repo"), more.pop("moved", False))
    found = restorer_of(tool, values, folder, DECLARED, freeform=more.pop("freeform", False))
    if found is None:
        return text
    pieces = [found.feed(text[at : at + step]) for at in range(0, len(text), step)]
    return "".join([*pieces, found.finish()])


def everywhere(text: str, **more: Any) -> set[str]:
    """Return the results for pieces of every size."""
    return {sent(text, step, **more) for step in range(1, len(text) + 1)}


PLAIN = json.dumps({"file_path": ENV, "old_string": "x", "new_string": MARK})


def test_the_plain_edit_gets_the_value() -> None:
    assert everywhere(PLAIN) == {PLAIN.replace(MARK, VALUE)}


DOUBLED = [
    f'{{"file_path":"{ENV}","new_string":"{MARK}","file_path":"/tmp/x"}}',
    f'{{"file_path":"/tmp/x","new_string":"{MARK}","file_path":"{ENV}"}}',
    f'{{"file_path":"{ENV}","new_string":"{MARK}","file\\u005fpath":"/tmp/x"}}',
    f'{{"file_path":"{ENV}","new_string":"{MARK}","FILE_PATH":"/tmp/x"}}',
    f'{{"file_path":"{ENV}","new_string":"{MARK}","new_string":"x"}}',
    f'{{"file_path":"{ENV}","a":{{"b":1,"b":2}},"new_string":"{MARK}"}}',
]
SECOND = [
    {"file_path": ENV, "path": "/tmp/x", "new_string": MARK},
    {"file_path": ENV, "filePath": "/tmp/x", "new_string": MARK},
    {"file_path": ENV, "new_string": MARK, "destination": "/tmp/x"},
    {"file_path": ENV, "edits": [{"path": "/tmp/x", "new_string": MARK}]},
    {"file_path": ENV, "edits": [{"file_path": ENV, "new_string": MARK}]},
    {"file_path": [ENV, "/tmp/x"], "new_string": MARK},
    {"path": ENV, "new_string": MARK},
    {"edits": {"file_path": ENV, "new_string": MARK}},
    {"file_path": ENV, "workdir": "/tmp", "cwd": "/repo", "new_string": MARK},
]
PATHS = [
    "/repo/link/../.env", "/repo/./.env", "/repo//.env", "//repo/.env", "/repo/.env/", "/repo/.env ",
    " /repo/.env", "/repo/.env\n", "/repo/.env\t", "/repo/.env\0", "/repo/.env.", "/repo/.env\u200b",
    "\u202e/repo/.env", "/repo/.env\u00a0", "./.env", ".env ", ".env\n", "../repo/.env", "~/.env",
    "$PWD/.env", "file:///repo/.env", "/Repo/.env", "\\repo\\.env",
]  # fmt: skip


@pytest.mark.parametrize("text", [*DOUBLED, *map(json.dumps, SECOND)])
def test_a_second_way_to_read_the_arguments(text: str) -> None:
    assert everywhere(text) == {text}


@pytest.mark.parametrize("path", PATHS, ids=repr)
def test_only_the_simplest_spelling_of_a_path(path: str) -> None:
    text = json.dumps({"new_string": MARK, "file_path": path})
    assert everywhere(text) == {text}
    if "\n" in path:
        # A line break ends the line of a patch.
        return
    text = f"*** Begin Patch\n*** Update File: {path}\n+{MARK}\n*** End Patch"
    assert everywhere(text, tool="apply_patch", freeform=True) == {text}


def test_relative_paths_after_a_change_of_folder() -> None:
    text = json.dumps({"file_path": ".env", "new_string": MARK})
    assert everywhere(text) == {text.replace(MARK, VALUE)}
    assert everywhere(text, moved=True) == {text}
    assert everywhere(text, values=RELATIVE, root="") == {text.replace(MARK, VALUE)}
    assert everywhere(text, values=RELATIVE, root="", moved=True) == {text}
    assert everywhere(text, root="/elsewhere") == {text}


PATCH = f"*** Begin Patch\n*** Update File: .env\n@@\n-K=x\n+K={MARK}\n*** End Patch"


@pytest.mark.parametrize(
    ("workdir", "led"),
    [("/repo", True), ("/tmp", False), ("sub", False), ("/repo/../tmp", False), (7, False)],
)
def test_a_patch_runs_in_its_own_folder(workdir: Any, led: bool) -> None:
    text = json.dumps({"input": PATCH, "workdir": workdir})
    assert everywhere(text, tool="apply_patch") == {text.replace(MARK, VALUE) if led else text}


@pytest.mark.parametrize(
    "patch",
    [
        PATCH.replace("*** Update", " *** Update"),
        PATCH.replace("@@", "*** Move to: /tmp/x\n@@"),
        PATCH.replace("*** End Patch", "*** Move to: /tmp/x\n*** End Patch"),
        PATCH.replace("@@", "  *** Add File: /tmp/x"),
        PATCH.replace("@@", "*** add file: /tmp/x"),
        PATCH.replace("@@", "\t*** Add File: /tmp/x\r"),
        PATCH.replace("@@", "x\r*** Add File: /tmp/x"),
        PATCH.replace("@@", "x\u2028*** Add File: /tmp/x"),
        PATCH.replace("@@", "*** Update File:  .env"),
        PATCH.replace("*** Begin Patch\n", ""),
        PATCH.replace("*** Update File: .env\n", f"*** Update File: .env{MARK}\n"),
        PATCH.replace("*** Begin Patch\n", f"*** Begin Patch\n+{MARK}\n"),
    ],
)
def test_a_patch_whose_lines_can_be_read_in_two_ways(patch: str) -> None:
    assert everywhere(patch, tool="apply_patch", freeform=True) == {patch}
    text = json.dumps({"input": patch})
    assert everywhere(text, tool="apply_patch") == {text}


@pytest.mark.parametrize(
    "arguments",
    [
        {"input": PATCH, "other": PATCH},
        {"input": PATCH, "note": MARK},
        {"input": PATCH, "path": "/tmp/x"},
        {"input": "x" + PATCH},
    ],
)
def test_a_patch_beside_something_else(arguments: dict[str, str]) -> None:
    text = json.dumps(arguments)
    assert everywhere(text, tool="apply_patch") == {text}


def test_operations_of_the_built_in_patch_tool() -> None:
    for diff, led in ((f"+{MARK}", True), (f" *** Add File: /tmp/x\n+{MARK}", False)):
        text = json.dumps({"type": "update_file", "path": ENV, "diff": diff})
        assert everywhere(text, tool="apply_patch_call") == {text.replace(MARK, VALUE) if led else text}


@pytest.mark.parametrize("tool", ["Both", "write_to_file", "Bash", "mcp__box__edit_file"])
def test_tools_whose_schema_names_no_single_file(tool: str) -> None:
    assert everywhere(PLAIN, tool=tool) == {PLAIN}


def test_broken_arguments_stay() -> None:
    for text in (PLAIN[:-1], PLAIN + "}", f'["{ENV}", "{MARK}"]', PLAIN.replace(MARK, MARK + "\n")):
        assert everywhere(text) == {text}


def schema(*properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in properties}}


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "Edit", "input_schema": schema("file_path", "x")},
        {"type": "function", "name": "Edit", "parameters": schema("file_path", "x")},
        {"type": "function", "function": {"name": "Edit", "parameters": schema("file_path", "x")}},
        {"toolSpec": {"name": "Edit", "inputSchema": {"json": schema("file_path", "x")}}},
        {"functionDeclarations": [{"name": "Edit", "parameters": schema("file_path", "x")}]},
        {"function_declarations": [{"name": "Edit", "parametersJsonSchema": schema("file_path", "x")}]},
        {"type": "namespace", "tools": [{"name": "Edit", "parameters": schema("file_path", "x")}]},
    ],
)
def test_schemas_are_read_in_the_way_of_every_api(tool: Any) -> None:
    body = {"tools": [{"type": "web_search"}, tool], "input": [{"type": "additional_tools", "tools": [tool]}]}
    document = Document(json.dumps(body).encode())
    found = list(declared_schemas(document, REQUESTS["openai_responses"].schema_arrays(document)))
    assert found == [("Edit", ("file_path", "x"))] * 2


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return give_tools(monkeypatch)


LED = {
    "a path over a link": {"file_path": "/repo/link/../.env"},
    "two paths": {"file_path": PATH, "path": "/tmp/x"},
    "another path": {"file_path": "/tmp/x"},
    "white space": {"file_path": f"{PATH} "},
}


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses"])
def test_no_client_gets_a_value_for_another_file(
    name: str, disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    running = proxy("regular", **OPTIONS)
    for number, led in enumerate(LED.values()):
        disk.files = Disk().files
        play(
            upstream,
            (ToolCall("Read", {"file_path": PATH}),),
            lambda received, led=led: (ToolCall("Write", {"content": mark(received), **led}),),
        )
        key = f"{api_key}{number}"
        BY_NAME[name].caller(clients, running, key, False, stream=number % 2 == 0).say("Go on.")
        assert PATTERN.fullmatch(disk.files[led["file_path"]])
