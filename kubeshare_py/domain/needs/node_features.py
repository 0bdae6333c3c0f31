"""Features that a node's kubelet declares in `status.declaredFeatures`, as far as pods need them.

Source: component-helpers/nodedeclaredfeatures/features of Kubernetes 1.36, where two features
matter to a new pod. The API server refuses pods whose features its own release does not have.
"""

RESTART_ALL = "RestartAllContainersOnContainerExits"
USERS_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
#: All features that a pod can need.
NODE_FEATURES = frozenset({RESTART_ALL, USERS_ON_HOST_NETWORK})
