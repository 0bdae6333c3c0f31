"""What decoding bytes from anywhere may raise."""

import msgspec

#: Of msgspec; bad UTF-8 and deep nesting are no DecodeError.
UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
