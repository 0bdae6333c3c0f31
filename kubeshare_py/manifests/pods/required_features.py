"""Features that a pod needs its node to declare."""

from kubeshare_py.domain.needs.node_features import RESTART_ALL, USERS_ON_HOST_NETWORK
from kubeshare_py.manifests.pods.pod_fields import PodSpec


def required_features(spec: PodSpec) -> tuple[str, ...]:
    """Their names, sorted; empty for nearly every pod."""
    found = []
    for container in (spec.containers or ()) + (spec.init_containers or ()):
        rules = container.restart_policy_rules
        if rules and any(one.action == "RestartAllContainers" for one in rules):
            found.append(RESTART_ALL)
            break
    if spec.host_network and spec.host_users is False:
        found.append(USERS_ON_HOST_NETWORK)
    return tuple(found)
