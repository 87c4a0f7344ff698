"""A headless Chromium that a test asks what it shows, over --remote-debugging-pipe."""
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from client import SLOW

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions")


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="sp-browser-")
        to_read, self.writing = os.pipe()
        self.reading, to_write = os.pipe()
        move = f"exec 3<&{to_read} 4>&{to_write}; exec \"$@\""
        self.process = subprocess.Popen(
            ["bash", "-c", move, "bash", PROGRAM, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.data, self.last, self.session, self.events = b"", 0, None, []
        target = next(info["targetId"] for info in self.ask("Target.getTargets")["targetInfos"] if info["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.reading)
        os.close(self.writing)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        until = time.monotonic() + 60 * SLOW
        while b"\0" not in self.data:
            if not select.select([self.reading], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not respond")
            part = os.read(self.reading, 1 << 20)
            if not part:
                raise EOFError("the browser has exited")
            self.data += part
        line, _, self.data = self.data.partition(b"\0")
        return json.loads(line)

    def ask(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, url, width, scheme):
        """Loads the page. Returns the URLs that it requests, without those of data."""
        self.events = []
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"
                and not event["params"]["request"]["url"].startswith("data:")]

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)["result"].get("value")
