"""The settings of long sessions, as the YAML file and options spell them."""

from pathlib import Path

import pytest

from penumbra.config.parsers import ToolCompaction
from penumbra.config.settings import Settings, load, remarks

YAML = """
penumbra:
  supersede: off
  recover: "off"
  aggregate_budget_bytes: 200k
  tool_compaction:
    inputTrimBytes: 50
    outputTrimBytes: 60
    excludedTools: [get_status]
    toolIdentifierFields: {read_file: [path, limit]}
    toolOnly: true
"""


def test_the_yaml_file_uses_the_names_of_the_field(tmp_path: Path) -> None:
    file = tmp_path / "penumbra.yaml"
    file.write_text(YAML)
    settings = load({}, {}, str(file))
    assert (settings.supersede, settings.recover) == ("off", "off")
    assert settings.aggregate_budget_bytes == 200 * 1024
    assert settings.tool_compaction == ToolCompaction(
        input_trim_bytes=50,
        output_trim_bytes=60,
        excluded_tools=frozenset({"get_status"}),
        tool_identifier_fields={"read_file": ("path", "limit")},
        tool_only=True,
    )


WORDS = (
    *("lossy", "supersede", "recover", "context_guard", "restore_secrets", "blank_flows"),
    *("aws_signing", "rules"),
)


@pytest.mark.parametrize("name", WORDS)
def test_the_bare_word_off_is_a_word_in_yaml(name: str, tmp_path: Path) -> None:
    """YAML 1.1 reads the bare word as a truth value."""
    file = tmp_path / "penumbra.yaml"
    file.write_text(f"penumbra: {{{name}: off}}\n")
    assert getattr(load({}, {}, str(file)), name) == "off"
    file.write_text("penumbra: {context_guard: on, lossy: on, mode: off, dedup: off}\n")
    made = load({}, {}, str(file))
    assert (made.context_guard, made.lossy, made.mode, made.dedup) == ("on", "on", "disabled", False)


def test_misspelt_names_of_the_compaction_are_reported() -> None:
    given = '{"inputTrimByte": 7, "compactargs": true, "x\\ny": 1, "toolOnly": true}'
    settings = load({"tool_compaction": given}, {})
    assert settings.tool_compaction.tool_only
    first, second, third = remarks(settings)
    assert first == "tool_compaction.inputTrimByte: it is not read, did you mean inputTrimBytes?"
    assert second.startswith("tool_compaction.compactargs: it is not read, ")
    assert third.isprintable()
    assert list(remarks(Settings())) == []


def test_options_take_json() -> None:
    settings = load({"tool_compaction": '{"outputTrimBytes": 7}', "bound_thinking": "drop"}, {})
    assert settings.tool_compaction.output_trim_bytes == 7
    assert settings.bound_thinking == "drop"
    assert load({}, {}).tool_compaction == Settings().tool_compaction == ToolCompaction()
