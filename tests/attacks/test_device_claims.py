"""Claims of devices whose selectors or search take long: only their own pods wait for that."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.attacks.attack import Attack, Json, gpu_pod
from tests.attacks.attacked_cluster import ATTACKER

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/{ATTACKER}/resourceclaims"
DRIVER = "gpu.example.com"
#: In which a victim's pod is bound, in the median and at the most (s). At rest it takes 0.04 s; the
#: rest is what a machine of few cores takes for the attacker's requests.
MEDIAN_S, MOST_S = 0.5, 5.0


def _object(kind: str, name: str, **parts: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        **parts,
    }


@pytest.fixture
async def device_driver(attack: Attack) -> AsyncIterator[None]:
    """A driver's class and slices: on each node 128 devices, in groups of 15 by an attribute."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    await attack.admin.create(
        f"{API}/deviceclasses", _object("DeviceClass", DRIVER, spec={"selectors": [selector]})
    )
    for node in attack.attacked_cluster.nodes:
        devices = [
            {
                "name": f"d{at}",
                "attributes": {
                    "u": {"string": f"x{at // 15}"},
                    "i": {"int": at},
                    "text": {"string": f"{node.name}-{at:03}-{'a' * 50}"},
                },
            }
            for at in range(128)
        ]
        spec = {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        }
        await attack.admin.create(
            f"{API}/resourceslices", _object("ResourceSlice", f"s-{node.name}", spec=spec)
        )
    yield
    for kind in ("resourceslices", "deviceclasses"):
        await attack.admin.request("DELETE", f"{API}/{kind}")
    await attack.admin.request("DELETE", CLAIMS)


async def _claim(attack: Attack, name: str, spec: Json) -> None:
    """Mallory's claim, and a pod with it."""
    await attack.mallory.create(CLAIMS, _object("ResourceClaim", name, spec={"devices": spec}))
    claims = [{"name": "x", "resourceClaimName": name}]
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "x"}]}}
    await attack.create(gpu_pod(name, {}, resourceClaims=claims, containers=[container]))


def _request(name: str, *expressions: str) -> Json:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    return {"name": name, "exactly": {"deviceClassName": DRIVER, "selectors": selectors}}


async def _expect_victims_served(attack: Attack, number: int = 20) -> None:
    took = sorted([await attack.expect_victim_bound() for _ in range(number)])
    print(f"victims: median {took[number // 2]:.3f} s, most {took[-1]:.3f} s")
    assert took[number // 2] < MEDIAN_S
    assert took[-1] < MOST_S


@pytest.mark.usefixtures("device_driver")
async def test_a_costly_regular_expression(attack: Attack) -> None:
    pattern = "a{0,999}" * 165
    expression = f'device.attributes["{DRIVER}"].text.matches("{pattern}$")'
    await _claim(attack, "regex", {"requests": [_request("r", expression)]})

    await _expect_victims_served(attack)

    await attack.expect_waiting("regex", text="a regular expression with more than")


@pytest.mark.usefixtures("device_driver")
async def test_matches_as_dear_as_they_may_be(attack: Attack, full_scale: bool) -> None:
    number = 40 if full_scale else 10
    for at in range(number):
        expression = f'device.attributes["{DRIVER}"].text.matches("[^x]*a.{{{480 - at}}}$")'
        await _claim(attack, f"match{at}", {"requests": [_request("r", expression)]})

    await _expect_victims_served(attack)

    await attack.expect_waiting(f"match{number - 1}", text="no device matches")


@pytest.mark.usefixtures("device_driver")
async def test_many_long_selectors(attack: Attack, full_scale: bool) -> None:
    number = 40 if full_scale else 10
    for at in range(number):
        expressions = [
            " || ".join(
                f'device.attributes["{DRIVER}"].i == {at * 10_000 + many * 100 + part}'
                for part in range(27)
            )
            for many in range(11)
        ]
        await _claim(attack, f"long{at}", {"requests": [_request("r", *expressions)]})

    await _expect_victims_served(attack)

    expressions = [f'"{at:04}{"x" * 1000}" != ""' for at in range(30)]
    await _claim(attack, "longest", {"requests": [_request("r", *expressions)]})
    await attack.expect_waiting("longest", text="its selectors have more than")


@pytest.mark.usefixtures("device_driver")
async def test_searches_that_never_succeed(attack: Attack) -> None:
    for at in range(40):
        expression = f'device.attributes["{DRIVER}"].i != {1000 + at}'
        requests = [_request(f"r{many}", expression) for many in range(16)]
        together = [{"requests": [], "matchAttribute": f"{DRIVER}/u"}]
        await _claim(attack, f"search{at}", {"requests": requests, "constraints": together})

    await _expect_victims_served(attack)

    await attack.expect_waiting("search39", text="the search for devices takes too long")
    await _expect_victims_served(attack)
