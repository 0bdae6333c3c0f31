"""QueueSort: spec.priority, then `sharedgpu/priority`, then age."""

from kubeshare_py.domain.pod import Pod


class PrioritySort:
    """Higher priority first; within one, the label's priority; then the pod that was created first.

    `sharedgpu/priority` is user input, so it only orders pods that the cluster's own priority
    leaves equal.
    """

    name = "PrioritySort"

    def key(self, pod: Pod) -> tuple[int | str, ...]:
        """Ascending: the first to be tried is the smallest."""
        return (-pod.priority, -pod.label_priority, pod.created)
