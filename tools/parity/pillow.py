"""A PIL image scores the same as its file: every mode, every kind of transparency, EXIF, 16 bits; opened and not yet loaded,
loaded, copied and cropped; through the client, through the bridge's pickles, and with scorers that drop transparency."""
import io
import json
import pickle
import random
import threading
import urllib.error
import urllib.request
import zipfile

import numpy
from PIL import Image, PngImagePlugin
from shared import ROOT, SCORE, run, served

from assay_reward import Client, ServerError, bridge

INSTRUCTION = "make the picture grey"
ORIENTATION = 0x0112
XMP = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="{}"/></x:xmpmeta>'
SAME, LIBJPEG = 2e-5, 0.15  # out of 10; Go's JPEG differs from libjpeg's by up to 3 levels


def exif(orientation):
    e = Image.Exif()
    e[ORIENTATION] = orientation
    return e


def files(work, seed):
    """Files of every mode, format and kind of transparency that Pillow writes, of random sizes and contents."""
    rng = random.Random(seed)
    photo = Image.open(ROOT / f"examples/photos/{rng.choice(['chelsea', 'coffee', 'astronaut'])}.png").convert("RGB")

    def crop():
        w, h = rng.randint(24, 140), rng.randint(24, 140)
        x, y = rng.randint(0, photo.width - w), rng.randint(0, photo.height - h)
        return photo.crop((x, y, x + w, y + h))

    def clear(size):
        levels = numpy.random.default_rng(rng.randint(0, 999)).integers(0, 4, size[::-1]) * 85
        return Image.fromarray(levels.astype(numpy.uint8))

    def rgba():
        im = crop()
        im.putalpha(clear(im.size))
        return im

    def common(im):
        return max(im.getcolors(1 << 24))[1]

    grey, colour, few = crop().convert("L"), crop(), crop().quantize(40)
    xmp = PngImagePlugin.PngInfo()
    xmp.add_itxt("XML:com.adobe.xmp", XMP.format(rng.choice([3, 6, 8])))
    text = PngImagePlugin.PngInfo()
    text.add_itxt("title", "a text that no scorer reads")
    kinds = {
        "1.png": (crop().convert("1"), {}),
        "1_key.png": (crop().convert("1"), {"transparency": 0}),
        "L.png": (grey, {}),
        "L_key.png": (grey, {"transparency": common(grey)}),
        "LA.png": (rgba().convert("LA"), {}),
        "P.png": (few, {}),
        "P_alphas.png": (few, {"transparency": bytes(rng.randrange(256) for _ in range(40))}),
        "P_key.png": (few, {"transparency": common(few)}),
        "P_two_bits.png": (crop().quantize(4), {"transparency": bytes([0, 128, 255, 30])}),
        "P_rgba.png": (rgba().quantize(30, method=Image.Quantize.FASTOCTREE), {}),
        "RGB.png": (colour, {}),
        "RGB_key.png": (colour, {"transparency": common(colour)}),
        "RGB_text.png": (crop(), {"pnginfo": text}),
        "RGBA.png": (rgba(), {}),
        "RGBA_turned.png": (rgba(), {"exif": exif(rng.randint(2, 8))}),
        "P_alphas_turned.png": (few, {"transparency": bytes(40), "exif": exif(6)}),
        "xmp_turned.png": (crop(), {"pnginfo": xmp}),
        "RGBA.webp": (rgba(), {"lossless": True}),
        "RGBA_turned.webp": (rgba(), {"lossless": True, "exif": exif(rng.randint(2, 8))}),
        "P_key.gif": (few, {"transparency": common(few)}),
        "RGB.bmp": (crop(), {}),
        "RGB_turned.tif": (crop(), {"exif": exif(rng.randint(2, 8))}),
        "RGBA.tif": (rgba(), {}),
        "L.jpg": (grey, {"quality": 95}),
        "CMYK.jpg": (crop().convert("CMYK"), {"quality": 95, "subsampling": 0}),
        **{f"RGB_{o}.jpg": (crop(), {"quality": 95, "exif": exif(o)}) for o in range(1, 9)},
        "broken_exif.jpg": (crop(), {"quality": 95, "exif": b"Exif\0\0II*\0\xff\xff\xff\xff"}),
    }
    for bits, scale in (("low", 1), ("high", 257)):
        levels = numpy.asarray(crop().convert("L")).astype(numpy.uint16) * scale
        kinds[f"I;16_{bits}.png"] = kinds[f"I;16_{bits}.tif"] = (Image.fromarray(levels), {})
        kinds[f"I;16B_{bits}.tif"] = (Image.frombytes("I;16B", levels.shape[::-1], levels.byteswap().tobytes()), {})
    kinds["I.tif"], kinds["F.tif"] = (grey.convert("I"), {}), (grey.convert("F"), {})
    for name, (im, how) in kinds.items():
        im.save(work / name, **how)
        yield work / name
    with zipfile.ZipFile(ROOT / "data/testdata/decode.zip") as z:
        for name in z.namelist() if seed == 1 else ():
            if not name.endswith("/"):
                (work / f"decode_{name.rpartition('/')[2]}").write_bytes(z.read(name))
                yield work / f"decode_{name.rpartition('/')[2]}"


def scores(client, source, pictures):
    """Scores, None for pictures that the client or the server refuses."""
    out = []
    for p in pictures:
        try:
            out += client.score(source, INSTRUCTION, [p], partial=True)
        except (ServerError, ValueError, OSError):
            out.append(None)
    return out


def apart(got, want, name):
    limit = LIBJPEG if name.endswith((".jpg", ".jpeg")) else SAME
    return not (got is None and want is None) and (got is None or want is None or not abs(got - want) <= limit)


def opened(client, source, paths):
    """Names of files with another score than their opened image, loaded, copied or cropped."""
    wrong = []
    for path, want in zip(paths, scores(client, source, paths)):
        try:
            box = (0, 0, *Image.open(path).size)
        except OSError:
            continue  # Pillow does not read it
        loaded = Image.open(path)
        try:
            loaded.load()
        except OSError:
            continue
        ways = {"opened": Image.open(path), "loaded": loaded, "copied": loaded.copy(), "cropped": Image.open(path).crop(box)}
        for way, got in zip(ways, scores(client, source, ways.values())):
            if want is None and not path.name.startswith(("I", "F")):
                continue  # a format that only Pillow reads
            if apart(got, want, path.name):
                wrong.append(f"{path.name} {way}: got {got}, want {want} like its file")
    return wrong


def cut(client, source, paths, work):
    """A crop of an opened file scores the same as when Pillow saves it."""
    wrong = []
    for path in paths:
        im = Image.open(path)
        part = im.crop((3, 5, im.width - 4, im.height - 2))
        part.save(work / "part.png", exif=part.getexif())
        want, got = scores(client, source, [work / "part.png", part])
        if apart(got, want, "part.png"):
            wrong.append(f"a crop of {path.name}: got {got}, want {want} like the saved crop")
    return wrong


def in_memory(client, source, work):
    """Modes that no file has score the same as Pillow's conversion of them."""
    photo = Image.open(ROOT / "examples/photos/chelsea.png").convert("RGBA").resize((96, 80))
    photo.putalpha(Image.linear_gradient("L").resize((96, 80)))
    cases = {m: (photo.convert("RGB").convert(m), "RGB") for m in ("RGBX", "CMYK", "YCbCr", "HSV", "LAB")}
    cases["RGBa"] = photo.convert("RGBa"), "RGBA"
    cases["La"] = photo.convert("LA").convert("La"), "LA"
    cases["PA"] = photo.convert("PA"), "RGBA"
    wrong = []
    for mode, (im, plain) in cases.items():
        im.convert(plain).save(work / "plain.png")
        want, got = scores(client, source, [work / "plain.png", im])
        if im.mode != mode or apart(got, want, "plain.png"):
            wrong.append(f"{im.mode}: got {got}, want {want} as {plain}")
    for mode in ("I", "F"):
        if scores(client, source, [photo.convert("L").convert(mode)]) != [None]:
            wrong.append(f"mode {mode} was scored")
    return wrong


def pickled(client, source, paths):
    """Names of files with another score than their PIL image, pickled like EditScore's client does."""
    server = bridge.serve(client, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    before, wrong = Image.open(io.BytesIO(source.read_bytes())), []
    for path, want in zip(paths, scores(client, source, paths)):
        payload = {"input_images": [[before]], "output_image": [Image.open(path)], "meta_datas": [json.dumps({"instruction": INSTRUCTION})]}
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/", pickle.dumps(payload)) as r:
                got = pickle.loads(r.read())["rewards"][0] * 10
        except urllib.error.HTTPError as e:
            got = None
            e.close()
        if apart(got, want, path.name):
            wrong.append(f"{path.name} pickled: got {got}, want {want} like its file")
    server.shutdown()
    return wrong


def check(work):
    source, question, dropping = ROOT / "testdata/oracle/images/coffee.png", work / "question.txt", work / "dropping"
    question.write_text("How well is [INSTRUCTION] done? Answer from 0 to 5.")
    if not dropping.exists():
        run(SCORE, "import", "choices", "--base", ROOT / "backbones/tiny", "--prompts", question, "--choices", "0,1,2,3,4,5", "--alpha", "drop", "--out", dropping, "--json")
    wrong, count = [], 0
    with served("--scorer", f"white={ROOT / 'backbones/tiny-scorer'}", "--scorer", f"dropping={dropping}") as url:
        for seed in (1, 2):
            made = list(files(work, seed))
            count += len(made)
            client = Client(url)
            wrong += opened(client, source, made)
            wrong += [f"transparency dropped, {w}" for w in opened(Client(url, scorer="dropping"), source, [p for p in made if "decode" not in p.name and p.suffix != ".gif"])]
            lossless = [p for p in made if p.suffix == ".png" and "decode" not in p.name and "16" not in p.name]
            wrong += cut(client, source, lossless, work) + in_memory(client, source, work)
            # Pillow's own pickle drops the transparency of a palette that is stored as RGBA
            wrong += pickled(client, source, [p for p in made if "decode" not in p.name and "P_rgba" not in p.name])
    if wrong:
        raise SystemExit(f"{len(wrong)} PIL images have other scores than their files:\n" + "\n".join(wrong))
    return f"{count} files, opened, loaded, copied and cropped, over white and with dropped transparency, and pickled"
