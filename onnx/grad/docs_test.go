package grad

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"assay/onnx"
)

var update = flag.Bool("update", false, "rewrite docs/ops.md")

//go:generate go test -run TestOpsDocument -update

// TestOpsDocument fails if docs/ops.md does not match the rule table.
func TestOpsDocument(t *testing.T) {
	const path = "../../docs/ops.md"
	want := opsDocument()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s: got an old table, want the one that go generate ./onnx/grad writes", path)
	}
}

func opsDocument() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Operators with a gradient

Written by `+"`go generate ./onnx/grad`"+` from the rule table (onnx/grad/table.go and the rules next to it).

The rules hold for models in ai.onnx opset %d to %d. Integer and boolean inputs never carry a gradient; float inputs
that carry none are listed. Operators whose outputs are integers or booleans (Shape, comparisons, ArgMax, ...), and
generators (ConstantOfShape, Range, RandomNormal, ...), need no rule: no gradient reaches them. A rule takes only the
gradient of the first output unless "limits" names more; a model in which a gradient reaches another output is refused.
So is a model with an operator on a gradient's path that is not on this page (gradients.md). Every rule is checked
against central differences (onnx/grad/check_test.go), and against PyTorch (testdata/oracle/onnx).

`, onnx.OldestOpset, onnx.NewestOpset)
	var zero, plain, rows []string
	alike := map[string][]string{} // cells -> the operators that share them
	for i := range table {
		r := &table[i]
		since, inputs, note := limits(r)
		switch {
		case r.rule == nil && r.decompose == nil:
			zero = append(zero, name(r))
		case since+inputs+note == "":
			plain = append(plain, name(r))
		default:
			cells := fmt.Sprintf(" | %s | %s | %s |\n", since, inputs, note)
			alike[cells] = append(alike[cells], name(r))
		}
	}
	for cells, names := range alike {
		rows = append(rows, "| "+sorted(names, ", ")+cells)
	}
	fmt.Fprintf(&b, "**Without limits**: %s.\n\n", sorted(plain, ", "))
	fmt.Fprintf(&b, "**With a gradient of zero**: %s.\n\n", sorted(zero, ", "))
	fmt.Fprint(&b, "| with limits | from opset | no gradient for inputs | limits |\n|---|---|---|---|\n", sorted(rows, ""))
	return wrapped(b.String())
}

// limits returns the cells of an operator's row: its first opset, inputs without a gradient, and a note.
func limits(r *entry) (since, inputs, note string) {
	if r.since > onnx.OldestOpset {
		since = fmt.Sprint(r.since)
	}
	var indices []string
	for _, k := range r.nonDifferentiable {
		indices = append(indices, fmt.Sprint(k))
	}
	note = r.note
	if r.outputs != 0 {
		note = strings.TrimPrefix(note+"; of "+r.acceptedOutputs(), "; ")
	}
	return since, strings.Join(indices, ", "), note
}

func sorted(lines []string, by string) string {
	sort.Slice(lines, func(i, j int) bool { return strings.ToLower(lines[i]) < strings.ToLower(lines[j]) })
	return strings.Join(lines, by)
}

// wrapped breaks lines of prose after 120 columns.
func wrapped(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "|") {
			continue
		}
		column := 0
		var b strings.Builder
		for k, word := range strings.Split(line, " ") {
			switch {
			case k > 0 && column+1+len(word) > 120:
				b.WriteString("\n")
				column = 0
			case k > 0:
				b.WriteString(" ")
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		lines[i] = b.String()
	}
	return strings.Join(lines, "\n")
}
