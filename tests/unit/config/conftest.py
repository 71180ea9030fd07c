"""A fixture that the tests of settings share."""

import pytest


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "penumbra.yaml"
        path.write_text(text)
        return str(path)

    return write
