"""The fields of the served kinds, with their types, and bodies read by them: JSON and protobuf.

One line a type, indented where it goes on. Letters: `s` string, `e` string kept when empty, `y`
bytes in base64, `i` integer, `z` integer left out when 0, `n` number, `b` boolean, `o` boolean left
out when false, `q` quantity, `p` integer or percentage, `*` anything, `j` anything, kept when
empty, `{x}` map of x, `[x]` list of x, `?x` an x or something else, else a type's name. Deep parts
that are not used here are `*`. `+x` stands for the fields of the type x. Nulls, empty lists, empty
strings and empty maps vanish, as they do on the real server's way through Go structs with
omitempty.

After a second colon is the field's number in protobuf, for the kinds that `kubectl create` sends so
(kubectl 1.32 and newer); with a dash the field is skipped, because the server sets it itself. The
numbers are those of the generated.proto files of k8s.io/api and k8s.io/apimachinery.
"""

import base64
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from kubeshare_py.embedded_cluster.protocol.status import Json

_TABLE = """
Unknown: typeMeta:TypeMeta:1 raw:y:2 contentEncoding:s:3 contentType:s:4
TypeMeta: apiVersion:s:1 kind:s:2
Object: apiVersion:s kind:s metadata:Meta
Message: apiVersion:s kind:s metadata:Meta:1
Meta: name:s:1 generateName:s:2 namespace:s:3 selfLink:s:4 uid:s:5 resourceVersion:s:6
  generation:i:7- creationTimestamp:s:8- deletionTimestamp:s deletionGracePeriodSeconds:i
  labels:{s}:11 annotations:{s}:12 ownerReferences:[OwnerReference] finalizers:[s]:14
  managedFields:*
OwnerReference: apiVersion:s kind:s name:s uid:s controller:b blockOwnerDeletion:b
ObjectReference: kind:s namespace:s name:s uid:s apiVersion:s resourceVersion:s fieldPath:s
Condition: type:s status:s reason:s message:s lastProbeTime:s lastTransitionTime:s
  lastHeartbeatTime:s lastUpdateTime:s observedGeneration:i
Pod: +Object spec:PodSpec status:PodStatus
PodSpec: volumes:[Volume] initContainers:[Container] containers:[Container]:2
  ephemeralContainers:* restartPolicy:s:3 terminationGracePeriodSeconds:i:4
  activeDeadlineSeconds:i:5 dnsPolicy:s:6 nodeSelector:{s}:7 serviceAccountName:s:8
  serviceAccount:s:9 automountServiceAccountToken:b nodeName:s:10 hostNetwork:o:11 hostPID:o:12
  hostIPC:o:13 shareProcessNamespace:b securityContext:PodSecurityContext imagePullSecrets:[Named]
  hostname:s:16 subdomain:s:17 affinity:Affinity schedulerName:s:19 tolerations:[Toleration]
  hostAliases:* priorityClassName:s:24 priority:i dnsConfig:* readinessGates:[ReadinessGate]
  runtimeClassName:s enableServiceLinks:b preemptionPolicy:s overhead:{q}
  topologySpreadConstraints:[Spread] setHostnameAsFQDN:b os:* hostUsers:b schedulingGates:[Named]
  resourceClaims:[PodClaim] resources:Resources hostnameOverride:s schedulingGroup:* workloadRef:*
PodClaim: name:s resourceClaimName:s resourceClaimTemplateName:s
Named: name:s
ReadinessGate: conditionType:s
PodSecurityContext: seLinuxOptions:* windowsOptions:* runAsUser:i runAsGroup:i runAsNonRoot:b
  supplementalGroups:* supplementalGroupsPolicy:s fsGroup:i sysctls:* fsGroupChangePolicy:s
  seccompProfile:* appArmorProfile:* seLinuxChangePolicy:s
Toleration: key:s operator:s value:s effect:s tolerationSeconds:i
Spread: maxSkew:i topologyKey:s whenUnsatisfiable:s labelSelector:Selector minDomains:i
  nodeAffinityPolicy:s nodeTaintsPolicy:s matchLabelKeys:[s]
Selector: matchLabels:{s}:1 matchExpressions:[Requirement]:2
Requirement: key:s:1 operator:s:2 values:[s]:3
Affinity: nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAffinity
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution:[PodTerm]
  preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodTerm]
PodTerm: labelSelector:Selector namespaces:[s] topologyKey:e namespaceSelector:Selector
  matchLabelKeys:[s] mismatchLabelKeys:[s]
WeightedPodTerm: weight:i podAffinityTerm:PodTerm
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution:NodeTerms
  preferredDuringSchedulingIgnoredDuringExecution:[PreferredTerm]
NodeTerms: nodeSelectorTerms:[NodeTerm]
NodeTerm: matchExpressions:[Requirement] matchFields:[Requirement]
PreferredTerm: weight:i preference:NodeTerm
Volume: name:s hostPath:HostPath emptyDir:* gcePersistentDisk:* awsElasticBlockStore:* gitRepo:*
  secret:* nfs:* iscsi:* glusterfs:* persistentVolumeClaim:ClaimVolume rbd:* flexVolume:* cinder:*
  cephfs:* flocker:* downwardAPI:* fc:* azureFile:* configMap:* vsphereVolume:* quobyte:*
  azureDisk:* photonPersistentDisk:* projected:* portworxVolume:* scaleIO:* storageos:* csi:*
  ephemeral:EphemeralVolume image:*
ClaimVolume: claimName:s readOnly:o
EphemeralVolume: volumeClaimTemplate:VolumeClaimTemplate
VolumeClaimTemplate: metadata:Meta spec:VolumeClaimSpec
HostPath: path:s type:s
Container: name:s:1 image:s:2 command:[s]:3 args:[s]:4 workingDir:s:5 ports:[ContainerPort]:6
  envFrom:* env:[EnvVar]:7 resources:Resources:8 resizePolicy:* restartPolicy:s
  restartPolicyRules:* volumeMounts:[VolumeMount] volumeDevices:* livenessProbe:* readinessProbe:*
  startupProbe:* lifecycle:* terminationMessagePath:s:13 terminationMessagePolicy:s:20
  imagePullPolicy:s:14 securityContext:* stdin:o:16 stdinOnce:o:17 tty:o:18
ContainerPort: name:s:1 hostPort:z:2 containerPort:i:3 protocol:s:4 hostIP:s:5
EnvVar: name:s:1 value:s:2 valueFrom:EnvSource
EnvSource: fieldRef:FieldRef resourceFieldRef:* configMapKeyRef:* secretKeyRef:* fileKeyRef:*
FieldRef: apiVersion:s fieldPath:s
Resources: limits:{q}:1 requests:{q}:2 claims:*
VolumeMount: name:s readOnly:o recursiveReadOnly:s mountPath:s subPath:s mountPropagation:s
  subPathExpr:s
PodStatus: observedGeneration:i phase:s conditions:[Condition] message:s reason:s
  nominatedNodeName:s hostIP:s hostIPs:* podIP:s podIPs:* startTime:s
  initContainerStatuses:[ContainerStatus] containerStatuses:[ContainerStatus] qosClass:s
  ephemeralContainerStatuses:* resize:s resourceClaimStatuses:[PodClaimStatus]
  extendedResourceClaimStatus:* allocatedResources:{q} resources:Resources
PodClaimStatus: name:s resourceClaimName:s
ContainerStatus: name:s state:* lastState:* ready:b restartCount:i image:s imageID:s containerID:s
  started:b allocatedResources:{q} resources:Resources volumeMounts:* user:*
  allocatedResourcesStatus:* stopSignal:s
Binding: +Object target:ObjectReference
Eviction: +Object deleteOptions:DeleteOptions
DeleteOptions: apiVersion:s kind:s gracePeriodSeconds:i:1 preconditions:Preconditions:2
  orphanDependents:b:3 propagationPolicy:s:4 dryRun:[s]:5
  ignoreStoreReadErrorWithClusterBreakingPotential:b
Preconditions: uid:s:1 resourceVersion:s:2
Node: +Object spec:NodeSpec status:NodeStatus
NodeSpec: podCIDR:s podCIDRs:[s] providerID:s unschedulable:o taints:[Taint] configSource:*
  externalID:s
Taint: key:s value:s effect:s timeAdded:s
NodeStatus: capacity:{q} allocatable:{q} phase:s conditions:[Condition] addresses:[Address]
  daemonEndpoints:* nodeInfo:* images:* volumesInUse:* volumesAttached:* config:*
  runtimeHandlers:* features:* declaredFeatures:*
Address: type:s address:s
Namespace: +Message spec:NamespaceSpec:2 status:NamespaceStatus:3-
NamespaceSpec: finalizers:[s]:1
NamespaceStatus: phase:s conditions:[Condition]
ConfigMap: +Message data:{s}:2 binaryData:{y}:3 immutable:b:4
Service: +Message spec:ServiceSpec:2 status:*:3-
ServiceSpec: ports:[ServicePort]:1 selector:{s}:2 clusterIP:s:3 clusterIPs:[s]:18 type:s:4
  externalIPs:[s]:5 sessionAffinity:s:7 loadBalancerIP:s:8 loadBalancerSourceRanges:[s]
  externalName:s:10 externalTrafficPolicy:s:11 healthCheckNodePort:z:12
  publishNotReadyAddresses:o:13 sessionAffinityConfig:* ipFamilies:[s] ipFamilyPolicy:s
  loadBalancerClass:s allocateLoadBalancerNodePorts:b internalTrafficPolicy:s
  trafficDistribution:s
ServicePort: name:s:1 protocol:s:2 appProtocol:s:6 port:i:3 targetPort:p:4 nodePort:z:5
ServiceAccount: +Message secrets:* imagePullSecrets:[Named] automountServiceAccountToken:b:4
PriorityClass: +Message value:i:2 globalDefault:o:3 description:s:4 preemptionPolicy:s:5
APIService: +Object spec:APIServiceSpec status:APIServiceStatus
APIServiceSpec: service:APIServiceReference group:s version:s insecureSkipTLSVerify:o caBundle:s
  groupPriorityMinimum:i versionPriority:i
APIServiceReference: namespace:s name:s port:i
APIServiceStatus: conditions:[Condition]
Lease: +Object spec:LeaseSpec
LeaseSpec: holderIdentity:s leaseDurationSeconds:i acquireTime:s renewTime:s leaseTransitions:i
  strategy:s preferredHolder:s
CoreEvent: +Object involvedObject:ObjectReference reason:s message:s source:EventSource
  firstTimestamp:s lastTimestamp:s count:i type:s eventTime:s series:EventSeries action:s
  related:ObjectReference reportingComponent:s reportingInstance:s
NewEvent: +Object eventTime:s series:EventSeries reportingController:s reportingInstance:s
  action:s reason:s regarding:ObjectReference related:ObjectReference note:s type:s
  deprecatedSource:EventSource deprecatedFirstTimestamp:s deprecatedLastTimestamp:s
  deprecatedCount:i
EventSource: component:s host:s
EventSeries: count:i lastObservedTime:s
Job: +Message spec:JobSpec:2 status:JobStatus:3-
JobSpec: parallelism:i:1 completions:i:2 activeDeadlineSeconds:i:3 podFailurePolicy:*
  successPolicy:* backoffLimit:i:7 backoffLimitPerIndex:i maxFailedIndexes:i selector:Selector:4
  manualSelector:b:5 template:PodTemplate:6 ttlSecondsAfterFinished:i:8 completionMode:s:9
  suspend:b:10 podReplacementPolicy:s:14 managedBy:s:15
PodTemplate: metadata:Meta:1 spec:PodSpec:2
JobStatus: conditions:[Condition] startTime:s completionTime:s active:i succeeded:i failed:i
  terminating:i completedIndexes:s failedIndexes:s uncountedTerminatedPods:* ready:i

CustomResourceDefinition: +Object spec:CrdSpec status:CrdStatus
CrdSpec: group:s names:CrdNames scope:s versions:[CrdVersion] conversion:CrdConversion
  preserveUnknownFields:o
CrdNames: plural:s singular:s shortNames:[s] kind:s listKind:s categories:[s]
CrdVersion: name:s served:b storage:b deprecated:o deprecationWarning:e schema:CrdValidation
  subresources:CrdSubresources additionalPrinterColumns:[CrdColumn]
  selectableFields:[CrdSelectable]
CrdValidation: openAPIV3Schema:JSONSchemaProps
CrdSubresources: status:* scale:CrdScale
CrdScale: specReplicasPath:s statusReplicasPath:s labelSelectorPath:s
CrdColumn: name:s type:s format:s description:s priority:z jsonPath:s
CrdSelectable: jsonPath:s
CrdConversion: strategy:s webhook:*
CrdStatus: conditions:[Condition] acceptedNames:CrdNames storedVersions:[s]
JSONSchemaProps: id:s $schema:s $ref:s description:s type:s format:s title:s default:j maximum:n
  exclusiveMaximum:o minimum:n exclusiveMinimum:o maxLength:i minLength:i pattern:s maxItems:i
  minItems:i uniqueItems:o multipleOf:n enum:[j] maxProperties:i minProperties:i required:[s]
  items:?JSONSchemaProps allOf:[JSONSchemaProps] oneOf:[JSONSchemaProps] anyOf:[JSONSchemaProps]
  not:JSONSchemaProps properties:{JSONSchemaProps} additionalProperties:?JSONSchemaProps
  patternProperties:{JSONSchemaProps} dependencies:* additionalItems:?JSONSchemaProps
  definitions:{JSONSchemaProps} externalDocs:* example:j nullable:o
  x-kubernetes-preserve-unknown-fields:b x-kubernetes-embedded-resource:o
  x-kubernetes-int-or-string:o x-kubernetes-list-map-keys:[s] x-kubernetes-list-type:s
  x-kubernetes-map-type:s x-kubernetes-validations:*

ResourceClaim: +Object spec:ResourceClaimSpec status:ResourceClaimStatus
ResourceClaimSpec: devices:DeviceClaim
DeviceClaim: requests:[DeviceRequest] constraints:[DeviceConstraint] config:[DeviceConfiguration]
DeviceRequest: name:s exactly:ExactDeviceRequest firstAvailable:[DeviceSubRequest]
DeviceQuery: deviceClassName:s selectors:[DeviceSelector] allocationMode:s count:z
  tolerations:[DeviceToleration] capacity:CapacityRequirements
ExactDeviceRequest: +DeviceQuery adminAccess:b
DeviceSubRequest: name:s +DeviceQuery
CapacityRequirements: requests:{q}
DeviceSelector: cel:DeviceExpression
DeviceExpression: expression:s
DeviceConstraint: requests:[s] matchAttribute:s distinctAttribute:s
DeviceConfiguration: requests:[s] opaque:OpaqueConfiguration source:s
OpaqueConfiguration: driver:s parameters:j
DeviceToleration: key:s operator:s value:s effect:s tolerationSeconds:i
ResourceClaimStatus: allocation:DeviceAllocation reservedFor:[ClaimConsumer]
  devices:[AllocatedDevice]
ClaimConsumer: apiGroup:s resource:s name:s uid:s
DeviceAllocation: devices:DeviceAllocationResult nodeSelector:NodeTerms allocationTimestamp:s
DeviceAllocationResult: results:[AllocatedRequest] config:[DeviceConfiguration]
AllocatedRequest: request:s driver:s pool:s device:s adminAccess:b tolerations:[DeviceToleration]
  bindingConditions:[s] bindingFailureConditions:[s] shareID:s consumedCapacity:{q}
AllocatedDevice: driver:s pool:s device:s shareID:s conditions:[StandardCondition] data:j
  networkData:*
ResourceClaimTemplate: +Object spec:ResourceClaimTemplateSpec
ResourceClaimTemplateSpec: metadata:Meta spec:ResourceClaimSpec
ResourceSlice: +Object spec:ResourceSliceSpec
ResourceSliceSpec: driver:s pool:ResourcePool nodeName:e nodeSelector:NodeTerms allNodes:b
  devices:[Device] perDeviceNodeSelection:b sharedCounters:[CounterSet]
ResourcePool: name:s generation:i resourceSliceCount:i
CounterSet: name:s counters:{DeviceCounter}
DeviceCounter: value:q
Device: name:s attributes:{DeviceAttribute} capacity:{DeviceCapacity}
  consumesCounters:[CounterConsumption] nodeName:e nodeSelector:NodeTerms allNodes:b
  taints:[DeviceTaint] bindsToNode:b bindingConditions:[s] bindingFailureConditions:[s]
  allowMultipleAllocations:b nodeAllocatableResourceMappings:*
DeviceAttribute: int:i bool:b string:e version:e ints:[i] bools:[b] strings:[s] versions:[s]
DeviceCapacity: value:q requestPolicy:*
CounterConsumption: counterSet:s counters:{DeviceCounter}
DeviceTaint: key:s value:s effect:s timeAdded:s
DeviceClass: +Object spec:DeviceClassSpec
DeviceClassSpec: selectors:[DeviceSelector] config:[DeviceConfiguration] extendedResourceName:s

PersistentVolume: +Object spec:PersistentVolumeSpec status:PersistentVolumeStatus
VolumeSource: gcePersistentDisk:* awsElasticBlockStore:* hostPath:HostPath glusterfs:* nfs:* rbd:*
  iscsi:* cinder:* cephfs:* fc:* flocker:* flexVolume:* azureFile:* vsphereVolume:* quobyte:*
  azureDisk:* photonPersistentDisk:* portworxVolume:* scaleIO:* local:LocalVolume storageos:*
  csi:CSIVolume
PersistentVolumeSpec: capacity:{q} accessModes:[s] claimRef:ObjectReference
  persistentVolumeReclaimPolicy:s storageClassName:s mountOptions:[s] volumeMode:s
  nodeAffinity:VolumeNodeAffinity volumeAttributesClassName:e +VolumeSource
VolumeNodeAffinity: required:NodeTerms
LocalVolume: path:s fsType:s
CSIVolume: driver:s volumeHandle:s readOnly:o fsType:s volumeAttributes:{s}
  controllerPublishSecretRef:* nodeStageSecretRef:* nodePublishSecretRef:*
  controllerExpandSecretRef:* nodeExpandSecretRef:*
PersistentVolumeStatus: phase:s message:s reason:s lastPhaseTransitionTime:s
PersistentVolumeClaim: +Object spec:VolumeClaimSpec status:VolumeClaimStatus
VolumeClaimSpec: accessModes:[s] selector:Selector resources:VolumeResources volumeName:s
  storageClassName:e volumeMode:s dataSource:DataSource dataSourceRef:DataSourceRef
  volumeAttributesClassName:e
VolumeResources: limits:{q} requests:{q}
DataSource: apiGroup:s kind:s name:s
DataSourceRef: apiGroup:s kind:s name:s namespace:s
VolumeClaimStatus: phase:s accessModes:[s] capacity:{q} conditions:[Condition]
  allocatedResources:{q} allocatedResourceStatuses:{s} currentVolumeAttributesClassName:s
  modifyVolumeStatus:*
StorageClass: +Object provisioner:s parameters:{s} reclaimPolicy:s mountOptions:[s]
  allowVolumeExpansion:b volumeBindingMode:s allowedTopologies:[TopologyTerm]
TopologyTerm: matchLabelExpressions:[TopologyRequirement]
TopologyRequirement: key:s values:[s]
CSINode: +Object spec:CSINodeSpec
CSINodeSpec: drivers:[CSINodeDriver]
CSINodeDriver: name:s nodeID:s topologyKeys:[s] allocatable:VolumeCount
VolumeCount: count:i
CSIDriver: +Object spec:CSIDriverSpec
CSIDriverSpec: attachRequired:b podInfoOnMount:b volumeLifecycleModes:[s] storageCapacity:b
  fsGroupPolicy:s tokenRequests:* requiresRepublish:b seLinuxMount:b
  nodeAllocatableUpdatePeriodSeconds:i serviceAccountTokenInSecrets:b
  preventPodSchedulingIfMissing:b
CSIStorageCapacity: +Object nodeTopology:Selector storageClassName:s capacity:q
  maximumVolumeSize:q
VolumeAttachment: +Object spec:VolumeAttachmentSpec status:VolumeAttachmentStatus
VolumeAttachmentSpec: attacher:s source:VolumeAttachmentSource nodeName:s
VolumeAttachmentSource: persistentVolumeName:s inlineVolumeSpec:PersistentVolumeSpec
VolumeAttachmentStatus: attached:b attachmentMetadata:{s} attachError:VolumeError
  detachError:VolumeError
VolumeError: time:s message:s errorCode:i

Deployment: +Message spec:DeploymentSpec:2 status:DeploymentStatus:3-
DeploymentSpec: replicas:i:1 selector:Selector:2 template:PodTemplate:3
  strategy:DeploymentStrategy:4 minReadySeconds:z:5 revisionHistoryLimit:i:6 paused:o:7
  progressDeadlineSeconds:i:9
DeploymentStrategy: type:s:1 rollingUpdate:RollingUpdateDeployment
RollingUpdateDeployment: maxUnavailable:p maxSurge:p
DeploymentStatus: observedGeneration:z replicas:z updatedReplicas:z readyReplicas:z
  availableReplicas:z unavailableReplicas:z terminatingReplicas:i conditions:[Condition]
  collisionCount:i
ReplicaSet: +Object spec:ReplicaSetSpec status:ReplicaSetStatus
ReplicaSetSpec: replicas:i minReadySeconds:z selector:Selector template:PodTemplate
ReplicaSetStatus: replicas:i fullyLabeledReplicas:z readyReplicas:z availableReplicas:z
  terminatingReplicas:i observedGeneration:z conditions:[Condition]
StatefulSet: +Object spec:StatefulSetSpec status:StatefulSetStatus
StatefulSetSpec: replicas:i selector:Selector template:PodTemplate serviceName:s
  podManagementPolicy:s volumeClaimTemplates:[PersistentVolumeClaim]
  updateStrategy:StatefulSetStrategy revisionHistoryLimit:i minReadySeconds:z
  ordinals:StatefulSetOrdinals persistentVolumeClaimRetentionPolicy:ClaimRetention
StatefulSetStrategy: type:s rollingUpdate:RollingUpdateStatefulSet
RollingUpdateStatefulSet: partition:i maxUnavailable:p
StatefulSetOrdinals: start:i
ClaimRetention: whenDeleted:s whenScaled:s
StatefulSetStatus: observedGeneration:z replicas:i readyReplicas:z currentReplicas:z
  updatedReplicas:z currentRevision:s updateRevision:s collisionCount:i conditions:[Condition]
  availableReplicas:i
ReplicationController: +Object spec:ReplicationControllerSpec status:ReplicaSetStatus
ReplicationControllerSpec: replicas:i minReadySeconds:z selector:{s} template:PodTemplate
Scale: +Object spec:ScaleSpec status:ScaleStatus
ScaleSpec: replicas:z
ScaleStatus: replicas:i selector:s
PodDisruptionBudget: +Message spec:BudgetSpec:2 status:BudgetStatus:3-
BudgetSpec: minAvailable:p:1 selector:Selector:2 maxUnavailable:p:3 unhealthyPodEvictionPolicy:s:4
BudgetStatus: observedGeneration:z disruptedPods:{s} disruptionsAllowed:i currentHealthy:i
  desiredHealthy:i expectedPods:i conditions:[StandardCondition]
StandardCondition: type:e status:e observedGeneration:z lastTransitionTime:s reason:e message:e
"""


def _read(table: str) -> tuple[dict[str, dict[str, str]], dict[str, dict[int, tuple[str, str]]]]:
    """Each type's letters by field, and its fields and letters by number ("": it is skipped)."""
    types: dict[str, dict[str, str]] = {}
    numbered: dict[str, dict[int, tuple[str, str]]] = {}
    name = ""
    for line in filter(None, table.splitlines()):
        start, colon, more = line.partition(": ")
        if colon:
            name = start
            types[name], numbered[name] = {}, {}
        for part in (more if colon else line).split():
            if part[0] == "+":
                types[name] |= types[part[1:]]
                numbered[name] |= numbered[part[1:]]
                continue
            field, letter, *number = part.split(":")
            types[name][field] = letter
            for text in number:
                skipped = text.endswith("-")
                numbered[name][int(text.rstrip("-"))] = field, "" if skipped else letter
    return types, numbered


#: Each type's letters, by field.
TYPES, _NUMBERED = _read(_TABLE)
#: What a PersistentVolume may be made of; exactly one is set.
VOLUME_SOURCES = tuple(TYPES["VolumeSource"])


# Pruning and type checks of JSON bodies.


_GO_TYPES = {
    **dict.fromkeys("sey", "string"),
    **dict.fromkeys("iz", "int64"),
    **dict.fromkeys("bo", "bool"),
    "n": "float64",
}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys("sey", (str,)),
    **dict.fromkeys("iz", (int,)),
    **dict.fromkeys("bo", (bool,)),
    "n": (int, float),
}


class WrongType(ValueError):
    """A field of another JSON type than the kind has; the text is like encoding/json's."""


def prune(kind: str, body: Json) -> tuple[Json, list[str]]:
    """The body with only known fields, and the paths of the unknown ones; raises WrongType."""
    unknown: list[str] = []
    return _object(kind, body, "", unknown), unknown


def _object(kind: str, body: object, path: str, unknown: list[str]) -> Json:
    if not isinstance(body, dict):
        raise WrongType(_mismatch(body, path, kind))
    shape = TYPES[kind]
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
    if letter in ("z", "e", "j"):
        return letter == "z" and value == 0
    if letter[0] == "{":
        return value == {}
    return value in ("", [])


def _value(letter: str, value: object, path: str, unknown: list[str]) -> Any:
    if letter == "p":
        letter = "s" if isinstance(value, str) else "i"
    if letter in _PYTHON_TYPES:
        return _scalar(letter, value, path)
    if letter in ("*", "j"):
        return value
    if letter == "q":
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise WrongType(_mismatch(value, path, "Quantity"))
        return str(value)
    if letter[0] in "[{?":
        return _composed(letter, value, path, unknown)
    return _object(letter, value, path, unknown)


def _composed(letter: str, value: object, path: str, unknown: list[str]) -> Any:
    if letter[0] == "{":
        return _map(letter[1:-1], value, path, unknown)
    if letter[0] == "?":
        return _either(letter[1:], value, path)
    if not isinstance(value, list):
        raise WrongType(_mismatch(value, path, "list"))
    inner = letter[1:-1]
    return [_value(inner, v, f"{path}[{i}]", unknown) for i, v in enumerate(value)]


def _map(inner: str, value: object, path: str, unknown: list[str]) -> Json:
    if not isinstance(value, dict):
        raise WrongType(_mismatch(value, path, "map"))
    return {
        key: _value(inner, entry, f"{path}.{key}", unknown)
        for key, entry in value.items()
        if entry is not None
    }


def _either(inner: str, value: object, path: str) -> Any:
    """Such types have decoders of their own on the real server, which report no unknown field."""
    if isinstance(value, list):
        return [_either(inner, entry, path) for entry in value]
    return _object(inner, value, path, []) if isinstance(value, dict) else value


def _scalar(letter: str, value: object, path: str) -> object:
    wanted = _PYTHON_TYPES[letter]
    if int in wanted and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise WrongType(_mismatch(value, path, _GO_TYPES[letter]))
    return value


def _mismatch(value: object, path: str, wanted: str) -> str:
    found = {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(value), "number")
    return f"json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"


# Protobuf request bodies, as far as `kubectl create` sends them: `k8s\\0`, then a runtime.Unknown.
#
# A body with a field that is not numbered above is not decoded at all rather than decoded without
# it.


_MAGIC = b"k8s\x00"
_VARINT, _LENGTH = 0, 2
_NEGATIVE = 1 << 63
_STRING_VALUE = 1


class NotReadable(ValueError):
    """Not protobuf of a known kind and known fields."""


def decode_protobuf(body: bytes) -> Json:
    """The body as JSON would have it; raises NotReadable."""
    if not body.startswith(_MAGIC):
        raise NotReadable("no Kubernetes envelope")
    try:
        envelope = _message("Unknown", body[len(_MAGIC) :])
        kind = envelope.get("typeMeta", {})
        name = kind.get("kind", "")
        if not _NUMBERED.get(name):
            raise NotReadable(f"unknown kind {name}")
        return {**kind, **_message(name, base64.b64decode(envelope.get("raw", "")))}
    except (DecodeError, UnicodeDecodeError) as error:
        raise NotReadable(str(error)) from error


def _message(name: str, data: bytes) -> Json:
    result: Json = {}
    for number, value in _tokens(data):
        if number not in _NUMBERED[name]:
            if value in (b"", 0):
                continue
            raise NotReadable(f"field {number} of {name}")
        field, letter = _NUMBERED[name][number]
        if letter[:1] == "[":
            result.setdefault(field, []).append(_decoded(letter[1:-1], value))
        elif letter[:1] == "{":
            parts = dict(_tokens(_bytes(value)))
            key = _text(parts.get(1, b""))
            result.setdefault(field, {})[key] = _decoded(letter[1:-1], parts.get(2, b""))
        elif letter:
            result[field] = _decoded(letter, value)
    return result


def _decoded(letter: str, value: bytes | int) -> Any:
    decode = _SCALARS.get(letter)
    return decode(value) if decode else _message(letter, _bytes(value))


def _tokens(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Field numbers and raw values of a message; raises DecodeError, NotReadable."""
    message = Empty()
    message.ParseFromString(data)
    fields = UnknownFieldSet(message)
    for field in (fields[place] for place in range(len(fields))):
        if field.wire_type not in (_VARINT, _LENGTH):
            raise NotReadable(f"wire type {field.wire_type}")
        yield field.field_number, field.data


def _bytes(value: bytes | int) -> bytes:
    """The value of a length-delimited field; raises NotReadable for a varint, which is an int."""
    if isinstance(value, int):
        raise NotReadable("a number where bytes belong")
    return value


def _signed(value: bytes | int) -> int:
    """The value of a varint as int64; raises NotReadable for bytes."""
    if isinstance(value, bytes):
        raise NotReadable("bytes where a number belongs")
    return value - 2 * _NEGATIVE if value >= _NEGATIVE else value


def _text(value: bytes | int) -> str:
    return _bytes(value).decode()


def _int_or_string(value: bytes | int) -> int | str:
    parts = dict(_tokens(_bytes(value)))
    is_text = parts.get(1, 0) == _STRING_VALUE
    return _text(parts.get(3, b"")) if is_text else _signed(parts.get(2, 0))


_SCALARS: dict[str, Callable[[bytes | int], Any]] = {
    **dict.fromkeys("iz", _signed),
    **dict.fromkeys("bo", lambda value: bool(_signed(value))),
    **dict.fromkeys("se", _text),
    "y": lambda value: base64.b64encode(_bytes(value)).decode(),
    "q": lambda value: _text(dict(_tokens(_bytes(value))).get(1, b"")),
    "p": _int_or_string,
}
