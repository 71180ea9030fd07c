"""The figures in Prometheus's format."""

import json
import re
from pathlib import Path

from penumbra.expand.hidden_exchanges import Answered
from penumbra.metrics import exposition
from penumbra.metrics.journal import Journal
from penumbra.store.database import Database

DOCS = Path(__file__).resolve().parents[3] / "docs"
_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? ([0-9.e+-]+)', re.ASCII)


def test_every_line_is_valid() -> None:
    journal = Journal()
    journal.asked(None, [Answered("r", True, 5, 'a"b\\c', "grep")])
    journal.amounts.misses["expired"] += 2
    journal.seconds[0.005] += 3
    journal.seconds[float("inf")] += 1
    kinds: dict[str, str] = {}
    samples: dict[str, float] = {}
    for line in exposition.text(journal).rstrip("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = _SAMPLE.fullmatch(line)
            assert match, line
            name = match[1] if match[1] in kinds else re.sub(r"_(bucket|sum|count)$", "", match[1])
            assert (
                kinds[name] == "counter" if name.endswith("_total") else kinds[name] in ("gauge", "histogram")
            ), line
            assert line not in samples
            samples[line.rpartition(" ")[0]] = float(match[3])
    assert samples['penumbra_tool_expansions_total{tool="a\\"b\\\\c"}'] == 1
    assert samples['penumbra_cache_misses_total{cause="expired"}'] == 2
    assert samples['penumbra_added_seconds_bucket{le="0.0025"}'] == 0
    assert samples['penumbra_added_seconds_bucket{le="10"}'] == 3
    assert samples['penumbra_added_seconds_bucket{le="+Inf"}'] == samples["penumbra_added_seconds_count"] == 4


def test_the_local_database_has_metrics() -> None:
    database = Database(None, 1 << 20)
    text = exposition.text(Journal(), database=database.samples())
    database.close()
    assert re.search(r"^penumbra_database_up 1(\.0)?$", text, re.MULTILINE)
    assert "# TYPE penumbra_database_forgotten_rows_total counter\n" in text


def test_dashboard_names_existing_metrics_and_each_is_explained() -> None:
    text = exposition.text(Journal())
    there = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)) | {"penumbra_added_seconds_bucket"}
    board = json.loads((DOCS / "grafana.json").read_text())
    asked = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
    assert set(re.findall(r"penumbra_\w+", asked)) <= there
    explained = set(re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE))
    assert explained == there - {"penumbra_added_seconds_bucket"}
