"""Private keys without a use."""

import random
import string

B64 = string.ascii_letters + string.digits + "+/"


def lines_of_key(seed: int, count: int = 12, width: int = 64) -> list[str]:
    rnd = random.Random(seed)
    body = ["".join(rnd.choice(B64) for _ in range(width)) for _ in range(count)]
    return [*body, "".join(rnd.choice(B64) for _ in range(22)) + "=="]


def armour(kind: str, body: list[str]) -> str:
    return "\n".join([f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----", ""])
