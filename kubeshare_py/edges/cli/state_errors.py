"""Why the scheduler's state is not available, in sentences that a user can act on."""


class StateError(Exception):
    """No state is available; the text is for the user."""


class StateUnreachable(StateError):
    """The scheduler cannot be reached, or its answer cannot be understood."""


class StateRefused(StateError):
    """The scheduler or the API server refused the request."""


class HasEnded(StateError):
    """What is asked about has ended, so that there is nothing to say of its cards; no failure."""


class NotFound(StateRefused):
    """The requested object does not exist."""
