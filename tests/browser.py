"""Chromium without a window, driven by its DevTools protocol over a pair of pipes: nothing to install beside it."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# The protocol is spoken on the file descriptors 3 and 4.
_START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_PATIENCE = 30.0  # seconds for one answer, on a busy machine


class Page:
    """One tab, and everything that it complained about."""

    def __init__(self, write, read):
        self._write, self._read, self._rest = write, read, b""
        self._number, self._session = 0, None
        self.complaints = []
        self.requests = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self._target = target

    def ask(self, method, **parameters):
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self):
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer."
            some = os.read(self._read, 1 << 20)
            assert some, "Chromium has ended."
            self._rest += some
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        method, said = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(said["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append([argument.get("value") for argument in said["args"]])
        elif method == "Log.entryAdded":
            self.complaints.append(said["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        return message

    def open(self, path, *, dark=False, script=True, width=1100, height=900):
        """Load a file or an address, from its beginning to its end."""
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=media)
        self.ask("Emulation.setScriptExecutionDisabled", value=not script)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=path if str(path).startswith("http") else Path(path).as_uri())
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def js(self, expression):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression):
        """Wait until an expression is true."""
        end = time.monotonic() + _PATIENCE
        while not self.js(expression):
            assert time.monotonic() < end, f"still not so: {expression}"
            time.sleep(0.02)

    def picture(self, path):
        """Write what is seen as PNG."""
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def middle(self, element):
        """Where an element is, after the page was scrolled to it."""
        self.js(f"({element}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.js(
            f"(() => {{ const b = ({element}).getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})()"
        )
        return box[0] + box[2] / 2, box[1] + box[3] / 2

    def move(self, x, y):
        """Move the mouse."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        """Press and release its button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key):
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27}.get(key) or ord(key.upper())
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)


@contextlib.contextmanager
def browser(folder):
    """A browser that keeps what it writes in a folder, and its first tab."""
    read, its_write = os.pipe()
    its_read, write = os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options += ["--remote-debugging-pipe", f"--user-data-dir={folder}", "--disable-background-networking"]
    command = [sys.executable, "-c", _START, str(its_read), str(its_write), CHROMIUM, *options]
    process = subprocess.Popen(command, pass_fds=(its_read, its_write), stderr=subprocess.DEVNULL)
    os.close(its_read)
    os.close(its_write)
    try:
        page = Page(write, read)
        yield page
    finally:
        with contextlib.suppress(OSError):
            os.write(write, b'{"id": 0, "method": "Browser.close"}\0')
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(read)
        os.close(write)
