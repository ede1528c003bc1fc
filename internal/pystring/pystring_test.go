package pystring

import (
	"errors"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	source := `# A = "no"
A = """one
 "two" \
three\n"""   # that is all
B: str = r'a\n' "b" \
    'c\x41\u00e4'
C = (
    "x"  # first
    + f"{name} {{y}}"
)
D = A + "x"
E = "open
F = f"{1 + 2}"
G = "twice"
G = "twice"
H = "a"+ f"{name}\n"
I = ""
J = "\q"
`
	for name, want := range map[string]string{
		"A": "one\n \"two\" three\n", "B": `a\nbcA` + "ä", "C": "x{name} {y}", "H": "a{name}\n", "I": "",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Find(source, name); err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		})
	}
	for name, want := range map[string]string{
		"D": "not a plain string", "E": "line ends", "F": "more than a plain name", "G": "2 times",
		"X": "not defined", "J": "escape",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Find(strings.ReplaceAll(source, "\n", "\r\n"), name)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q, error %v, want one with %q", name, got, err, want)
			}
		})
	}
}

func TestPlain(t *testing.T) {
	const source = "import os\nA = \"\"\"\nline {text_prompt}  \n\n\"quoted\" \\\"three\\\" \\n\"\"\"\n" +
		"# B = 'commented'\nB: str = 'it\\'s'  # a comment\nC = r'\\d'\nD = f'{x}'\nE = 'a' 'b'\n" +
		"F = ('in')\nG = 'one'\nG = 'two'\n" +
		"def f():\n    H = 'inside'\nI = 'no end\nJ = '\\u00e4'\n"
	for name, want := range map[string]string{
		"A": "\nline {text_prompt}  \n\n\"quoted\" \"three\" \n",
		"B": "it's",
		"C": `\d`,
		"F": "in",
		"E": "ab",
		"J": "ä",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Plain(source, name); err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		})
	}
	for name, want := range map[string]string{
		"D": "not a plain string", "G": "2 times", "I": "line ends inside",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Plain(source, name); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one about %q", name, err, want)
			}
		})
	}
	if _, err := Plain(source, "H"); !errors.Is(err, ErrAbsent) {
		t.Errorf("H, not a name of the module: got error %v, want %v", err, ErrAbsent)
	}
}
