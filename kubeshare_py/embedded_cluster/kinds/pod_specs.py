"""Pod specs, those of templates too: defaults and validation, as the real server does them."""

from collections.abc import Iterable, Iterator

from kubeshare_py.embedded_cluster.kinds.storage import check_claim_spec, default_claim_spec
from kubeshare_py.embedded_cluster.protocol import quantities
from kubeshare_py.embedded_cluster.protocol.checks import NOT_NEGATIVE, POSITIVE, Checked
from kubeshare_py.embedded_cluster.protocol.names import (
    label_problem,
    qualified_problem,
    subdomain_problem,
)
from kubeshare_py.embedded_cluster.protocol.quantities import canonical_amounts
from kubeshare_py.embedded_cluster.protocol.selectors import check_node_selector, check_selector
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause, duplicate, wrong

# Pod affinity, spread and host ports: defaults, merged label keys, what may be asked (v1).


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_HEAVIEST = 100


def merge_label_keys(pod: Json) -> None:
    """Add what matchLabelKeys and mismatchLabelKeys mean to the selectors beside them.

    As the real server does when a pod is created:
    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#matchlabelkeys
    """
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    terms = [term.value for term in _affinity_terms(Checked(spec.get("affinity") or {}))]
    for term in [*terms, *(spec.get("topologySpreadConstraints") or [])]:
        keys = [
            *((key, "In") for key in term.get("matchLabelKeys") or []),
            *((key, "NotIn") for key in term.get("mismatchLabelKeys") or []),
        ]
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for key, operator in keys
            if key in labels
        ]
        selector = term.get("labelSelector")
        if selector is not None and added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or []), *added]


def _default_host_ports(spec: Json, containers: Iterable[Json]) -> None:
    """A pod on its node's network has all its ports on the node."""
    if not spec.get("hostNetwork"):
        return
    for container in containers:
        for port in container.get("ports") or []:
            port.setdefault("hostPort", port.get("containerPort"))


def _check_placement(spec: Checked) -> None:
    """Affinity, spread and host ports."""
    affinity = spec.at("affinity")
    if _REQUIRED in affinity.at("nodeAffinity").value:
        check_node_selector(affinity.at(f"nodeAffinity.{_REQUIRED}"))
    for term in _affinity_terms(affinity):
        _check_term(term)
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        for one in affinity.at(kind).each(_PREFERRED):
            if not 0 < one.get("weight", 0) <= _HEAVIEST:
                one.wrong("weight", one.get("weight", 0), f"must be in the range 1-{_HEAVIEST}")
    constraints = spec.each("topologySpreadConstraints")
    for index, constraint in enumerate(constraints):
        _check_spread(constraint, constraints[index + 1 :])
    _check_host_ports(spec.each("containers"))


def _affinity_terms(affinity: Checked) -> Iterator[Checked]:
    """The terms about other pods."""
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.at(kind)
        yield from part.each(_REQUIRED)
        yield from (weighted.at("podAffinityTerm") for weighted in part.each(_PREFERRED))


def _check_term(term: Checked) -> None:
    check_selector(term.at("labelSelector"))
    check_selector(term.at("namespaceSelector"))
    _check_label_keys(term)
    term.require("topologyKey", text="can not be empty")
    term.valid("topologyKey", qualified_problem)


def _check_label_keys(term: Checked) -> None:
    """Label keys need a selector, and may not be in it or in both lists."""
    selector = term.get("labelSelector", None)
    matched, others = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    for name, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", others)):
        if keys and selector is None:
            term.forbid(name, "must not be specified when labelSelector is not set")
    selected = [one.get("key") for one in (selector or {}).get("matchExpressions") or []]
    selected += (selector or {}).get("matchLabels") or {}
    for index, key in enumerate(matched):
        if selected.count(key) > 1:
            text = "exists in both matchLabelKeys and labelSelector"
            term.causes.append(wrong(f"{term.path}[{index}]", key, text))
        if key in others:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            term.wrong(f"matchLabelKeys[{index}]", key, text)


def _check_spread(constraint: Checked, later: list[Checked]) -> None:
    key, action = constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")
    skew, domains = constraint.get("maxSkew", 0), constraint.get("minDomains", None)
    if skew <= 0:
        constraint.wrong("maxSkew", skew, POSITIVE)
    constraint.require("topologyKey", text="can not be empty")
    constraint.one_of("whenUnsatisfiable", _ACTIONS)
    if any(
        (one.get("topologyKey"), one.get("whenUnsatisfiable")) == (key, action) for one in later
    ):
        where = constraint.where("{topologyKey, whenUnsatisfiable}")
        constraint.causes.append(duplicate(where, f"{{{key}, {action}}}"))
    constraint.at_least(1, "minDomains", text=POSITIVE)
    if domains is not None and action != _ACTIONS[0]:
        text = f"can only use minDomains if whenUnsatisfiable={_ACTIONS[0]}, not {action}"
        constraint.wrong("minDomains", domains, text)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        constraint.one_of(name, _POLICIES, empty="Honor")
    _check_label_keys(constraint)
    check_selector(constraint.at("labelSelector"))


def _check_host_ports(containers: list[Checked]) -> None:
    """No two containers have one port of the node."""
    seen: set[str] = set()
    for port in (port for container in containers for port in container.each("ports")):
        if port.get("hostPort"):
            shown = f"{port.get('protocol')}/{port.get('hostIP')}/{port.get('hostPort')}"
            if shown in seen:
                port.causes.append(duplicate(port.where("hostPort"), shown))
            seen.add(shown)


# Volumes and device claims of pods: defaults, and what may be asked (v1).


_ONE_CLAIM = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
_TWO_CLAIMS = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"


def _default_ephemeral(volume: Json) -> None:
    """The defaults of a generic ephemeral volume's claim; raises BadQuantity."""
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        default_claim_spec(template.setdefault("spec", {}))


def _check_volumes(spec: Checked) -> None:
    """Volumes that are claims."""
    for volume in spec.each("volumes"):
        if "persistentVolumeClaim" in volume.value:
            volume.at("persistentVolumeClaim").require("claimName")
        if "ephemeral" in volume.value:
            ephemeral = volume.at("ephemeral")
            if ephemeral.get("volumeClaimTemplate", None) is None:
                ephemeral.lacks("volumeClaimTemplate")
            else:
                check_claim_spec(ephemeral.at("volumeClaimTemplate.spec"))


def _check_device_claims(spec: Checked) -> None:
    """A pod's resourceClaims, and those that its containers use."""
    seen: set[str] = set()
    for claim in spec.each("resourceClaims"):
        if claim.require("name") and not claim.repeats("name", seen):
            claim.valid("name", label_problem)
        seen.add(claim.get("name"))
        _check_claim_source(claim)
    text = "must be one of the names in pod.spec.resourceClaims"
    text += "" if any(seen) else " which is empty"
    for container in (*spec.each("initContainers"), *spec.each("containers")):
        for used in container.at("resources").each("claims"):
            if used.get("name") not in seen:
                used.causes.append(_not_found(used.path, used.get("name"), f": {text}"))


def _check_claim_source(claim: Checked) -> None:
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    named = [field for field in fields if claim.get(field)]
    if len(named) == 1:
        claim.valid(named[0], subdomain_problem)
    else:
        claim.wrong("", claim.value, _TWO_CLAIMS if named else _ONE_CLAIM)


def _not_found(path: str, name: str, text: str = "") -> StatusCause:
    message = f'Not found: "{name}"{text}'
    return StatusCause(field=path, message=message, reason="FieldValueNotFound")


# Containers and pod templates: defaults and validation, as the real server does them.


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
    _default_host_ports(spec, containers_of(spec))
    canonical_amounts(spec, "overhead")


def _image_pull_policy(image: str) -> str:
    """Always for no tag or `latest`; a digest or another tag: IfNotPresent."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def check_pod_spec(spec: Checked) -> None:
    """Everything that this server checks of a pod spec."""
    volumes = _check_names(spec.each("volumes"))
    spec.require("containers")
    taken: set[str] = set()
    for container in (*spec.each("initContainers"), *spec.each("containers")):
        _check_container(container, taken, volumes)
    spec.one_of("restartPolicy", sorted(_RESTART_POLICIES), empty=None)
    _check_names(spec.each("schedulingGates"))
    for toleration in spec.each("tolerations"):
        _check_toleration(toleration)
    _check_placement(spec)
    _check_volumes(spec)
    _check_device_claims(spec)


def _check_names(entries: list[Checked]) -> set[str]:
    taken: set[str] = set()
    for entry in entries:
        if entry.require("name"):
            entry.repeats("name", taken)
    return taken


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    _default_ephemeral(volume)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in _CONFIG_MODES:
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)


def _default_container(container: Json) -> None:
    resources = container.setdefault("resources", {})
    canonical_amounts(resources, "limits", "requests")
    for name, quantity in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(name, quantity)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _image_pull_policy(container.get("image", "")))
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


def _check_container(container: Checked, taken: set[str], volumes: set[str]) -> None:
    if container.named("name", label_problem):
        container.repeats("name", taken)
    taken.add(container.get("name"))
    container.require("image")
    for variable in container.each("env"):
        variable.require("name")
    for mount in container.each("volumeMounts"):
        if mount.get("name") not in volumes:
            mount.causes.append(_not_found(mount.where("name"), mount.get("name")))
        mount.require("mountPath")
    _check_resources(container.at("resources"))


def _is_extended(resource: str) -> bool:
    return resource not in NATIVE and "/" in resource


def _check_resources(resources: Checked) -> None:
    """Whole extended resources, limits for them, no request above its limit."""
    for part in ("limits", "requests"):
        for name, text in sorted(resources.get(part, {}).items()):
            if quantities.value(text) < 0:
                resources.wrong(f"{part}[{name}]", text, NOT_NEGATIVE)
            elif _is_extended(name) and quantities.value(text) % 1:
                resources.wrong(f"{part}[{name}]", text, "must be an integer")
    limits = resources.get("limits", {})
    for name, text in sorted(resources.get("requests", {}).items()):
        extended = _is_extended(name)
        if name in limits:
            over = quantities.value(text) > quantities.value(limits[name])
            if over or (extended and text != limits[name]):
                relation = "equal to" if extended else "less than or equal to"
                problem = f"must be {relation} {name} limit of {limits[name]}"
                resources.wrong("requests", text, problem)
        elif extended:
            resources.lacks("limits", _OVERCOMMIT)


def _check_toleration(toleration: Checked) -> None:
    operator = toleration.get("operator", "Equal")
    if operator == "Equal" and not toleration.get("key"):
        toleration.wrong("operator", operator, _NO_KEY)
    toleration.one_of("operator", ("Equal", "Exists"), empty="Equal")
