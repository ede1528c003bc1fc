"""The page of score serve in headless Chromium, driven over its debugging pipe (JSON messages that end with a zero byte)."""
import base64
import json
import os
import shutil
import subprocess
import time


def chromium():
    """The browser's program; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    def __init__(self, binary, profile):
        to, self.out = os.pipe()
        self.into, back = os.pipe()
        def handles():  # Chromium reads from 3 and writes to 4
            a, b = os.dup(to), os.dup(back)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen([binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}",
                                         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"], preexec_fn=handles, close_fds=False, stderr=subprocess.DEVNULL)
        self.count, self.buffer, self.events, self.session = 0, b"", [], None
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def __call__(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        wanted = self.count
        while True:
            m = self.read()
            if m.get("id") == wanted:
                if "error" in m:
                    raise RuntimeError(f"{method}: {m['error']}")
                return m["result"]
            self.events.append(m)

    def read(self):
        while b"\0" not in self.buffer:
            part = os.read(self.into, 1 << 16)
            if not part:
                raise RuntimeError("Chromium went away")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def value(self, expression):
        r = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(f"{expression}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def until(self, expression, seconds=60):
        end = time.time() + seconds
        while not self.value(expression):
            if time.time() > end:
                raise RuntimeError(f"waited in vain for {expression}; the page says {self.value('document.body.innerText')!r}")
            time.sleep(0.1)

    def close(self):
        self.process.kill()
        self.process.wait()


def check(binary, url, source, edit, instruction, work):
    """Fills in a pair at both sizes, reads score and heat map, wants no errors, no foreign requests, no sideways scrolling."""
    b = Browser(binary, work / "profile")
    try:
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            b(domain + ".enable")
        said = []
        for name, width, height in (("phone", 390, 844), ("desktop", 1280, 900)):
            b("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=name == "phone")
            b("Page.navigate", url=url + "/")
            b.until("document.readyState === 'complete' && document.querySelectorAll('#scorer option').length === 2")
            root = b("DOM.getDocument")["root"]["nodeId"]
            for field, path in (("source", source), ("edit", edit)):
                node = b("DOM.querySelector", nodeId=root, selector="#" + field)["nodeId"]
                b("DOM.setFileInputFiles", nodeId=node, files=[str(path)])
            b.value(f"i = document.getElementById('instruction'); i.value = {json.dumps(instruction)}; i.dispatchEvent(new Event('input'))")
            b.until("!document.getElementById('go').disabled")
            b.value("document.getElementById('go').click()")
            b.until("!document.getElementById('heat-box').hidden && document.getElementById('heat').naturalWidth > 0")
            score = float(b.value("document.getElementById('score').textContent"))
            alts = b.value("[...document.querySelectorAll('img')].map(i => i.alt)")
            if len(set(alts)) != 3 or not all(alts) or not b.value("document.getElementById('legend').getBoundingClientRect().width > 50"):
                raise RuntimeError(f"pictures are told apart by {alts}; the heat map wants a legend")
            state = "[...document.querySelectorAll('img')].map(i => i.src).concat(document.getElementById('score').textContent, document.getElementById('instruction').value).join()"
            before = b.value(state)
            for w, h in ((height, width), (320, 480), (1920, 1080), (width, height)):
                b("Emulation.setDeviceMetricsOverride", width=w, height=h, deviceScaleFactor=1, mobile=name == "phone")
                if b.value(state) != before or b.value("document.getElementById('go').disabled"):
                    raise RuntimeError(f"the page forgets at {w} x {h}")
            if b.value("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                raise RuntimeError(f"the page scrolls sideways on a {name}")
            shot = base64.b64decode(b("Page.captureScreenshot", captureBeyondViewport=True)["data"])
            (work / f"{name}.png").write_bytes(shot)
            said.append(f"{name} {score:.2f}")
            (work / "damaged.png").write_bytes(b"no picture")
            node = b("DOM.querySelector", nodeId=root, selector="#edit")["nodeId"]
            b("DOM.setFileInputFiles", nodeId=node, files=[str(work / "damaged.png")])
            b.until("document.querySelector('#drop-edit .bad')?.textContent.startsWith('damaged.png is no picture') && document.getElementById('go').disabled")
            (work / f"{name}-damaged.png").write_bytes(base64.b64decode(b("Page.captureScreenshot", captureBeyondViewport=True)["data"]))
        for e in b.events:
            if e.get("method") == "Network.requestWillBeSent" and not e["params"]["request"]["url"].startswith((url, "blob:" + url, "data:", "about:")):
                raise RuntimeError("the page asks for " + e["params"]["request"]["url"])
            if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                raise RuntimeError(f"the page complains: {json.dumps(e['params'])[:500]}")
        return ", ".join(said) + f"; pictures in {work.name}/"
    finally:
        b.close()
