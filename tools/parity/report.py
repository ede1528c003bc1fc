"""Reports of score bench in headless Chromium: on a desktop in light and dark, on a phone, and printed.

    report.py SCORE FOLDER [DOCS]      writes the reports and their screenshots into FOLDER, and the images of docs/judging.md into DOCS
"""
import base64
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

from page import Browser, chromium

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "testdata/golden"
DOCS = None  # the folder of the documentation's images
EXPRESSIONS = ("angry", "disgust", "fear", "happy", "neutral", "sad", "surprise")


def fed(folder, editors=36, samples=8):
    """Components of many editors, for both kinds of instructions: FED-Bench's wide tables."""
    rng, path = random.Random(16), folder / "fed.jsonl"
    with open(path, "w") as f:
        for e in range(editors):
            for kind in ("dense", "simple"):
                for s in range(samples):
                    print(json.dumps({"sample": f"s{s}", "method": f"Editor-{e} with a long name", "instructions": kind, "expression": EXPRESSIONS[s % 7],
                                      "id": rng.random(), "bg_rmse": 50 * rng.random(), "pq": 10 * rng.random(), "sc": 10 * rng.random(), "gta": 10 * rng.random(),
                                      "lpips_src_trg": rng.uniform(0.05, 0.2), "lpips_src_gt": rng.uniform(0.05, 0.2), "score": 10 * rng.random()}), file=f)
    return path


def write(score, folder):
    """The reports by name: judges compared with human ratings, AIM-Bench with its radar chart, FED-Bench's 36 methods, a confusion, a gallery."""
    data = ROOT / "internal/benchmarks/testdata"
    aim = (data / "aim.jsonl").read_text().splitlines()
    two = folder / "aim.jsonl"
    lines = [json.loads(line) for line in aim]
    two.write_text("".join(json.dumps({**row, "method": name, "clip_t": row["clip_t"] * share}) + "\n" for name, share in (("Editor-A", 1), ("Editor-B", 0.8)) for row in lines))
    genai = folder / "genai.jsonl"
    shutil.copy(data / "genaibench_scores.jsonl", genai)
    judges = [str(GOLDEN / f"imagenhub/judges/{name}_0shot.jsonl") for name in ("gpt4o", "gemini")]
    commands = {
        "imagenhub": ["imagenhub", "--ratings", GOLDEN / "imagenhub", "--compare", *judges],
        "aim": ["aim-bench", "--ratings", data / "Instructions.json", "--components", two],
        "fed": ["fed-bench", "--components", fed(folder)],
        "genai": ["genaibench", "--ratings", data, "--predictions", genai, "--baseline", "random"],
    }
    for name, args in commands.items():
        done = subprocess.run([str(a) for a in (score, "bench", *args, "--resamples", "200", "--report", folder / name)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
    return list(commands)


# Content outside of the page or the paper; labels that are cut off; the first column of a scrolled table.
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
CUT = """[...document.querySelectorAll('svg')].flatMap(s => { const a = s.getBoundingClientRect();
 return [...s.querySelectorAll('text')].filter(t => { const b = t.getBoundingClientRect();
  return b.left < a.left - 1 || b.right > a.right + 1 || b.top < a.top - 1 || b.bottom > a.bottom + 1 }).map(t => t.textContent) })"""
STICKY = """[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth).map(s => {
 s.scrollLeft = s.scrollWidth; const left = s.querySelector('td').getBoundingClientRect().left - s.getBoundingClientRect().left;
 s.scrollLeft = 0; return left })"""
WIDER = "[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"
DEAD = """[...document.querySelectorAll('a[href^="#"]')].filter(a => !document.getElementById(a.getAttribute('href').slice(1))).length"""


def look(b, folder, name):
    """One report at all sizes; the run ends if something is wrong."""
    url = (folder / name / "index.html").as_uri()

    def want(what, got):
        if got:
            sys.exit(f"the report {name}: {what}: {got}")

    def shot(size, height, to):
        clip = {"x": 0, "y": 0, "width": size[1], "height": height, "scale": 1}
        to.write_bytes(base64.b64decode(b("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))

    for size in (("desktop", 1300, "light"), ("dark", 1300, "dark"), ("phone", 390, "light")):
        b("Emulation.setEmulatedMedia", media="screen", features=[{"name": "prefers-color-scheme", "value": size[2]}])
        b("Emulation.setDeviceMetricsOverride", width=size[1], height=900, deviceScaleFactor=1, mobile=size[0] == "phone")
        b("Page.navigate", url=url)
        b.until("document.readyState === 'complete' && document.querySelectorAll('table').length > 0")
        want(f"it scrolls sideways ({size[0]})", b.value(SIDEWAYS))
        want(f"labels are cut ({size[0]})", b.value(CUT))
        want(f"the first column leaves the view ({size[0]})", [x for x in b.value(STICKY) if abs(x) > 1])
        want("links lead nowhere", b.value(DEAD))
        ground = [int(x) for x in re.findall(r"\d+", b.value("(d => { d.style.background = 'Canvas'; document.body.append(d); const c = getComputedStyle(d).backgroundColor; d.remove(); return c })(document.createElement('div'))"))[:3]]
        want(f"its ground is {ground} ({size[0]})", (sum(ground) < 380) != (size[2] == "dark"))
        shot(size, 2400 if size[0] == "phone" else 3000, folder / f"{name}-{size[0]}.png")
        if DOCS and name == "imagenhub" and size[2] == "light":
            shot(size, 1900 if size[0] == "desktop" else 1300, DOCS / ("judging-report.png" if size[0] == "desktop" else "judging-report-phone.png"))
    b("Emulation.setDeviceMetricsOverride", width=718, height=1000, deviceScaleFactor=1, mobile=False)  # A4 without its margins
    b("Emulation.setEmulatedMedia", media="print")
    want("tables are wider than the paper", b.value(WIDER))
    b("Emulation.setEmulatedMedia", media="")
    pdf = base64.b64decode(b("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.69)["data"])
    (folder / f"{name}.pdf").write_bytes(pdf)
    return pdf.count(b"/Type /Page\n") or len(re.findall(rb"/Type\s*/Page[^s]", pdf))


def check(binary, score, folder):
    b, said = Browser(binary, folder / "profile"), []
    try:
        for domain in ("Page", "Runtime", "Network", "Log"):
            b(domain + ".enable")
        for name in write(score, folder):
            said.append(f"{name} {look(b, folder, name)} pages")
        for e in b.events:
            if e.get("method") == "Network.requestWillBeSent" and not e["params"]["request"]["url"].startswith(("file:", "data:", "about:")):
                sys.exit("a report requests " + e["params"]["request"]["url"])
            if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                sys.exit(f"error in a report: {json.dumps(e['params'])[:500]}")
    finally:
        b.close()
    return "desktop, dark, phone, print: " + ", ".join(said) + f"; pictures in {folder.name}/"


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    DOCS = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    print(check(chromium(), sys.argv[1], Path(sys.argv[2]).resolve()))
