"""Chromium without a window, driven by the DevTools protocol over aiohttp: no driver to install.

https://chromedevtools.github.io/devtools-protocol/
"""

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.patience import PATIENCE_S

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ABSENT = (
    "no Chromium on this machine: Debian's package is chromium, and any of "
    f"{', '.join(NAMES)} on the PATH is used"
)
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # as root, in a container; only pages of this machine are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--no-first-run",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-sync",
    "--remote-debugging-port=0",
)

Json = dict[str, Any]


def found() -> str | None:
    """The browser's path; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Broken(AssertionError):
    """A script of a test failed in the page; the text is its error."""


@dataclass(eq=False, slots=True)
class Tab:
    """A tab of the browser. `errors` are exceptions and refused requests of its page."""

    _socket: aiohttp.ClientWebSocketResponse
    session: str = ""
    errors: list[str] = field(default_factory=list)
    #: The addresses of all requests.
    requests: list[str] = field(default_factory=list)
    _number: int = 0
    _answers: dict[int, "asyncio.Future[Json]"] = field(default_factory=dict)
    _events: dict[str, list[Callable[[Json], None]]] = field(default_factory=dict)

    async def ask(self, method: str, **parameters: object) -> Json:
        """Send a command and return its answer. Raises Broken."""
        self._number += 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._answers[self._number] = answer
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        await self._socket.send_str(json.dumps(message))
        async with asyncio.timeout(PATIENCE_S):
            return await answer

    async def listen(self) -> None:
        """Hand out answers and events, until the socket is closed."""
        async for message in self._socket:
            got = json.loads(message.data)
            if "id" in got:
                waiting = self._answers.pop(got["id"], None)
                if waiting is None or waiting.done():
                    continue
                if "error" in got:
                    waiting.set_exception(Broken(str(got["error"])))
                else:
                    waiting.set_result(got["result"])
                continue
            self._note(got["method"], got["params"])

    def _note(self, method: str, about: Json) -> None:
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details["text"])
            self.errors.append(thrown)
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        for handler in self._events.get(method, ()):
            handler(about)

    def on(self, method: str, handler: Callable[[Json], None]) -> None:
        """Call the handler with each event of this kind."""
        self._events.setdefault(method, []).append(handler)

    async def open(self, address: str) -> None:
        """Go to an address, and return when its page and modules are loaded."""
        loaded = asyncio.Event()
        self.on("Page.loadEventFired", lambda _about: loaded.set())
        await self.ask("Page.navigate", url=address)
        async with asyncio.timeout(PATIENCE_S):
            await loaded.wait()

    async def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise. Raises Broken."""
        answer = await self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Broken(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    async def until(self, script: str) -> Any:
        """The expression's value, once it is true. Raises TimeoutError, naming it."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                # An element has no value here.
                value = f"((found) => (found instanceof Node ? true : found))({script})"
                while not (found := await self.run(value)):
                    await self.run("new Promise(requestAnimationFrame)")
        except TimeoutError:
            shown = await self.run("document.body.innerText")
            raise TimeoutError(f"never true: {script}; the page says: {shown[:2000]}") from None
        return found

    async def text(self, selector: str = "body") -> str:
        """What a reader sees of the first element that matches."""
        found: str = await self.run(f"document.querySelector({json.dumps(selector)})?.innerText")
        return found or ""

    async def expect_text(self, words: str, selector: str = "body") -> None:
        """Return once the element shows these words."""
        where, what = json.dumps(selector), json.dumps(words)
        await self.until(f"document.querySelector({where})?.innerText.includes({what})")

    async def click(self, selector: str) -> None:
        """Click the middle of the first element that matches, as a mouse does."""
        where = json.dumps(selector)
        place = await self.until(
            f"(() => {{ const e = document.querySelector({where}); if (!e) return null;"
            "e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
            "return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask(
                "Input.dispatchMouseEvent",
                type=kind, x=place[0], y=place[1], button="left", clickCount=1,
            )  # fmt: skip

    async def press(self, *keys: str) -> None:
        """Press keys one after the other, by the names that events have: Enter, ArrowDown, a."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            for kind in ("keyDown", "keyUp"):
                pressed = {"type": kind, "key": key, "windowsVirtualKeyCode": _CODES.get(key, 0)}
                if kind == "keyDown" and text:
                    pressed["text"] = text
                await self.ask("Input.dispatchKeyEvent", **pressed)

    async def type(self, words: str) -> None:
        """Type into what has the focus."""
        await self.ask("Input.insertText", text=words)

    async def size(self, width: int, height: int, scale: float = 1.0) -> None:
        """The size of the window in CSS pixels; `scale` pixels of the screen for each."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=False,
        )  # fmt: skip

    async def media(self, **features: str) -> None:
        """Settings of the reader's system: `prefers_color_scheme="dark"`."""
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        await self.ask("Emulation.setEmulatedMedia", features=named)

    async def picture(self, path: Path | None = None) -> bytes:
        """The window as PNG, which is also written to the path."""
        answer = await self.ask("Page.captureScreenshot", format="png")
        data = base64.b64decode(answer["data"])
        if path is not None:
            await asyncio.to_thread(path.write_bytes, data)
        return data


_CODES = {
    "Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Callable[[], "TabContext"]]:
    """A browser with a profile of its own in the folder; yields what opens tabs."""
    path = found()
    assert path is not None, ABSENT
    process = await asyncio.create_subprocess_exec(
        path,
        *_OPTIONS,
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        address = await _address(process)
        async with aiohttp.ClientSession() as session:
            yield lambda: _tab(session, address)
    finally:
        process.kill()
        await process.wait()


TabContext = Any


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(PATIENCE_S):
        while line := await process.stderr.readline():
            said += line
            if b"DevTools listening on " in line:
                return line.decode().partition("listening on ")[2].strip()
    raise AssertionError(f"Chromium did not start: {said.decode(errors='replace')}")


@asynccontextmanager
async def _tab(session: aiohttp.ClientSession, address: str) -> AsyncIterator[Tab]:
    """A tab with cookies and storage of its own, closed at the end."""
    async with session.ws_connect(address, max_msg_size=0) as socket, asyncio.TaskGroup() as group:
        tab = Tab(socket)
        listening = group.create_task(tab.listen())
        context = (await tab.ask("Target.createBrowserContext"))["browserContextId"]
        made = await tab.ask("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await tab.ask("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        tab.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab.ask(f"{domain}.enable")
        await tab.size(1280, 800)
        try:
            yield tab
        finally:
            tab.session = ""
            await tab.ask("Target.disposeBrowserContext", browserContextId=context)
            listening.cancel()
