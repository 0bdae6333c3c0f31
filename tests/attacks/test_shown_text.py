"""Control characters, newlines and escapes wherever users' words are shown to others."""

import unicodedata
from http import HTTPStatus

import pytest

from tests.attacks.attack import Attack, gpu_pod, refusal
from tests.attacks.attacked_cluster import ATTACKER, LAX, NAME
from tests.controlplane.helm import NAMESPACE
from tests.stories.command import kubectl_kubeshare

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

#: Clears a terminal, sets its title, begins a sequence by one C1 character, ends a line, turns the
#: writing direction.
STEERING = "\x1b[2J\x1b]0;mine\x07\u009b31m\r\nroot: all is well\u202egnirts\x00\x7f"
KEYS = ("gpu_models", "gpu_models_denied", "gpu_model_mix", "gpu_request_of")
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


def steers(text: str) -> bool:
    """Whether a terminal does anything but show it; lines may end."""
    return any(unicodedata.category(one) in ("Cc", "Cf") for one in text if one != "\n")


async def test_nothing_that_is_shown_steers_a_terminal(attack: Attack) -> None:
    names = []
    for number, key in enumerate(KEYS):
        name = f"p{number}"
        wish = {f"sharedgpu/{key}": f"A100{STEERING}"}
        await attack.create(gpu_pod(name, annotations=wish), LAX)
        names.append(name)
    for number, field in enumerate(("containers", "nodeSelector")):
        name = f"q{number}"
        body = gpu_pod(name, nodeSelector={"example.com/a": "b"})
        body["metadata"]["annotations"] = {f"{field}/x": STEERING}
        await attack.create(body, LAX)
        names.append(name)
    kubeconfig = attack.attacked_cluster.kubeconfig("mallory")
    for name in names:
        assert not steers(await attack.expect_waiting(name, LAX))
        code, out, err = await kubectl_kubeshare(kubeconfig, "why", name, namespace=LAX)
        assert not steers(out + err), (code, out, err)
    for event in await attack.admin.list_all(EVENTS.format(LAX)):
        assert not steers(event.get("note", ""))
    assert not steers(attack.said())


async def test_refusals_steer_no_terminal(attack: Attack) -> None:
    for key in KEYS:
        wish = {f"sharedgpu/{key}": f"A100,{STEERING * 5}"}
        error = await refusal(attack.create(gpu_pod("p", annotations=wish)))
        assert error.status in (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)
        assert not steers(error.message)


async def test_thousands_of_events_change_nothing(attack: Attack, full_scale: bool) -> None:
    """Mallory writes Events about pods, and in the scheduler's name."""
    await attack.create(gpu_pod("big", {"gpu_request": "9", "gpu_limit": "9"}))
    for number in range(3000 if full_scale else 200):
        about = {"apiVersion": "v1", "kind": "Pod", "name": "big", "namespace": ATTACKER}
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"e{number}"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": NAME,
            "reportingInstance": NAME,
            "action": "Binding",
            "reason": "Scheduled",
            "type": "Normal",
            "regarding": about,
            "note": STEERING,
        }
        await attack.mallory.create(EVENTS.format(ATTACKER), event)
    await attack.expect_victim_bound()
    await attack.expect_waiting("big", text="GPU")
    error = await refusal(
        attack.mallory.create(EVENTS.format(NAMESPACE), {"metadata": {"name": "e"}})
    )
    assert error.status == HTTPStatus.FORBIDDEN
