package pystring

import (
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
		if got, err := Find(source, name); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"D": "no plain string", "E": "line ends", "F": "more than a name", "G": "2 times", "X": "0 times", "J": "escape",
	} {
		got, err := Find(strings.ReplaceAll(source, "\n", "\r\n"), name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, error %v, want one with %q", name, got, err, want)
		}
	}
}
