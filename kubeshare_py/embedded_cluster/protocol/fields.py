"""The fields of the served kinds, with their types; `pruning` reads this.

One line a type. Letters: `s` string, `e` string kept when empty, `i` integer, `z` integer left out
when 0, `n` number, `b` boolean, `o` boolean left out when false, `q` quantity, `p` integer or
percentage, `*` anything, `j` anything, kept when empty, `{x}` map of x, `[x]` list of x, `?x` an x
or something else, else a type's name. Deep parts that are not used here are `*`. Nulls, empty
lists, empty strings and empty maps vanish, as they do on the real server's way through Go structs
with omitempty.
"""

from kubeshare_py.embedded_cluster.protocol.crd_fields import CRD_TYPES
from kubeshare_py.embedded_cluster.protocol.device_fields import DEVICE_TYPES
from kubeshare_py.embedded_cluster.protocol.storage_fields import STORAGE_TYPES
from kubeshare_py.embedded_cluster.protocol.workload_fields import WORKLOAD_TYPES

_META = (
    "name:s generateName:s namespace:s selfLink:s uid:s resourceVersion:s generation:i "
    "creationTimestamp:s deletionTimestamp:s deletionGracePeriodSeconds:i labels:{s} "
    "annotations:{s} ownerReferences:[OwnerReference] finalizers:[s] managedFields:*"
)
_TOP = "apiVersion:s kind:s metadata:Meta"
TYPES = {
    **CRD_TYPES,
    **DEVICE_TYPES,
    **STORAGE_TYPES,
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
        "os:* hostUsers:b schedulingGates:[Named] resourceClaims:[PodClaim] resources:Resources "
        "hostnameOverride:s schedulingGroup:* workloadRef:*"
    ),
    "PodClaim": "name:s resourceClaimName:s resourceClaimTemplateName:s",
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
    "Affinity": "nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAffinity",
    "PodAffinity": (
        "requiredDuringSchedulingIgnoredDuringExecution:[PodTerm] "
        "preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodTerm]"
    ),
    "PodTerm": (
        "labelSelector:Selector namespaces:[s] topologyKey:e namespaceSelector:Selector "
        "matchLabelKeys:[s] mismatchLabelKeys:[s]"
    ),
    "WeightedPodTerm": "weight:i podAffinityTerm:PodTerm",
    "NodeAffinity": (
        "requiredDuringSchedulingIgnoredDuringExecution:NodeTerms "
        "preferredDuringSchedulingIgnoredDuringExecution:[PreferredTerm]"
    ),
    "NodeTerms": "nodeSelectorTerms:[NodeTerm]",
    "NodeTerm": "matchExpressions:[Requirement] matchFields:[Requirement]",
    "PreferredTerm": "weight:i preference:NodeTerm",
    "Volume": (
        "name:s hostPath:HostPath emptyDir:* gcePersistentDisk:* awsElasticBlockStore:* gitRepo:* "
        "secret:* nfs:* iscsi:* glusterfs:* persistentVolumeClaim:ClaimVolume rbd:* "
        "flexVolume:* cinder:* cephfs:* flocker:* downwardAPI:* fc:* azureFile:* configMap:* "
        "vsphereVolume:* quobyte:* azureDisk:* photonPersistentDisk:* projected:* "
        "portworxVolume:* scaleIO:* storageos:* csi:* ephemeral:EphemeralVolume image:*"
    ),
    "ClaimVolume": "claimName:s readOnly:o",
    "EphemeralVolume": "volumeClaimTemplate:VolumeClaimTemplate",
    "VolumeClaimTemplate": "metadata:Meta spec:VolumeClaimSpec",
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
        "ephemeralContainerStatuses:* resize:s resourceClaimStatuses:[PodClaimStatus] "
        "extendedResourceClaimStatus:* allocatedResources:{q} resources:Resources"
    ),
    "PodClaimStatus": "name:s resourceClaimName:s",
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
    "APIService": f"{_TOP} spec:APIServiceSpec status:APIServiceStatus",
    "APIServiceSpec": (
        "service:APIServiceReference group:s version:s insecureSkipTLSVerify:o caBundle:s "
        "groupPriorityMinimum:i versionPriority:i"
    ),
    "APIServiceReference": "namespace:s name:s port:i",
    "APIServiceStatus": "conditions:[Condition]",
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
