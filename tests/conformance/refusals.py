"""What a server says of an invalid object, without the parts that only Go writes."""

import re
from typing import Any

_GO_VALUE = re.compile(r"Invalid value: \{.*\}: ")


def told(status: Any) -> str:
    """The message after `is invalid: `; Go's form of a structure and its differences are left out.

    "" for an object that was accepted.
    """
    message = str(status.get("message", "")).partition("is invalid: ")[2]
    return _GO_VALUE.sub("Invalid value: {}: ", message.partition("\n")[0])
