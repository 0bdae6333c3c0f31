"""Whole cards and MIG instances, as pods of NVIDIA's device plugin ask for them.

`nvidia.com/gpu: 2` and `nvidia.com/mig-1g.5gb: 1` are the names of that plugin (its MIG strategy
`mixed`; https://github.com/NVIDIA/k8s-device-plugin). They are this dialect's on nodes whose own
agent serves them: there the scheduler chooses the cards. On other nodes the kubelet chooses, and
such a pod of this profile does not go there.
"""

from collections.abc import Sequence

from kubeshare_py.dialects.agent_annotation import serves
from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import Dialect, NodeKeys, OwnedKeys, PodAsk, Words
from kubeshare_py.domain.gpu import WHOLE_MILLI, PreferredModels, name_part
from kubeshare_py.domain.quantity import CLAIMED_CARDS, POD_CLAIMS
from kubeshare_py.domain.request import (
    CardRelation,
    ContainerClaim,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
#: The word in an instance's model before its profile, as in `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb`.
_INSTANCE = "MIG"


class Nvidia(Dialect):
    """Containers ask for whole cards or MIG instances.

    `mig` are the profiles of instances, as resources spell them: a dot for the plus of `+me`.
    """

    name = "nvidia"
    gives_way = True
    words = Words(
        title="NVIDIA's device plugin",
        documentation="https://github.com/NVIDIA/k8s-device-plugin",
    )

    def __init__(self, mig: Sequence[str] = ()) -> None:
        """Raises ValueError for a profile that cannot be part of a model's name."""
        self._models = {GPU: PreferredModels(denied=(_INSTANCE,))}
        for profile in mig:
            part = name_part(f"{_INSTANCE}-{profile.replace('.me', '+me')}")
            if part is None:
                raise ValueError(f"mig: {profile!r} is no profile")
            self._models[f"{MIG}{profile}"] = PreferredModels(tiers=((part,),))
        self.owns = OwnedKeys(contested=frozenset(self._models))
        self.container_rules = tuple(
            ContainerRule(resource, CardVisibility.WHOLE) for resource in sorted(self._models)
        )

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """A claim for each resource of each container; no card is in two of them."""
        claims = []
        for one in pod.containers:
            for resource, count in one.amounts:
                if not count:
                    continue
                problem = CLAIMED_CARDS.problem(count)
                if problem:
                    field = f"resources[{resource}]"
                    return InvalidRequest(field=field, value=str(count), rule=problem)
                claim = GpuClaim(
                    count=count,
                    milli=WHOLE_MILLI,
                    exclusive=True,
                    preferred=self._models[resource],
                )
                claims.append(ContainerClaim(claim=claim, container=one.container))
        if len(claims) > POD_CLAIMS.most:
            rule = f"number of containers that ask for it {POD_CLAIMS.problem(len(claims))}"
            return InvalidRequest(field=f"resources[{GPU}]", rule=rule)
        if not claims:
            return None
        return GpuRequest(
            claims=tuple(claims), dialect=self.name, relation=CardRelation.DIFFERENT_CARDS
        )

    def owns_on(self, resource: str, node: NodeKeys) -> bool:
        """Whether a device plugin of the node's agent serves the resource."""
        return serves(node.annotations, resource)
