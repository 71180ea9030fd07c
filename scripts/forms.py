"""Print which kinds of secrets redaction finds in which forms of print, and how far from their names.

usage: scripts/forms [--missed]
"""

from __future__ import annotations

import sys

from penumbra import redact
from support.secret_contexts import PLACED, PLACES
from support.secret_kinds import KINDS, is_left, text_with
from support.tool_forms import FORMS


def main() -> None:
    """Print a table of forms and kinds: `+` is found, `-` is missed, a blank is a form without that kind."""
    print(f"{'':20}" + "".join(f"{kind:>15}" for kind in KINDS))
    missed = total = 0
    for name, form in FORMS.items():
        row = f"{name:20}"
        for kind in KINDS:
            text, secret = text_with(kind)
            shown = form.show(text)
            redacted = redact(shown)
            is_found = redacted != shown and not is_left(
                secret.replace("\n", ""), form.read(redacted).replace("\n", "")
            )
            total, missed = total + 1, missed + (not is_found)
            row += f"{'+' if is_found else '-':>15}"
            if not is_found and "--missed" in sys.argv:
                print(f"--- {name}, {kind}\n{redacted}")
        print(row)
    print(f"{total - missed} of {total} found\n")
    _print_places()


def _print_places() -> None:
    """Print a table of kinds of places and of values, with the number that is found."""
    print(f"{'':20}" + "".join(f"{kind:>15}" for kind in PLACED))
    missed = 0
    for name, places in PLACES.items():
        row = f"{name:20}"
        for value in PLACED.values():
            left = [place for place in places if value in redact(place.replace("⟦⟧", value))]
            row += f"{f'{len(places) - len(left)}/{len(places)}':>15}"
            missed += len(left)
            if "--missed" in sys.argv:
                print(*(f"--- {name}: {place}\n" for place in left), sep="", end="")
        print(row)
    total = sum(map(len, PLACES.values())) * len(PLACED)
    print(f"{total - missed} of {total} found")


if __name__ == "__main__":
    main()
