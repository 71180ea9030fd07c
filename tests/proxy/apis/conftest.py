"""A proxy that may sign requests to Amazon anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.callers import SIGNING
from support.agents.model import CAP
from support.mitm import Mitmdump
from support.mitm.starter import Starter
from support.upstream import Upstream


@pytest.fixture(scope="session")
def signing_proxy(
    provider: Upstream, confdir: Path, starter: Starter | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mitmdump]:
    """A proxy that has the keys that the test provider knows. Tests must not change it."""
    options = {"penumbra_aws_signing": "environment", "penumbra_max_output_bytes": CAP}
    home = tmp_path_factory.mktemp("signing")
    running = Mitmdump(provider, confdir, home, options=options, environment=SIGNING, starter=starter)
    running.start()
    yield running
    running.stop()
