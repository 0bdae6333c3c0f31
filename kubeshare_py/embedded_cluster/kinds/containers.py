"""Containers and pod templates: defaults and validation, as the real server does them."""

from collections.abc import Iterator
from typing import Any

from kubeshare_py.embedded_cluster.kinds.pod_placement import default_host_ports, placement_causes
from kubeshare_py.embedded_cluster.kinds.pod_volumes import (
    default_ephemeral,
    device_claim_causes,
    volume_causes,
)
from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.names import label_problem
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    required,
    unsupported,
    wrong,
)

NATIVE = ("cpu", "memory", "ephemeral-storage")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_CONFIG_MODES = ("secret", "configMap", "downwardAPI", "projected")
_DEFAULT_MODE = 0o644
_OVERCOMMIT = "Limit must be set for non overcommitable resources"
_NO_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def containers_of(spec: Json) -> Iterator[Json]:
    """Init containers, then containers."""
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def default_pod_spec(spec: Json) -> None:
    """What every pod spec and pod template gets; raises BadQuantity."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for volume in spec.get("volumes") or []:
        _default_volume(volume)
    for container in containers_of(spec):
        _default_container(container)
    default_host_ports(spec, containers_of(spec))
    if "overhead" in spec:
        spec["overhead"] = _canonical(spec["overhead"])


def image_pull_policy(image: str) -> str:
    """Always for no tag or `latest`; a digest or another tag: IfNotPresent."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def canonical_resources(resources: Json) -> None:
    """Canonical quantities, and requests copied from limits; raises BadQuantity."""
    for part in ("limits", "requests"):
        if part in resources:
            resources[part] = _canonical(resources[part])
    for name, quantity in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(name, quantity)


def pod_spec_causes(spec: Json, path: str) -> list[StatusCause]:
    """Everything this server finds wrong with a pod spec."""
    causes: list[StatusCause] = []
    volumes = _names(spec.get("volumes") or [], f"{path}.volumes", causes)
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    taken: set[str] = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or []):
            where = f"{path}.{part}[{index}]"
            causes += _container_causes(container, where, taken, volumes)
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        shown = spec.get("restartPolicy")
        causes.append(unsupported(f"{path}.restartPolicy", shown, sorted(_RESTART_POLICIES)))
    _names(spec.get("schedulingGates") or [], f"{path}.schedulingGates", causes)
    causes += _toleration_causes(spec.get("tolerations") or [], f"{path}.tolerations")
    causes += placement_causes(spec, path)
    return [*causes, *volume_causes(spec, path), *device_claim_causes(spec, path)]


def _canonical(amounts: Json) -> Json:
    return {name: quantities.canonical(text) for name, text in amounts.items()}


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    default_ephemeral(volume)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in _CONFIG_MODES:
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)


def _default_container(container: Json) -> None:
    container.setdefault("resources", {})
    canonical_resources(container["resources"])
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", image_pull_policy(container.get("image", "")))
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or []:
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            _default_probe(container[name])


def _default_probe(probe: Json) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(field, value)
    if isinstance(probe.get("httpGet"), dict):
        probe["httpGet"].setdefault("scheme", "HTTP")


def _names(entries: list[Any], path: str, causes: list[StatusCause]) -> set[str]:
    taken: set[str] = set()
    for index, entry in enumerate(entries):
        name = entry.get("name", "")
        if not name:
            causes.append(required(f"{path}[{index}].name"))
        elif name in taken:
            causes.append(duplicate(f"{path}[{index}].name", name))
        taken.add(name)
    return taken


def _container_causes(
    container: Json, path: str, taken: set[str], volumes: set[str]
) -> list[StatusCause]:
    causes: list[StatusCause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{path}.name"))
    elif problem := label_problem(name):
        causes.append(wrong(f"{path}.name", name, problem))
    elif name in taken:
        causes.append(duplicate(f"{path}.name", name))
    taken.add(name)
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    for index, variable in enumerate(container.get("env") or []):
        if not variable.get("name"):
            causes.append(required(f"{path}.env[{index}].name"))
    for index, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("name") not in volumes:
            shown = f'Not found: "{mount.get("name", "")}"'
            where = f"{path}.volumeMounts[{index}].name"
            causes.append(StatusCause(field=where, message=shown, reason="FieldValueNotFound"))
        if not mount.get("mountPath"):
            causes.append(required(f"{path}.volumeMounts[{index}].mountPath"))
    return causes + resource_causes(container.get("resources") or {}, f"{path}.resources")


def resource_causes(resources: Json, path: str) -> list[StatusCause]:
    """Whole extended resources, limits for them, no request above its limit."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return [
        *_amount_causes(limits, f"{path}.limits"),
        *_amount_causes(requests, f"{path}.requests"),
        *_limit_causes(requests, limits, path),
    ]


def _is_extended(resource: str) -> bool:
    return resource not in NATIVE and "/" in resource


def _amount_causes(amounts: Json, path: str) -> Iterator[StatusCause]:
    for name, text in sorted(amounts.items()):
        amount = quantities.value(text)
        if amount < 0:
            yield wrong(f"{path}[{name}]", text, "must be greater than or equal to 0")
        elif _is_extended(name) and amount % 1:
            yield wrong(f"{path}[{name}]", text, "must be an integer")


def _limit_causes(requests: Json, limits: Json, path: str) -> Iterator[StatusCause]:
    for name, text in sorted(requests.items()):
        extended = _is_extended(name)
        if name in limits:
            over = quantities.value(text) > quantities.value(limits[name])
            equal = text == limits[name]
            if over or (extended and not equal):
                relation = "equal to" if extended else "less than or equal to"
                problem = f"must be {relation} {name} limit of {limits[name]}"
                yield wrong(f"{path}.requests", text, problem)
        elif extended:
            yield required(f"{path}.limits", _OVERCOMMIT)


def _toleration_causes(tolerations: list[Any], path: str) -> list[StatusCause]:
    causes = []
    for index, toleration in enumerate(tolerations):
        operator = toleration.get("operator", "Equal")
        if operator not in ("Equal", "Exists"):
            where = f"{path}[{index}].operator"
            causes.append(unsupported(where, operator, ("Equal", "Exists")))
        elif not toleration.get("key") and operator != "Exists":
            causes.append(wrong(f"{path}[{index}].operator", operator, _NO_KEY))
    return causes
