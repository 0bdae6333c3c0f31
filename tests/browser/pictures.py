"""Pictures of the page, compared with kept ones: other fonts may move letters, not the design.

`KUBESHARE_WRITE_GOLDEN=1 make browser` writes them anew; their difference is then looked at.
"""

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "pictures"
#: For the README.
README = ROOT / "docs" / "dashboard.png"
_WRITE = "KUBESHARE_WRITE_GOLDEN"
#: Both pictures are made so much smaller, so that the shapes of letters do not count. A pixel
#: differs by more than DIFFERENT of 255 in some colour; MOST of 1,000 may.
SMALLER, DIFFERENT, MOST = 8, 48, 25

_COMPARE = """
(async () => {
  const load = async (data) =>
    createImageBitmap(await (await fetch("data:image/png;base64," + data)).blob());
  const [one, other] = await Promise.all([load(%r), load(%r)]);
  if (one.width !== other.width || one.height !== other.height) return 1000;
  const pixels = (picture) => {
    const canvas = new OffscreenCanvas(Math.ceil(one.width / %d), Math.ceil(one.height / %d));
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    return context.getImageData(0, 0, canvas.width, canvas.height).data;
  };
  const [a, b] = [pixels(one), pixels(other)];
  let different = 0;
  for (let at = 0; at < a.length; at += 4)
    if ([0, 1, 2].some((one) => Math.abs(a[at + one] - b[at + one]) > %d)) different += 1;
  return (different * 4000) / a.length;
})()
"""


async def expect_picture(path: Path, picture: bytes, open_tab: Callable[[], Any]) -> None:
    """Fail unless the picture is like the kept one; a new one is put beside it then."""
    if _WRITE in os.environ:
        _keep(path, picture)
        return
    kept = _kept(path)
    one, other = (base64.b64encode(data).decode() for data in (kept, picture))
    async with open_tab() as blank:
        script = _COMPARE % (one, other, SMALLER, SMALLER, DIFFERENT)
        different = await blank.run(script) if kept else 1000
    if different > MOST:
        new = ROOT / ".browser" / path.name
        _keep(new, picture)
        pytest.fail(f"{different:.0f} of 1,000 pixels differ from {path}: see {new}", pytrace=False)


def _keep(path: Path, picture: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(picture)


def _kept(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
