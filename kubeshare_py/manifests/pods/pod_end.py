"""How long containers of a bound pod may outlive its object, and whether they have ended.

What a kubelet does (release 1.36; files below pkg/kubelet of kubernetes/kubernetes):
- It deletes a pod, with grace 0, only after the API server shows a terminal phase and all its
  containers have ended (`canBeDeleted` in status/status_manager.go); a terminal phase is not
  reported before that. So a pod that disappears without one was removed by another client. Kubelets
  before 1.27 deleted it once its statuses said `terminated`.
- Deletion with grace 0 (`kubectl delete --force`) writes `deletionTimestamp` and
  `deletionGracePeriodSeconds: 0`, then removes the object: two watch events, milliseconds apart
  (`updateForGracefulDeletionAndFinalizers` in k8s.io/apiserver, pkg/registry/generic/registry).
- A kubelet that sees the first one ends the containers within 1 s for preStop hooks and 2 s from
  SIGTERM to SIGKILL (`calculateEffectiveGracePeriod` in pod_workers.go,
  `minimumGracePeriodInSeconds` in kuberuntime/kuberuntime_manager.go).
- A kubelet that was disconnected at that moment finds only that the pod is missing. It uses the
  grace period of the last object it knows, from when it notices: `deletionGracePeriodSeconds` if it
  had seen a deletion, else `terminationGracePeriodSeconds` (the same function, from `deletePod` and
  `removeTerminatedWorker`). Containers whose pod a restarted kubelet does not know get 1 s
  (`HandlePodCleanups` in kubelet_pods.go).
"""

from kubeshare_py.manifests.pods.pod_fields import ContainerStatus, PodFields

#: The API server's default of `terminationGracePeriodSeconds`.
_DEFAULT_GRACE_S = 30
#: A kubelet gives every container this time (s) between SIGTERM and SIGKILL, whatever was
#: requested.
MIN_GRACE_S = 2


def grace_s(pod: PodFields) -> int:
    """How long (s) its containers may run on from the moment of its deletion.

    The grace period of a deletion that is under way, else that of the spec.
    """
    under_way = pod.metadata.deletion_grace_period_seconds
    if under_way:
        return max(MIN_GRACE_S, under_way)
    given = pod.spec.termination_grace_period_seconds
    return max(MIN_GRACE_S, _DEFAULT_GRACE_S if given is None else given)


def has_stopped(pod: PodFields) -> bool:
    """Whether all its containers have ended in the course of a deletion with grace.

    Without such a deletion they may be restarted. Containers without a status, or waiting to be
    started, do not count as ended.
    """
    status, meta = pod.status, pod.metadata
    if meta.deletion_timestamp is None or not meta.deletion_grace_period_seconds:
        return False
    own = status.container_statuses or ()
    others = (*(status.init_container_statuses or ()), *(status.ephemeral_container_statuses or ()))
    return len(own) >= max(1, len(pod.spec.containers or ())) and all(map(_ended, (*own, *others)))


def _ended(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.terminated is not None
