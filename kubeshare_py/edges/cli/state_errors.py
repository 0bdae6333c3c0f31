"""Why the scheduler's state could not be had, in sentences that a user can act on."""


class StateError(Exception):
    """No state; the text is for the user."""


class StateUnreachable(StateError):
    """There was no way to the scheduler, or nothing understandable at its end."""


class StateRefused(StateError):
    """The scheduler or the API server answered, and said no."""


class NotFound(StateRefused):
    """What was asked for does not exist."""
