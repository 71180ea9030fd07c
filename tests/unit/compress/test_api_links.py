"""Links that an API writes into each object."""

from __future__ import annotations

import json

from penumbra import rules
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Loss, Policy, Redacted, ToolOutput
from penumbra.compress.stages import api_links
from penumbra.rule_schemas.own_tables import ApiLinks, ApiLinksExample
from support.cases import each

USER = {"login": "ada", "id": 7} | {
    f"{name}_url": f"https://api.example.com/users/ada/{name}"
    for name in ("repos", "orgs", "gists", "events", "keys")
}
COMMENT = {"id": 12, "body": "error: fixed in 4f1c", "user": USER, "html_url": "https://example.com/c/12"}


def run(value: object, tool: str = "Bash", **arguments: str) -> tuple[str, Loss]:
    output = ToolOutput(json.dumps(value, separators=(",", ":")), tool, arguments or {"command": "gh api x"})
    made = shorten(output, Policy(lossy=True), Redacted, lambda _: "")
    return made.text, made.loss


@each("example", rules.load_as("api_links.yaml", ApiLinks).examples, ids=lambda example: example.text[:40])
def test_examples(example: ApiLinksExample) -> None:
    assert api_links.bare(example.text) == (example.gives, example.gone)
    json.loads(example.gives)


def test_what_is_left_out_is_counted_and_can_be_asked_for() -> None:
    text, loss = run([COMMENT] * 2)
    body, told = text.split("\n")
    assert told == "[10 links of the API left out]"
    user = {"login": "ada", "id": 7}
    assert json.loads(body) == [COMMENT | {"user": user}] * 2
    assert loss is Loss.LOSSY


def test_a_file_and_few_links_stay_as_they_are() -> None:
    text = json.dumps([COMMENT] * 2, separators=(",", ":"))
    assert run([COMMENT] * 2, "Read", file_path="a.json")[0] == text
    few = {"url": "https://api.example.com/a", "id": 1, "body": "x " * 300}
    assert run(few)[1] is Loss.NONE
