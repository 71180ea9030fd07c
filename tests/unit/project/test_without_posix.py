"""On systems without POSIX (Windows) every module is imported, a proxy starts, and `penumbra wrap` runs
programs.

A child process removes what such a system lacks, after importing the parts of the standard library and of
mitmproxy that have other ways there.
"""

import os
import subprocess
import sys
from pathlib import Path

import penumbra

_ROOT = Path(penumbra.__file__).parents[2]
_BLOCKED = """\
import asyncio, importlib.metadata, multiprocessing, os, pkgutil, pty, signal, socket, subprocess, sys, tempfile
import mitmproxy.tools.main, mitmproxy.tools.dump, mitmproxy.tools.web.master
for name in ("fcntl", "pwd", "grp", "termios", "tty", "pty", "resource"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "geteuid", "getuid", "getpgrp", "setpgid", "killpg", "fchmod", "tcsetpgrp",
             "tcgetpgrp", "mkfifo", "uname", "sched_getaffinity", "WIFSTOPPED", "O_NOFOLLOW", "O_NONBLOCK"):
    delattr(os, name)
for name in ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGTTOU", "SIGPIPE", "SIGSTOP", "SIGCONT"):
    delattr(signal, name)
"""


def _python(tmp_path: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(_ROOT / "addon"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", _BLOCKED + code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
    )


def test_every_module_is_imported(tmp_path: Path) -> None:
    found = _python(
        tmp_path,
        """\
import penumbra
from importlib import import_module
for found in pkgutil.walk_packages(penumbra.__path__, "penumbra."):
    if not found.name.endswith("__main__"):
        import_module(found.name)
print("all")
""",
    )
    assert (found.stdout, found.returncode) == ("all\n", 0), found.stderr


def test_proxy_starts_and_names_missing_features(tmp_path: Path) -> None:
    found = _python(
        tmp_path,
        """\
from mitmproxy import ctx
class Ends:
    def running(self):
        asyncio.get_running_loop().call_later(0.4, self.tell)
        asyncio.get_running_loop().call_later(0.5, ctx.master.shutdown)
    def tell(self):
        print("listens:", len(ctx.master.addons.get("proxyserver").listen_addrs()))
from mitmproxy import options
from mitmproxy.tools.dump import DumpMaster
async def main():
    master = DumpMaster(options.Options(listen_host="127.0.0.1", listen_port=0, confdir=os.getcwd()))
    master.addons.add(Ends())
    master.options.update(scripts=[sys.argv[1]])
    await master.run()
asyncio.run(main())
""",
        str(_ROOT / "addon" / "main.py"),
    )
    assert found.returncode == 0, found.stderr
    assert "this system has no file locks" in found.stdout
    assert "Traceback" not in found.stdout + found.stderr
    assert "listens: 1" in found.stdout


def test_program_runs_as_a_child(tmp_path: Path) -> None:
    found = _python(
        tmp_path,
        """\
from penumbra.cli import wrap
code = "import os, sys; print(os.environ['WHO'], sys.argv[1]); sys.exit(7)"
program = wrap.find(sys.executable, None)
sys.exit(wrap.run(program, ["python", "-c", code, "x"], {**os.environ, "WHO": "child"}))
""",
    )
    assert (found.stdout, found.returncode) == ("child x\n", 7), found.stderr


def test_pause_names_its_equivalent(tmp_path: Path) -> None:
    found = _python(tmp_path, "import penumbra.cli.pause as pause\npause.main(['pause'])\n")
    assert "`:penumbra.pause` and the page do the same" in found.stderr
