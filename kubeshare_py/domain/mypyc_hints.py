"""Hints for mypyc about single classes. They mean nothing where the package is not compiled.

`mypyc_attr(native_class=False)` leaves a class to Python, so that it has a `__dict__` and weak
references may point to it. The name is that of mypy_extensions, which is not installed with the
package.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr"]

T = TypeVar("T")

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**hints: bool) -> Callable[[type[T]], type[T]]:
        """Return a decorator that changes nothing."""
        return lambda cls: cls
