"""What HAMi's webhook adds to pods and which it refuses, for pods of this dialect.

The rules are those of pkg/scheduler/webhook.go and of MutateAdmission in
pkg/device/nvidia/device.go of github.com/Project-HAMi/HAMi. 4paradigm's scheduler adds the
priority alone, and to its first container alone; here each container gets its own.
"""

from collections.abc import Mapping, Sequence

from kubeshare_py.dialects.admitted import NOTHING_ADDED, Admitted, NewContainer
from kubeshare_py.dialects.hami.amounts import is_alone_by_default, parts_of
from kubeshare_py.dialects.hami.keys import CARD_CORES, SEED, HamiSettings

#: HAMi-core's variable for `nvidia.com/priority`.
TASK_PRIORITY = "CUDA_TASK_PRIORITY"
PRIVILEGED_RULE = (
    "is privileged, so that no limit holds it: it cannot be in a pod that asks for parts of GPUs"
)
NODE_RULE = "it asks for GPUs and names its node: spec.nodeName must be empty"


def admitted(
    containers: Sequence[NewContainer], settings: HamiSettings, *, has_node: bool
) -> Admitted | str:
    """What is added to a new pod, or why it is refused."""
    asking = [one for one in containers if _asks(one.amounts, settings)]
    if not asking:
        return NOTHING_ADDED
    privileged = next((one for one in containers if one.privileged), None)
    if privileged is not None:
        return f"container {privileged.name} {PRIVILEGED_RULE}"
    if has_node:
        return NODE_RULE
    limits = {one.container: _limits(one.amounts, settings) for one in asking}
    variables = {
        one.container: ((TASK_PRIORITY, str(one.amounts[settings.priority])),)
        for one in containers
        if settings.priority in one.amounts
    }
    return Admitted(
        limits={container: added for container, added in limits.items() if added},
        variables=variables,
    )


def _asks(amounts: Mapping[str, int], settings: HamiSettings) -> bool:
    """Whether the container gets cards; a part of 0 asks too, as it does in HAMi."""
    has_part = any(name in amounts for name in parts_of(settings))
    by_default = has_part and settings.default_gpu_num > 0 and settings.profile != SEED
    return bool(amounts.get(settings.count)) or by_default


def _limits(amounts: Mapping[str, int], settings: HamiSettings) -> tuple[tuple[str, int], ...]:
    """The count of a container that asks for parts alone; all cores of one that asks for none."""
    if settings.profile == SEED:
        return ()
    has_count = settings.count in amounts
    count = () if has_count else ((settings.count, settings.default_gpu_num),)
    alone = is_alone_by_default(amounts, settings)
    return (*count, *(((settings.cores, CARD_CORES),) if alone else ()))
