"""A user's gitleaks.toml beside our rules, or instead of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.gitleaks_file import FILE, TEXT, TICKET
from support.mitm import NotStarted
from support.planted import GITHUB, anthropic, results


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    return path


def test_end_to_end(config: Path, own_proxy: Any, clients: Any, upstream: Any) -> None:
    proxy = own_proxy("reverse", penumbra_gitleaks_config=str(config))
    client, headers = clients.http(proxy), {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    for _ in range(2):
        answer = client.post(f"{proxy.url}/v1/messages", json=anthropic(TEXT), headers=headers)
        assert answer.status_code == 200
    for received in upstream.requests:
        [text] = results(received.json)
        assert TICKET not in text
        assert GITHUB not in text
        assert "[REDACTED:acme-ticket:" in text
    assert proxy.log().count("rule names-a-path: no regex, left out") == 1


def test_a_bad_file_ends_the_start_with_one_line(config: Path, own_proxy: Any) -> None:
    config.write_text("a = ")
    proxy = own_proxy("reverse", started=False, penumbra_gitleaks_config=str(config))
    with pytest.raises(NotStarted) as caught:
        proxy.start()
    lines = [line for line in str(caught.value).split("\n") if "penumbra_gitleaks_config" in line]
    assert len(lines) == 1
    assert "Traceback" not in str(caught.value)
