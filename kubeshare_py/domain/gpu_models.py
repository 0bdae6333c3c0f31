"""Names of card models as pods write them: parts of the full name, in tiers, and denied ones."""

import re
from dataclasses import dataclass

from kubeshare_py.domain.bounds import CARD_NAME

#: Stands for any letters, dashes included; alone for every model.
ANY = "*"

#: What a part of a name may consist of; RE2 reads it too. A part may be as long as a model's whole
#: name, which a label value may not: "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition MIG
#: 2g.48gb" has 67 characters.
PART = rf"[A-Za-z0-9._+/()*-]{{1,{CARD_NAME.most}}}"

_PART = re.compile(PART)
_DASHES = re.compile(r"[ -]+")
_STARS = re.compile(r"\*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredModels:
    """The models that a pod accepts and prefers.

    `tiers` are the accepted models, best first; models of one tier are equally good. Without tiers,
    any model is accepted. `denied` models are not, even if they are in a tier. All are parts of
    names (see `names_model`).
    """

    tiers: tuple[tuple[str, ...], ...] = ()
    denied: tuple[str, ...] = ()

    def denies(self, model: str) -> bool:
        """Whether the pod excludes this model by name."""
        return any(names_model(part, model) for part in self.denied)

    def tier(self, model: str) -> int | None:
        """The index of the first tier with this model; None if it is not accepted."""
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
    """A part of a name in the compared form: dashes for spaces, none at the ends. None if bad."""
    part = _STARS.sub(ANY, _DASHES.sub("-", text).strip("-"))
    return part if _PART.fullmatch(part) else None


def names_model(part: str, model: str) -> bool:
    """Whether this part of a name matches the model: some of its words, in a row, case ignored.

    Words are separated by dashes or spaces, and several count as one: `A100` matches
    `NVIDIA-A100-SXM4-40GB`, and `L40` does not match `NVIDIA-L40S`, though `L40*` does. The time is
    linear in the model's length and in the number of stars: each piece between stars is searched
    from the left, behind the last one.
    """
    if part == model:
        return True
    text = f"-{_DASHES.sub('-', model).strip('-').lower()}-"
    start = 0
    for piece in f"-{part.lower()}-".split(ANY):
        found = text.find(piece, start)
        if found < 0:
            return False
        start = found + len(piece)
    return True
