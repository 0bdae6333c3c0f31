"""What RBAC grants an account, and what it asked for: https://kubernetes.io/docs/reference/access-authn-authz/rbac/

Only plain rules are understood: no wildcards, no aggregation. Shipped roles have neither.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.controlplane.shipped import Json

_GROUP = "rbac.authorization.k8s.io"
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+"
    r"(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<inner>[^/]+))?)?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Right:
    """To do something; "" as the namespace or the name means every one."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def covers(self, asked: "Right") -> bool:
        """Whether a request that asks for that is let through."""
        return (
            (self.verb, self.group, self.resource) == (asked.verb, asked.group, asked.resource)
            and self.namespace in ("", asked.namespace)
            and self.name in ("", asked.name)
        )


def asked_for(request: ApiRequest) -> Right:
    """The right that this request needs."""
    found = _PATH.fullmatch(request.path)
    assert found is not None, request.path
    name = found["name"] or ""
    verb = _VERBS.get(request.method) or ("get" if name else "list")
    if request.query.get("watch") in ("1", "true"):
        verb = "watch"
    inner = f"/{found['inner']}" if found["inner"] else ""
    return Right(
        verb=verb,
        group=found["group"] or "",
        resource=f"{found['resource']}{inner}",
        namespace=found["namespace"] or "",
        # RBAC knows no name of what is only being created, a subresource apart.
        name=name if verb != "create" or inner else "",
    )


def granted(objects: Iterable[Json], account: str) -> set[Right]:
    """All rights that bindings among these objects give the ServiceAccount `account`."""
    objects = list(objects)
    roles = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    found: set[Right] = set()
    for one in objects:
        subjects = [
            f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}"
            for subject in one.get("subjects", [])
        ]
        if account in subjects:
            role = roles[one["roleRef"]["kind"], one["roleRef"]["name"]]
            for rule in role["rules"]:
                found |= {*_of_rule(rule, one["metadata"].get("namespace", ""))}
    return found


def _of_rule(rule: Json, namespace: str) -> Iterator[Right]:
    assert not {"*"} & {*rule["verbs"], *rule["apiGroups"], *rule["resources"]}
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Right(
                        verb=verb, group=group, resource=resource, namespace=namespace, name=name
                    )


async def allow(client: KubeClient, name: str, rule: Json, namespace: str = "") -> None:
    """Give the scheduler one more right, in this namespace or everywhere, as the chart may do it.

    The embedded API server knows no roles, and lets it do everything.
    """
    *_, home, account = SCHEDULER.split(":")
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    place = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
    about = {"apiVersion": f"{_GROUP}/v1", "metadata": {"name": name}}
    binding = {
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
    }
    for path, body in (
        ("clusterroles", {"kind": "ClusterRole", "rules": [rule]}),
        (place, {"kind": kind, **binding}),
    ):
        with suppress(KubeError):  # it is there already, or there are no roles
            await client.create(f"/apis/{_GROUP}/v1/{path}", {**about, **body})
