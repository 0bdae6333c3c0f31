"""A stock kubectl with a custom kind: KubeShare 1.0's pods."""

import pytest

from tests.conformance.definitions import (
    WITH_SCALE,
    definition,
    version,
    widget,
)
from tests.conformance.kubectl import KUBECTL, Kubectl

#: KubeShare 1.0's kind, as its users would define it today.
SHARE_PODS = definition(
    version(
        schema={
            "type": "object",
            "properties": {
                "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        additionalPrinterColumns=[
            {"name": "Node", "type": "string", "jsonPath": ".spec.nodeName"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.podStatus.phase"},
        ],
    ),
    kind="SharePod",
    group="kubeshare.nthu",
    names={"shortNames": ["shp"]},
)
SHARE_PODS["metadata"]["name"] = "sharepods.kubeshare.nthu"
SHARE_POD = {
    "apiVersion": "kubeshare.nthu/v1",
    "kind": "SharePod",
    "metadata": {"name": "one", "annotations": {"kubeshare/gpu_request": "0.4"}},
    "spec": {"containers": [{"name": "c", "image": "x"}], "nodeName": "n1"},
}


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl_works_with_share_pods(kubectl: Kubectl) -> None:
    assert "created" in await kubectl("create", "-f", "-", stdin=SHARE_PODS)
    crd = "crd/sharepods.kubeshare.nthu"
    await kubectl("wait", "--for=condition=Established", crd, "--timeout=20s")
    assert kubectl.code == 0
    name = "sharepod.kubeshare.nthu/one"
    assert await kubectl.apply(SHARE_POD) == f"{name} created\n"
    assert await kubectl.apply(SHARE_POD) == f"{name} unchanged\n"
    changed = {**SHARE_POD, "status": {"podStatus": {"phase": "Running"}}}
    assert await kubectl.apply(changed) == f"{name} configured\n"
    shown = (await kubectl("get", "shp")).splitlines()
    assert [line.split() for line in shown] == [["NAME", "NODE", "PHASE"], ["one", "n1", "Running"]]
    assert "Gpu _ request" not in await kubectl("describe", "sharepod", "one")
    assert kubectl.code == 0
    assert "GROUP:      kubeshare.nthu" in await kubectl("explain", "sharepods")
    assert "metadata\t<ObjectMeta>" in await kubectl("explain", "shp")
    condition = "--for=jsonpath={.status.podStatus.phase}=Running"
    await kubectl("wait", condition, "sharepod/one", "--timeout=20s")
    assert kubectl.code == 0
    patched = await kubectl("patch", "shp", "one", "-p", '{"spec":{"nodeName":"n2"}}')
    assert "strategic-merge-patch+json is not supported" in patched
    await kubectl("delete", "shp", "one")
    assert kubectl.code == 0
    await kubectl("delete", crd, "--timeout=20s")
    assert kubectl.code == 0
    await kubectl("get", "sharepods.kubeshare.nthu")
    assert kubectl.code == 1


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl_sends_schemas_errors_and_scales(kubectl: Kubectl) -> None:
    names = {"categories": ["all", "gadgets"]}
    await kubectl.apply(definition(WITH_SCALE, names=names))
    await kubectl("wait", "--for=condition=Established", "crd/widgets.example.com")
    body = widget(spec={"size": 1, "odd": 1})
    refused = await kubectl("apply", "-f", "-", stdin=body)
    assert (kubectl.code, 'unknown field "spec.odd"' in refused) == (1, True)
    warned = await kubectl("apply", "--validate=warn", "-f", "-", stdin=body)
    assert warned == 'Warning: unknown field "spec.odd"\nwidget.example.com/w created\n'
    wrong = await kubectl("apply", "-f", "-", stdin=widget(spec={"color": 1}))
    assert wrong == (
        'The Widget "w" is invalid: spec.color: Invalid value: "integer": '
        'spec.color in body must be of type string: "integer"\n'
    )
    assert await kubectl("scale", "widget", "w", "--replicas=4") == "widget.example.com/w scaled\n"
    assert await kubectl("get", "widget", "w", "-o", "jsonpath={.spec.size}") == "4"
    assert "w" in await kubectl("get", "gadgets")
    served = await kubectl("apply", "--server-side", "-f", "-", stdin=widget("s", {"size": 1}))
    assert served == "widget.example.com/s serverside-applied\n"
    explained = await kubectl("explain", "widget.spec")
    assert "size\t<integer>" in explained
    assert "widgets" in await kubectl("api-resources", "--api-group=example.com")
