"""A sentence about a pod that this scheduler does not know: its scheduler, or its end."""

from difflib import get_close_matches

#: The schedulerName of kubeshare-scheduler's first profile by default.
OUR_NAME = "kubeshare-scheduler"
#: The phases of pods that have ended.
ENDED = ("Succeeded", "Failed")
#: The schedulerName of pods that name none.
_DEFAULT = "default-scheduler"
_ALIKE = 0.7


def foreign_sentence(
    pod: str,
    *,
    scheduler: str,
    phase: str = "",
    node: str = "",
    message: str = "",
    asks_by: str = "",
    namespace: str = "default",
) -> str:
    """`pod` is NAMESPACE/NAME, `message` why its scheduler says that it waits.

    `asks_by` is a key of a dialect by which it asks for GPUs, "" if it has none.
    """
    if phase in ENDED:
        return f"pod {pod} has ended ({phase}): it holds nothing any more"
    if scheduler == OUR_NAME:
        return f"the scheduler has not seen pod {pod} yet, or serves no profile {scheduler}"
    if not node and get_close_matches(scheduler, [OUR_NAME], cutoff=_ALIKE):
        return (
            f"nobody here places {pod}: no scheduler is called {scheduler}. Did you mean "
            f"schedulerName: {OUR_NAME}? Create it anew with that"
        )
    if not node and asks_by and scheduler in ("", _DEFAULT):
        return (
            f"nobody here places {pod}: its schedulerName is {_DEFAULT}. It asks for {asks_by}: "
            f"kubectl label namespace {namespace} kubeshare.io/dialects=true and create it anew, "
            f"or set schedulerName: {OUR_NAME}"
        )
    where = f", on node {node}" if node else ""
    said = f", which says: {message}" if message else ""
    return (
        f"pod {pod} is scheduled by {scheduler}{where}{said}; kubeshare-scheduler decides only on "
        f"pods with its own schedulerName (schedulerName: {OUR_NAME})"
    )
