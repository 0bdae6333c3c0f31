"""The exceptions that decoding arbitrary bytes may raise."""

import msgspec

#: msgspec's; bad UTF-8 and deep nesting do not raise DecodeError.
UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
