"""Names of card models as pods write them: parts of the full name, in tiers, denied ones."""

import re
from dataclasses import dataclass

#: Stands for any letters, dashes included; alone for every model.
ANY = "*"

#: What a part of a name may consist of; RE2 reads it too.
PART = r"[A-Za-z0-9._+/()*-]{1,63}"

_PART = re.compile(PART)
_DASHES = re.compile(r"[ -]+")
_STARS = re.compile(r"\*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWish:
    """Which models a pod takes, and which it would rather have.

    `tiers` are the accepted models, best first; those of one tier are equally good. Without tiers
    any model will do. `denied` ones will not, wherever else they are named. All are parts of names
    (see `names_model`).
    """

    tiers: tuple[tuple[str, ...], ...] = ()
    denied: tuple[str, ...] = ()

    def denies(self, model: str) -> bool:
        """Whether the pod rules this model out by name."""
        return any(names_model(part, model) for part in self.denied)

    def tier(self, model: str) -> int | None:
        """The first tier that names this model; None if it is not taken."""
        if self.denies(model):
            return None
        if not self.tiers:
            return 0
        named = (
            number
            for number, parts in enumerate(self.tiers)
            if any(names_model(part, model) for part in parts)
        )
        return next(named, None)

    def __str__(self) -> str:
        """For people: `H100 > A100 but not MIG`."""
        tiers = " > ".join(", ".join(parts) for parts in self.tiers)
        denied = f" but not {', '.join(self.denied)}" if self.denied else ""
        return f"{tiers or 'any model'}{denied}"


def name_part(text: str) -> str | None:
    """A part of a name as it is compared: spaces are dashes, none at the ends. None for others."""
    part = _STARS.sub(ANY, _DASHES.sub("-", text).strip("-"))
    return part if _PART.fullmatch(part) else None


def names_model(part: str, model: str) -> bool:
    """Whether this part of a name names the model: some of its words, in a row, case aside.

    Words are what stands between dashes, and spaces count as dashes: `A100` names
    `NVIDIA-A100-SXM4-40GB`, and `L40` does not name `NVIDIA-L40S`, though `L40*` does. The time is
    linear in the model's length and in the number of stars: what is between stars is looked for
    from the left, each piece behind the one before.
    """
    if part == model:
        return True
    text = f"-{model.replace(' ', '-').lower()}-"
    start = 0
    for piece in f"-{part.lower()}-".split(ANY):
        found = text.find(piece, start)
        if found < 0:
            return False
        start = found + len(piece)
    return True
