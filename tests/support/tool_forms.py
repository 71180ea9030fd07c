"""Forms in which tools print a text, each with a lenient reader."""

import base64
import binascii
import html
import re
from collections.abc import Callable
from dataclasses import dataclass

_PLACEHOLDER = re.compile(r"\[REDACTED:[^\]]*\]")


@dataclass(frozen=True)
class Form:
    """A `Form` prints a text with `show` and reads a print with `read`."""

    show: Callable[[str], str]
    read: Callable[[str], str]


def _lines(data: bytes, width: int = 16) -> list[tuple[int, bytes]]:
    return [(at, data[at : at + width]) for at in range(0, len(data), width)]


def _visible(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def _hexdump(text: str) -> str:
    rows = []
    for at, row in _lines(text.encode()):
        halves = "  ".join(" ".join(f"{byte:02x}" for byte in half) for half in (row[:8], row[8:]))
        rows.append(f"{at:08x}  {halves:<48}  |{_visible(row)}|\n")
    return "".join(rows) + f"{len(text):08x}\n"


def _xxd(text: str) -> str:
    rows = []
    for at, row in _lines(text.encode()):
        cells = " ".join(row[pair : pair + 2].hex() for pair in range(0, len(row), 2))
        rows.append(f"{at:08x}: {cells:<39}  {_visible(row)}\n")
    return "".join(rows)


def _od_x(text: str) -> str:
    rows = [f"{at:07o} {' '.join(f'{byte:02x}' for byte in row)}\n" for at, row in _lines(text.encode())]
    return "".join(rows) + f"{len(text):07o}\n"


_OD = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def _od_c(text: str) -> str:
    rows = []
    for at, row in _lines(text.encode()):
        shown = (_OD.get(chr(byte)) or (chr(byte) if 32 <= byte < 127 else f"{byte:03o}") for byte in row)
        cells = "".join(f"{cell:>4}" for cell in shown)
        rows.append(f"{at:07o}{cells}\n")
    return "".join(rows) + f"{len(text):07o}\n"


def _read_dump(shown: str) -> str:
    """Return both columns, one text after the other."""
    hexadecimal, visible = [], []
    for line in shown.split("\n"):
        rest = _PLACEHOLDER.sub("", line.partition(" ")[2])
        _, _, column = rest.strip().partition("  ") if "|" not in rest else rest.partition("|")
        digits = "".join(re.findall(r"\b[0-9a-f]{2}(?:[0-9a-f]{2})?\b", rest[:49]))
        hexadecimal.append(binascii.unhexlify(digits).decode("latin-1"))
        visible.append((column or "").strip("|"))
    return "".join(hexadecimal) + "\n\n" + "".join(visible)


def _read_od_c(shown: str) -> str:
    escapes = {shown: letter for letter, shown in _OD.items()}
    found = []
    for line in shown.split("\n"):
        cells = _PLACEHOLDER.sub("", line)[7:]
        found += [cells[at : at + 4].strip() for at in range(0, len(cells), 4)]
    return "".join(escapes.get(cell, cell if len(cell) == 1 else "") for cell in found)


def _wrapped_base64(width: int) -> Form:
    def show(text: str) -> str:
        whole = base64.b64encode(text.encode()).decode()
        return "".join(f"{whole[at : at + width]}\n" for at in range(0, len(whole), width))

    def read(shown: str) -> str:
        found = []
        for line in shown.split("\n"):
            line = line[: len(line) // 4 * 4]
            if re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", line):
                found.append(base64.b64decode(line).decode("latin-1"))
        return "".join(found)

    return Form(show, read)


def _box(bar: str, width: int) -> Form:
    def show(text: str) -> str:
        rows = []
        for number, line in enumerate(text.split("\n")):
            pieces = [line[at : at + width] for at in range(0, len(line), width)] or [""]
            rows += [
                f"{bar} {number if at == 0 else '':<3} {bar} {piece:<{width}} {bar}\n"
                for at, piece in enumerate(pieces)
            ]
        return "".join(rows)

    def read(shown: str) -> str:
        return "".join(line.split(bar)[2].strip() for line in shown.split("\n") if line.count(bar) > 2)

    return Form(show, read)


def _each(form: Callable[[int], str], joint: str, begin: str, end: str, read: Callable[[str], str]) -> Form:
    """Return every byte of the text by itself."""
    return Form(lambda text: begin + joint.join(form(byte) for byte in text.encode()) + end, read)


def _numbers(base: int) -> Callable[[str], str]:
    pattern = {10: r"\b([0-9]{2,3})\b", 16: r"\b(?:0x)?([0-9a-f]{2})\b", 8: r"\\([0-7]{3})"}[base]

    def read(shown: str) -> str:
        return "".join(chr(int(number, base)) for number in re.findall(pattern, shown))

    return read


def _letters(pattern: str) -> Callable[[str], str]:
    return lambda shown: "".join(re.findall(pattern, shown))


def _node_array(text: str) -> str:
    data = text.encode()
    rows = (", ".join(f"{byte:>3}" for byte in row) for _, row in _lines(data, 12))
    return f"Uint8Array({len(data)}) [\n  " + ",\n  ".join(rows) + "\n]\n"


def _rust_ascii(byte: int) -> str:
    return f"b'{chr(byte)}'" if byte not in b"\n'" else {10: r"b'\n'", 39: r"b'\''"}[byte]


def _unwritten(shown: str) -> str:
    return shown.replace("\0", "").replace("^@", "").replace(r"\u0000", "").replace(r"\x00", "")


FORMS = {
    "plain": Form(str, str),
    "hexdump -C": Form(_hexdump, _read_dump),
    "xxd": Form(_xxd, _read_dump),
    "od -t x1": Form(_od_x, _read_dump),
    "od -c": Form(_od_c, _read_od_c),
    "utf-16, nul": Form(lambda text: "".join(f"{each}\0" for each in text), _unwritten),
    "utf-16, ^@": Form(lambda text: "".join(f"{each}^@" for each in text), _unwritten),
    r"utf-16, \u0000": Form(lambda text: "".join(rf"{each}\u0000" for each in text), _unwritten),
    r"utf-16, \x00": Form(lambda text: "".join(rf"{each}\x00" for each in text), _unwritten),
    "base64, 76 columns": _wrapped_base64(76),
    "base64, 64 columns": _wrapped_base64(64),
    "box |": _box("|", 24),
    "box │": _box("│", 36),
    "&#NN;": _each(lambda byte: f"&#{byte};", "", "<p>", "</p>\n", html.unescape),
    "&#xNN;": _each(lambda byte: f"&#x{byte:x};", "", "<p>", "</p>\n", html.unescape),
    "&quot;": Form(lambda text: f"<pre>{html.escape(text)}</pre>", html.unescape),
    r"\NNN": _each(lambda byte: f"\\{byte:03o}", "", "'", "'\n", _numbers(8)),
    r"\xNN": _each(lambda byte: f"\\x{byte:02x}", "", "'", "'\n", _letters(r"\\x..")),
    "<Buffer>": _each(lambda byte: f"{byte:02x}", " ", "<Buffer ", ">\n", _numbers(16)),
    "[103, 104]": _each(str, ", ", "[", "]\n", _numbers(10)),
    "[103 104]": _each(str, " ", "[", "]\n", _numbers(10)),
    "Uint8Array": Form(_node_array, _numbers(10)),
    "new byte[] {}": _each(str, ", ", "new byte[] {", "};\n", _numbers(10)),
    "[]byte{0x67}": _each(lambda byte: f"0x{byte:02x}", ", ", "[]byte{", "}\n", _numbers(16)),
    "b'g', b'h'": _each(_rust_ascii, ", ", "[", "]\n", _letters(r"b'(.)'")),
    "word diff": Form(
        lambda text: re.sub(r"(?m)(=|: |://\w+:)(\S{6,})$", r"\1[-none-]{+\2+}", text), lambda shown: shown
    ),
}
