"""Lists as kube-apiserver answered them, release by release: all are read, empty ones too.

The answers are recorded by `python -m tests.controlplane.record_lists`.
"""

import json
from pathlib import Path

import msgspec
import pytest

from kubeshare_py.manifests.watch import Codec
from kubeshare_py.manifests.workloads import names_in_list
from tests.controlplane.build import kubernetes_version

FOLDER = Path(__file__).with_name("recorded_lists")
RELEASES = sorted(file.stem for file in FOLDER.iterdir())
EMPTY, THREE, FIRST = ("empty", "empty page"), "three", "first page of three"


class Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str


class Thing(msgspec.Struct):
    metadata: Meta


def lists(release: str) -> dict[tuple[str, str, str], bytes]:
    """The answers by resource, form and fill."""
    recorded = json.loads((FOLDER / f"{release}.json").read_text())
    return {tuple(name.split(", ")): text.encode() for name, text in recorded.items()}


def test_every_release_that_may_serve_is_recorded() -> None:
    minors = [release.split(".")[1] for release in RELEASES]
    assert minors == ["33", "34", "35", "36"]
    assert kubernetes_version() in RELEASES


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("resource", ["pods", "sharepods"])
@pytest.mark.parametrize("form", ["whole", "names"])
def test_names_are_read_from_both_forms(release: str, resource: str, form: str) -> None:
    answers = lists(release)
    everyone = [("recorded", name) for name in "abc"]
    for what in EMPTY:
        assert names_in_list(answers[resource, form, what]) == ([], "")
    assert names_in_list(answers[resource, form, THREE]) == (everyone, "")
    names, further = names_in_list(answers[resource, form, FIRST])
    assert names == everyone[:2]
    assert further


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("resource", ["pods", "sharepods"])
def test_watched_lists_are_read(release: str, resource: str) -> None:
    answers, codec = lists(release), Codec(Thing)
    for what, count in ((EMPTY[0], 0), (EMPTY[1], 0), (THREE, 3), (FIRST, 2)):
        page = codec.page(answers[resource, "whole", what])
        assert (len(page.items), page.problems) == (count, [])
        assert page.resource_version
        assert bool(page.continue_token) == (what == FIRST)
