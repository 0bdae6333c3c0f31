"""QueueSort: spec.priority, then `sharedgpu/priority`, then age."""

from kubeshare_py.plugin import Pod


class PrioritySort:
    """Higher spec.priority first, then higher `sharedgpu/priority`, then the earlier creation.

    `sharedgpu/priority` is user input, so it only orders pods of equal spec.priority.
    """

    name = "PrioritySort"

    def key(self, pod: Pod) -> tuple[int | str, ...]:
        """The smallest key is tried first."""
        return (-pod.priority, -pod.label_priority, pod.created)
