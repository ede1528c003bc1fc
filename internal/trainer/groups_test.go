package trainer

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/objective"
	"assay/losses"
)

// compare uses the gradient of a Bradley-Terry model or of a distance for every kind of loss: enough to see whether a
// run is reproducible.
func (f *fake) compare(batch []dataset.Example, in models.StepInput) (*models.StepResult, error) {
	items := in.Items
	time.Sleep(f.slow)
	f.seen = append(f.seen, batch...)
	f.parts = append(f.parts, len(batch))
	n := len(batch)
	r := &models.StepResult{
		Loss: make([]float64, n), ScoreLoss: make([]float64, n), Tokens: n, Terms: make([][]float64, len(items)),
	}
	slope := make([]float64, n)
	for i := range batch {
		r.Score = append(r.Score, f.score(features(&batch[i])))
	}
	for t := range items {
		for _, it := range items[t] {
			l := 0.0
			for k := 1; k < len(it.Edits); k++ {
				a, b := it.Edits[k-1], it.Edits[k]
				d := r.Score[a] - r.Score[b]
				g := it.Weight * (it.Outcome[0] + it.Outcome[1]/2 - 1/(1+math.Exp(-d))) * (1 + float64(in.Draws%7)/100)
				slope[a], slope[b] = slope[a]-g, slope[b]+g
				l += math.Log1p(math.Exp(-d))
			}
			if len(it.Edits) == 1 {
				d := r.Score[it.Edits[0]] - it.Label
				slope[it.Edits[0]] += it.Weight * d
				l = d * d / 2
			}
			r.Terms[t] = append(r.Terms[t], l)
		}
	}
	dw, db := make([]float32, fakeWidth), make([]float32, 1)
	for i := range batch {
		for j, x := range features(&batch[i]) {
			dw[j] += float32(slope[i]) * x
		}
		db[0] += float32(slope[i])
	}
	r.Grads = []*tensor.Dense{
		tensor.New(tensor.WithShape(1, fakeWidth), tensor.WithBacking(dw)),
		tensor.New(tensor.WithShape(1), tensor.WithBacking(db)),
	}
	if f.done++; f.steps != nil {
		f.steps(f.done)
	}
	return r, nil
}

// writeGroups writes a run over a table with groups of 1 to 6 edits; text is additional YAML.
func writeGroups(t *testing.T, groups int, text string) string {
	t.Helper()
	dir := t.TempDir()
	var rows strings.Builder
	for g := range groups {
		for k := range 1 + g%6 {
			fmt.Fprintf(&rows, `{"id": "g%d-%d", "group": "g%d", "source": "a.png", "edit": "e%d.png", "instruction": `+
				`"do %d", "label": %g, "label_quality": %g}`+"\n", g, k, g, k, g, float64((g+k)%5)/4, float64(k%3)/2)
		}
	}
	for name, text := range map[string]string{"a.png": "", "e0.png": "", "e1.png": "", "e2.png": "", "e3.png": "",
		"e4.png": "", "e5.png": "", "table.jsonl": rows.String(),
		"run.yaml": "backbone: backbone\n" +
			"out: out\nhead: {hidden: []}\nquestion: ['[INSTRUCTION]?', 'Is [INSTRUCTION] done?']\n" +
			"optimizer: {lr: 0.01}\nseed: 3\n" + text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "run.yaml")
}

// TestWholeGroups: steps have whole groups within the bounds, an epoch has every group once, and each epoch draws
// different edits of larger groups.
func TestWholeGroups(t *testing.T) {
	f := newFake()
	path := writeGroups(t, 60, "data: {train: table.jsonl, group_edits: 4}\nlosses: [{kind: bradley_terry}]\n"+
		"batch_size: 9\nmicro_batch: 3\nepochs: 2\naugment: adiee\n")
	train(t, path, f)
	count, drawn, at := map[string]int{}, map[string]map[string]bool{}, 0
	for _, n := range f.parts {
		part := f.seen[at : at+n]
		at += n
		groups := map[string][]dataset.Example{}
		for _, e := range part {
			groups[e.Edit.Group] = append(groups[e.Edit.Group], e)
		}
		if len(part) > 4 || len(part) > 3 && len(groups) > 1 {
			t.Fatalf("a part has %d edits of %d groups", len(part), len(groups))
		}
		for g, edits := range groups {
			var i, size int
			fmt.Sscanf(g, "g%d", &i)
			if size = min(1+i%6, 4); len(edits) != size {
				t.Fatalf("%d of the %d edits of %s are in a part", len(edits), size, g)
			}
			for _, e := range edits {
				if e.Question != edits[0].Question || outputOf(&e).Augment != outputOf(&edits[0]).Augment {
					t.Fatal("edits of a group are asked about in other words")
				}
			}
			count[g]++
			if drawn[g] == nil {
				drawn[g] = map[string]bool{}
			}
			for _, e := range edits {
				drawn[g][e.Edit.ID] = true
			}
		}
	}
	more := 0
	for g, n := range count {
		if n != 2 {
			t.Errorf("%s came %d times in 2 epochs", g, n)
		}
		if len(drawn[g]) > 4 {
			more++
		}
	}
	if len(count) != 60 || more < 10 {
		t.Errorf("%d groups, %d of which other edits were drawn", len(count), more)
	}
}

// TestGroupsOfOneAreSamples: if every edit is a group, a run with whole groups is bit-identical to a run with rows.
func TestGroupsOfOneAreSamples(t *testing.T) {
	weights := func(sampling string) (string, []dataset.Example) {
		path := writeRun(t, 40, "epochs: 3\naugment: adiee\n")
		table := filepath.Join(filepath.Dir(path), "table.jsonl")
		text, _ := os.ReadFile(table)
		for i := range 40 {
			from, to := fmt.Sprintf(`"row%d", "group": "g%d"`, i, i/3), fmt.Sprintf(`"row%d", "group": "own%d"`, i, i)
			text = []byte(strings.Replace(string(text), from, to, 1))
		}
		config, _ := os.ReadFile(path)
		config = []byte(strings.Replace(string(config), "data: {", "data: {sampling: "+sampling+", ", 1))
		if os.WriteFile(table, text, 0o666) != nil || os.WriteFile(path, config, 0o666) != nil {
			t.Fatal("writing")
		}
		f := newFake()
		r := train(t, path, f)
		out, err := os.ReadFile(filepath.Join(r.Scorer, "weights.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.seen {
			f.seen[i].Group = 0
		}
		return string(out), examplesAnywhere(f.seen)
	}
	a, rows := weights("rows")
	b, groups := weights(config.WholeGroups)
	if d := cmp.Diff(rows, groups); d != "" || a != b {
		t.Errorf("same weights: %v; %s", a == b, d)
	}
}

// TestGroupsResume interrupts a run over whole groups and compares with an undisturbed one.
func TestGroupsResume(t *testing.T) {
	text := "data: {train: table.jsonl, validation: 0.2, group_edits: 4}\n" +
		"losses: [{kind: bradley_terry}, {kind: l1, weight: 2}]\nbatch_size: 9\n" +
		"micro_batch: 3\nepochs: 3\nschedule: {kind: cosine}\nvalidate: {by: pair_accuracy}\n"
	quiet := writeGroups(t, 60, text)
	whole := train(t, quiet, newFake())
	path := writeGroups(t, 60, text)
	for _, stop := range []int{5, 9, 2} {
		ctx, cancel := context.WithCancel(context.Background())
		f := newFake()
		f.steps = func(n int) {
			if n == stop {
				cancel()
			}
		}
		if _, err := Train(ctx, Options{Config: load(t, path), Factory: f.factory}); err == nil {
			t.Fatal("not interrupted")
		}
	}
	r := train(t, path, newFake())
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" || r.Resumed == 0 || r.Steps != whole.Steps {
		t.Error(r.Resumed, r.Steps, whole.Steps, d)
	}
	if v := r.Validation; v.Pairs == nil || v.By != config.ByPairs || v.PairRows == 0 {
		t.Errorf("%+v", v)
	}
}

// TestPreferences: comparison tables become groups, an edit in several comparisons is one edit, and votes are counted
// correctly.
func TestPreferences(t *testing.T) {
	path := writeGroups(t, 6, "data: {train: [table.jsonl, pairs.jsonl], group_edits: 4}\n"+
		"losses: [{kind: bradley_terry, votes: soft}, {kind: bradley_terry, votes: weight, weight: 2}, "+
		"{kind: l1}]\nbatch_size: 8\n")
	var rows strings.Builder
	for _, line := range []string{
		`"chosen": "b.png", "rejected": "c.png", "votes_chosen": 6, "votes_tie": 1, "votes_rejected": 1`,
		`"chosen": "b.png", "rejected": "d.png", "votes_chosen": 1, "votes_tie": 2, "votes_rejected": 1, "margin": 2.5`,
		`"chosen": "d.png", "rejected": "c.png"`,
	} {
		fmt.Fprintf(&rows, `{"prompt": [{"role": "user", "content": [{"type": "image"}, `+
			`{"type": "text", "text": "turn it"}]}], "source": "a.png", %s}`+"\n", line)
	}
	folder := filepath.Dir(path)
	for name, text := range map[string]string{"pairs.jsonl": rows.String(), "b.png": "b", "c.png": "c", "d.png": "d"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := load(t, path)
	plan, err := DryRun(context.Background(), c, newFake().factory)
	if err != nil {
		t.Fatal(err)
	}
	f := plan.Summary
	if f.Groups != 7 || f.Edits != 1+2+3+4+5+6+3 || f.Preferences != 3 || f.Ties != 1 || f.Margins != 1 || f.Votes != 2 ||
		f.Sizes != [3]float64{1, 24.0 / 7, 6} || f.Sampled != 2 || f.Layouts["preferences"] != 1 || f.Labels != 21 {
		t.Errorf("%+v", f)
	}
	tables, err := dataset.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	_, l := loaderOf(t, path, tables)
	for at := int64(0); at < l.Limit; at = l.Next(at) {
		batch, err := l.Read(at)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range batch {
			if e.Edit.Instruction != "turn it" || i > 0 && batch[i-1].Unit == e.Unit {
				continue
			}
			checkPreferences(t, objective.New(c.Losses, l.Groups).Items(batch[i:i+3]))
			return
		}
	}
	t.Error("the comparisons did not come")
}

func checkPreferences(t *testing.T, items [][]losses.Item) {
	want := [][]losses.Item{
		{
			{Edits: []int{0, 1}, Outcome: [3]float64{0.75, 0.125, 0.125}, Weight: 1},
			{Edits: []int{0, 2}, Outcome: [3]float64{0.25, 0.5, 0.25}, Weight: 1, Margin: 2.5},
			{Edits: []int{2, 1}, Outcome: [3]float64{1, 0, 0}, Weight: 1},
		},
		{
			{Edits: []int{0, 1}, Outcome: [3]float64{1, 0, 0}, Weight: 6},
			{Edits: []int{0, 2}, Outcome: [3]float64{0, 1, 0}, Weight: 2, Margin: 2.5},
			{Edits: []int{2, 1}, Outcome: [3]float64{1, 0, 0}, Weight: 1},
		},
		nil,
	}
	if d := cmp.Diff(want, items); d != "" {
		t.Error(d)
	}
}
