"""References to texts with patterns or line numbers are also true for the original outputs."""

import json
import re
from random import Random

import pytest

from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.stage_order import AFTER_FAMILY, STRUCTURE
from penumbra.compress.stages import logs
from penumbra.config.settings import Settings
from penumbra.conversation import earlier_texts
from penumbra.conversation.line_index import places_in, read
from support.messages_requests import References, answer, body, contents, go, use

_NUMBERS = Random(7)
_ROWS = [(_NUMBERS.randrange(10**6), _NUMBERS.randrange(10**4)) for _ in range(90)]
_REFERENCE = re.compile(
    r"\[([0-9]+) lines?: same as in (.+?)(?:, lines? ([0-9]+)(?: to [0-9]+)? of its output)?\]"
)


def log(word: str) -> str:
    kinds = ("info", "note", "send")
    return "\n".join(f"{kinds[a % 3]} worker {word} customer {a} amount {b} cents" for a, b in _ROWS)


def records(state: str) -> str:
    return json.dumps([{"id": a, "state": state, "total": b, "name": f"n{a}"} for a, b in _ROWS], indent=1)


def hits(path: str) -> str:
    return "\n".join(f"{path}:{n}:    total = compute({a}, {b})" for n, (a, b) in enumerate(_ROWS))


def services(name: str) -> str:
    return "\n".join(f"{name}-1    | handled request {a} of user {b}" for a, b in _ROWS)


def several(text: str) -> str:
    """Return a text between lines. The lines are the same for every text."""
    names = ["".join(chr(97 + int(digit)) for digit in str(a)) for a, _ in _ROWS[:30]]
    same = [f"loaded the plugin {name} from the folder of plugins" for name in names]
    return "\n".join([*same, text, *same[::-1]])


def references_in(text: str, outputs: dict[str, str]) -> list[str]:
    """Return the commands that references in a text name. Their lines must be in the named output and in the
    last one."""
    last = [*outputs.values()][-1].split("\n")
    found = [
        (name.removeprefix("Bash "), int(n), int(at or 1) - 1) for n, name, at in _REFERENCE.findall(text)
    ]
    for name, count, place in found:
        said = outputs[name].split("\n")[place : place + count]
        assert len(said) == count
        assert any(last[at : at + count] == said for at in range(len(last)))
    return [name for name, _, _ in found]


KINDS = {
    "patterns": (log, "kubectl logs {}-job", ("charged", "refunded")),
    "tables": (records, "curl -s host/orders?state={}", ("open", "paid")),
    "hits": (hits, "grep -rn total {} src", ("src/alpha.py", "src/beta.py")),
    "services": (services, "docker compose logs {}", ("web", "worker")),
    "patterns among others": (lambda word: several(log(word)), "./{}", ("charged", "refunded")),
    "tables among others": (lambda word: several(records(word)), "./{}", ("open", "paid")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("around", "can_ask"),
    [("{}", True), ("{}", False), ("<returncode>0</returncode>\n<output>\n{}\n</output>", False)],
    ids=["can ask", "can't ask", "tags"],
)
def test_a_reference_is_true_of_the_outputs(kind: str, around: str, can_ask: bool) -> None:
    made, command, words = KINDS[kind]
    outputs = {command.format(word): made(word) for word in words}
    messages = []
    for number, (line, output) in enumerate(outputs.items()):
        messages += [use(f"t{number}", command=line), answer(f"t{number}", around.format(output))]
    forwarded = contents(
        go(body(*messages), settings=Settings(), references=References() if can_ask else None)
    )
    _, text = forwarded
    assert references_in(text, outputs) or can_ask or "others" not in kind
    # The rows of patterns are below all patterns.
    written = {line.split(" ")[0] for line in text.split("\n") if line.startswith("~")}
    assert not written or (logs.FIRST in text and logs.LAST in text)
    for name in written:
        assert f"\n{name} " in text.partition(logs.LAST)[0]


def test_a_reference_counts_lines_that_the_named_text_has_by_reference() -> None:
    numbers = Random(8)
    words = [f"{chr(97 + a % 26)}{a:x}" for a, _ in _ROWS]
    rows = [" ".join(numbers.sample(words, 6)) for _ in range(60)]
    texts = zip("abc", (rows[:40], rows, rows[42:]), strict=True)
    outputs = {f"cat {name}.py": "\n".join(text) for name, text in texts}
    calls = [(use(line[4], command=line), answer(line[4], output)) for line, output in outputs.items()]
    *_, text = contents(go(body(*sum(calls, ())), settings=Settings(), references=References()))
    assert references_in(text, outputs) == ["cat b.py"]


def test_lines_of_both_outputs_are_referred_to() -> None:
    lines = several(log("charged")).split("\n")
    call = classify("Bash", {"command": "./run"})
    assert earlier_texts.output_of("\n".join(lines), "Bash", call) == "\n".join(lines)
    coded = ["[patterns]", "~A {}", *lines[:10], "~A 1", *lines[-10:]]
    standing = read("\n".join(coded), "\n".join(lines), is_numbered=False).output
    assert standing == [None, None, *lines[:10], None, *lines[-10:]]
    numbers = places_in(standing, lines)
    assert numbers == [0, 0, *range(1, 11), 0, *range(len(lines) - 9, len(lines) + 1)]


def test_every_stage_that_codes_lines_is_known_as_one() -> None:
    stages = {stage.name for stage in (*STRUCTURE, *AFTER_FAMILY)} | {"command_family", "truncate", "binary"}
    keep = {stage for stage in stages if earlier_texts.keeps_lines("", [stage])}
    assert keep == {"line_numbers", "json_minify"}
    assert earlier_texts.keeps_lines("", [])


def test_a_text_that_another_proxy_has_coded_has_no_output() -> None:
    for text in (
        logs.factor(log("charged")) or "",
        f"<<<SHADOW:shadow_{'1' * 18}>>>\n[Shortened.]\n[table 1: 9 objects; columns a]\n1",
    ):
        assert not earlier_texts.keeps_lines(text, [])
        assert earlier_texts.output_of(text, "", Call()) == ""
