"""The message and exit code of `kubectl kubeshare` when it cannot answer."""

from rich.console import Console
from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.edges.cli.state_errors import NotFound, StateUnreachable

OK, REFUSED, UNREACHABLE = 0, 1, 3


def fail(error: Exception, err: Console) -> int:
    """Print the error, in kubectl's words where it has some; the exit code."""
    head = "Error from server (NotFound)" if isinstance(error, NotFound) else "Error"
    err.print(Text(f"{head}: {printable(str(error))}", style="red"), soft_wrap=True)
    return UNREACHABLE if isinstance(error, StateUnreachable) else REFUSED
