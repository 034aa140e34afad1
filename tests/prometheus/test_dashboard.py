"""The dashboard in docs/: every metric and label that it names is there when a service runs."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from faststream_sql import SQLBroker, TestSQLBroker
from faststream_sql.prometheus import SQLPrometheusMiddleware, SQLQueueMetrics

DASHBOARD = json.loads((Path(__file__).parent.parent.parent / "docs" / "grafana.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
QUERIES = [variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable]


@pytest.fixture
async def labels() -> dict[str, set[str]]:
    """The labels of every sample that a service gives, by its name."""
    registry = CollectorRegistry()
    broker = SQLBroker("sqlite://", logger=None, middlewares=(SQLPrometheusMiddleware(registry=registry),))
    metrics = SQLQueueMetrics(broker, registry=registry)

    @broker.subscriber("emails", max_attempts=2, dead_letter="emails.dead")
    async def handle(body: str) -> None:
        raise ValueError(body)

    async with TestSQLBroker(broker) as br:
        with pytest.raises(ValueError, match="hello"):
            await br.publish("hello", "emails")
        await metrics.read()
        return {sample.name: set(sample.labels) for family in registry.collect() for sample in family.samples}


def test_it_asks_for_what_is_there(labels: dict[str, set[str]]) -> None:
    for expression in EXPRESSIONS:
        names = re.findall(r"faststream_\w+", expression)
        assert names, expression
        used = {label for inner in re.findall(r"\{(.*?)\}", expression) for label in re.findall(r"(\w+)=", inner)}
        used |= {label.strip() for inner in re.findall(r"\bby \((.*?)\)", expression) for label in inner.split(",")}
        for name in names:
            assert name in labels, expression
            assert used <= labels[name], expression


def test_its_variables_ask_for_what_is_there(labels: dict[str, set[str]]) -> None:
    assert len(QUERIES) == 2
    for query in QUERIES:
        found = re.fullmatch(r"label_values\((faststream_\w+)(?:\{(\w+)=~\"\$\w+\"\})?, (\w+)\)", query)
        assert found, query
        name, *used = found.groups()
        assert {label for label in used if label} <= labels[name]


def test_legends_name_labels_that_are_left() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            left = {label.strip() for inner in re.findall(r"\bby \((.*?)\)", target["expr"]) for label in inner.split(",")}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= left


def test_it_shows_every_metric_of_the_queues(labels: dict[str, set[str]]) -> None:
    ours = {name for name in labels if name.startswith("faststream_sql_")}
    assert ours <= set(re.findall(r"faststream_\w+", " ".join(EXPRESSIONS)))


def test_panels_have_their_own_place() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for one, other in combinations(DASHBOARD["panels"], 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in (("x", "w"), ("y", "h")))
