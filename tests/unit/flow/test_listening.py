"""Addresses of this machine."""

import pytest

from penumbra.wire.request_path import is_this_machine


@pytest.mark.parametrize(
    ("address", "own"),
    [
        *(
            (address, True)
            for address in ("127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1")
        ),
        *((address, False) for address in ("203.0.113.9", "2001:db8::9", "::ffff:203.0.113.9")),
    ],
)
def test_addresses_of_this_machine_are_recognised(address, own):
    assert is_this_machine(address) is own
