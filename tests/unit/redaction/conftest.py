import pytest

from penumbra.redaction.redactor import Redactor


@pytest.fixture(scope="session")
def redactor() -> Redactor:
    return Redactor(b"key of the tests")
