"""Rights that `edit` and `admin` in one namespace, and accounts without any, do not have."""

from http import HTTPStatus

import pytest

from tests.attacks.attack import LEASE, STATE, Attack, gpu_pod, pods_of, refusal
from tests.attacks.attacked_cluster import ATTACKER, NAME, VICTIM
from tests.controlplane.helm import NAMESPACE

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

POLICIES = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


async def test_no_user_writes_the_lease(attack: Attack) -> None:
    leases = LEASE.rpartition("/")[0]
    spec = {"holderIdentity": "mallory", "leaseTransitions": 99}
    own = f"/apis/coordination.k8s.io/v1/namespaces/{ATTACKER}/leases"
    for client in (attack.mallory, attack.ada, attack.rita):
        for asked in (
            client.merge_patch(LEASE, {"spec": spec}),
            client.create(leases, {"metadata": {"name": NAME}, "spec": spec}),
            client.delete(LEASE),
            client.get(LEASE),
        ):
            assert (await refusal(asked)).status == HTTPStatus.FORBIDDEN
    # One of the same name in one's own namespace says nothing to anybody.
    await attack.mallory.create(own, {"metadata": {"name": NAME}, "spec": spec})
    await attack.expect_victim_bound()
    await attack.mallory.delete(f"{own}/{NAME}")


async def test_no_user_takes_a_policy_away_or_leaves_it(attack: Attack) -> None:
    for client in (attack.mallory, attack.ada):
        for place in (
            "validatingadmissionpolicies/kubeshare-pods",
            "validatingadmissionpolicybindings/kubeshare-pods",
            "mutatingadmissionpolicies/kubeshare-environment",
            "mutatingadmissionpolicybindings/kubeshare-environment",
        ):
            path = f"{POLICIES}/{place}"
            assert (await refusal(client.delete(path))).status == HTTPStatus.FORBIDDEN
            for change in ({"spec": {"failurePolicy": "Ignore"}}, {"spec": None}):
                error = await refusal(client.merge_patch(path, change))
                assert error.status == HTTPStatus.FORBIDDEN
        namespace = f"/api/v1/namespaces/{ATTACKER}"
        labels = {"metadata": {"labels": {"kubeshare.io/exempt": "true"}}}
        error = await refusal(client.merge_patch(namespace, labels))
        assert error.status == HTTPStatus.FORBIDDEN
        made = {"metadata": {"name": "mine", **labels["metadata"]}}
        error = await refusal(client.create("/api/v1/namespaces", made))
        assert error.status == HTTPStatus.FORBIDDEN
    # A label on the pod exempts nothing.
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    container = {"name": "main", "image": "cuda", "env": env}
    body = gpu_pod("p", {"kubeshare.io/exempt": "true"}, containers=[container])
    assert "NVIDIA_VISIBLE_DEVICES" in (await refusal(attack.create(body))).message


async def test_an_admin_gives_out_no_right_that_the_admin_has_not(attack: Attack) -> None:
    roles = f"{RBAC}/namespaces/{ATTACKER}/roles"
    bindings = f"{RBAC}/namespaces/{ATTACKER}/rolebindings"
    for resource, group, verb in (
        ("pods/binding", "", "create"),
        ("pods/status", "", "patch"),
        ("leases", "coordination.k8s.io", "impersonate"),
    ):
        rule = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        role = {"metadata": {"name": "more"}, "rules": [rule]}
        assert (await refusal(attack.ada.create(roles, role))).status == HTTPStatus.FORBIDDEN
    for more in ("kubeshare-scheduler", "cluster-admin"):
        body = {
            "metadata": {"name": "more"},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": more},
            "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "ada"}],
        }
        error = await refusal(attack.ada.create(bindings, body))
        assert error.status == HTTPStatus.FORBIDDEN


async def test_no_user_has_a_token_of_the_schedulers(attack: Attack) -> None:
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}/token"
    request = {"kind": "TokenRequest", "spec": {"audiences": []}}
    for client in (attack.mallory, attack.ada, attack.rita):
        assert (await refusal(client.create(accounts, request))).status == HTTPStatus.FORBIDDEN
    # Its account is another namespace's: a pod cannot run under it.
    body = gpu_pod("p", serviceAccountName=NAME)
    assert (await refusal(attack.create(body))).status == HTTPStatus.FORBIDDEN


async def test_nobody_reads_the_state_of_a_namespace_without_a_right_there(
    attack: Attack,
) -> None:
    await attack.victor.create(pods_of(VICTIM), gpu_pod("secret"))
    await attack.expect_bound("secret", VICTIM)
    for client in (attack.mallory, attack.ada, attack.rita):
        for path in (
            f"{STATE}/gpus",
            f"{STATE}/pods",
            f"{STATE}/namespaces/{VICTIM}/pods",
            f"{STATE}/namespaces/{VICTIM}/pods/secret",
        ):
            assert (await refusal(client.get(path))).status == HTTPStatus.FORBIDDEN
    await attack.create(gpu_pod("big", {"gpu_request": "16", "gpu_limit": "16"}))
    await attack.expect_waiting("big")
    told = await attack.why(attack.mallory, "big")
    assert "secret" not in str(told)
    assert VICTIM not in str(told)


async def test_no_user_changes_how_the_state_is_reached(attack: Attack) -> None:
    for path in (
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.state.kubeshare.io",
        f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}",
        f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}",
        "/api/v1/nodes/n1",
    ):
        for client in (attack.mallory, attack.ada):
            error = await refusal(client.merge_patch(path, {"metadata": {"labels": {"a": "b"}}}))
            assert error.status == HTTPStatus.FORBIDDEN
