"""Fields of workloads and of their budgets; letters as in `fields`."""

_TOP = "apiVersion:s kind:s metadata:Meta"
WORKLOAD_TYPES = {
    "Deployment": f"{_TOP} spec:DeploymentSpec status:DeploymentStatus",
    "DeploymentSpec": (
        "replicas:i selector:Selector template:PodTemplate strategy:DeploymentStrategy "
        "minReadySeconds:z revisionHistoryLimit:i paused:o progressDeadlineSeconds:i"
    ),
    "DeploymentStrategy": "type:s rollingUpdate:RollingUpdateDeployment",
    "RollingUpdateDeployment": "maxUnavailable:p maxSurge:p",
    "DeploymentStatus": (
        "observedGeneration:z replicas:z updatedReplicas:z readyReplicas:z availableReplicas:z "
        "unavailableReplicas:z terminatingReplicas:i conditions:[Condition] collisionCount:i"
    ),
    "ReplicaSet": f"{_TOP} spec:ReplicaSetSpec status:ReplicaSetStatus",
    "ReplicaSetSpec": "replicas:i minReadySeconds:z selector:Selector template:PodTemplate",
    "ReplicaSetStatus": (
        "replicas:i fullyLabeledReplicas:z readyReplicas:z availableReplicas:z "
        "terminatingReplicas:i observedGeneration:z conditions:[Condition]"
    ),
    "StatefulSet": f"{_TOP} spec:StatefulSetSpec status:StatefulSetStatus",
    "StatefulSetSpec": (
        "replicas:i selector:Selector template:PodTemplate serviceName:s podManagementPolicy:s "
        "volumeClaimTemplates:[PersistentVolumeClaim] updateStrategy:StatefulSetStrategy "
        "revisionHistoryLimit:i minReadySeconds:z ordinals:StatefulSetOrdinals "
        "persistentVolumeClaimRetentionPolicy:ClaimRetention"
    ),
    "StatefulSetStrategy": "type:s rollingUpdate:RollingUpdateStatefulSet",
    "RollingUpdateStatefulSet": "partition:i maxUnavailable:p",
    "StatefulSetOrdinals": "start:i",
    "ClaimRetention": "whenDeleted:s whenScaled:s",
    "StatefulSetStatus": (
        "observedGeneration:z replicas:i readyReplicas:z currentReplicas:z updatedReplicas:z "
        "currentRevision:s updateRevision:s collisionCount:i conditions:[Condition] "
        "availableReplicas:i"
    ),
    "ReplicationController": f"{_TOP} spec:ReplicationControllerSpec status:ReplicaSetStatus",
    "ReplicationControllerSpec": "replicas:i minReadySeconds:z selector:{s} template:PodTemplate",
    "Scale": f"{_TOP} spec:ScaleSpec status:ScaleStatus",
    "ScaleSpec": "replicas:z",
    "ScaleStatus": "replicas:i selector:s",
    "PodDisruptionBudget": f"{_TOP} spec:BudgetSpec status:BudgetStatus",
    "BudgetSpec": (
        "minAvailable:p selector:Selector maxUnavailable:p unhealthyPodEvictionPolicy:s"
    ),
    "BudgetStatus": (
        "observedGeneration:z disruptedPods:{s} disruptionsAllowed:i currentHealthy:i "
        "desiredHealthy:i expectedPods:i conditions:[StandardCondition]"
    ),
    "StandardCondition": (
        "type:e status:e observedGeneration:z lastTransitionTime:s reason:e message:e"
    ),
}
