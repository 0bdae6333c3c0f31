"""What is logged of what watches bring."""

import pytest

from kubeshare_py.domain.events import NodeGone
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.edges.scheduler.watched_events import logged
from kubeshare_py.manifests.events import BadAllocation
from kubeshare_py.manifests.watch import Problem


def test_events_go_on_and_problems_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    gone = NodeGone(NodeName("n"))
    problem = Problem(text="odd", namespace="ns", name="x", uid="u")
    bad = BadAllocation(PodKey("ns", "p"), "is empty")
    assert list(logged([problem, gone, bad])) == [gone]
    said = [(record.getMessage(), record.__dict__["fields"]) for record in caplog.records]
    assert said == [
        ("unreadable", {"object": "ns/x", "uid": "u", "message": "odd"}),
        ("allocation", {"pod": "ns/p", "message": "is empty"}),
    ]
