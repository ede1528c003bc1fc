package trainer

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/trainer/dataset"
)

// TestComparable: data that a run cannot learn from or validate on is found before the first step, and by a dry run.
func TestComparable(t *testing.T) {
	row := func(group, label, instruction string, k int) string {
		return fmt.Sprintf(`{"group": "%s", "source": "a.png", "edit": "e%d.png", "instruction": "%s"%s}`+"\n", group, k,
			instruction, label)
	}
	labelled := row("g", `, "label": 1`, "do", 0) + row("g", `, "label": 0`, "do", 1)
	for want, c := range map[string][3]string{ // keys, training rows, validation rows
		"bradley_terry has nothing to learn from: no group has two": {"losses: [{kind: bradley_terry}]\n",
			row("g", `, "label": 1`, "do", 0) + row("g", `, "label": 0`, "undo", 1), labelled},
		"losses[1]: plackett_luce has nothing to learn from": {"losses: [{kind: l1}, {kind: plackett_luce}]\n",
			row("g", `, "label": 1`, "do", 0) + row("h", `, "label": 0`, "do", 1), labelled},
		"two edits of a group are equal: row 1 of table.jsonl and row 2": {
			"losses: [{kind: plackett_luce, ties: refuse}]\n",
			row("g", `, "label": 1`, "do", 0) + row("g", `, "label": 1`, "do", 1), labelled},
		"validate.by: pair_accuracy, but the validation rows have no two edits": {"validate: {by: pair_accuracy}\n", labelled,
			row("g", `, "label": 1`, "do", 0) + row("g", `, "label": 1`, "do", 1)},
		"validate.by: l1, but the validation rows have no labels": {
			"losses: [{kind: bradley_terry}]\nvalidate: {by: l1}\n", labelled,
			row("g", `, "rank": 1`, "do", 0) + row("g", `, "rank": 2`, "do", 1)},
		"schedule: warmup 3 and decay 8 are more than the 10 steps": {
			"steps: 10\nschedule: {kind: wsd, warmup: 3, decay: 8}\n", labelled, labelled},
		"by and patience need validation rows": {"validate: {patience: 2}\n", labelled, ""},
	} {
		keys := c[0] + "data: {train: table.jsonl, validation: v.jsonl}\n"
		if c[2] == "" {
			keys = c[0] + "data: {train: table.jsonl}\n"
		}
		path := writeGroups(t, 0, keys)
		writeFiles(t, filepath.Dir(path), "table.jsonl", c[1], "v.jsonl", c[2])
		f := newFake()
		_, err := DryRun(context.Background(), load(t, path), f.factory)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dry run: want %q in %v", want, err)
		}
		_, err = Train(context.Background(), Options{Config: load(t, path), Factory: f.factory})
		if err == nil || !strings.Contains(err.Error(), want) || f.done > 0 {
			t.Errorf("want %q in %v, after %d steps", want, err, f.done)
		}
	}
}

// TestGroupsWithoutNames: edits without a group name are grouped by source and instruction, for comparisons and for
// the held-out fraction.
func TestGroupsWithoutNames(t *testing.T) {
	named, nameless := "", ""
	for g := range 8 {
		for k := range 3 {
			said := fmt.Sprintf(`"source": "s%d.png", "edit": "e%d.png", "instruction": "do %d", "label": %g}`+"\n", g%2, k, g/2,
				float64((g+k)%3)/2)
			named += fmt.Sprintf(`{"group": "g%d", `, g) + said
			nameless += "{" + said
		}
	}
	outcomes := map[string][]string{}
	for what, rows := range map[string]string{"named": named, "nameless": nameless} {
		path := writeGroups(t, 0, "data: {train: table.jsonl, validation: v.jsonl}\nlosses: [{kind: bradley_terry}]\n"+
			"batch_size: 6\nvalidate: {every: 1}\n")
		writeFiles(t, filepath.Dir(path), "s0.png", "0", "s1.png", "1", "e0.png", "2", "e1.png", "3", "e2.png", "4",
			"table.jsonl", rows, "v.jsonl", rows)
		plan, err := DryRun(t.Context(), load(t, path), newFake().factory)
		if err != nil {
			t.Fatal(what, err)
		}
		if f := plan.Summary; f.Groups != 8 || f.Items["bradley_terry"] != 24 {
			t.Errorf("%s: %d groups, %v; want 8 and 24 pairs", what, f.Groups, f.Items)
		}
		train(t, path, newFake())
		outcomes[what] = outcome(t, path)
	}
	if d := cmp.Diff(outcomes["named"], outcomes["nameless"]); d != "" {
		t.Error(d)
	}

	path := writeGroups(t, 0, "data: {train: table.jsonl, validation: 0.3}\nlosses: [{kind: bradley_terry}]\n")
	writeFiles(t, filepath.Dir(path), "s0.png", "0", "s1.png", "1", "e0.png", "2", "e1.png", "3", "e2.png", "4",
		"table.jsonl", nameless)
	d, err := dataset.Open(load(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	trained := map[string]bool{}
	for _, g := range d.Train.Rows {
		trained[g.Asked] = true
	}
	valid := d.Validation.Rows
	for _, g := range valid {
		if trained[g.Asked] {
			t.Errorf("row %d: its group is on both sides", g.Index+1)
		}
	}
	if len(valid) != 6 { // two of eight groups
		t.Errorf("%d validation rows, want 6", len(valid))
	}
}

// TestLeftOut: a run and its plan report which rows nothing is learned from.
func TestLeftOut(t *testing.T) {
	path := writeGroups(t, 0, "data: {train: [p.jsonl, t.jsonl]}\nlosses: [{kind: bradley_terry}]\n")
	writeFiles(t, filepath.Dir(path), "e0.png", "0", "e1.png", "1", "e2.png", "1", "p.jsonl",
		`{"prompt": "do", "source": "a.png", "chosen": "e0.png", "rejected": "e1.png"}`+"\n"+
			`{"prompt": "do", "source": "a.png", "chosen": "e2.png", "rejected": "e1.png"}`+"\n"+
			`{"prompt": "do", "source": "a.png", "chosen": "e0.png", "rejected": "e1.png", "dimension": "beauty"}`+"\n",
		"t.jsonl", `{"source": "a.png", "edit": "e0.png", "instruction": "do", "label_quality": 1}`+"\n")
	plan, err := DryRun(context.Background(), load(t, path), newFake().factory)
	if err != nil {
		t.Fatal(err)
	}
	f := plan.Summary
	if f.Same != 1 || f.Unused != 3 || f.Unread["quality"] != 1 || f.Unread["beauty"] != 2 || len(f.Unread) != 2 ||
		f.Preferences != 1 {
		t.Errorf("%+v", f)
	}
	var told []string
	_, err = Train(context.Background(), Options{Config: load(t, path), Factory: newFake().factory,
		Warn: func(text string) { told = append(told, text) }})
	all := strings.Join(told, "\n")
	for _, want := range []string{"1 comparisons are of an edit with itself", "3 edits have nothing",
		"2 edits have labels, ranks or " +
			"comparisons of beauty"} {
		if err != nil || !strings.Contains(all, want) {
			t.Errorf("%v: no %q in %s", err, want, all)
		}
	}
}

// TestBadPair: a bad edit in a comparison is reported with its row and its position in the pair.
func TestBadPair(t *testing.T) {
	path := writeGroups(t, 0, "data: {train: p.jsonl}\nlosses: [{kind: bradley_terry}]\n")
	row := `{"prompt": "do", "source": "a.png", "chosen": "e0.png", "rejected": "%s"}` + "\n"
	writeFiles(t, filepath.Dir(path), "e0.png", "0", "e1.png", "1",
		"p.jsonl", fmt.Sprintf(row, "e1.png")+fmt.Sprintf(row, "none.png"))
	_, err := DryRun(context.Background(), load(t, path), newFake().factory)
	if err == nil || !strings.Contains(err.Error(), "p.jsonl row 2/2: ") {
		t.Error(err)
	}
}
