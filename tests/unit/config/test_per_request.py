"""Per-request settings: every field, alias, bound and error text."""

import pytest

from penumbra.compress.result import Mode
from penumbra.config.per_request import OverrideError, apply, apply_threshold
from penumbra.config.settings import Settings

PATH = "_forge.tool_output_compression"


def override(value, settings=None):
    return apply(settings or Settings(), {"tool_output_compression": value})


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        *((word, Mode.DISABLED) for word in ("disabled", "off", "false", "none", " OFF ")),
        ("safe", Mode.SAFE),
        *((word, Mode.STANDARD) for word in ("standard", "on", "true", "Standard")),
        ("aggressive", Mode.AGGRESSIVE),
    ],
)
def test_a_word_is_a_mode(word, mode):
    assert override(word).mode is mode
    assert override({"mode": word}).mode is mode


def test_an_object_changes_only_the_named_settings():
    base = Settings(mode=Mode.SAFE, min_bytes=9, allow_redaction_off=True)
    assert override({}, base) == base
    changed = override(
        {
            "mode": "aggressive",
            "method": "re-pair",
            "session_id": " s 1 ",
            "dedup": False,
            "memo": True,
            "redact_secrets": False,
            "max_output_bytes": 1_048_576,
        },
        base,
    )
    assert (changed.mode, changed.session_id) == (Mode.AGGRESSIVE, " s 1 ")
    assert (changed.dedup, changed.redact_secrets, changed.max_output_bytes) == (False, False, 1_048_576)
    assert changed.min_bytes == 9
    assert override({"session_id": "  "}, changed).session_id == ""


def test_other_extensions_are_ignored():
    assert apply(Settings(), {"debug": {"a": 1}, "schema_compression": "minify"}) == Settings()


OBJECT = "mode, max_output_bytes, dedup, redact_secrets, session_id, method, memo"


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        ({"tool_output_compresion": "off"}, "_forge.tool_output_compresion is unknown, did you mean tool_output_compression?"),
        ({"mode": "off"}, f"_forge.mode is unknown, did you mean {PATH}.mode?"),
        ({"colour": 1}, "_forge.colour is unknown, allowed: tool_output_compression, schema_compression, "),
        ({"tool_output_compression": {"redact_secret": True}}, f"{PATH}.redact_secret is unknown, did you mean redact_secrets?"),
        ({"tool_output_compression": {"mode": "off", "colour": 1}}, f"{PATH}.colour is unknown, allowed: {OBJECT}"),
    ],
)  # fmt: skip
def test_an_unknown_member_is_refused(forge, message):
    with pytest.raises(OverrideError) as error:
        apply(Settings(), forge)
    assert str(error.value).startswith(message)


EVIL = "x\n[12:00:00.000] Penumbra is active\r\x1b[2J\u2028\u202e\ud83d"


@pytest.mark.parametrize(
    "forge",
    [
        {EVIL: 1},
        {"tool_output_compression": EVIL},
        {"tool_output_compression": {EVIL: 1}},
        {"tool_output_compression": {"mode": EVIL}},
        {"tool_output_compression": {"method": EVIL}},
    ],
)
def test_words_of_a_client_cannot_begin_a_line_of_the_log(forge):
    with pytest.raises(OverrideError) as error:
        apply(Settings(), forge)
    assert str(error.value).isprintable()
    assert "x\\n[12:00:00.000] Penumbra" in str(error.value)
    with pytest.raises(OverrideError) as error:
        apply_threshold(Settings(), EVIL)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, f"{PATH} must be a string or object"),
        (None, f"{PATH} must be a string or object"),
        (3, f"{PATH} must be a string or object"),
        ([], f"{PATH} must be a string or object"),
        ("loud", "tool output compression must be disabled, safe, standard, or aggressive, got 'loud'"),
        (
            {"mode": "loud"},
            "tool output compression must be disabled, safe, standard, or aggressive, got 'loud'",
        ),
        ({"mode": None}, f"{PATH}.mode must be a string"),
        ({"mode": True}, f"{PATH}.mode must be a string"),
        ({"method": 1}, f"{PATH}.method must be a string"),
        ({"method": "gzip"}, "tool output compression method must be lzw, repair, or auto, got 'gzip'"),
        ({"session_id": 7}, f"{PATH}.session_id must be a string"),
        ({"dedup": "yes"}, f"{PATH}.dedup must be a boolean"),
        ({"memo": 1}, f"{PATH}.memo must be a boolean"),
        ({"redact_secrets": None}, f"{PATH}.redact_secrets must be a boolean"),
        ({"max_output_bytes": 0}, f"{PATH}.max_output_bytes must be a positive integer"),
        ({"max_output_bytes": -1}, f"{PATH}.max_output_bytes must be a positive integer"),
        ({"max_output_bytes": 10.0}, f"{PATH}.max_output_bytes must be a positive integer"),
        ({"max_output_bytes": True}, f"{PATH}.max_output_bytes must be a positive integer"),
        ({"max_output_bytes": "10"}, f"{PATH}.max_output_bytes must be a positive integer"),
        ({"max_output_bytes": 1_048_577}, f"{PATH}.max_output_bytes must be <= 1048576"),
        ({"max_output_bytes": 10**30}, f"{PATH}.max_output_bytes must be <= 1048576"),
    ],
)
def test_a_bad_value_is_refused_in_the_words_of_the_field(value, message):
    with pytest.raises(OverrideError) as error:
        override(value)
    assert str(error.value) == message


@pytest.mark.parametrize("forge", [None, [], "standard", 1, True])
def test_the_container_must_be_an_object(forge):
    with pytest.raises(OverrideError, match="_forge must be an object"):
        apply(Settings(), forge)


def test_a_request_cannot_switch_redaction_off_unless_the_operator_allows_it():
    with pytest.raises(OverrideError, match="redaction can't be switched off by a request here"):
        override({"redact_secrets": False})
    assert override({"redact_secrets": True}) == Settings()
    assert override({"redact_secrets": False}, Settings(allow_redaction_off=True)).redact_secrets is False
    off = Settings(redact_secrets=False)
    assert override({"redact_secrets": False}, off) == off
    assert override("disabled").redact_secrets is True


@pytest.mark.parametrize(("value", "size"), [("256", 1024), ("1k", 4096), (" 4K ", 16384), ("0", 0)])
def test_a_threshold_is_a_number_of_tokens(value, size):
    assert apply_threshold(Settings(), value).min_bytes == size


def test_a_threshold_may_be_off():
    assert apply_threshold(Settings(), "OFF").mode is Mode.DISABLED


@pytest.mark.parametrize("value", ["", "many", "-1", "1.5", "1kk", "9" * 20, "²"])
def test_a_bad_threshold_is_refused(value):
    with pytest.raises(OverrideError, match="X-Compression-Threshold must be off or a number of tokens"):
        apply_threshold(Settings(), value)


@pytest.mark.parametrize("wanted", ["aggressive", {"mode": "aggressive", "dedup": True}])
def test_nothing_in_a_body_ends_a_pause(wanted):
    paused = Settings(pause=True).untouched()
    assert override(wanted, paused) == paused
    assert apply_threshold(paused, "1k") == paused
