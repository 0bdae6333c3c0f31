"""The kinds that this API server serves, one row each."""

from kubeshare_py.embedded_cluster.crd.crd_kind import DEFINITIONS
from kubeshare_py.embedded_cluster.kinds import cells, events, jobs, nodes, pods
from kubeshare_py.embedded_cluster.kinds.budgets import BUDGETS
from kubeshare_py.embedded_cluster.kinds.cluster_services import SERVICES
from kubeshare_py.embedded_cluster.kinds.device_claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
)
from kubeshare_py.embedded_cluster.kinds.pod_cells import POD_COLUMNS, pod_cells
from kubeshare_py.embedded_cluster.kinds.priorities import PRIORITY_CLASSES
from kubeshare_py.embedded_cluster.kinds.resource_slices import RESOURCE_SLICES
from kubeshare_py.embedded_cluster.kinds.services import API_SERVICES
from kubeshare_py.embedded_cluster.kinds.stateful_sets import (
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from kubeshare_py.embedded_cluster.kinds.storage_classes import (
    ATTACHMENTS,
    CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CLASSES,
)
from kubeshare_py.embedded_cluster.kinds.volume_claims import CLAIMS
from kubeshare_py.embedded_cluster.kinds.volumes import VOLUMES
from kubeshare_py.embedded_cluster.kinds.workloads import DEPLOYMENTS, REPLICA_SETS
from kubeshare_py.embedded_cluster.protocol.merge_keys import META_KEYS, POD_KEYS
from kubeshare_py.embedded_cluster.protocol.resources import (
    Resource,
    Subresource,
    status_subresource,
)

_EVENT_FIELDS = {
    "type": ("type",),
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    **{
        f"involvedObject.{name}": ("involvedObject", name)
        for name in (
            "kind",
            "namespace",
            "name",
            "uid",
            "apiVersion",
            "resourceVersion",
            "fieldPath",
        )
    },
}
_NEW_EVENT_FIELDS = {
    **{key: path for key, path in _EVENT_FIELDS.items() if "." not in key},
    "reportingController": ("reportingComponent",),
    **{
        key.replace("involvedObject", "regarding"): path
        for key, path in _EVENT_FIELDS.items()
        if "." in key
    },
}


PODS = Resource(
    plural="pods",
    kind="Pod",
    fields="Pod",
    short_names=("po",),
    categories=("all",),
    subresources=(
        status_subresource(),
        Subresource(name="binding", verbs=("create",), kind="Binding"),
        Subresource(
            name="eviction", verbs=("create",), kind="Eviction", group="policy", version="v1"
        ),
        Subresource(name="log", verbs=("get",)),
        Subresource(name="exec", verbs=("create", "get")),
        Subresource(name="attach", verbs=("create", "get")),
        Subresource(name="portforward", verbs=("create", "get")),
    ),
    columns=POD_COLUMNS,
    cells=pod_cells,
    merge_keys=POD_KEYS,
    selectable={
        **{
            f"spec.{name}": ("spec", name)
            for name in (
                "nodeName",
                "restartPolicy",
                "schedulerName",
                "serviceAccountName",
                "hostNetwork",
            )
        },
        **{
            f"status.{name}": ("status", name)
            for name in ("phase", "podIP", "podIPs", "nominatedNodeName")
        },
    },
    has_status=True,
    has_generation=True,
    returns_deleted=True,
    prepare=pods.prepare_pod,
    default=pods.default_pod,
    causes=pods.pod_causes,
    update_causes=pods.pod_update_causes,
)
NODES = Resource(
    plural="nodes",
    kind="Node",
    fields="Node",
    namespaced=False,
    short_names=("no",),
    subresources=(status_subresource(),),
    columns=cells.NODE_COLUMNS,
    cells=cells.node_cells,
    merge_keys={**META_KEYS, "conditions": "type", "addresses": "type", "podCIDRs": ""},
    selectable={"spec.unschedulable": ("spec", "unschedulable")},
    has_status=True,
    default=nodes.default_node,
    causes=nodes.node_causes,
)
NAMESPACES = Resource(
    plural="namespaces",
    kind="Namespace",
    fields="Namespace",
    namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(status_subresource(),),
    columns=cells.NAMESPACE_COLUMNS,
    cells=cells.namespace_cells,
    merge_keys={**META_KEYS, "conditions": "type"},
    selectable={"status.phase": ("status", "phase")},
    has_status=True,
    name_is_label=True,
    returns_deleted=True,
    prepare=nodes.prepare_namespace,
    ending=nodes.end_namespace,
)
EVENTS = Resource(
    plural="events",
    kind="Event",
    fields="CoreEvent",
    short_names=("ev",),
    columns=cells.EVENT_COLUMNS,
    cells=cells.event_cells,
    merge_keys=META_KEYS,
    selectable=_EVENT_FIELDS,
    create_on_update=True,
    bucket="events.",
    default=events.default_event,
    time_problem=events.micro_time_problem,
    causes=events.core_event_causes,
)
NEW_EVENTS = Resource(
    group="events.k8s.io",
    plural="events",
    kind="Event",
    fields="NewEvent",
    short_names=("ev",),
    columns=cells.EVENT_COLUMNS,
    cells=cells.event_cells,
    merge_keys=META_KEYS,
    selectable=_NEW_EVENT_FIELDS,
    create_on_update=True,
    bucket="events.",
    default=events.default_event,
    time_problem=events.micro_time_problem,
    causes=events.new_event_causes,
    update_causes=events.event_update_causes,
    present=events.present_new,
    absorb=events.absorb_new,
)
CONFIG_MAPS = Resource(
    plural="configmaps",
    kind="ConfigMap",
    fields="ConfigMap",
    short_names=("cm",),
    columns=cells.CONFIG_MAP_COLUMNS,
    cells=cells.config_map_cells,
    merge_keys=META_KEYS,
)
SERVICE_ACCOUNTS = Resource(
    plural="serviceaccounts",
    kind="ServiceAccount",
    fields="ServiceAccount",
    short_names=("sa",),
    merge_keys={**META_KEYS, "secrets": "name", "imagePullSecrets": "name"},
    returns_deleted=True,
)
LEASES = Resource(
    group="coordination.k8s.io",
    plural="leases",
    kind="Lease",
    fields="Lease",
    columns=cells.LEASE_COLUMNS,
    cells=cells.lease_cells,
    merge_keys=META_KEYS,
    create_on_update=True,
    time_problem=events.lease_time_problem,
)
JOBS = Resource(
    group="batch",
    plural="jobs",
    kind="Job",
    fields="Job",
    categories=("all",),
    subresources=(status_subresource(),),
    columns=cells.JOB_COLUMNS,
    cells=cells.job_cells,
    merge_keys=POD_KEYS,
    selectable={"status.successful": ("status", "succeeded")},
    has_status=True,
    has_generation=True,
    default_policy="Orphan",
    prepare=jobs.prepare_job,
    default=jobs.default_job,
    causes=jobs.job_causes,
    update_causes=jobs.job_update_causes,
)
KINDS = (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    CLAIMS,
    VOLUMES,
    PODS,
    SERVICE_ACCOUNTS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    JOBS,
    LEASES,
    NEW_EVENTS,
    BUDGETS,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    PRIORITY_CLASSES,
    CSI_DRIVERS,
    CSI_NODES,
    CAPACITIES,
    STORAGE_CLASSES,
    ATTACHMENTS,
    DEFINITIONS,
    API_SERVICES,
)
