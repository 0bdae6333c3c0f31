"""How strategic merge patches merge the lists of metadata and of pods, by field name."""

META_KEYS = {"ownerReferences": "uid", "finalizers": ""}
POD_KEYS = {
    **META_KEYS,
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "ports": "containerPort",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "resourceClaimStatuses": "name",
}
