"""The page of score serve in headless Chromium, driven over its debugging pipe (JSON messages that end with a zero byte)."""
import base64
import json
import os
import shutil
import subprocess
import time


def chromium():
    """The browser's executable, or None."""
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
                raise RuntimeError("Chromium exited")
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
                raise RuntimeError(f"timed out waiting for {expression}; the page shows {self.value('document.body.innerText')!r}")
            time.sleep(0.1)

    def close(self):
        self.process.kill()
        self.process.wait()


def choose(b, field, *paths):
    root = b("DOM.getDocument")["root"]["nodeId"]
    b("DOM.setFileInputFiles", nodeId=b("DOM.querySelector", nodeId=root, selector=field)["nodeId"], files=[str(p) for p in paths])


def shoot(b, path):
    """A screenshot of the full page, which must not scroll horizontally."""
    if b.value("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        raise RuntimeError(f"the page scrolls horizontally: {path.name}")
    path.write_bytes(base64.b64decode(b("Page.captureScreenshot", captureBeyondViewport=True)["data"]))


def ranked(b, score, others, name, work):
    """Further edits of the source: all are ranked by score, the first one keeps its score; heat maps are made on request."""
    choose(b, "#edit", *others)
    b.until(f"document.querySelectorAll('#chosen-edit li').length === {1 + len(others)}")
    b.value("document.getElementById('go').click()")
    b.until(f"document.querySelectorAll('#ranking .card').length === {1 + len(others)} && !document.getElementById('go').disabled")
    scores = [float(s) for s in b.value("[...document.querySelectorAll('#ranking .score')].map(s => s.textContent)")]
    if len(scores) != 1 + len(others) or scores != sorted(scores, reverse=True) or min(abs(s - score) for s in scores) > 0.0051:
        raise RuntimeError(f"edits are ranked by {scores}, the score of the first was {score}")
    b.value("document.querySelectorAll('#ranking button')[1].click()")
    b.until("document.querySelectorAll('.card')[1].querySelector('.heat img')?.naturalWidth > 0")
    shoot(b, work / f"{name}-ranked.png")


def several(b, source):
    """A scorer with one source refuses two, and the page shows why."""
    choose(b, "#source", source)
    b.until("document.querySelectorAll('#chosen-source li').length === 2")
    b.value("document.getElementById('go').click()")
    b.until("!document.getElementById('error').hidden && document.getElementById('error').textContent.includes('source') && !document.getElementById('go').disabled")
    b.value("document.querySelectorAll('#chosen-source button')[1].click()")


def explored(b, score, source, edit, instruction, name, work):
    """The explorer lists the endpoints of openapi.json, and gets the same score."""
    b.value("document.getElementById('api').open = true")
    b.until("document.querySelectorAll('.operation').length > 5")
    listed = b.value("[...document.querySelectorAll('.operation summary code')].map(c => c.textContent)")
    want = b.value("fetch('openapi.json').then(r => r.json()).then(a => Object.entries(a.paths).flatMap(([p, m]) => Object.keys(m).map(k => k.toUpperCase() + ' ' + p)).filter(o => o !== 'GET /'))")
    if listed != want:
        raise RuntimeError(f"the explorer lists {listed}, openapi.json {want}")
    b.value("o = [...document.querySelectorAll('.operation')].find(o => o.querySelector('code').textContent === 'POST /v1/score'); o.open = true")
    b.until("!!o.querySelector('textarea')")
    start = json.loads(b.value("o.querySelector('textarea').value"))
    if not {"instruction", "edits"} <= set(start):
        raise RuntimeError(f"the explorer starts with {start}")
    b.value("[...o.querySelectorAll('button')].find(x => x.ariaLabel === 'Add source').click()")
    body = {**json.loads(b.value("o.querySelector('textarea').value")), "instruction": instruction, "source": "@" + source.name, "edits": ["@" + edit.name]}
    b.value(f"o.querySelector('textarea').value = {json.dumps(json.dumps(body, indent=1))}; o.querySelector('input[type=file]').id = 'bodies'")
    choose(b, "#bodies", source, edit)
    b.until("[...o.querySelectorAll('small')].some(s => s.textContent.includes('@'))")
    b.value("[...o.querySelectorAll('button')].find(x => x.textContent === 'Send').click()")
    b.until("!!o.querySelector('pre')")
    got = json.loads(b.value("o.querySelector('pre').textContent"))
    if not abs(got["results"][0]["score"] - score) <= 0.0051:
        raise RuntimeError(f"the explorer gets {got}, the page the score {score}")
    shoot(b, work / f"{name}-api.png")
    b.value("document.getElementById('api').open = false")


def check(binary, url, source, edit, instruction, others, work):
    """Fills in a pair at both sizes, reads score and heat map, ranks edits, sends a request with the API explorer; no errors, no
    requests to other hosts, no horizontal scrolling."""
    b = Browser(binary, work / "profile")
    try:
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            b(domain + ".enable")
        said = []
        for name, width, height in (("phone", 420, 844), ("desktop", 1280, 900)):
            b("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=name == "phone")
            b("Page.navigate", url=url + "/")
            b.until("document.readyState === 'complete' && document.querySelectorAll('#scorer option').length === 2")
            choose(b, "#source", source)
            choose(b, "#edit", edit)
            b.value(f"i = document.getElementById('instruction'); i.value = {json.dumps(instruction)}; i.dispatchEvent(new Event('input'))")
            b.until("!document.getElementById('go').disabled")
            b.value("document.getElementById('go').click()")
            b.until("document.querySelector('.heat img')?.naturalWidth > 0")
            score = float(b.value("document.querySelector('.score').textContent"))
            alts = b.value("[...document.querySelectorAll('img')].map(i => i.alt)")
            if len(set(alts)) != 4 or not all(alts) or not b.value("document.getElementById('legend').getBoundingClientRect().width > 50"):
                raise RuntimeError(f"images need different alt texts, got {alts}; the heat map needs a legend")
            state = "[...document.querySelectorAll('img')].map(i => i.src).concat(document.querySelector('.score').textContent, document.getElementById('instruction').value).join()"
            before = b.value(state)
            for w, h in ((height, width), (320, 480), (1920, 1080), (width, height)):
                b("Emulation.setDeviceMetricsOverride", width=w, height=h, deviceScaleFactor=1, mobile=name == "phone")
                if b.value(state) != before or b.value("document.getElementById('go').disabled"):
                    raise RuntimeError(f"the page loses its results at {w} x {h}")
            shoot(b, work / f"{name}.png")
            said.append(f"{name} {score:.2f}")
            ranked(b, score, others, name, work)
            several(b, source)
            explored(b, score, source, edit, instruction, name, work)
            (work / "damaged.png").write_bytes(b"no picture")
            choose(b, "#edit", work / "damaged.png")
            b.until("document.querySelector('#drop-edit .bad')?.textContent.startsWith('damaged.png is not an image')")
            shoot(b, work / f"{name}-damaged.png")
            b.value("document.querySelectorAll('#chosen-edit button').forEach(x => x.click())")
            b.until("document.getElementById('go').disabled")
        for e in b.events:
            if e.get("method") == "Network.requestWillBeSent" and not e["params"]["request"]["url"].startswith((url, "blob:" + url, "data:", "about:")):
                raise RuntimeError("the page requests " + e["params"]["request"]["url"])
            refused = "status of 422" in e.get("params", {}).get("entry", {}).get("text", "")  # expected by several()
            if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded") and not refused:
                raise RuntimeError(f"error on the page: {json.dumps(e['params'])[:500]}")
        return ", ".join(said) + f"; pictures in {work.name}/"
    finally:
        b.close()
