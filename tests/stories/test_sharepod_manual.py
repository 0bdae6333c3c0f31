"""docs/sharepods.md as its readers try it, with a stock kubectl."""

import re
from pathlib import Path

import pytest

from tests.stories.conftest import Stage
from tests.stories.share_pods import CRD, controller_of
from tests.stories.test_kubectl import KUBECTL, Kubectl
from tests.stories.test_sharepods import IN_BOTH

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

MANUAL = (Path(__file__).parents[2] / "docs/sharepods.md").read_text()


@pytest.mark.slow
@pytest.mark.tls  # otherwise kubectl sends no token
async def test_the_example_is_shown_as_the_manual_shows_it(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage = empty_stage
    kubectl = Kubectl(tmp_path, stage.cluster.kubeconfig)
    [example] = re.findall(r"```yaml\n(apiVersion: kubeshare.nthu/v1\n.*?)```", MANUAL, re.DOTALL)
    [columns] = re.findall(r"\$ kubectl get sharepods -o wide\n(.*)", MANUAL)
    (tmp_path / "sharepod1.yaml").write_text(example)
    await kubectl("apply", "-f", str(CRD))
    await kubectl("wait", "--for=condition=Established", "crd/sharepods.kubeshare.nthu")
    async with stage.scheduler(dialects=IN_BOTH), controller_of(stage):
        await kubectl("apply", "-f", str(tmp_path / "sharepod1.yaml"))
        table = await kubectl.expect_eventually(
            lambda text: "Running" in text and "GPU-" in text, "get", "sharepods", "-o", "wide"
        )
        assert table.splitlines()[0].split() == columns.split()
        assert "default/sharepod1 is bound to" in await kubectl(
            "kubeshare", "why", "sharepod/sharepod1"
        )
