"""Writes internal/pystring/testdata/literals.json: CPython's results of assignments of string literals, of str.format
with templates, and of str.splitlines and str.strip for texts between all white space.

    python tools/oracle/literals.py"""
import json
import pathlib

SOURCES = [
    'A = "one"', "A = 'it\\'s'", 'A = ""', 'A = """one\n "two" \\\nthree"""', "A = '''a''b'''", 'A = r"\\d\\n"', 'A = R"\\""',
    'A = u"a" U\'b\'', 'A = "a" "b" + \'c\' "d"', 'A = "a" \\\n  "b"', 'A = ("a"\n  # between\n  "b" +  # behind\n "c"\n)', 'A = ("a") # b',
    'A = "a"; B = "b"', 'B = 1\nA : str = "a"', 'A="a"\t\nB = "b"', 'A = "\\x41\\u00e4\\U0001f600"', 'A = "\\a\\b\\f\\n\\r\\t\\v\\\\\\\'\\""',
    'A = "\\x4" "1"', 'A = "\\u00e"', 'A = "\\U0001f60"', 'A = "\\U00110000"', 'A = f"{name} {{y}} {n_1}"', 'A = f"{name}" "{y}"', 'A = f"a}"', 'A = rf"\\d{name}"',
    'A = fR"{{\\d}}"', 'A = "a', 'A = "a\nb"', "A = '''a", 'A = "a\\', 'A = "a\\"', 'A = "\\x', 'A = """a\r\n\\\r\nb"""\r\n', 'A = + "a"', 'A = "a" +', 'A = "a" "b',
    'A = "a" + B', 'A = ("a"', 'A = ("a" B)', 'A = 1', 'A = ', ' A = "a"',
]
TEMPLATES = [
    "", "no field", "{x}", "{x}{y}", "a {x} b {y} c {x}", "{{x}} {x}{{", "}}{x}{{", "{{{x}}}", "{{}}{x}", "{x} {", "{x} }", "{x}{}}", "{xy} {x}", "{x}}}",
]

SPACES = [chr(c) for c in range(0x3100) if chr(c).isspace() or 0x1b <= c <= 0x1f or len(f"a{chr(c)}b".splitlines()) > 1 or c in (0x200b, 0x180e)]


def evaluated(source):
    scope = {"name": "{name}", "n_1": "{n_1}"}  # fields stay in place
    try:
        exec(compile(source, "module", "exec"), scope)
    except (SyntaxError, NameError, TypeError):
        return None
    text = scope["A"]
    return text if isinstance(text, str) else None


def formatted(template):
    try:
        return template.format(x="<x>", y="<y>", xy="<xy>")
    except (ValueError, IndexError):
        return None


to = pathlib.Path(__file__).parents[2] / "internal/pystring/testdata/literals.json"
to.parent.mkdir(exist_ok=True)
rows = {"sources": [[s, evaluated(s)] for s in SOURCES], "templates": [[t, formatted(t)] for t in TEMPLATES],
        "texts": [[text, [line for line in text.splitlines() if line], text.strip()] for text in (f"{c}a{c}{c}b{c}" for c in SPACES)]}
to.write_text(json.dumps(rows, indent=1) + "\n")
