"""Grafana's boards as the chart renders them, for the sidecar of Grafana's own chart."""

import pytest

from deploy.boards.__main__ import BOARDS, FOLDER
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.test_rendering import of, refused, rendered

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

ON = "grafana.enabled=true"


@pytest.fixture(autouse=True)
def built(bare: ControlPlane) -> None:
    """Helm is there."""


def boards(*settings: str) -> list[Json]:
    """The ConfigMaps besides the scheduler's own."""
    found = of(rendered(*settings), "ConfigMap")
    return [one for one in found if one["metadata"]["name"].endswith("-board")]


def test_there_is_none_by_default() -> None:
    assert boards() == []


def test_each_board_is_a_config_map_that_the_sidecar_finds() -> None:
    made = boards(ON)
    assert len(made) == len(BOARDS)
    files = {}
    for one in made:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "KubeShare"}
        files.update(one["data"])
    assert files == {path.name: path.read_text() for path in FOLDER.iterdir()}


def test_labels_and_folder_may_be_others() -> None:
    for one in boards(ON, 'grafana.labels={"boards": "ours"}', "grafana.annotations=null"):
        assert one["metadata"]["labels"]["boards"] == "ours"
        assert "annotations" not in one["metadata"]


def test_a_value_that_is_misspelt_is_refused() -> None:
    assert "folder" in refused(ON, 'grafana.folder="GPU"')
