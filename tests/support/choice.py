"""Which of the collected tests run: `--fast`, `--sample`, and nothing left out otherwise."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from support import cases, cuts, examples, mitm

ALL_HELP = "cut long streams at every byte, not at a sample; try properties with three times as many inputs"
PROXY_FIXTURES = {"shared_proxies", "own_proxy", "signing_proxy"}


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only tests that start no proxy")
    parser.addoption("--all", action="store_true", help=ALL_HELP)
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="every Nth case of each test with a proxy, and of the long tables of other tests",
    )
    parser.addoption(
        "--case",
        default="",
        metavar="WORDS",
        help="of tests with a table, the cases alone whose name has the words",
    )


def configure(config: pytest.Config) -> None:
    cuts.EVERYWHERE = examples.ALL = config.getoption("--all")
    cases.ONLY, cases.STEP = config.getoption("--case"), config.getoption("--sample")
    mitm.ALLOWED = not config.getoption("--fast")
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
    left_out = []
    if config.getoption("--fast"):
        left_out = [item for item in items if item.get_closest_marker("proxy")]
    elif (step := config.getoption("--sample")) > 1:
        left_out = _not_in_sample(items, step)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        out = set(left_out)
        items[:] = [item for item in items if item not in out]


def _not_in_sample(items: list[pytest.Item], step: int) -> list[pytest.Item]:
    """All but every Nth case of each test with a proxy, and of others with a long table; of the longest tables
    about a dozen stay. One or two cases all run; the test's name decides where the count begins, so that tests
    with the same parameters don't all run the same of them.
    """
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    left_out = []
    for test, of_test in tests.items():
        with_proxy = of_test[0].get_closest_marker("proxy") is not None
        stride = step if with_proxy else max(step, len(of_test) // 12)
        first = crc32(test.encode()) % min(stride, len(of_test))
        if len(of_test) > (2 if with_proxy else cases.LONG_TABLE):
            left_out += [item for at, item in enumerate(of_test) if at % stride != first]
    return left_out
