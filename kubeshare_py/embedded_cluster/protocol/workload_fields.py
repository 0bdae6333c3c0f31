"""Fields of the kinds of apps/v1, policy/v1 and autoscaling/v1; letters as in `fields`."""

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
