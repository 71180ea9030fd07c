"""Work in threads, and the state that threads share."""

import asyncio
import subprocess
import sys
import threading

import pytest

from penumbra.conversation.workers import Workers, WorkOwner

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


def test_after_the_end_no_work_waits_forever() -> None:
    caller = WorkOwner("203.0.113.7", b"one")

    async def go() -> None:
        workers, begun, gate = Workers(), asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def first() -> int:
            loop.call_soon_threadsafe(begun.set)
            return 7 if gate.wait(30) else 0

        in_progress = asyncio.create_task(workers.run(caller, first))
        await begun.wait()
        waiting = asyncio.create_task(workers.run(caller, int))
        await asyncio.sleep(0)
        gate.set()
        workers.close()
        assert await in_progress == 7
        with pytest.raises(RuntimeError):
            await waiting
        for _ in range(2):
            with pytest.raises(RuntimeError):
                await workers.run(caller, int)

    asyncio.run(asyncio.wait_for(go(), 30))
