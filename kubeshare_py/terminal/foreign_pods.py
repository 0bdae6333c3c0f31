"""A sentence about a pod that this scheduler does not know: its scheduler, or its end."""

#: The schedulerName of kubeshare-scheduler's first profile by default.
OUR_NAME = "kubeshare-scheduler"
#: The phases of pods that have ended.
ENDED = ("Succeeded", "Failed")


def foreign_sentence(
    pod: str, *, scheduler: str, phase: str = "", node: str = "", message: str = ""
) -> str:
    """`pod` is NAMESPACE/NAME, `message` why its scheduler says that it waits."""
    if phase in ENDED:
        return f"pod {pod} has ended ({phase}): it holds nothing any more"
    if scheduler == OUR_NAME:
        return f"the scheduler has not seen pod {pod} yet, or serves no profile {scheduler}"
    where = f", on node {node}" if node else ""
    said = f", which says: {message}" if message else ""
    return (
        f"pod {pod} is scheduled by {scheduler}{where}{said}; kubeshare-scheduler decides only on "
        f"pods with its own schedulerName (schedulerName: {OUR_NAME})"
    )
