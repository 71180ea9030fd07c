"""Refusals of requests that can't be searched for secrets, in the shape of every API."""

from __future__ import annotations

import json

import pytest

from penumbra.apis import recognise
from penumbra.conversation.incoming import unsearched
from penumbra.redaction import RedactionError, TooLarge, Unreadable
from support.error_shapes import PATHS, said


def test_every_api_is_named() -> None:
    assert {api.id for api in recognise.apis()} == set(PATHS)
    for name, path in PATHS.items():
        found = recognise.by_request_line("POST", path)
        assert found is not None
        assert found.id == name


@pytest.mark.parametrize("error", [RedactionError("why"), TooLarge("why"), Unreadable("why")])
def test_refusals_have_the_shape_of_their_api(error: RedactionError) -> None:
    for api in recognise.apis():
        refused = unsearched(api, error)
        assert refused.status == error.status
        assert said(api.id, refused.status, json.loads(refused.body)).endswith(": why")
