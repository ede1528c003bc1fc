package labeling

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/heuristics"
)

// givenTable writes a table of three edits with these labels, "" for none, and returns it as a source.
func givenTable(t *testing.T, labels ...string) string {
	t.Helper()
	abs, err := filepath.Abs(photographs)
	if err != nil {
		t.Fatal(err)
	}
	text := "source,edit,instruction,label\n"
	edits := []string{"astronaut.png,astronaut_purple.png", "chelsea.png,chelsea_mirror.png", "coffee.png,coffee_blur.png"}
	for i, label := range labels {
		text += fmt.Sprintf("%s,edit it,%s\n", edits[i], label)
	}
	path := filepath.Join(t.TempDir(), "given.csv")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sources: [{layout: table, path: %s, pictures: %s}]\n", path, abs)
}

// TestAllGiven: if every output has a label, neither a check nor a run needs an encoder or target, and both say so.
// One output without a label is enough to need them.
func TestAllGiven(t *testing.T) {
	said := func(list []string) bool { return slices.Contains(list, allGiven) }
	for _, c := range []struct {
		labels []string
		rules  string
		ok     bool // without encoders and targets
		said   bool
	}{
		{[]string{"0", "0.5", "1"}, "", true, true},
		{[]string{"0", "0.5", "1"}, "profile: adiee-released\n", true, false},
		{[]string{"0", "0.5", "1"}, "rules: {clip_i: off, dino_i: 0.4}\n", true, false},
		{[]string{"0", "0.5", ""}, "", false, false},
		{[]string{"0", "0.5", "1"}, "rules: {order: [source, dissimilar, given]}\n", false, false},
		{[]string{"0", "0.5", "1"}, "rules: {order: [source, dissimilar]}\n", false, false},
	} {
		cfg := load(t, "out: out\n"+givenTable(t, c.labels...)+c.rules)
		check, err := Check(t.Context(), cfg, 10)
		if err != nil {
			t.Fatal(err)
		}
		if check.OK != c.ok || said(check.Mixes) != c.said {
			t.Errorf("labels %q, %q: check: ok %v, %q, want %v, said %v", c.labels, c.rules, check.OK, check.Mixes, c.ok, c.said)
		}
		r, err := run(t, cfg, models{}, 1)
		if (err == nil) != c.ok {
			t.Errorf("labels %q, %q: run: got %v, want success %v", c.labels, c.rules, err, c.ok)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "add targets and an encoder") {
				t.Errorf("labels %q, %q: got %v, want what is missing", c.labels, c.rules, err)
			}
			continue
		}
		if said(r.Warnings) != c.said || r.Rules[heuristics.RuleGiven] != 3 {
			t.Errorf("labels %q, %q: warnings %q, rules %v, want said %v and 3 given", c.labels, c.rules, r.Warnings, r.Rules,
				c.said)
		}
	}
}

// TestFirstBad: the error about too many bad rows describes the first of them.
func TestFirstBad(t *testing.T) {
	var bad *BadError
	_, err := run(t, load(t, "out: out\n"+givenTable(t, "0", "5", "10")), models{}, 1)
	if !errors.As(err, &bad) {
		t.Fatalf("got %v, want a *BadError", err)
	}
	for _, want := range []string{"2 of ", "given.csv:3", "5 is outside 0 to 1: set label_range"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
}
