"""The kinds that this API server serves, one row each."""

from kubeshare_py.embedded_cluster.kinds import core_v1, devices, pods, services, storage, workloads
from kubeshare_py.embedded_cluster.kinds.definitions import DEFINITIONS

KINDS = (
    core_v1.CONFIG_MAPS,
    core_v1.EVENTS,
    core_v1.NAMESPACES,
    core_v1.NODES,
    storage.CLAIMS,
    storage.VOLUMES,
    pods.PODS,
    core_v1.SERVICE_ACCOUNTS,
    workloads.REPLICATION_CONTROLLERS,
    services.SERVICES,
    workloads.DEPLOYMENTS,
    workloads.REPLICA_SETS,
    workloads.STATEFUL_SETS,
    workloads.JOBS,
    core_v1.LEASES,
    core_v1.NEW_EVENTS,
    workloads.BUDGETS,
    devices.DEVICE_CLASSES,
    devices.RESOURCE_CLAIMS,
    devices.CLAIM_TEMPLATES,
    devices.RESOURCE_SLICES,
    pods.PRIORITY_CLASSES,
    storage.CSI_DRIVERS,
    storage.CSI_NODES,
    storage.CAPACITIES,
    storage.STORAGE_CLASSES,
    storage.ATTACHMENTS,
    DEFINITIONS,
    services.API_SERVICES,
)
