"""The annotation of a node's agent: usable words count, odd ones are refused as a whole."""

import json

import pytest

from kubeshare_py.dialects.agent_annotation import MAX_LENGTH, read_agent
from kubeshare_py.domain.identity import GpuUuid, PodUid
from kubeshare_py.domain.node import AGENT_ANNOTATION, NO_AGENT, AgentWords, KubeletPick


def agent(**words: object) -> AgentWords:
    return read_agent({AGENT_ANNOTATION: json.dumps({"v": 1, **words})})


def held(uid: str, *cards: str) -> dict[str, object]:
    return {"uid": uid, "ns": "default", "pod": "a", "cards": cards}


def test_a_node_without_the_annotation_has_no_agent() -> None:
    assert read_agent({"sharedgpu/cards": "[]"}) is NO_AGENT


def test_plugins_and_cards_of_pods_are_read_and_other_fields_are_not() -> None:
    found = agent(
        plugins=["nvidia.com/gpu", "aliyun.com/gpu-mem"],
        unit={"aliyun.com/gpu-mem": "GiB"},
        held=[held("u", "GPU-2", "GPU-1", "GPU-2")],
        enforces=["gemini"],
    )
    assert found == AgentWords(
        plugins=("aliyun.com/gpu-mem", "nvidia.com/gpu"),
        picks=(KubeletPick(PodUid("u"), (GpuUuid("GPU-1"), GpuUuid("GPU-2"))),),
    )


def test_a_list_that_is_not_complete_is_not_known() -> None:
    assert agent(held=[], held_truncated=True).picks is None


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ("\ud800", "surrogates not allowed"),
        ("[" * 10_000, "Expected `object`"),
        ('{"plugins":[]}', "missing required field `v`"),
        ('{"v":2}', "v is 2, and this version reads 1"),
        ('{"v":1,"plugins":"nvidia.com/gpu"}', "$.plugins"),
        ('{"v":1,"held":[{"uid":"u","cards":[7]}]}', "$.held[0].cards[0]"),
        ('{"v":1,"held":[{"uid":"","cards":[]}]}', "$.held[0].uid"),
        (json.dumps({"v": 1, "held": [held("u"), held("u")]}), "a pod is twice in held"),
        (json.dumps({"v": 1, "held": [held("u", *map(str, range(129)))]}), "length <= 128"),
        (json.dumps({"v": 1, "x": "a" * MAX_LENGTH}), f"are more than {MAX_LENGTH}"),
    ],
)
def test_odd_words_count_nothing(text: str, rule: str) -> None:
    found = read_agent({AGENT_ANNOTATION: text})
    assert found == AgentWords(problem=found.problem)
    assert found.problem.startswith(f"{AGENT_ANNOTATION}: ")
    assert rule in found.problem
