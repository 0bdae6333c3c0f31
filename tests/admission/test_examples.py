"""Every pod in the documentation and in config/: after admission its containers see their card."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeshare_py.dialects.card_visibility import CardVisibility, card_visibility
from kubeshare_py.documents.yaml_text import FAST_PARSER
from kubeshare_py.isolation.containers import CAPABILITIES, CARDS, VOID
from tests.admission.patched import env_of, patched
from tests.architecture.sources import ROOT

Json = dict[str, Any]
#: YAML between fences, and what a shell block gives to kubectl.
_FENCED = re.compile(r"^ *```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_GIVEN = re.compile(r"-f - <<'?END'?\n(.*?)^END", re.MULTILINE | re.DOTALL)


def texts() -> Iterator[tuple[Path, str]]:
    """Each piece of YAML that a reader may apply."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for pattern in (_FENCED, _GIVEN):
            for found in pattern.findall(page.read_text()):
                yield page, found
    for file in sorted((ROOT / "config").glob("*.yaml")):
        yield file, file.read_text()


def pods_in(document: object) -> Iterator[Json]:
    """Pods, and pod templates of Jobs and others, wherever they are in it."""
    if isinstance(document, dict):
        spec = document.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield {"metadata": document.get("metadata", {}), "spec": spec}
        else:
            for value in document.values():
                yield from pods_in(value)
    elif isinstance(document, list):
        for value in document:
            yield from pods_in(value)


def examples() -> list[Any]:
    """All of them, named after their file and themselves."""
    return [
        pytest.param(pod, id=f"{place.relative_to(ROOT)}-{number}")
        for place, text in texts()
        for number, document in enumerate(yaml.load_all(text, FAST_PARSER))
        for pod in pods_in(document)
    ]


def test_there_are_examples_of_each_kind() -> None:
    names = " ".join(one.id for one in examples())
    for place in ("README.md", "docs/install.md", "docs/labels.md", "config/demo-workloads.yaml"):
        assert place in names


@pytest.mark.parametrize("pod", examples())
def test_its_containers_see_the_card_that_the_scheduler_chooses(pod: Json) -> None:
    labels = pod["metadata"].get("labels", {})
    if not any(key.startswith("sharedgpu/") for key in labels):
        return
    assert pod["spec"].get("schedulerName") == "kubeshare-scheduler"
    made = patched(pod)
    kinds = {kind: made["spec"].get(kind, []) for kind in ("containers", "initContainers")}
    found = [env_of(made, kind, at) for kind, ones in kinds.items() for at in range(len(ones))]
    assert found
    for environment in found:
        if card_visibility(labels) is CardVisibility.VOID:
            assert environment[VOID.name] == VOID.value
        else:
            assert environment[CARDS.name] == CARDS.field_path
            assert environment[CAPABILITIES.name] == CAPABILITIES.value
