"""Which fields the served kinds have, and of which type: pruning and type checks of bodies.

One line a type. Letters: `s` string, `e` string kept when empty, `i` integer, `z` integer left out
when 0, `b` boolean, `o` boolean left out when false, `q` quantity, `p` integer or percentage, `*`
anything, `{x}` map of x, `[x]` list of x, else a type's name. Deep parts that nothing here looks
at are `*`. Nulls, empty lists, empty strings and empty maps vanish, as they do on the real server's
way through Go structs with omitempty.
"""

from functools import cache
from typing import Any

from kubeshare_py.simulation.api_status import Json
from kubeshare_py.simulation.api_workload_fields import WORKLOAD_TYPES

_META = (
    "name:s generateName:s namespace:s selfLink:s uid:s resourceVersion:s generation:i "
    "creationTimestamp:s deletionTimestamp:s deletionGracePeriodSeconds:i labels:{s} "
    "annotations:{s} ownerReferences:[OwnerReference] finalizers:[s] managedFields:*"
)
_TOP = "apiVersion:s kind:s metadata:Meta"
TYPES = {
    **WORKLOAD_TYPES,
    "Meta": _META,
    "OwnerReference": "apiVersion:s kind:s name:s uid:s controller:b blockOwnerDeletion:b",
    "ObjectReference": "kind:s namespace:s name:s uid:s apiVersion:s resourceVersion:s fieldPath:s",
    "Condition": (
        "type:s status:s reason:s message:s lastProbeTime:s lastTransitionTime:s "
        "lastHeartbeatTime:s lastUpdateTime:s observedGeneration:i"
    ),
    "Pod": f"{_TOP} spec:PodSpec status:PodStatus",
    "PodSpec": (
        "volumes:[Volume] initContainers:[Container] containers:[Container] "
        "ephemeralContainers:* restartPolicy:s terminationGracePeriodSeconds:i "
        "activeDeadlineSeconds:i dnsPolicy:s nodeSelector:{s} serviceAccountName:s "
        "serviceAccount:s automountServiceAccountToken:b nodeName:s hostNetwork:o hostPID:o "
        "hostIPC:o shareProcessNamespace:b securityContext:PodSecurityContext "
        "imagePullSecrets:[Named] hostname:s subdomain:s affinity:Affinity schedulerName:s "
        "tolerations:[Toleration] hostAliases:* priorityClassName:s priority:i dnsConfig:* "
        "readinessGates:[ReadinessGate] runtimeClassName:s enableServiceLinks:b "
        "preemptionPolicy:s overhead:{q} topologySpreadConstraints:[Spread] setHostnameAsFQDN:b "
        "os:* hostUsers:b schedulingGates:[Named] resourceClaims:* resources:Resources "
        "hostnameOverride:s schedulingGroup:* workloadRef:*"
    ),
    "Named": "name:s",
    "ReadinessGate": "conditionType:s",
    "PodSecurityContext": (
        "seLinuxOptions:* windowsOptions:* runAsUser:i runAsGroup:i runAsNonRoot:b "
        "supplementalGroups:* supplementalGroupsPolicy:s fsGroup:i sysctls:* "
        "fsGroupChangePolicy:s seccompProfile:* appArmorProfile:* seLinuxChangePolicy:s"
    ),
    "Toleration": "key:s operator:s value:s effect:s tolerationSeconds:i",
    "Spread": (
        "maxSkew:i topologyKey:s whenUnsatisfiable:s labelSelector:Selector minDomains:i "
        "nodeAffinityPolicy:s nodeTaintsPolicy:s matchLabelKeys:[s]"
    ),
    "Selector": "matchLabels:{s} matchExpressions:[Requirement]",
    "Requirement": "key:s operator:s values:[s]",
    "Affinity": "nodeAffinity:NodeAffinity podAffinity:* podAntiAffinity:*",
    "NodeAffinity": (
        "requiredDuringSchedulingIgnoredDuringExecution:NodeTerms "
        "preferredDuringSchedulingIgnoredDuringExecution:[PreferredTerm]"
    ),
    "NodeTerms": "nodeSelectorTerms:[NodeTerm]",
    "NodeTerm": "matchExpressions:[Requirement] matchFields:[Requirement]",
    "PreferredTerm": "weight:i preference:NodeTerm",
    "Volume": (
        "name:s hostPath:HostPath emptyDir:* gcePersistentDisk:* awsElasticBlockStore:* gitRepo:* "
        "secret:* nfs:* iscsi:* glusterfs:* persistentVolumeClaim:* rbd:* flexVolume:* cinder:* "
        "cephfs:* flocker:* downwardAPI:* fc:* azureFile:* configMap:* vsphereVolume:* quobyte:* "
        "azureDisk:* photonPersistentDisk:* projected:* portworxVolume:* scaleIO:* storageos:* "
        "csi:* ephemeral:* image:*"
    ),
    "HostPath": "path:s type:s",
    "Container": (
        "name:s image:s command:[s] args:[s] workingDir:s ports:[ContainerPort] envFrom:* "
        "env:[EnvVar] resources:Resources resizePolicy:* restartPolicy:s restartPolicyRules:* "
        "volumeMounts:[VolumeMount] volumeDevices:* livenessProbe:* readinessProbe:* "
        "startupProbe:* lifecycle:* terminationMessagePath:s terminationMessagePolicy:s "
        "imagePullPolicy:s securityContext:* stdin:o stdinOnce:o tty:o"
    ),
    "ContainerPort": "name:s hostPort:z containerPort:i protocol:s hostIP:s",
    "EnvVar": "name:s value:s valueFrom:EnvSource",
    "EnvSource": (
        "fieldRef:FieldRef resourceFieldRef:* configMapKeyRef:* secretKeyRef:* fileKeyRef:*"
    ),
    "FieldRef": "apiVersion:s fieldPath:s",
    "Resources": "limits:{q} requests:{q} claims:*",
    "VolumeMount": (
        "name:s readOnly:o recursiveReadOnly:s mountPath:s subPath:s mountPropagation:s "
        "subPathExpr:s"
    ),
    "PodStatus": (
        "observedGeneration:i phase:s conditions:[Condition] message:s reason:s "
        "nominatedNodeName:s hostIP:s hostIPs:* podIP:s podIPs:* startTime:s "
        "initContainerStatuses:[ContainerStatus] containerStatuses:[ContainerStatus] qosClass:s "
        "ephemeralContainerStatuses:* resize:s resourceClaimStatuses:* "
        "extendedResourceClaimStatus:* allocatedResources:{q} resources:Resources"
    ),
    "ContainerStatus": (
        "name:s state:* lastState:* ready:b restartCount:i image:s imageID:s containerID:s "
        "started:b allocatedResources:{q} resources:Resources volumeMounts:* user:* "
        "allocatedResourcesStatus:* stopSignal:s"
    ),
    "Binding": f"{_TOP} target:ObjectReference",
    "Eviction": f"{_TOP} deleteOptions:DeleteOptions",
    "DeleteOptions": (
        "apiVersion:s kind:s gracePeriodSeconds:i preconditions:Preconditions "
        "orphanDependents:b propagationPolicy:s dryRun:[s] "
        "ignoreStoreReadErrorWithClusterBreakingPotential:b"
    ),
    "Preconditions": "uid:s resourceVersion:s",
    "Node": f"{_TOP} spec:NodeSpec status:NodeStatus",
    "NodeSpec": (
        "podCIDR:s podCIDRs:[s] providerID:s unschedulable:o taints:[Taint] configSource:* "
        "externalID:s"
    ),
    "Taint": "key:s value:s effect:s timeAdded:s",
    "NodeStatus": (
        "capacity:{q} allocatable:{q} phase:s conditions:[Condition] addresses:[Address] "
        "daemonEndpoints:* nodeInfo:* images:* volumesInUse:* volumesAttached:* config:* "
        "runtimeHandlers:* features:* declaredFeatures:*"
    ),
    "Address": "type:s address:s",
    "Namespace": f"{_TOP} spec:NamespaceSpec status:NamespaceStatus",
    "NamespaceSpec": "finalizers:[s]",
    "NamespaceStatus": "phase:s conditions:[Condition]",
    "ConfigMap": f"{_TOP} data:{{s}} binaryData:{{s}} immutable:b",
    "Service": f"{_TOP} spec:ServiceSpec status:*",
    "ServiceSpec": (
        "ports:[ServicePort] selector:{s} clusterIP:s clusterIPs:[s] type:s externalIPs:[s] "
        "sessionAffinity:s loadBalancerIP:s loadBalancerSourceRanges:[s] externalName:s "
        "externalTrafficPolicy:s healthCheckNodePort:z publishNotReadyAddresses:o "
        "sessionAffinityConfig:* ipFamilies:[s] ipFamilyPolicy:s loadBalancerClass:s "
        "allocateLoadBalancerNodePorts:b internalTrafficPolicy:s trafficDistribution:s"
    ),
    "ServicePort": "name:s protocol:s appProtocol:s port:i targetPort:* nodePort:z",
    "ServiceAccount": f"{_TOP} secrets:* imagePullSecrets:[Named] automountServiceAccountToken:b",
    "PriorityClass": f"{_TOP} value:i globalDefault:o description:s preemptionPolicy:s",
    "Lease": f"{_TOP} spec:LeaseSpec",
    "LeaseSpec": (
        "holderIdentity:s leaseDurationSeconds:i acquireTime:s renewTime:s leaseTransitions:i "
        "strategy:s preferredHolder:s"
    ),
    "CoreEvent": (
        f"{_TOP} involvedObject:ObjectReference reason:s message:s source:EventSource "
        "firstTimestamp:s lastTimestamp:s count:i type:s eventTime:s series:EventSeries action:s "
        "related:ObjectReference reportingComponent:s reportingInstance:s"
    ),
    "NewEvent": (
        f"{_TOP} eventTime:s series:EventSeries reportingController:s reportingInstance:s "
        "action:s reason:s regarding:ObjectReference related:ObjectReference note:s type:s "
        "deprecatedSource:EventSource deprecatedFirstTimestamp:s deprecatedLastTimestamp:s "
        "deprecatedCount:i"
    ),
    "EventSource": "component:s host:s",
    "EventSeries": "count:i lastObservedTime:s",
    "Job": f"{_TOP} spec:JobSpec status:JobStatus",
    "JobSpec": (
        "parallelism:i completions:i activeDeadlineSeconds:i podFailurePolicy:* successPolicy:* "
        "backoffLimit:i backoffLimitPerIndex:i maxFailedIndexes:i selector:Selector "
        "manualSelector:b template:PodTemplate ttlSecondsAfterFinished:i completionMode:s "
        "suspend:b podReplacementPolicy:s managedBy:s"
    ),
    "PodTemplate": "metadata:Meta spec:PodSpec",
    "JobStatus": (
        "conditions:[Condition] startTime:s completionTime:s active:i succeeded:i failed:i "
        "terminating:i completedIndexes:s failedIndexes:s uncountedTerminatedPods:* ready:i"
    ),
}

_GO_TYPES = {"s": "string", "e": "string", "i": "int64", "z": "int64", "b": "bool", "o": "bool"}
_PYTHON_TYPES: dict[str, type] = {"s": str, "e": str, "i": int, "z": int, "b": bool, "o": bool}


class WrongType(ValueError):
    """A field of another JSON type than the kind has; the text is like encoding/json's."""


def prune(kind: str, body: Json) -> tuple[Json, list[str]]:
    """The body with only known fields, and the paths of the unknown ones; raises WrongType."""
    unknown: list[str] = []
    return _object(kind, body, "", unknown), unknown


@cache
def _shape(name: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in TYPES[name].split())


def _object(kind: str, body: object, path: str, unknown: list[str]) -> Json:
    if not isinstance(body, dict):
        raise WrongType(_mismatch(body, path, kind))
    shape = _shape(kind)
    kept: Json = {}
    for key, value in body.items():
        if value is None:
            continue
        where = f"{path}.{key}" if path else key
        if key not in shape:
            unknown.append(where)
            continue
        letter = shape[key]
        pruned = _value(letter, value, where, unknown)
        if not _vanishes(letter, pruned):
            kept[key] = pruned
    return kept


def _vanishes(letter: str, value: object) -> bool:
    """Whether Go's omitempty would leave the field out."""
    if isinstance(value, bool):
        return letter == "o" and not value
    if letter in ("z", "e"):
        return letter == "z" and value == 0
    if letter[0] == "{":
        return value == {}
    return value in ("", [])


def _value(letter: str, value: object, path: str, unknown: list[str]) -> Any:
    if letter == "p":
        letter = "s" if isinstance(value, str) else "i"
    if letter in _PYTHON_TYPES:
        return _scalar(letter, value, path)
    if letter == "*":
        return value
    if letter == "q":
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise WrongType(_mismatch(value, path, "Quantity"))
        return str(value)
    if letter[0] == "[":
        if not isinstance(value, list):
            raise WrongType(_mismatch(value, path, "list"))
        inner = letter[1:-1]
        return [_value(inner, v, f"{path}[{i}]", unknown) for i, v in enumerate(value)]
    if letter[0] == "{":
        if not isinstance(value, dict):
            raise WrongType(_mismatch(value, path, "map"))
        inner = letter[1:-1]
        return {
            key: _value(inner, entry, f"{path}.{key}", unknown)
            for key, entry in value.items()
            if entry is not None
        }
    return _object(letter, value, path, unknown)


def _scalar(letter: str, value: object, path: str) -> object:
    wanted = _PYTHON_TYPES[letter]
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise WrongType(_mismatch(value, path, _GO_TYPES[letter]))
    return value


def _mismatch(value: object, path: str, wanted: str) -> str:
    found = {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(value), "number")
    return f"json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"
