"""What is remembered of results: by what it is found, and what a file may say."""

import pytest

from penumbra.explain.result_facts import ResultFacts, ResultMemory, listed, read_all

FACTS = ResultFacts("c1", "Bash", "shortened", "", (90, 4), (30, 1), ("terminal",), secrets={"a": 1}, ref="r")
OTHER = ResultFacts("c1", "Bash", "shortened", "", (70, 4), (20, 1))


def test_it_comes_back_out_of_a_flow():
    assert read_all(listed([FACTS, OTHER])) == [FACTS, OTHER]
    assert read_all(listed([OTHER], listed([FACTS]))) == [FACTS, OTHER]


@pytest.mark.parametrize(
    "junk", [None, 7, "x", {"call": 1}, [[]], [None], [{}], [{**FACTS.record(), "bytes": [1, "2"]}]]
)
def test_a_file_may_say_anything(junk):
    assert read_all(junk) == []


def test_it_is_found_by_what_was_sent():
    memory = ResultMemory()
    memory.put("s", FACTS, "sent", 7)
    memory.put("s", OTHER, "SENT", 8)
    assert memory.get("s", "c1", "Bash", "sent") == (FACTS, 7)
    assert memory.get("s", "c1", "Bash", "SENT") == (OTHER, 8)
    assert memory.get("t", "c1", "Bash", "sent") == (None, 0)
    assert memory.references() == {"r": 7}
    memory.clear()
    assert memory.get("s", "c1", "Bash", "sent") == (None, 0)


def test_of_saved_ones_that_differ_nothing_is_said():
    memory = ResultMemory()
    memory.learn("s", [FACTS])
    assert memory.get("s", "c1", "Bash", "sent") == (FACTS, 0)
    memory.learn("s", [OTHER])
    assert memory.get("s", "c1", "Bash", "sent") == (None, 0)
