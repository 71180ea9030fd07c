"""The interpreter that the scripts choose."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PYENV = """#!/bin/sh
echo {root}
"""


def install(folder, name, version):
    """Install a program that behaves like a Python of this version; `broken` behaves like pyenv's where no
    version is chosen."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    minor = version.partition(".")[2]
    program.write_text(
        f"#!/bin/sh\ncase \"$2\" in *'(3, {minor})'*) exit 0 ;; *print*) echo {version} ;; *) exit 1 ;; esac\n"
    )
    if version == "broken":
        program.write_text("#!/bin/sh\necho command not found >&2\nexit 127\n")
    program.chmod(0o755)


def found(tmp_path, **more):
    """Return the versions that are found, in order."""
    ran = subprocess.run(
        [
            "/bin/sh",
            "-eu",
            "-c",
            ". scripts/interpreters; for found in $(pythons); do python_version $found; done",
        ],
        cwd=ROOT,
        env={"PATH": f"{tmp_path / 'bin'}:{tmp_path / 'tools'}", "HOME": str(tmp_path / "home"), **more},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stderr == ""
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("on_path", "of_pyenv", "expected"),
    [
        ({"python3": "3.11"}, [], ["3.11"]),
        ({"python3": "3.12"}, [], ["3.12"]),
        ({"python3": "3.11", "python3.12": "3.12", "python3.13": "3.13"}, [], ["3.13", "3.12", "3.11"]),
        ({"python3": "3.11", "python3.13": "broken"}, ["3.12.1", "3.11.7"], ["3.12", "3.11"]),
        ({"python3": "3.11", "python3.13": "broken"}, ["3.13.0"], ["3.13", "3.11"]),
        ({"python3": "3.11", "python3.14": "3.14"}, [], ["3.14", "3.11"]),
        ({"python3": "3.10"}, [], []),
        ({}, [], []),
    ],
)
def test_the_newest_that_is_known_to_work_comes_first(tmp_path, on_path, of_pyenv, expected):
    (tmp_path / "bin").mkdir()
    for name, version in on_path.items():
        install(tmp_path / "bin", name, version)
    for version in of_pyenv:
        install(tmp_path / "pyenv/versions" / version / "bin", "python", version.rpartition(".")[0])
    if of_pyenv:
        pyenv = tmp_path / "bin" / "pyenv"
        pyenv.write_text(PYENV.format(root=tmp_path / "pyenv"))
        pyenv.chmod(0o755)
    assert found(tmp_path) == expected


@pytest.mark.parametrize("named", [True, False])
def test_pyenv_need_not_be_on_the_path(tmp_path, named):
    """The path may have only pyenv's wrappers, as where an editor or a service starts the scripts."""
    root = tmp_path / ("elsewhere" if named else "home/.pyenv")
    (tmp_path / "bin").mkdir()
    install(tmp_path / "bin", "python3.13", "broken")
    install(tmp_path / "bin", "python3", "3.11")
    install(root / "versions/3.13.0/bin", "python", "3.13")
    assert found(tmp_path, **({"PYENV_ROOT": str(root)} if named else {})) == ["3.13", "3.11"]
