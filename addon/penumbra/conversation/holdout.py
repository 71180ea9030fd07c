"""Conversations that go through as they come, to be compared with the others.

A conversation is in an arm from its first request to its end, whatever becomes of the setting: what was sent
before must not change, and what was shortened can't be compared as if it was not. One that began before takes
no part. Secrets are taken out in both arms.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from penumbra.config.settings import Settings
from penumbra.conversation import read
from penumbra.conversation.model import Arm, Request
from penumbra.expand.reference import Caller
from penumbra.store.conversations import Conversations
from penumbra.store.records import HELD_OUT, NEITHER, SHORTENED, Arms

_WHOLE = 1 << 64


async def in_its_arm(
    request: Request,
    caller: Caller,
    together: str,
    key: bytes,
    arms: Arms,
    conversations: Conversations,
    *,
    is_whole: bool = True,
) -> Request:
    """The request, which knows its arm. `together`: as `session.together` has it; `key`: the
    installation's. `is_whole`: what is decided now will be known later, too."""
    settings = request.settings
    if not together:
        return request
    name = _hash(together.encode("utf-8", "surrogatepass"), caller.owner, b"penumbra arm")
    arm = (await arms.get([name])).get(name)
    if arm is None:
        if not (_compares(settings) and is_whole):
            return request
        begins = request.conversation.last_response < 0
        if begins and (await conversations.past(caller.conversation())).idle is None:
            arm = HELD_OUT if is_held_out(name, key, settings.holdout) else SHORTENED
        else:
            arm = NEITHER
        if not await arms.settle({name: arm}):
            there = await arms.get([name], latest=True)
            if not there:
                # The store failed in between: it is in this arm all the same, and has to be known later.
                await arms.settle({name: arm}, unasked=True)
            arm = there.get(name, arm)
    if arm == NEITHER:
        return request
    counted = settings.shortens and not settings.pause
    return replace(request, arm=Arm(arm, name[:8], counted))


def as_it_came(request: Request) -> Request:
    """The request by settings that leave it alone, with keys of its own: what became of the same results in a
    conversation that was shortened is not looked up for it."""
    possession = _hash(request.possession, b"", b"penumbra alone")
    return read.again(replace(request, settings=request.settings.held_out(), possession=possession))


def is_held_out(name: bytes, key: bytes, share: float) -> bool:
    """Whether a conversation goes through as it comes; `name`: a hash of it, `share`: from 0 to 1."""
    drawn = _hash(name, key[:64], b"penumbra drawn")
    return int.from_bytes(drawn[:8], "big") < share * _WHOLE


def _compares(settings: Settings) -> bool:
    return settings.holdout > 0 and settings.shortens and not settings.pause


def _hash(data: bytes, key: bytes, person: bytes) -> bytes:
    return hashlib.blake2b(data, key=key, digest_size=16, person=person).digest()
