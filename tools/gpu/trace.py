"""Summarises the trace of trace.c over the last SECONDS with kernels: python tools/gpu/trace.py FILE SECONDS [ROWS]"""
import collections
import sys

path, seconds, rows = sys.argv[1], float(sys.argv[2]), int((sys.argv[3:] or [30])[0])
device, calls = [], []
for line in open(path, errors="replace"):
    part = line.rstrip("\n").split("\t")
    if len(part) != 5 or not (part[1].isdigit() and part[2].isdigit()):  # the process ended in the middle of the line
        continue
    (calls if part[0] == "A" else device).append((int(part[1]), int(part[2]), part[0], part[4]))
end = max((e for _, e, kind, _ in device if kind == "K"), default=None)
if end is None:
    sys.exit(f"{path}: no kernels")
device, calls = (sorted(r for r in part if end - seconds * 1e9 <= r[0] <= end) for part in (device, calls))
busy, last, before, gaps = 0, device[0][0], "", []
for start, stop, _, name in device:
    if start > last:
        gaps.append((start - last, before, name))
    if stop > last:
        busy, last, before = busy + stop - max(start, last), stop, name
span = last - device[0][0]
print(f"{span / 1e6:.1f} ms, of which the GPU is busy for {busy / 1e6:.1f} ({busy / span:.0%}); {len(device)} kernels and copies")
for lo, hi in ((0, 5e3), (5e3, 2e4), (2e4, 1e5), (1e5, 1e6), (1e6, float("inf"))):
    some = [g for g, *_ in gaps if lo <= g < hi]
    print(f"{len(some):6} gaps of {lo / 1e3:g} us or more: {sum(some) / 1e6:.1f} ms")
for gap, a, b in sorted(gaps, reverse=True)[:10]:
    print(f"  {gap / 1e6:7.2f} ms after {a[:50]} before {b[:50]}")
for title, part in (("kernels and copies", device), ("calls of 3 us and more", calls)):
    total = collections.defaultdict(list)
    for start, stop, _, name in part:
        total[name].append(stop - start)
    print(f"\n{title}\n      ms  count  mean us   most us")
    for name, times in sorted(total.items(), key=lambda x: -sum(x[1]))[:rows]:
        print(f"{sum(times) / 1e6:8.2f} {len(times):6} {sum(times) / len(times) / 1e3:8.1f} {max(times) / 1e3:9.1f}  {name[:110]}")
