"""The plugins of this project; each file holds one plugin and the reasons for its rules.

Profiles take plugins by name from the table `IN_TREE`; nothing registers itself on import.
"""

from collections.abc import Mapping

from kubeshare_plugins.avoid_gpu_nodes import AvoidGpuNodes
from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.coscheduling import Coscheduling
from kubeshare_plugins.default_preemption import DefaultPreemption
from kubeshare_plugins.dialect_nodes import DialectNodes
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_model import GpuModel
from kubeshare_plugins.gpu_names import GpuNames
from kubeshare_plugins.gpu_tags import GpuTags
from kubeshare_plugins.gpu_uuids import GpuUuids
from kubeshare_plugins.isolation_ready import IsolationReady
from kubeshare_plugins.kubernetes.dynamic_resources import DynamicResources
from kubeshare_plugins.kubernetes.image_locality import ImageLocality
from kubeshare_plugins.kubernetes.inter_pod_affinity import InterPodAffinity
from kubeshare_plugins.kubernetes.node_affinity import NodeAffinity
from kubeshare_plugins.kubernetes.node_declared_features import NodeDeclaredFeatures
from kubeshare_plugins.kubernetes.node_ports import NodePorts
from kubeshare_plugins.kubernetes.node_resources_fit import (
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
)
from kubeshare_plugins.kubernetes.pod_topology_spread import PodTopologySpread
from kubeshare_plugins.kubernetes.taint_toleration import NodeUnschedulable, TaintToleration
from kubeshare_plugins.kubernetes.volume_binding import (
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)
from kubeshare_plugins.kubeshare_guarantee import KubeShareGuarantee
from kubeshare_plugins.kubeshare_opportunistic import KubeShareOpportunistic
from kubeshare_plugins.least_tenants import LeastTenants
from kubeshare_plugins.model_preference import ModelPreference
from kubeshare_plugins.model_worth import ModelWorth
from kubeshare_plugins.numa_binding import NumaBinding
from kubeshare_plugins.one_model import OneModel
from kubeshare_plugins.pod_policy import PodPolicy
from kubeshare_plugins.priority_sort import PrioritySort
from kubeshare_plugins.random_choice import Random
from kubeshare_plugins.rdma_proximity import RdmaProximity
from kubeshare_plugins.spread import Spread
from kubeshare_plugins.topology import Topology
from kubeshare_py.framework.profile_making import PluginFactory, Trusted

_PLUGINS: Mapping[str, PluginFactory] = {
    "PrioritySort": PrioritySort,
    "NodeUnschedulable": NodeUnschedulable,
    "TaintToleration": TaintToleration,
    "NodeAffinity": NodeAffinity,
    "NodePorts": NodePorts,
    "ImageLocality": ImageLocality,
    "DynamicResources": DynamicResources,
    "NodeResourcesFit": NodeResourcesFit,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
    "NodeDeclaredFeatures": NodeDeclaredFeatures,
    "DialectNodes": DialectNodes,
    "VolumeRestrictions": VolumeRestrictions,
    "NodeVolumeLimits": NodeVolumeLimits,
    "VolumeBinding": VolumeBinding,
    "VolumeZone": VolumeZone,
    "PodTopologySpread": PodTopologySpread,
    "InterPodAffinity": InterPodAffinity,
    "GpuFit": GpuFit,
    "GpuModel": GpuModel,
    "GpuUuids": GpuUuids,
    "GpuNames": GpuNames,
    "GpuTags": GpuTags,
    "OneModel": OneModel,
    "NumaBinding": NumaBinding,
    "DefaultPreemption": DefaultPreemption,
    "BinPack": BinPack,
    "Spread": Spread,
    "Random": Random,
    "LeastTenants": LeastTenants,
    "KubeShareOpportunistic": KubeShareOpportunistic,
    "KubeShareGuarantee": KubeShareGuarantee,
    "AvoidGpuNodes": AvoidGpuNodes,
    "Topology": Topology,
    "Coscheduling": Coscheduling,
    "ModelPreference": ModelPreference,
    "ModelWorth": ModelWorth,
    "IsolationReady": IsolationReady,
    "RdmaProximity": RdmaProximity,
    "PodPolicy": PodPolicy,
}

IN_TREE: Mapping[str, PluginFactory] = {
    name: Trusted(factory) for name, factory in _PLUGINS.items()
}
