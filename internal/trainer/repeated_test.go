package trainer

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/trainer/dataset"
)

// TestRepeatedEdits: there are warnings for an edit with two labels, and for validation rows that are trained on.
func TestRepeatedEdits(t *testing.T) {
	row := func(id, instruction, label, split string) string {
		return fmt.Sprintf(`{"id": %q, "source": "a.png", "edit": "a.png", "instruction": %q, "label": %s, "split": %q}`+"\n",
			id, instruction, label, split)
	}
	clean := row("1", "a", "0", "train") + row("2", "b", "1", "train") + row("3", "c", "1", "test")
	for text, want := range map[string]string{
		clean:                                "[]",
		clean + row("4", "a", "0", "train"):  "[]",
		clean + row("4", "a", "1", "train"):  "[1 of 3 training rows give an edit a different label than an earlier row",
		clean + row("4", "b", "1", "test"):   "[1 of 2 validation rows are edits that are also trained on",
		clean + row("4", "b", "0.5", "test"): "[1 of 2 validation rows are edits that are also trained on",
	} {
		path := writeRun(t, 5, "steps: 1\n")
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "table.jsonl"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c := load(t, path)
		var told []string
		if _, err := Train(context.Background(), Options{Config: c, Factory: newFake().factory,
			Warn: func(text string) { told = append(told, text) }}); err != nil {
			t.Fatal(err)
		}
		plan, err := DryRun(context.Background(), c, newFake().factory)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{fmt.Sprint(plan.Warnings), fmt.Sprint(told)} {
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s\n%s, want %s", text, got, want)
			}
		}
	}
}

// TestSplitWarnings: there are warnings if other edits of the same photographs are held out and trained on, and if
// sources and edits look swapped.
func TestSplitWarnings(t *testing.T) {
	table := func(format string) (text string) {
		for i := range 12 {
			text += fmt.Sprintf(format+"\n", i, i%3)
		}
		return text
	}
	const rest = `"instruction": "%[1]d", "label": 1}`
	photos := table(`{"source": "s%[2]d.png", "edit": "e%[1]d.png", ` + rest)
	const held, swapped = "validation rows have a source picture that is also trained on", "edit swapped"
	for _, test := range []struct {
		data, rows string
		wants      []string
	}{
		{"validation: 0.3", photos, []string{"4 of 4 " + held}},
		{"validation: 0.3", table(`{"group": "g%[1]d", "source": "s%[2]d.png", "edit": "e%[1]d.png", ` + rest),
			[]string{"4 of 4 " + held}},
		{"validation: 0.3", table(`{"group": "g%[2]d", "source": "s%[2]d.png", "edit": "e%[1]d.png", ` + rest), nil},
		{"validation: 0.3", table(`{"source": "s%[1]d.png", "edit": "e%[1]d.png", ` + rest), nil},
		{"validation: 0", photos, nil},
		{"validation: 0", table(`{"source": "e%[1]d.png", "edit": "s%[2]d.png", ` + rest),
			[]string{"12 different sources and only 3 different edits: are the columns source and " + swapped}},
		{"validation: table.jsonl, validation_split: b, train_split: a",
			table(`{"split": "a", "source": "s%[2]d.png", "edit": "e%[1]d.png", `+rest) +
				`{"split": "b", "source": "s1.png", "edit": "e1.png", "instruction": "other", "label": 0}` + "\n", nil},
	} {
		path := writeGroups(t, 0, "data: {train: table.jsonl, "+test.data+"}\n")
		files := []string{"table.jsonl", test.rows}
		for i := range 12 {
			files = append(files, fmt.Sprintf("e%d.png", i), fmt.Sprint("e", i), fmt.Sprintf("s%d.png", i), fmt.Sprint("s", i))
		}
		writeFiles(t, filepath.Dir(path), files...)
		d, err := dataset.Open(load(t, path))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if len(d.Warnings) != len(test.wants) {
			t.Errorf("%s over\n%s: %q, want %q", test.data, test.rows, d.Warnings, test.wants)
			continue
		}
		for i, want := range test.wants {
			if !strings.Contains(d.Warnings[i], want) {
				t.Errorf("%s over\n%s: %q, want %q", test.data, test.rows, d.Warnings[i], want)
			}
		}
	}
}

// TestEqualButForRounding: scores of the same edit in two batches, which may differ in their last bits, count as
// equal.
func TestEqualButForRounding(t *testing.T) {
	path := writeRun(t, 5, "steps: 1\n")
	folder := filepath.Dir(path)
	var text strings.Builder
	for i, label := range []float64{1, 0, 0.5} {
		name := fmt.Sprintf("%d.png", i)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, split := range []string{"train", "test"} {
			fmt.Fprintf(&text, `{"group": "g", "source": "a.png", "edit": %q, "instruction": "x", "label": %v, "split": %q}`+
				"\n", name, label, split)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "table.jsonl"), []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(load(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	v := &validator{config: load(t, path), data: d}
	examples, err := v.rows(0, d.Validation.Len())
	if err != nil {
		t.Fatal(err)
	}
	m := v.measureAll([]float64{0.5, 0.5 + 1e-9, 0.9}, examples)
	if m.PairRows != 3 || m.Pairs == nil || *m.Pairs != 0.5 || !(math.Abs(float64(m.Spearman)+0.5) <= 1e-12) {
		t.Errorf("%+v", m)
	}
}
