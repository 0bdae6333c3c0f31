"""What the author of a plugin imports; the tests of a plugin import `kubeshare_py.testing` too.

The promise: what is exported here, and by `kubeshare_py.testing`, keeps its name, its arguments and
its meaning while the first number of `API_VERSION` stays the same. The second number grows when a
name is added; values such as `Pod`, `GpuClaim` and `CardState` may gain fields at any time. All
other modules may change at any time.
"""

from kubeshare_py.cluster.columns import (
    ABSENT,
    CORDONED,
    CPU,
    CROWDED,
    EPHEMERAL_STORAGE,
    EXCLUDING,
    EXCLUSIVE,
    FIXED_RESOURCES,
    FLAG_VALUES,
    FOREIGN,
    HELD_BACK,
    MEMORY,
    PODS,
    PORT_RESOURCE,
    PORTS,
    UNHEALTHY,
    IntArray,
)
from kubeshare_py.cluster.pods.held_terms import HeldTerm, SelectingTerm, TermKind
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.cluster_objects import NamespaceObject, ObjectKey
from kubeshare_py.domain.needs.host_ports import HostPort
from kubeshare_py.domain.needs.inter_pod import (
    AffinityTerm,
    InterPodTerms,
    PodSelector,
    SpreadConstraint,
    WeightedTerm,
)
from kubeshare_py.domain.needs.object_writes import (
    ClaimVolume,
    ObjectRef,
    ObjectWrite,
    SelectNode,
)
from kubeshare_py.domain.needs.volumes import StaticBinding, VolumeChoice
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import NodeTerm, Pod, Shape, Toleration
from kubeshare_py.domain.preemption import Preemptor
from kubeshare_py.domain.readiness import ReadinessReport
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.adapters.node_state import CardState, NodeState
from kubeshare_py.framework.adapters.per_card import PerCardFilter, PerCardScore
from kubeshare_py.framework.adapters.per_node import PerNodeFilter, PerNodeScore
from kubeshare_py.framework.arguments import ArgumentError, checked
from kubeshare_py.framework.number_table import ModelTable, NumberTable
from kubeshare_py.framework.points import (
    MAX_PODS,
    READY,
    BestCards,
    ByHeadroom,
    CapacityBound,
    CardFilter,
    CardPredicate,
    CardPreselection,
    CardRank,
    CardScore,
    CardSetScore,
    Depends,
    Explain,
    Filter,
    GangScore,
    Ground,
    Guard,
    Locality,
    Normaliser,
    PendingPlacement,
    Permit,
    PostFilter,
    PreBind,
    PreBindAnswer,
    PreEnqueue,
    PreFilter,
    QueueingHint,
    QueueSort,
    Ready,
    Rejected,
    Reserve,
    RowFilter,
    RowHeadroom,
    RowScore,
    Score,
    Wait,
    lower_priority,
)
from kubeshare_py.framework.reasons import TOO_FEW_GPUS, ReasonTable
from kubeshare_py.framework.scores import MAX_SCORE
from kubeshare_py.topology.card_sets import CardSets
from kubeshare_py.topology.gang_context import GangContext

#: The version of all that is exported here and by `kubeshare_py.testing`.
API_VERSION = (1, 3)

__all__ = [
    "ABSENT",
    "API_VERSION",
    "CORDONED",
    "CPU",
    "CROWDED",
    "EPHEMERAL_STORAGE",
    "EXCLUDING",
    "EXCLUSIVE",
    "FIXED_RESOURCES",
    "FLAG_VALUES",
    "FOREIGN",
    "HELD_BACK",
    "MAX_PODS",
    "MAX_SCORE",
    "MEMORY",
    "PODS",
    "PORTS",
    "PORT_RESOURCE",
    "READY",
    "TOO_FEW_GPUS",
    "UNHEALTHY",
    "WHOLE_MILLI",
    "AffinityTerm",
    "Allocation",
    "ArgumentError",
    "BestCards",
    "ByHeadroom",
    "CapacityBound",
    "CardCharge",
    "CardFilter",
    "CardPredicate",
    "CardPreselection",
    "CardRank",
    "CardScore",
    "CardSetScore",
    "CardSets",
    "CardState",
    "ClaimVolume",
    "Depends",
    "Explain",
    "Filter",
    "GangContext",
    "GangScore",
    "GpuClaim",
    "GpuUuid",
    "Ground",
    "Guard",
    "HeldTerm",
    "HostPort",
    "IntArray",
    "InterPodTerms",
    "IsolationBackend",
    "Locality",
    "ModelTable",
    "NamespaceObject",
    "NodeName",
    "NodeState",
    "NodeTerm",
    "Normaliser",
    "NumberTable",
    "ObjectKey",
    "ObjectRef",
    "ObjectWrite",
    "PendingPlacement",
    "PerCardFilter",
    "PerCardScore",
    "PerNodeFilter",
    "PerNodeScore",
    "Permit",
    "Pod",
    "PodSelector",
    "PodUid",
    "PostFilter",
    "PreBind",
    "PreBindAnswer",
    "PreEnqueue",
    "PreFilter",
    "Preemptor",
    "QueueSort",
    "QueueingHint",
    "ReadinessReport",
    "Ready",
    "ReasonTable",
    "Rejected",
    "Requirement",
    "Reserve",
    "RowFilter",
    "RowHeadroom",
    "RowScore",
    "Rows",
    "Score",
    "SelectNode",
    "SelectingTerm",
    "Shape",
    "Shortfall",
    "SpreadConstraint",
    "StaticBinding",
    "Taint",
    "TermKind",
    "Toleration",
    "VolumeChoice",
    "Wait",
    "WeightedTerm",
    "checked",
    "lower_priority",
]
