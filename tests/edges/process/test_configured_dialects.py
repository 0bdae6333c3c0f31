"""The dialects of a configuration: made once, and every error has its path."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.configuration.scheduler import ConfigurationError, read
from kubeshare_py.dialects.dialect import OwnedKeys
from kubeshare_py.dialects.dialects import IN_TREE
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.domain.request import GpuRequest
from kubeshare_py.edges.process.plugin_entry_points import configured, known
from tests.dialects.halves import HALF, Halves, an_ask

Json = dict[str, Any]


class Same(Halves):
    name = "same"


class Nameless(Halves):
    name = ""


class Ownerless(Halves):
    name = "ownerless"

    def __init__(self) -> None:
        self.owns = OwnedKeys()
        self.result_keys = 7  # type: ignore[assignment]


class Readless:
    name, owns, gives_way, quota_names = "readless", OwnedKeys(), False, None
    result_keys, words = Halves.result_keys, Halves.words
    container_rules, node_rules, marks = (Halves.container_rules, Halves.node_rules, Halves.marks)


BY_DEFAULT = ["sharedgpu", "gpushare", "nano-gpu", "sharepod"]
FACTORIES: dict[str, Callable[..., object]] = {
    **IN_TREE,
    "halves": Halves,
    "same": Same,
    "nameless": Nameless,
    "ownerless": Ownerless,
    "readless": Readless,
}


def profiles(*dialects: list[Json] | None) -> Json:
    """Profiles with these dialects; None leaves them out."""
    return {
        "profiles": [
            {"schedulerName": f"s{index}"} | ({} if own is None else {"dialects": own})
            for index, own in enumerate(dialects)
        ]
    }


def test_without_a_word_pods_ask_in_the_dialects_of_a_default_profile() -> None:
    found = configured(read(None))
    assert [one.name for one in found.every.dialects] == BY_DEFAULT
    assert known().keys() >= {"sharedgpu"}


def test_each_profile_has_its_own_dialects_and_their_arguments() -> None:
    halves = {"name": "halves", "args": {"resource": "corp.example/half"}}
    found = configured(read(profiles(None, [{"name": "sharedgpu"}, halves])), FACTORIES)
    assert [one.name for one in found.of("s0").dialects] == BY_DEFAULT
    assert found.of("s1").resources == {"corp.example/half", "nvidia.com/gpu"}
    assert found.every.resources == found.of("s0").resources | found.of("s1").resources


def test_a_dialect_of_several_profiles_is_one_object() -> None:
    found = configured(read(profiles([{"name": "halves"}], [{"name": "halves"}])), FACTORIES)
    assert found.of("s0").dialects[0] is found.of("s1").dialects[0]
    assert HALF in found.every.resources


@pytest.mark.parametrize(
    ("dialects", "problem"),
    [
        (
            [[{"name": "hamy"}]],
            "profiles[0].dialects[0].name: no dialect hamy; there are cambricon, gpushare, ",
        ),
        (
            [None, [{"name": "halves", "args": {"size": 1}}]],
            "profiles[1].dialects[0].args: TypeError: ",
        ),
        (
            [[{"name": "halves"}, {"name": "halves"}]],
            "profiles[0].dialects: halves is there twice",
        ),
        (
            [[{"name": "halves"}], [{"name": "halves", "args": {"resource": "x.y/z"}}]],
            "profiles[1].dialects[0].args: must be the same in all profiles",
        ),
        (
            [[{"name": "halves"}], [{"name": "same"}]],
            "profiles: halves and same both own example.com/",
        ),
        ([[{"name": "nameless"}]], "profiles[0].dialects[0].name: nameless is no dialect: its"),
        ([[{"name": "ownerless"}]], "profiles[0].dialects[0].name: ownerless is no dialect: resu"),
        ([[{"name": "readless"}]], "profiles[0].dialects[0].name: readless is no dialect: it has"),
        ([[]], "profiles[0].dialects: "),
        (
            [[{"name": "sharedgpu"}, {"name": "halves", "requireNodeLabel": True}]],
            "profiles[0].dialects[1].requireNodeLabel: halves has no rule about labels of nodes",
        ),
    ],
)
def test_an_error_begins_with_its_path(dialects: list[list[Json] | None], problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        configured(read(profiles(*dialects)), FACTORIES)
    assert str(raised.value).startswith(problem)


def test_a_profile_may_require_the_label_of_nodes() -> None:
    requires = {"name": "sharedgpu", "requireNodeLabel": True}
    found = configured(read(profiles([requires], None)), FACTORIES)
    asked = SHAREDGPU.read(an_ask(labels={"sharedgpu/gpu_request": "0.5"}))
    assert isinstance(asked, GpuRequest)
    assert found.of("s0").node_rules(asked) == (NodeRule("SharedGPU", ("true",), True),)
    assert found.of("s1").node_rules(asked) == (NodeRule("SharedGPU", ("true",)),)
