"""One Chromium, driven through a pipe by its DevTools protocol. No driver and no port."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
SECONDS = 60


def find() -> str:
    """The browser. Without one the test is skipped, and fails in CI."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and (os.environ.get("CI") or os.environ.get("FLASHCORE_CI_BROWSER")):
        pytest.fail("no Chromium: apt-get install chromium")
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    return found


class Chromium:
    """A browser with one page."""

    def __init__(self, profile: Path) -> None:
        here_reads, it_writes = os.pipe()
        it_reads, here_writes = os.pipe()

        def connect() -> None:
            os.dup2(it_reads, 3)
            os.dup2(it_writes, 4)

        for descriptor in (it_reads, it_writes):
            os.set_inheritable(descriptor, True)
        argv = [find(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(argv, preexec_fn=connect, close_fds=False, stderr=subprocess.DEVNULL)  # noqa: PLW1509
        os.close(it_reads)
        os.close(it_writes)
        self.reader, self.writer = os.fdopen(here_reads, "rb"), os.fdopen(here_writes, "wb", buffering=0)
        self.numbers, self.session, self.events = itertools.count(1), "", []
        target = next(each for each in self.send("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result. Events until then are kept."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        self.writer.write(json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, address: str) -> None:
        """Load a page, and wait for its data and scripts. Events of earlier pages are dropped."""
        self.events.clear()
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=address)
        until = time.monotonic() + SECONDS
        while not self.value("document.readyState === 'complete' && location.href !== 'about:blank'"):
            assert time.monotonic() < until, f"{address} did not load"
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript, also a promise."""
        done = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until JavaScript gives something true."""
        until = time.monotonic() + SECONDS
        while not (found := self.value(expression)):
            assert time.monotonic() < until, f"never true: {expression}"
            time.sleep(0.02)
        return found

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the window and the colours."""
        phone = width < 600
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def picture(self) -> bytes:
        """The window as a PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def complaints(self) -> list[str]:
        """What the console and the network of the current page complained about."""
        self.value("1")
        found = [event["params"] for event in self.events if event.get("method") in {"Log.entryAdded", "Runtime.exceptionThrown"}]
        written = [event["params"] for event in self.events if event.get("method") == "Runtime.consoleAPICalled"]
        return [json.dumps(each)[:500] for each in (*found, *written)]

    def requests(self) -> list[str]:
        """The addresses that the current page asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def close(self) -> None:
        """End the browser."""
        self.session = ""
        self.writer.write(json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.close()
        self.writer.close()

    def _receive(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self.reader.read(1)) != b"\0":
            assert byte, "the browser ended"
            data += byte
        return json.loads(data)
