"""Settings of external compressors: required keys, and the provider that is asked."""

import re
from pathlib import Path

import pytest

from penumbra.compress.result import Mode
from penumbra.config import settings
from penumbra.config.settings import SettingsError, load, remarks

EXTERNAL = """
providers:
  anthropic:
    auth: oauth
    model: claude-haiku-4-5-20251001
  openai: {api_key: "${OPENAI_API_KEY}", model: gpt-5-mini}
pipes:
  tool_output:
    enabled: true
    strategy: external_provider
    provider: anthropic
    fallback_strategy: passthrough
    min_bytes: 2048
    max_bytes: 65536
    target_ratio: 0.5
    enable_expand_context: true
    include_expand_hint: true
    skip_tools: [edit, write]
"""
API = """
pipes:
  tool_output:
    enabled: true
    strategy: api
    api:
      endpoint: https://compressor.example/v1
      api_key: "${COMPRESR_API_KEY}"
      model: ${MODEL:-small}
      timeout: 45s
      query_agnostic: false
"""


def test_the_external_snippet_needs_leave_to_spend_the_clients_credentials(config):
    path = config(EXTERNAL)
    with pytest.raises(SettingsError) as error:
        load({}, {}, path)
    assert str(error.value) == (
        "providers.anthropic.auth: oauth spends the clients' own credentials, "
        "which penumbra_allow_captured_credentials must allow"
    )
    loaded = load({"allow_captured_credentials": "yes"}, {"OPENAI_API_KEY": "k1"}, path)
    assert loaded.external_strategy == "external_provider"
    assert loaded.providers["anthropic"] == settings.Provider("oauth", "claude-haiku-4-5-20251001")
    assert loaded.providers["openai"].api_key == "k1"
    assert (loaded.min_bytes, loaded.max_bytes, loaded.target_ratio) == (2048, 65536, 0.5)
    assert loaded.skip_tools == {"edit", "write"}
    assert "k1" not in repr(loaded)


KNOWN = "anthropic, gemini, google, openai"
PROVIDERS = "providers: {anthropic: {api_key: k}, mine: {endpoint: 'http://10.0.0.7:8000'}}\n"


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ({"strategy": "api"}, "", "pipes.tool_output.api.endpoint: missing, needed by the strategy api"),
        ({"strategy": "pipeline+api"}, "pipes: {tool_output: {api: {endpoint: 'ftp://x/'}}}", "pipes.tool_output.api.endpoint: got 'ftp://x/', allowed: an http or https URL"),
        ({"strategy": "api"}, "pipes: {tool_output: {api: {endpoint: 'https://api.compresr.ai'}}}", "pipes.tool_output.api.api_key: missing, needed by the strategy api"),
        ({"strategy": "external_provider"}, "", f"pipes.tool_output.provider: missing, needed by external_provider, allowed: {KNOWN}"),
        ({"strategy": "external_provider", "provider": "antropic"}, PROVIDERS, "pipes.tool_output.provider: got 'antropic', allowed: anthropic, gemini, google, mine, openai"),
        ({"strategy": "external_provider", "provider": "openai"}, PROVIDERS, "providers.openai: missing, needed by the strategy external_provider"),
        ({"strategy": "external_provider", "provider": "mine"}, PROVIDERS, "providers.mine.model: missing, needed by the strategy external_provider"),
        ({"strategy": "external_provider"}, "providers: {openai: {model: m}}", "providers.openai.api_key: missing, needed by the strategy external_provider"),
        ({"strategy": "external_provider"}, "providers: {other: {model: m}}", f"providers.other.endpoint: missing, needed for a provider other than {KNOWN}"),
        ({"strategy": "external_provider"}, "providers: {openai: {auth: magic}}", "providers.openai.auth: got 'magic', allowed: api_key or oauth"),
        ({"strategy": "simple", "lossy": "off"}, "", "lossy: got 'off', allowed: auto or on with the strategy simple, which leaves things out"),
    ],
)  # fmt: skip
def test_missing_settings_of_a_strategy_are_named(config, options, text, message):
    with pytest.raises(SettingsError) as error:
        load(options, {}, config(text))
    assert str(error.value) == message
    assert load({**options, "mode": "off"}, {}, config(text)).mode is Mode.DISABLED


@pytest.mark.parametrize(
    ("options", "text", "outside"),
    [
        ({"strategy": "simple"}, "", "simple"),
        ({"strategy": " Pipeline + simple "}, "", "simple"),
        ({}, "pipes: {tool_output: {strategy: [pipeline, simple]}}", "simple"),
        ({"strategy": "passthrough"}, "", ""),
        ({}, "", ""),
        ({"strategy": "external_provider", "provider": "anthropic"}, PROVIDERS, "external_provider"),
        ({"strategy": "external_provider"}, "providers: {anthropic: {api_key: k}}", "external_provider"),
        ({"strategy": "api"}, "pipes: {tool_output: {api: {endpoint: 'http://127.0.0.1:9/'}}}", "api"),
    ],
)
def test_the_strategy_beside_the_pipeline(config, options, text, outside):
    assert load(options, {}, config(text)).external_strategy == outside


EXAMPLE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def test_every_example_of_the_page_starts(config):
    page = Path(__file__).resolve().parents[3] / "docs/options.md"
    examples = EXAMPLE.findall(page.read_text(encoding="utf-8"))
    loaded = [load({}, {"ANTHROPIC_API_KEY": "k"}, config(example)) for example in examples]
    captured = loaded[-1]
    assert (captured.external_strategy, settings.provider(captured)[1].auth) == ("external_provider", "oauth")
    assert list(remarks(captured)) == []


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("pipes: {tool_output: {api: {endpoint: 'http://a/', model: m}}}", "", ("", "m", "", "http://a/")),
        ("pipes: {tool_output: {api: {endpoint: 'https://api.anthropic.com', api_key: k}}}", "anthropic", ("", "", "k", "https://api.anthropic.com")),
        ("pipes: {tool_output: {provider: gemini, api: {api_key: k}}}", "gemini", ("", "", "k", "")),
        ("providers: {openai: {model: m}}\npenumbra: {allow_captured_credentials: true}", "openai", ("oauth", "m", "", "")),
    ],
)  # fmt: skip
def test_the_provider_of_the_strategy_external_provider(config, text, name, expected):
    loaded = load({"strategy": "external_provider"}, {}, config(text))
    assert settings.provider(loaded) == (name, settings.Provider(*expected))


@pytest.mark.parametrize(
    ("endpoint", "is_taken"),
    [
        ("https://api.anthropic.com", True),
        ("http://127.0.0.1:9", True),
        ("http://[::1]:9", True),
        ("http://localhost:9", True),
        ("http://api.anthropic.com:443", False),
        ("http://127.0.0.1.example:9", False),
    ],
)
def test_credentials_of_clients_go_over_no_open_wire(config, endpoint, is_taken):
    entry = f"providers: {{anthropic: {{auth: oauth, endpoint: '{endpoint}'}}}}\n"
    text = entry + "penumbra: {allow_captured_credentials: true}"
    if is_taken:
        assert load({"strategy": "external_provider"}, {}, config(text)).external_strategy
        return
    with pytest.raises(SettingsError, match="allowed with auth: oauth: an https URL"):
        load({"strategy": "external_provider"}, {}, config(text))


def test_a_provider_entry_completes_the_block_of_the_service(config):
    entry = "providers: {mine: {endpoint: 'http://a/', api_key: k, model: m}}\n"
    pipe = "pipes: {tool_output: {strategy: api, provider: mine, api: {timeout: 5s%s}}}"
    made = settings.service(load({}, {}, config(entry + pipe % "")))
    assert made == settings.CompressionService("http://a/", "k", "m", 5.0, False)
    # A key is valid for the endpoint in the same entry.
    other = settings.service(load({}, {}, config(entry + pipe % ", endpoint: 'http://b/'")))
    assert (other.endpoint, other.api_key) == ("http://b/", "")
    with pytest.raises(SettingsError, match="provider: got 'yours', allowed: mine"):
        load({"provider": "yours"}, {}, config(entry + pipe % ""))


def test_the_api_snippet_parses_with_variables(config):
    loaded = load({"strategy": "pipeline"}, {"COMPRESR_API_KEY": "secret"}, config(API))
    assert loaded.api == settings.CompressionService(
        "https://compressor.example/v1", "secret", "small", 45.0, False
    )
    assert load({"mode": "off"}, {}, config(API)).api.api_key == ""
