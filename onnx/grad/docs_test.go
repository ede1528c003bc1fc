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

var update = flag.Bool("update", false, "write docs/ops.md anew")

//go:generate go test -run TestOpsDocument -update

// TestOpsDocument fails when docs/ops.md is not what the rule table says.
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

Written by `+"`go generate ./onnx/grad`"+` from the rule table (onnx/grad/table.go and the rules beside it).

The rules hold for models in ai.onnx opset %d to %d; "from" names later operators. A "rule" emits the gradient
directly; a "decomposition" is differentiated instead of the operator. Integer and boolean inputs never carry
a gradient; float inputs that carry none are listed. Operators whose outputs are integers or booleans (Shape,
comparisons, ArgMax, ...), and generators (ConstantOfShape, Range, RandomNormal, ...), need no rule: no
gradient reaches them. A rule takes the gradient of the first output alone where "limits" does not name more;
a model in which a gradient reaches another one is refused. So is an operator in a gradient's way that is not
in this table (gradients.md). Every rule is checked against central differences (onnx/grad/check_test.go), and
against PyTorch (testdata/oracle/onnx).

| operator | from opset | by | no gradient for inputs | limits |
|---|---|---|---|---|
`, onnx.OldestOpset, onnx.NewestOpset)
	var rows []string
	for i := range table {
		r := &table[i]
		by := "rule"
		switch {
		case r.rule != nil && r.decompose != nil:
			by = "rule, decomposition"
		case r.decompose != nil:
			by = "decomposition"
		case r.rule == nil:
			by = "zero"
		}
		since := ""
		if r.since > onnx.OldestOpset {
			since = fmt.Sprint(r.since)
		}
		var inputs []string
		for _, k := range r.nonDifferentiable {
			if k < 0 {
				inputs = append(inputs, "all")
				continue
			}
			inputs = append(inputs, fmt.Sprint(k))
		}
		note := r.note
		if note == "zero" {
			note = ""
		}
		if r.outputs != 0 {
			note = strings.TrimPrefix(note+"; of "+r.acceptedOutputs(), "; ")
		}
		rows = append(
			rows,
			fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name(r), since, by, strings.Join(inputs, ", "), note),
		)
	}
	sort.Slice(rows, func(i, j int) bool { return strings.ToLower(rows[i]) < strings.ToLower(rows[j]) })
	fmt.Fprint(&b, strings.Join(rows, ""))
	return b.String()
}
