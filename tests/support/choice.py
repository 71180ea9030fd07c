"""Which of the collected tests run: `--fast`, `--sample`, `--all`, and without them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from support import cases, cuts, examples, mitm

ALL_HELP = (
    "leave nothing to a sample: every cut of long streams, every input, every combination of parameters"
)
FAST_HELP = (
    "only tests that start no proxy, with a third of the inputs, an eighth of the cuts and every fourth case; "
    "where neither files nor words are given, every third test of each file"
)
FAST_STEP = 4
"""Of the cases of a long table."""
FAST_SAMPLE = 6
"""The `--sample` of a fast run."""
PROXY_FIXTURES = {"shared_proxies", "own_proxy", "signing_proxy"}


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help=FAST_HELP)
    parser.addoption("--all", action="store_true", help=ALL_HELP)
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="of each file every Nth test with a proxy and twice as many of the others, and every Nth of their cases",
    )
    parser.addoption(
        "--case",
        default="",
        metavar="WORDS",
        help="of tests with a table, the cases alone whose name has the words",
    )


def configure(config: pytest.Config) -> None:
    fast = config.getoption("--fast")
    names_some = config.args_source is not pytest.Config.ArgsSource.TESTPATHS or config.option.keyword
    if fast and not (names_some or config.getoption("--all")):
        # The processes that run the tests are told of it by this option.
        config.option.sample = max(config.option.sample, FAST_SAMPLE)
    cuts.EVERYWHERE = examples.ALL = config.getoption("--all")
    cuts.FEW = examples.FEW = fast and not examples.ALL
    cases.ONLY, cases.STEP = config.getoption("--case"), config.getoption("--sample")
    if examples.FEW and not cases.ONLY:
        cases.STEP = max(cases.STEP, FAST_STEP)
    mitm.ALLOWED = not fast
    # How fast inputs are made says more of the machine than of the code.
    settings.register_profile("tests", suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("tests")


def needs_proxy(item: pytest.Item) -> bool:
    return item.nodeid.startswith("tests/proxy/") or bool(
        PROXY_FIXTURES & set(getattr(item, "fixturenames", ()))
    )


def is_left_alone(path: Path, config: pytest.Config) -> bool:
    """Whether a file need not even be read."""
    return bool(config.getoption("--fast")) and path == config.rootpath / "tests" / "proxy"


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests with a proxy, and leaves out what the options leave out."""
    for item in items:
        if needs_proxy(item):
            item.add_marker("proxy")
    if config.getoption("--fast"):
        _leave_out(config, items, [item for item in items if item.get_closest_marker("proxy")])
    if examples.FEW:
        _leave_out(config, items, _cases_too_many(items))
    if not config.getoption("--all"):
        _leave_out(config, items, _not_in_pairs(items))
    if (step := config.getoption("--sample")) > 1:
        _leave_out(config, items, _not_in_sample(items, step))


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        out = set(left_out)
        items[:] = [item for item in items if item not in out]


def _not_in_pairs(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of tests with a proxy and three or more parameters as many cases stay as it takes for every two values to
    meet."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("proxy"):
            tests[item.nodeid.partition("[")[0]].append(item)
    return [item for of_test in tests.values() for item in set(of_test) - _pairwise(of_test)]


def _pairwise(of_test: list[pytest.Item]) -> set[pytest.Item]:
    names = {item: _names_of_values(item) for item in of_test}
    return cases.in_pairs(names) if all(len(each) > 2 for each in names.values()) else set(of_test)


def _names_of_values(item: pytest.Item) -> list[str]:
    """One for each `parametrize`; pytest has them as a part of the case's name only, joined."""
    return list(getattr(getattr(item, "callspec", None), "_idlist", ()))


def _cases_too_many(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of tests with many cases all but every fourth, of the longest all but about a dozen."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    return [
        item
        for test, of_test in tests.items()
        if len(of_test) > cases.LONG_TABLE
        for item in _cases_not_in_sample(test, of_test, max(FAST_STEP, len(of_test) // 12))
    ]


def _not_in_sample(items: list[pytest.Item], step: int) -> list[pytest.Item]:
    """Of each file every Nth test with a proxy stays, and twice as many of the others, but at least one of each;
    of a test with many cases every Nth of them, of the longest tables about a dozen. Names decide where the count
    begins, so that files and tests of one make don't all run the same.
    """
    files: dict[tuple[str, bool], dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        file, _, _ = item.nodeid.partition("::")
        with_proxy = item.get_closest_marker("proxy") is not None
        files[file, with_proxy][item.nodeid.partition("[")[0]].append(item)
    left_out = []
    for (file, with_proxy), tests in files.items():
        every = step if with_proxy else max(1, step // 2)
        first = crc32(file.encode()) % min(every, len(tests))
        for at, (test, of_test) in enumerate(tests.items()):
            if at % every != first:
                left_out += of_test
            elif len(of_test) > (2 if with_proxy else cases.LONG_TABLE):
                left_out += _cases_not_in_sample(
                    test, of_test, step if with_proxy else max(step, len(of_test) // 12)
                )
    return left_out


def _cases_not_in_sample(test: str, of_test: list[pytest.Item], stride: int) -> list[pytest.Item]:
    first = crc32(test.encode()) % min(stride, len(of_test))
    return [item for at, item in enumerate(of_test) if at % stride != first]
