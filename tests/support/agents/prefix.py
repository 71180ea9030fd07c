"""What was sent once is sent again with the same bytes."""

from __future__ import annotations

import itertools

import msgspec

from support.upstream import Received


def raw_members(received: Received) -> dict[str, bytes]:
    """The body's members with their very bytes."""
    assert received.body is not None
    decoded = msgspec.json.decode(received.body, type=dict[str, msgspec.Raw])
    return {name: bytes(value) for name, value in decoded.items()}


def assert_prefix_kept(requests: list[Received]) -> None:
    """Every request begins with the messages of the one before it, byte by byte."""
    bodies = [raw_members(request) for request in requests]
    assert len(bodies) > 1
    for earlier, later in itertools.pairwise(bodies):
        assert later["messages"].startswith(earlier["messages"].removesuffix(b"]") + b",")
        for name in earlier.keys() - {"messages"}:
            assert later[name] == earlier[name]
