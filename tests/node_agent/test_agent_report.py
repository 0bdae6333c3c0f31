"""The annotation of a node agent."""

import json
from typing import Any

from kubeshare_py.dialects.agent_annotation import read_agent
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.domain.node import KubeletPick
from kubeshare_py.node_agent.agent_report import (
    ANNOTATION,
    MAX_BYTES,
    HeldCards,
    PartReport,
    written,
)

GEMINI = PartReport(enforces=(IsolationBackend.GEMINI,))


def held(name: str, *cards: str) -> HeldCards:
    return HeldCards(PodUid(f"uid-{name}"), PodKey("ml", name), tuple(map(GpuUuid, cards)))


def read(*reports: PartReport) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written(reports))
    return found


def test_the_parts_of_the_agent_report_together() -> None:
    memory = "aliyun.com/gpu-mem"
    plugins = PartReport(plugins=(memory,), unit={memory: "GiB"}, held=(held("a", "GPU-2"),))
    assert read(plugins, GEMINI) == {
        "v": 1,
        "plugins": [memory],
        "unit": {memory: "GiB"},
        "held": [{"uid": "uid-a", "ns": "ml", "pod": "a", "cards": ["GPU-2"]}],
        "enforces": ["gemini"],
    }


def test_nothing_held_and_not_known_are_two_things() -> None:
    assert read(PartReport(held=()))["held"] == []
    assert "held_truncated" not in read(PartReport(held=()))
    assert read(GEMINI)["held_truncated"] is True


def test_the_same_report_is_the_same_text() -> None:
    one, other = held("a", "GPU-2", "GPU-1"), held("b", "GPU-3")
    assert written([PartReport(held=(one, other))]) == written([PartReport(held=(other, one))])


def test_what_several_parts_see_of_one_pod_is_one_entry() -> None:
    """The scheduler takes no annotation in which a pod is twice."""
    one, other = PartReport(held=(held("a", "GPU-2"),)), PartReport(held=(held("a", "GPU-1"),))
    assert [pod["cards"] for pod in read(one, other)["held"]] == [["GPU-1", "GPU-2"]]


def test_the_scheduler_reads_what_is_written() -> None:
    report = PartReport(plugins=("nvidia.com/gpu",), held=(held("a", "GPU-1"),))
    words = read_agent({ANNOTATION: written([report, GEMINI])})
    pick = KubeletPick(PodUid("uid-a"), (GpuUuid("GPU-1"),))
    assert (words.plugins, words.picks) == (("nvidia.com/gpu",), (pick,))
    assert read_agent({ANNOTATION: written([GEMINI])}).picks is None


def test_what_is_too_long_is_left_out_as_a_whole_and_said_so() -> None:
    many = tuple(held(f"p{number}", f"GPU-{number:036}") for number in range(300))
    found = read(PartReport(plugins=("nvidia.com/gpu",), held=many))
    assert (found["held"], found["held_truncated"]) == ([], True)
    assert found["plugins"] == ["nvidia.com/gpu"]
    assert len(written([PartReport(held=many[:100])])) <= MAX_BYTES
    assert "held_truncated" not in read(PartReport(held=many[:100]))
