from __future__ import annotations

import pytest

from penumbra.redaction.engine import Redactor


@pytest.fixture(scope="session")
def redactor() -> Redactor:
    return Redactor(b"key of the tests")
