"""Objects as an API server keeps them, all in order: what tests of foreign input begin with."""

from typing import Any

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.domain.cluster_objects import GroupApi
from kubeshare_py.inventory.node_annotations import ANNOTATION, write_cards
from tests.making import some_gpus

ALLOCATION = (
    '{"v":1,"token":"t","dialect":"sharedgpu","claims":[{"uuid":"GPU-n1-0","milli":500,'
    '"bytes":1073741824,"model":"m","cell":"n/1"}],"exclusive":false,"port":50051,"group":"g",'
    '"min":2,"isolation":"mps","limit":1000}'
)
#: Of a pod whose containers differ: two of them share a card.
ALLOCATION_BY_CONTAINER = (
    '{"v":2,"token":"t","dialect":"d","claims":[{"container":"container-0","limit_milli":500,'
    '"cards":[{"uuid":"GPU-n1-0","milli":500,"bytes":1073741824,"model":"m","cell":"n/1"}]},'
    '{"container":"init-1","limit_milli":0,"cards":[{"uuid":"GPU-n1-0","milli":100,"bytes":1},'
    '{"uuid":"GPU-n1-1","milli":1000,"bytes":1073741824,"exclusive":true}]}],"port":50051,'
    '"group":"g","min":2,"isolation":"mps","limit":500}'
)
POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u1",
        "resourceVersion": "5",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "sharedgpu/gpu_limit": "1.0",
            "sharedgpu/gpu_request": "0.5",
            "sharedgpu/gpu_mem": "1073741824",
            "sharedgpu/priority": "5",
            "sharedgpu/group_name": "g",
            "sharedgpu/group_headcount": "2",
            "sharedgpu/group_threshold": "0.5",
            "sharedgpu/gpu_model": "NVIDIA-A100-SXM4-40GB",
        },
        "annotations": {
            "sharedgpu/gpu_models": "A100 > *",
            "sharedgpu/group_within": "zone",
            "sharedgpu/gpu_uuid": "GPU-n1-0",
            "sharedgpu/allocation": ALLOCATION,
        },
        "ownerReferences": [{"uid": "o", "controller": True}],
    },
    "spec": {
        "schedulerName": SCHEDULER_NAME,
        "priority": 7,
        "preemptionPolicy": "PreemptLowerPriority",
        "containers": [
            {
                "name": "c",
                "image": "registry.example/c:1",
                "resources": {
                    "requests": {"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "0"},
                    "limits": {"cpu": 1},
                },
                "ports": [
                    {"containerPort": 80, "hostPort": 0},
                    {"containerPort": 81, "hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"},
                ],
                "restartPolicyRules": [{"action": "Restart"}],
            }
        ],
        "initContainers": [{"name": "i", "restartPolicy": "Always"}],
        "hostNetwork": True,
        "hostUsers": True,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "overhead": {"cpu": "10m"},
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "size", "operator": "Gt", "values": ["3"]},
                                {"key": "zone", "operator": "In", "values": ["a"]},
                            ]
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 7,
                        "preference": {
                            "matchExpressions": [
                                {"key": "zone", "operator": "NotIn", "values": ["b"]}
                            ],
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["n1"]}
                            ],
                        },
                    }
                ],
            }
        },
        "tolerations": [{"key": "k", "operator": "Exists", "value": "", "effect": ""}],
    },
    "status": {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"},
}
LOOSE = {**POD, "metadata": {**POD["metadata"], "labels": {"sharedgpu/gpu_request": "0.5"}}}
NODE: dict[str, Any] = {
    "metadata": {
        "name": "n1",
        "resourceVersion": "5",
        "labels": {"zone": "a", "size": "5"},
        "annotations": {ANNOTATION: write_cards(some_gpus("n1", 2))},
    },
    "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "images": [{"names": ["registry.example/c:1"], "sizeBytes": 7}],
        "declaredFeatures": ["UserNamespacesHostNetworkSupport"],
    },
}
GROUPS = {
    GroupApi.COSCHEDULING: {
        "metadata": {"name": "g", "namespace": "ns", "annotations": {"sharedgpu/group_within": ""}},
        "spec": {"minMember": 2, "minResources": {"cpu": 1}},
    },
    GroupApi.KUBERNETES: {
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
        },
    },
}
BUDGET = {
    "metadata": {"name": "b", "namespace": "ns"},
    "spec": {
        "selector": {
            "matchLabels": {"app": "x"},
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}],
        }
    },
    "status": {"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
}
LEASE = {
    "metadata": {"name": "l", "resourceVersion": "5", "annotations": {"a": "b"}},
    "spec": {
        "holderIdentity": "h",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 3,
    },
}
_LINE = {"key": "tier", "operator": "Exists"}
_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
#: Objects that placement depends on besides pods and nodes, by the names of their resources.
OBJECTS: dict[str, dict[str, Any]] = {
    "namespaces": {"metadata": {"name": "ns", "labels": {"team": "a"}}},
    "persistentvolumeclaims": {
        "metadata": {
            "name": "c",
            "namespace": "ns",
            "uid": "u",
            "annotations": {"volume.kubernetes.io/selected-node": "n1"},
            "ownerReferences": [{"uid": "p", "controller": True}],
        },
        "spec": {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOncePod"],
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": {"a": "b"}},
            "volumeName": "v",
        },
        "status": {"phase": "Bound"},
    },
    "persistentvolumes": {
        "metadata": {"name": "v", "labels": {"a": "b"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "ns", "name": "c", "uid": "u"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_TERM]}},
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
        "status": {"phase": "Bound"},
    },
    "storageclasses": {
        "metadata": {"name": "fast"},
        "provisioner": "d",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    },
    "csinodes": {
        "metadata": {"name": "n1"},
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 3}}]},
    },
    "csidrivers": {"metadata": {"name": "d"}, "spec": {"storageCapacity": True}},
    "csistoragecapacities": {
        "metadata": {"name": "k", "namespace": "ns"},
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
        "capacity": "10Gi",
    },
    "volumeattachments": {
        "metadata": {"name": "a"},
        "spec": {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "v"}},
    },
    "services": {
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    },
    "replicationcontrollers": {
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"replicas": 2, "selector": {"app": "web"}},
    },
    "replicasets": {
        "metadata": {"name": "web-1", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": [_LINE]}},
    },
    "statefulsets": {
        "metadata": {"name": "db", "namespace": "ns"},
        "spec": {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}}},
    },
    "resourcequotas": {
        "metadata": {"name": "gpus", "namespace": "ns"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "4000", "pods": "10"}},
    },
    "deviceclasses": {
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]},
    },
    "resourceslices": {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [_TERM]},
            "devices": [
                {
                    "name": "a",
                    "attributes": {
                        "uuid": {"string": "GPU-1"},
                        "index": {"int": 1},
                        "healthy": {"bool": True},
                        "x.example.com/firmware": {"version": "1.2.3"},
                    },
                    "capacity": {"memory": {"value": "40Gi"}},
                    "taints": [{"key": "k", "effect": "NoSchedule"}],
                }
            ],
        },
    },
    "resourceclaims": {
        "metadata": {
            "name": "c",
            "namespace": "ns",
            "uid": "u",
            "ownerReferences": [{"uid": "p", "controller": True}],
        },
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}},
                    {"name": "s", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]},
                ],
                "constraints": [{"requests": ["r"], "matchAttribute": "d/index"}],
                "config": [{"opaque": {"driver": "d", "parameters": {"a": 1}}}],
            }
        },
        "status": {
            "allocation": {
                "devices": {
                    "results": [{"request": "r", "driver": "d", "pool": "n1", "device": "a"}]
                },
                "nodeSelector": {"nodeSelectorTerms": [_TERM]},
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
        },
    },
}
