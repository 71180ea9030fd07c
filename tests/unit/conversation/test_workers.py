"""State that threads share."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAPS = """
import ctypes, sys, threading
from penumbra.conversation.workers import share_heap
if sys.argv[1] == "shared":
    share_heap()
gate = threading.Barrier(4)
def allocate():
    held = [bytearray(20_000) for _ in range(50)]
    gate.wait(30)
threads = [threading.Thread(target=allocate) for _ in range(3)]
for thread in threads:
    thread.start()
gate.wait(30)
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_all_threads_have_one_heap() -> None:
    def heaps(how: str) -> int:
        said = subprocess.run([sys.executable, "-c", HEAPS, how], capture_output=True, text=True, check=True)
        return said.stdout.count("<heap nr=")

    if heaps("each its own") < 2:
        pytest.skip("the C library has one heap anyway")
    assert heaps("shared") == 1
