"""Sources of settings, their precedence, and errors."""

import dataclasses

import pytest

from penumbra.compress.result import Mode
from penumbra.config import settings
from penumbra.config.options import OPTIONS, RETIRED
from penumbra.config.settings import (
    CONFIG_OPTION,
    Settings,
    SettingsError,
    declare,
    load,
    remarks,
    retired_options,
    unknown_options,
    unprefixed_options,
)

STRATEGIES = (
    "pipeline, passthrough, simple, api, external_provider, "
    "pipeline+simple, pipeline+api or pipeline+external_provider"
)
DISABLED = "pipes:\n  tool_output:\n    enabled: false\n    strategy: external_provider\n"

MODES = "disabled, safe, standard or aggressive"


def error_of(*given):
    """Return the error of settings, which is one printable line."""
    with pytest.raises(SettingsError) as error:
        load(*given)
    assert str(error.value).isprintable()
    return str(error.value)


def test_every_field_is_an_option_or_a_section_of_the_file():
    names = {field.name for field in dataclasses.fields(Settings)}
    assert names - {option.name for option in OPTIONS} == {
        "providers",
        "api",
        "retired",
        "session_id",
        "offload_bytes",
        "request_budget",
        "stage_budget",
    }
    assert {option.name for option in OPTIONS} <= names


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_described_default_and_choices_can_be_read(option):
    parser = option.row.parser
    if written := parser.write(option.default):
        assert parser.read(written) == option.default
        assert option.description.endswith(f" Default: {written}.")
    else:
        assert option.description == option.row.help
    for word in parser.choices:
        assert parser.write(parser.read(word)) == word
    if parser.range is not None:
        low, high = parser.range
        assert low <= option.default <= high
        for outside in (low - 1, high + 1):
            with pytest.raises(SettingsError):
                parser.read(outside)


def test_the_options_that_mitmproxy_gets():
    output = {}

    def add_option(name, typespec, default, help, choices=None):
        assert (typespec, default) == (str, "")
        output[name] = (help, choices)

    declare(add_option)
    assert set(output) == {CONFIG_OPTION, *(f"penumbra_{option.name}" for option in OPTIONS)}
    help, choices = output["penumbra_mode"]
    assert help.endswith("aggressive. Default: standard.")
    assert choices == ("", "disabled", "safe", "standard", "aggressive")
    assert output["penumbra_dedup"][1] == ("", "true", "false")
    assert output["penumbra_min_bytes"][1] is None


def test_option_before_environment_before_file_before_default(config):
    path = config("pipes: {tool_output: {mode: safe, min_bytes: 7}}")
    assert load({}, {}, path).mode is Mode.SAFE
    assert load({}, {"FORGE_TOOL_OUTPUT_COMPRESSION": "aggressive"}, path).mode is Mode.AGGRESSIVE
    both = {"FORGE_TOOL_OUTPUT_COMPRESSION": "aggressive", "PENUMBRA_MODE": "off"}
    assert load({}, both, path).mode is Mode.DISABLED
    assert load({"mode": "standard"}, both, path).mode is Mode.STANDARD
    assert load({"mode": ""}, {"PENUMBRA_MODE": " "}, path).mode is Mode.SAFE
    assert load({}, {}, path).min_bytes == 7


def test_the_disabled_snippet_loads_and_switches_compression_off(config):
    loaded = load({}, {}, config(DISABLED))
    assert loaded.mode is Mode.DISABLED
    assert loaded.strategy == "external_provider"


def test_other_sections_of_the_field_are_left_alone(config):
    path = config("server: {port: 18081}\nstore: {type: memory}\npipes: {tool_discovery: {enabled: false}}\n")
    assert load({}, {}, path) == Settings()
    assert load({}, {}, config("")) == Settings()
    assert load({}, {}, config("pipes:\n  tool_output:\n")) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mode", " OFF ", Mode.DISABLED),
        ("mode", "none", Mode.DISABLED),
        ("mode", "True", Mode.STANDARD),
        ("min_bytes", "2k", 2048),
        ("max_output_bytes", "1MiB", 1048576),
        ("target_ratio", ".5", 0.5),
        ("cost_check", "no", False),
        ("allow_captured_credentials", "yes", True),
        ("dedup", "no", False),
        ("skip_tools", "edit, Write,edit", frozenset({"edit", "Write"})),
        ("hosts", "a.example,*.b.example", ("a.example", "*.b.example")),
        ("ledger_ttl", "2d", 172800.0),
        ("originals_ttl", "500ms", 0.5),
        ("database_max_bytes", "2g", 2 * 1024**3),
    ],
)
def test_values_are_read(name, value, expected):
    assert getattr(load({name: value}, {}), name) == expected


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("mode", "loud", "disabled, safe, standard or aggressive"),
        ("strategy", "magic", STRATEGIES),
        ("max_output_bytes", "0", "bytes from 1 to 1048576, for example 65536 or 64k"),
        ("max_output_bytes", "2m", "bytes from 1 to 1048576, for example 65536 or 64k"),
        ("min_bytes", "-1", "bytes from 0 to 1099511627776, for example 65536 or 64k"),
        ("target_ratio", "1.5", "a number above 0 and up to 1"),
        ("target_ratio", "0", "a number above 0 and up to 1"),
        ("dedup", "maybe", "true or false"),
        ("adopt", "always", "auto, raw or compress"),
        ("ledger_ttl", "soon", "a time above zero, for example 30s, 5m, 12h or 30d"),
        ("ledger_ttl", "0s", "a time above zero, for example 30s, 5m, 12h or 30d"),
    ],
)
def test_the_error_of_a_bad_value_has_key_value_and_allowed_values(name, value, allowed):
    assert error_of({name: value}, {}) == f"penumbra_{name}: got {value!r}, allowed: {allowed}"
    with pytest.raises(SettingsError, match=f"PENUMBRA_{name.upper()}: got"):
        load({}, {f"PENUMBRA_{name.upper()}": value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pipes: {tool_output: {min_byte: 1}}", "pipes.tool_output.min_byte: unknown key, did you mean min_bytes?"),
        ("pipes: {tool_output: {size: 1}}", "pipes.tool_output.size: unknown key, allowed: adopt, aggregate_budget_bytes"),
        ("penumbra: {colour: red}", "penumbra.colour: unknown key, allowed: "),
        ("pipes: {tool_output: {mode: [1]}}", "pipes.tool_output.mode: got [1], allowed: text"),
        ("pipes: 3", "pipes: got 3, allowed: a mapping"),
        ("providers: {x: {modle: y}}", "providers.x.modle: unknown key, did you mean model?"),
        ("providers: {x: {name: y}}", "providers.x.name: unknown key, allowed: api_key, auth"),
        ("pipes: {tool_output: {api: {timeout: x}}}", "pipes.tool_output.api.timeout: got 'x', allowed: a time"),
        ("a: [", "penumbra_config: "),
        ("- 1", "penumbra_config: got [1], allowed: a mapping"),
        ("pipes: {tool_output: {enabled: perhaps}}", "pipes.tool_output.enabled: got 'perhaps', allowed: true"),
    ],
)  # fmt: skip
def test_the_error_of_a_bad_file_names_the_key_in_one_line(config, text, message):
    assert error_of({}, {}, config(text)).startswith(message)


@pytest.mark.parametrize(
    ("text", "where", "meant"),
    [
        ("mode: safe", "mode", "penumbra.mode"),
        ("penumbra_redact_scope: all", "penumbra_redact_scope", "penumbra.redact_scope"),
        ("redact-scop: all", "redact-scop", "penumbra.redact_scope"),
        ("penumbra: {moed: safe}", "penumbra.moed", "mode"),
        ("penumbra: {penumbra_mode: safe}", "penumbra.penumbra_mode", "mode"),
        ("penumbr: {mode: safe}", "penumbr", "penumbra"),
        ("tool_output: {mode: safe}", "tool_output", "pipes.tool_output"),
        ("pipes: {tool_outputs: {}}", "pipes.tool_outputs", "tool_output"),
        ("pipes: {mode: safe}", "pipes.mode", "penumbra.mode"),
        ("penumbra: {api: {}}", "penumbra.api", "pipes.tool_output.api"),
        ("penumbra: {providers: {}}", "penumbra.providers", "providers"),
    ],
)
def test_the_error_of_a_misplaced_key_names_the_nearest_place(config, text, where, meant):
    assert error_of({}, {}, config(text)) == f"{where}: unknown key, did you mean {meant}?"


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("colour: red", "colour: unknown key, allowed: bedrock, cost_control, metadata, monitoring"),
        ("1: red", "1: unknown key, allowed: "),
        ('"a\\nb": red', "a\\nb: unknown key, allowed: "),
    ],
)
def test_the_error_of_an_unknown_key_names_all_allowed_ones(config, text, beginning):
    assert error_of({}, {}, config(text)).startswith(beginning)


def test_an_option_may_stand_in_either_section(config):
    text = "pipes: {tool_output: {redact_scope: all, mode: safe}}\npenumbra: {min_bytes: 7}"
    assert load({}, {}, config(text)) == Settings(mode=Mode.SAFE, redact_scope="all", min_bytes=7)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PENUMBRA_MOD", "PENUMBRA_MODE"),
        ("PENUMBRA_REDACT_SECRET", "PENUMBRA_REDACT_SECRETS"),
        ("PENUMBRA_REDACTSCOPE", "PENUMBRA_REDACT_SCOPE"),
        ("PENUMBRA_CONFIGS", "PENUMBRA_CONFIG"),
        ("PENUMBRA_HOST", "PENUMBRA_HOSTS"),
    ],
)
def test_a_misspelt_variable_stops_the_start(name, meant):
    assert error_of({}, {name: "safe"}) == f"{name}: unknown variable, did you mean {meant}?"


def test_variables_of_others_stop_nothing():
    others = {
        **dict.fromkeys(("PENUMBRA_TEST_WORKERS", "PENUMBRA_PORT", "PENUMBRA_SERVICE_HOST"), "1"),
        "PENUMBRA_PORT_8080_TCP_ADDR": "10.0.0.1",
        "PENUMBRA_SOMETHING_ELSE": "1",
        "PENUMBRA_MODE": "safe",
        "PENUMBRA_CONFIG": "x.yaml",
        "MY_PENUMBRA_MOD": "x",
    }
    assert load({}, others) == Settings(mode=Mode.SAFE)
    assert settings.unknown_variables(others) == ["PENUMBRA_SOMETHING_ELSE"]


SECRET = "sk-ant-api03-" + "q8Zk2mVt41Lx9RwPz0bT6c" * 5


@pytest.mark.parametrize(
    "text",
    [
        "pipes: {tool_output: {mode: '${KEY}'}}",
        "pipes: {tool_output: {mode: ['${KEY}']}}",
        "pipes: {tool_output: {target_ratio: 'x${KEY}y'}}",
        "pipes: ['${KEY}']",
        "penumbra: {redact_scope: '${KEY}'}",
        "penumbra: {hosts: ['${KEY} x']}",
        "providers: {openai: '${KEY}'}",
        "{providers: {a: {auth: '${KEY}', endpoint: 'http://a'}}, pipes: {tool_output: {strategy: external_provider}}}",
        "{providers: {a: {}}, pipes: {tool_output: {strategy: external_provider, provider: '${KEY}'}}}",
        "pipes: {tool_output: {strategy: api, api: {endpoint: '${KEY}', api_key: k}}}",
    ],
)
@pytest.mark.parametrize("value", [SECRET, "kommissar-Rex", "two\nlines 'quoted' \\ and more"])
def test_values_of_variables_are_not_shown(config, text, value):
    with pytest.raises(SettingsError) as error:
        load({}, {"KEY": value}, config(text))
    output = str(error.value)
    for part in (value, repr(value)[1:-1], value[:30]):
        assert part not in output
    assert "${KEY}" in output or "[REDACTED:" in output
    assert output.isprintable()


def test_values_that_look_like_secrets_are_not_shown(config):
    for given in (
        ({"mode": SECRET}, {}, ""),
        ({}, {"PENUMBRA_MODE": SECRET}, ""),
        ({}, {}, config(f"pipes: {{tool_output: {{mode: {SECRET}}}}}")),
        ({}, {}, config(f"pipes: [{SECRET}]")),
    ):
        with pytest.raises(SettingsError) as error:
            load(*given)
        assert SECRET[:30] not in str(error.value)
        assert "got " in str(error.value)


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("https://llm.example.com/v1", "without scheme, port or path, did you mean 'llm.example.com'?"),
        ("llm.example.com:8443", "without scheme, port or path, did you mean 'llm.example.com'?"),
        ("llm.example.com/v1", "without scheme, port or path, did you mean 'llm.example.com'?"),
        ("a.example,http://b.example", "without scheme, port or path, did you mean 'b.example'?"),
        ("llm example", "for example llm.example.com or *.example.com"),
        ("a;b", "for example llm.example.com or *.example.com"),
        ("http://", "for example llm.example.com or *.example.com"),
        (".example.com", "did you mean '*.example.com'?"),
        ("llm..example.com", "for example llm.example.com or *.example.com"),
        (".", "for example llm.example.com or *.example.com"),
    ],
)
def test_hosts_that_can_never_match_are_refused(value, allowed):
    assert (
        error_of({"hosts": value}, {}) == f"penumbra_hosts: got {value!r}, allowed: names of hosts, {allowed}"
    )


def test_hosts_of_every_kind():
    names = "llm.example.com, *.example.org, 10.0.0.7, ::1, 192.168.*, gpu-1, bücher.example, [ab]?.x, my_llm"
    assert len(load({"hosts": names}, {}).hosts) == 9


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"penumbra_config: got '.*none.yaml': No such file"):
        load({}, {}, str(tmp_path / "none.yaml"))


def test_skip_tools_as_the_field_writes_it(config):
    path = config("pipes: {tool_output: {skip_tools: {categories: [read, edit]}}}")
    assert load({}, {}, path).skip_tools == {"read", "edit"}


def test_the_policy_is_lossy_only_if_the_model_can_expand_or_the_operator_allows_it():
    assert not Settings().policy(can_expand=False).lossy
    assert Settings().policy(can_expand=True).lossy
    assert Settings(lossy="on").policy(can_expand=False).lossy
    assert not Settings(lossy="off").policy(can_expand=True).lossy
    assert Settings(strategy="passthrough").policy(can_expand=True).mode is Mode.DISABLED
    assert Settings(strategy="api").policy(can_expand=True).mode is Mode.STANDARD
    fallback = Settings(strategy="api", fallback_strategy="passthrough")
    assert fallback.policy(can_expand=True).mode is Mode.DISABLED
    assert Settings(strategy="pipeline+api").policy(can_expand=True).mode is Mode.STANDARD


def test_the_database_lies_in_the_users_state_folder(tmp_path):
    assert settings.database_path(Settings(database="memory")) is None
    # SQLite's name for a database in memory makes no file.
    assert settings.database_path(Settings(database=":memory:")) is None
    found = settings.database_path(Settings(), {"XDG_STATE_HOME": str(tmp_path)})
    assert found == tmp_path / "penumbra" / "penumbra.sqlite"
    assert settings.database_path(Settings(database=str(tmp_path / "x.db"))) == tmp_path / "x.db"


@pytest.mark.parametrize(
    ("options", "config", "expected"),
    [
        ({}, "", "penumbra_database: no home folder is known for '~/.local/state/"),
        ({"database": "~/x.db"}, "", "penumbra_database: no home folder is known for '~/x.db'"),
        ({}, "~/p.yaml", "penumbra_config: got '~/p.yaml': No such file"),
    ],
)
def test_a_home_that_is_not_known_is_reported(monkeypatch, options, config, expected):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert error_of(options, {}, config).startswith(expected)
    assert load({"database": "memory"}, {}).database == "memory"
    assert load({}, {"XDG_STATE_HOME": "/s"}).database == ""


def test_a_key_of_the_wrong_shape_is_not_shown(config):
    assert (
        error_of({}, {}, config("pipes: {tool_output: {api: {api_key: [hunter2]}}}"))
        == "pipes.tool_output.api.api_key: got (hidden), allowed: text"
    )


def test_traces_without_their_package_end_the_start(monkeypatch):
    monkeypatch.setattr("penumbra.config.settings.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"^penumbra_traces: needs the package opentelemetry-exporter"):
        load({"traces": "on"}, {})


def test_two_letters_in_each_others_place_are_a_misspelling():
    assert unknown_options(["penumbra_moed", "mode", "penumbra_xyz"]) == [
        "penumbra_moed: unknown option, did you mean penumbra_mode?",
        "penumbra_xyz: unknown option, `penumbra proxy --help` names all",
    ]


def test_a_misspelt_name_without_its_prefix_is_an_error_unless_mitmproxy_has_it():
    mitmproxys = ["mode", "listen_port", "confdir", "stickycookie", "server", "rfile"]
    names = ["moed", "redact_scope", "min_byte", "listen_prot", "confdri", "my_addons_own", "penumbra_moed"]
    assert unprefixed_options(names, mitmproxys) == [
        "moed: unknown option, did you mean penumbra_mode, or mitmproxy's mode?",
        "redact_scope: unknown option, did you mean penumbra_redact_scope?",
        "min_byte: unknown option, did you mean penumbra_min_bytes?",
    ]


def test_a_retired_option_is_ignored_and_its_replacement_is_named(config):
    path = config("penumbra: {calls_at_once: many, min_bytes: 7}")
    read = load({}, {"PENUMBRA_REQUEST_BUDGET": "0", "FORGE_TOOL_OUTPUT_COMPRESSION_METHOD": "lzw"}, path)
    assert read == Settings(
        min_bytes=7,
        retired=("penumbra.calls_at_once", "PENUMBRA_REQUEST_BUDGET", "FORGE_TOOL_OUTPUT_COMPRESSION_METHOD"),
    )
    gone = "this option is no longer read; instead"
    assert list(remarks(read)) == [
        f"penumbra.calls_at_once: {gone}: 10 calls at once",
        f"PENUMBRA_REQUEST_BUDGET: {gone}: 5 seconds of processor time for the new results of a request",
        f"FORGE_TOOL_OUTPUT_COMPRESSION_METHOD: {gone}: no mode spells dictionaries",
    ]
    names = [f"penumbra_{name}" for name in RETIRED]
    assert [line.partition(":")[0] for line in retired_options([*names, "penumbra_mode", "mode"])] == names
    assert unknown_options(names) == settings.unknown_variables(map(str.upper, names)) == []
    assert not RETIRED.keys() & {option.name for option in OPTIONS}
