# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through DevTools: one page at a time, and all
that it complains about or asks the network for."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import websocket

SECONDS = 60
# Of a page that has not begun there is no element.
DRAWN = "document.documentElement?.dataset.drawn === 'yes'"


class PageError(Exception):
    pass


def is_wanted():
    """Whether a test goes on: without a browser it checks nothing, which is a
    failure in CI."""
    return bool(shutil.which("chromium") or os.environ.get("CI"))


class Browser:
    def __init__(self, folder):
        """Its profile is in `folder`, which has to be empty."""
        program = shutil.which("chromium")
        if program is None:
            raise PageError("no chromium: ./bazelw test installs it")
        self.page = None
        self.events = []
        self.last_id = 0
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--no-first-run", "--disable-background-networking",
             "--disable-dev-shm-usage", "--remote-debugging-port=0",
             "--remote-allow-origins=*", f"--user-data-dir={folder}",
             "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.socket = websocket.create_connection(
                self.address(Path(folder, "DevToolsActivePort")),
                timeout=SECONDS)
            target = self.call("Target.createTarget", url="about:blank")
            self.session = None
            self.session = self.call(
                "Target.attachToTarget", flatten=True, **target)["sessionId"]
            for name in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{name}.enable")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    session = None

    def address(self, port_file):
        for _ in range(SECONDS * 20):
            if port_file.exists() and port_file.read_text().count("\n"):
                port, path = port_file.read_text().split()[:2]
                return f"ws://127.0.0.1:{port}{path}"
            if self.process.poll() is not None:
                break
            # Until it is looked for again.
            time.sleep(0.05)
        raise PageError("chromium did not start")

    def close(self):
        try:
            self.call("Browser.close")
            self.socket.close()
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, **parameters):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if self.session and not method.startswith("Browser."):
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.last_id:
                break
            self.events.append(answer)
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return answer["result"]

    def value(self, script):
        """What JavaScript makes of it, waited for."""
        found = self.call("Runtime.evaluate", expression=script,
                          awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise PageError(found["exceptionDetails"])
        return found["result"].get("value")

    def look(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}])

    def load(self, path):
        """Opens a page and waits until all that it wants is there, or not."""
        self.page = path
        self.events.clear()
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def open(self, path):
        """Opens a report and waits until its plots are drawn."""
        self.load(path)
        self.drawn()

    def drawn(self):
        self.wait_for(DRAWN)
        self.value("new Promise(done => requestAnimationFrame("
                   "() => requestAnimationFrame(() => done(1))))")

    def wait_for(self, script):
        for _ in range(SECONDS * 20):
            if self.value(script):
                return
            time.sleep(0.05)
        raise PageError(f"waited in vain for {script}: {self.complaints()}")

    def complaints(self):
        """Console messages, exceptions and refusals since open()."""
        return [one for one in self.events
                if one.get("method") in ("Runtime.exceptionThrown",
                                         "Runtime.consoleAPICalled",
                                         "Log.entryAdded")]

    def requests(self):
        return [one["params"]["request"]["url"] for one in self.events
                if one.get("method") == "Network.requestWillBeSent"]

    def box(self, selector, height=None):
        """Where the element is on the page, or its first `height` pixels."""
        found = self.value(f"""(() => {{
            const box = document.querySelector({json.dumps(selector)})
                ?.getBoundingClientRect();
            return box && {{x: box.x + scrollX, y: box.y + scrollY,
                           width: box.width, height: box.height}};
        }})()""")
        if found is None:
            raise PageError(f"nothing is {selector}")
        return {**found, "height": min(height or found["height"],
                                       found["height"])}

    def picture(self, path, selector="html", height=None):
        clip = {**self.box(selector, height), "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", clip=clip,
                         captureBeyondViewport=True)["data"]
        Path(path).write_bytes(base64.b64decode(data))
