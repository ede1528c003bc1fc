package trainer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
)

// looking is a fake that reads pictures like the real models.
type looking struct{ *fake }

func (m *looking) Inspector() func(*dataset.Example) error {
	return new(dataset.PictureInspector).Example
}

func (m *looking) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	for i := range batch {
		if err := new(dataset.PictureInspector).Example(&batch[i]); err != nil { // as the file is now
			return nil, fmt.Errorf("%s: %w", batch[i].Edit.ID, err)
		}
	}
	return m.fake.Step(ctx, batch, in)
}

func (m *looking) factory(context.Context, *config.Config) (models.Model, error) {
	return m, nil
}

// pictured is writeRun with a separate picture for every row: rowN.png.
func pictured(t *testing.T, n int, extra string) string {
	t.Helper()
	path := writeRun(t, n, extra)
	dir := filepath.Dir(path)
	writePicture(t, filepath.Join(dir, "a.png"), 200)
	for i := range n {
		writePicture(t, filepath.Join(dir, fmt.Sprintf("row%d.png", i)), i)
	}
	rewrite(t, filepath.Join(dir, "table.jsonl"), func(s string) string {
		s = regexp.MustCompile(`"id": "(row\d+)"(.*)"edit": "a.png"`).ReplaceAllString(s, `"id": "$1"$2"edit": "$1.png"`)
		return s
	})
	return path
}

func writePicture(t *testing.T, path string, shade int) {
	t.Helper()
	p := data.NewPicture(24, 24)
	for i := range p.Pix {
		p.Pix[i] = byte(shade + i%7)
	}
	if err := p.WritePNG(path); err != nil {
		t.Fatal(err)
	}
}

func rewrite(t *testing.T, path string, change func(string) string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(change(string(raw))), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// truncate truncates a picture: its header is valid, its data is not.
func truncate(t *testing.T, path string) {
	t.Helper()
	rewrite(t, path, func(s string) string { return s[:len(s)-20] })
}

func lookingRun(path string, m *looking, o Options) (*Result, error) {
	c, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	o.Config, o.Factory = c, m.factory
	return Train(context.Background(), o)
}

func badRowsOf(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(path), "out", dataset.BadRowsFile))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range regexp.MustCompile(`"id":"(row\d+)"`).FindAllStringSubmatch(string(raw), -1) {
		ids = append(ids, m[1])
	}
	slices.Sort(ids)
	return ids
}

// TestBadRowsAreFoundBeforeTheFirstStep: all bad rows are reported together, with file and reason; within the budget
// they are set aside and listed.
func TestBadRowsAreFoundBeforeTheFirstStep(t *testing.T) {
	path := pictured(t, 30, "steps: 4\n")
	dir := filepath.Dir(path)
	truncate(t, filepath.Join(dir, "row7.png"))
	truncate(t, filepath.Join(dir, "row10.png")) // a validation row
	if err := os.Remove(filepath.Join(dir, "row8.png")); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, "table.jsonl"), func(s string) string {
		return strings.Replace(s, `"do thing 12", "label": 0`, `"do thing 12", "label": "NaN"`, 1)
	})
	m := &looking{fake: newFake()}
	c := load(t, path)
	_, dry := DryRun(context.Background(), c, m.factory)
	_, err := lookingRun(path, m, Options{})
	for what, err := range map[string]error{"a dry run": dry, "a run": err} {
		var bad *dataset.BadRowsError
		if !errors.As(err, &bad) || len(bad.Rows) != 4 || exit.Code(err) != exit.Wrong || len(exit.Problems(err)) != 4 {
			t.Fatalf("%s: %v", what, err)
		}
		for _, want := range []string{"4 rows cannot be used, data.skip allows 0", "row 8: edit: ", "row7.png: damaged",
			"row 9: picture row8.png does not exist",
			"row 11: edit: ", "table.jsonl:13: column \"label\": want a finite number, have NaN", "skip: 4"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want %q in %v", what, want, err)
			}
		}
	}
	if len(m.seen) > 0 {
		t.Error("it trained")
	}
	rewrite(t, path, func(s string) string { return strings.Replace(s, "data: {", "data: {skip: 4, ", 1) })
	warned, shown := "", map[string]int64{}
	r, err := lookingRun(
		path,
		m,
		Options{Warn: func(s string) { warned += s }, Progress: func(what string, total int64, _ string) dataset.Progress {
			shown[what] = total
			return silent{}
		}},
	)
	if err != nil || r.Steps != 4 || !strings.Contains(warned, "4 rows cannot be used") || shown["checking rows"] != 28-1 {
		t.Fatalf("%v, %q, %v", err, warned, shown)
	}
	for _, e := range m.seen {
		if e.Edit.ID == "row7" || e.Edit.ID == "row8" || e.Edit.ID == "row12" {
			t.Error("trained on", e.Edit.ID)
		}
	}
	if got := badRowsOf(
		t,
		path,
	); !slices.Equal(got, []string{"row10", "row7", "row8"}) &&
		!slices.Equal(got, []string{"row10", "row12", "row7", "row8"}) {
		t.Errorf("%s lists %v", dataset.BadRowsFile, got)
	}
	if plan, err := DryRun(context.Background(), load(t, path), m.factory); err != nil || len(plan.BadRows) != 4 {
		t.Errorf("%+v, %v", plan, err)
	}
}

// TestNoRowsAreLeft: data.skip cannot set aside all rows of training or of validation.
func TestNoRowsAreLeft(t *testing.T) {
	for what, mine := range map[string]func(i int) bool{
		"data.validation: no rows are left to validate on": func(i int) bool { return i%5 == 0 },
		"data.train: no rows are left to train on":         func(i int) bool { return i%5 != 0 },
	} {
		t.Run(what, func(t *testing.T) {
			path := pictured(t, 10, "steps: 2\n")
			for i := range 10 {
				if mine(i) {
					truncate(t, filepath.Join(filepath.Dir(path), fmt.Sprintf("row%d.png", i)))
				}
			}
			rewrite(t, path, func(s string) string { return strings.Replace(s, "data: {", "data: {skip: 10, ", 1) })
			if _, err := lookingRun(path, &looking{fake: newFake()}, Options{}); err == nil || err.Error() != what ||
				exit.Code(err) != exit.Wrong {
				t.Errorf("got %v, want %q", err, what)
			}
		})
	}
}

// TestRowsWithoutPictures: a row without a path says which picture is missing.
func TestRowsWithoutPictures(t *testing.T) {
	path := pictured(t, 10, "steps: 1\n")
	rewrite(t, filepath.Join(filepath.Dir(path), "table.jsonl"), func(s string) string {
		s = strings.Replace(s, `"edit": "row4.png"`, `"edit": ""`, 1)
		return strings.Replace(s, `"source": "a.png"`, `"source": ""`, 1)
	})
	_, err := DryRun(context.Background(), load(t, path), newFake().factory)
	for _, want := range []string{"2 rows cannot be used", "row 1: source: no picture", "row 5: edit: no picture"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// TestRepairedRunsEndTheSame damages a picture in the middle of a run. The state is saved, and after a repair the
// result is bit-identical to that of an undisturbed run.
func TestRepairedRunsEndTheSame(t *testing.T) {
	long.Test(t)
	extra := "epochs: 3\naugment: adiee\n"
	quiet := pictured(t, 40, extra)
	if _, err := lookingRun(quiet, &looking{fake: newFake()}, Options{}); err != nil {
		t.Fatal(err)
	}
	table := func(path string) string { return filepath.Join(filepath.Dir(path), "table.jsonl") }
	picture := func(path string) string { return filepath.Join(filepath.Dir(path), "row9.png") }
	for what, repair := range map[string]func(path string){
		"another picture of that name": func(path string) { writePicture(t, picture(path), 99) },
		"another path": func(path string) {
			rewrite(t, table(path), func(s string) string { return strings.Replace(s, `"row9.png"`, `"row11.png"`, 1) })
		},
		"and the rows in another order": func(path string) {
			writePicture(t, picture(path), 9)
			rewrite(t, table(path), func(s string) string {
				lines := strings.SplitAfter(s, "\n")
				slices.Reverse(lines)
				return strings.Join(lines, "")
			})
		},
	} {
		path := pictured(t, 40, extra)
		m := &looking{fake: newFake()}
		m.steps = func(n int) {
			if n == 5 {
				truncate(t, picture(path))
			}
		}
		_, err := lookingRun(path, m, Options{})
		if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "row9.png: damaged") ||
			!strings.Contains(err.Error(), "steps are saved in") {
			t.Fatalf("%s: %v", what, err)
		}
		s, _, _, err := checkpoint.Find(filepath.Join(filepath.Dir(path), "out"))
		if err != nil || s == nil || s.Step < 2 || !slices.Equal(badRowsOf(t, path), []string{"row9"}) {
			t.Fatalf("%s: %+v, %v, %v", what, s, err, badRowsOf(t, path))
		}
		if _, err := lookingRun(
			path,
			&looking{fake: newFake()},
			Options{},
		); exit.Code(err) != exit.Wrong ||
			!strings.Contains(err.Error(), "row9.png: damaged") {
			t.Fatalf("%s: not yet repaired: %v", what, err)
		}
		repair(path)
		m = &looking{fake: newFake()}
		m.steps = func(n int) {
			if n == 3 { // and interrupted once more
				truncate(t, filepath.Join(filepath.Dir(path), "row13.png"))
			}
		}
		if _, err := lookingRun(path, m, Options{}); exit.Code(err) != exit.Failed {
			t.Fatalf("%s: %v", what, err)
		}
		writePicture(t, filepath.Join(filepath.Dir(path), "row13.png"), 13)
		r, err := lookingRun(path, &looking{fake: newFake()}, Options{})
		if err != nil || r.Resumed < s.Step || len(badRowsOf(t, path)) > 0 {
			t.Fatalf("%s: %+v, %v, %v", what, r, err, badRowsOf(t, path))
		}
		if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
}

// TestRemovedAndForeignRows: a row recorded as bad may be removed from the table; no other row may be removed, added
// or changed.
func TestRemovedAndForeignRows(t *testing.T) {
	path := pictured(t, 40, "epochs: 3\n")
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	m := &looking{fake: newFake()}
	m.steps = func(n int) {
		if n == 5 {
			truncate(t, filepath.Join(filepath.Dir(path), "row9.png"))
		}
	}
	if _, err := lookingRun(path, m, Options{}); err == nil {
		t.Fatal("no error")
	}
	drop := func(s, id string) string {
		return regexp.MustCompile(`(?m)^.*"id": "`+id+`".*\n`).ReplaceAllString(s, "")
	}
	before, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(string) string{
		"row row11 is missing": func(s string) string { return drop(drop(s, "row9"), "row11") },
		"row row12 changed": func(s string) string {
			return strings.Replace(drop(s, "row9"), "do thing 12",
				"do otherwise", 1)
		},
		"row extra is new": func(s string) string {
			return s + `{"id": "extra", "source": "a.png", "edit": "row1.png", "instruction": "x", "label": 1, "split": ` +
				`"train"}` + "\n"
		},
	} {
		rewrite(t, table, change)
		if _, err := lookingRun(
			path,
			&looking{fake: newFake()},
			Options{},
		); exit.Code(err) != exit.Wrong ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if err := os.WriteFile(table, before, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(t, table, func(s string) string { return drop(s, "row9") })
	m = &looking{fake: newFake()}
	for range 2 { // the second run has nothing left to do
		r, err := lookingRun(path, m, Options{})
		if err != nil || r.Steps != 16 || r.Samples != 93 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	for _, e := range m.seen {
		if e.Edit.ID == "row9" {
			t.Error("trained on a row that does not exist")
		}
	}
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(path), "out", dataset.RowsFile))
	if err != nil || bytes.Count(raw, []byte("\n")) != 39 {
		t.Errorf("%s has %d rows, %v", dataset.RowsFile, bytes.Count(raw, []byte("\n")), err)
	}
}

// TestTheBudgetHoldsWhileTraining sets aside a row that becomes bad in the middle of a run.
func TestTheBudgetHoldsWhileTraining(t *testing.T) {
	path := pictured(t, 40, "epochs: 3\nvalidate: {every: 4}\n")
	rewrite(t, path, func(s string) string { return strings.Replace(s, "data: {", "data: {skip: 1, ", 1) })
	m := &looking{fake: newFake()}
	m.steps = func(n int) {
		if n == 5 {
			truncate(t, filepath.Join(filepath.Dir(path), "row9.png"))
		}
	}
	r, err := lookingRun(path, m, Options{})
	if err != nil || r.Samples != 93 || !slices.Equal(badRowsOf(t, path), []string{"row9"}) {
		t.Errorf("%+v, %v, %v", r, err, badRowsOf(t, path))
	}
}

// TestErrorsSaveWhatWasReached: an error in the middle of a run does not lose earlier steps.
func TestErrorsSaveWhatWasReached(t *testing.T) {
	extra := "epochs: 2\n"
	quiet, path := writeRun(t, 40, extra), writeRun(t, 40, extra)
	train(t, quiet, newFake())
	f := &failing{fake: newFake(), at: 8}
	c := load(t, path)
	_, err := Train(
		context.Background(),
		Options{Config: c, Factory: func(context.Context, *config.Config) (models.Model, error) { return f, nil }},
	)
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "out of memory") ||
		!strings.Contains(err.Error(), "3 steps are saved in "+c.Out) {
		t.Fatal(err)
	}
	if r := train(t, path, newFake()); r.Resumed != 3 {
		t.Errorf("%+v", r)
	}
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
}

// failing is a fake whose runs start failing at some point.
type failing struct {
	*fake
	at int
}

func (f *failing) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	if f.done+1 >= f.at {
		return nil, errors.New("out of memory")
	}
	return f.fake.Step(ctx, batch, in)
}

// TestWrongColumnsAreToldOfOnce: a wrong column is reported once, not for every row, with the remedy.
func TestWrongColumnsAreToldOfOnce(t *testing.T) {
	csv := "source,edit,instruction,rating\na.png,a.png,x,1\na.png,a.png,y,0\n"
	jsonl := `{"source":"a.png","edited":"a.png","instruction":"x","rating":1}` + "\n" +
		`{"source":"a.png","edited":"a.png","instruction":"y","rating":0}` + "\n"
	for _, test := range []struct{ name, text, data, want string }{
		{"t.csv", csv, "", `is there a column "label"? The columns are source, edit, instruction, rating; name the right ` +
			`one with data: {columns: {label: NAME}}`},
		{"t.csv", strings.Replace(csv, "edit", "edited", 1), "",
			`no column "edit", only source, edited, instruction, rating: name the right one with data: {columns: ` +
				`{edit: NAME}}`},
		{"t.jsonl", jsonl, "", `no column "edit", only source, edited, instruction, rating: name the right one ` +
			`with data: {columns: {edit: NAME}}`},
		{"t.jsonl", jsonl, ", columns: {edit: edited, label: score}",
			`no column "score", only source, edited, instruction, rating: name the right one with data: {columns: ` +
				`{label: NAME}}`},
		{"t.csv", csv, ", columns: {label: rating}, train_split: train", `is there a column "split"?`},
		{"t.csv", csv, ", columns: {label: rating}, sampling: group", `is there a column "group"?`},
		{"t.csv", "source,edit,instruction,label\na.png,a.png,x,nan\na.png,a.png,y,1\n", "",
			"t.csv:2: column \"label\": want a finite number, have NaN"},
	} {
		path := writeRun(t, 5, "steps: 1\n")
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), test.name), []byte(test.text), 0o666); err != nil {
			t.Fatal(err)
		}
		rewrite(t, path, func(s string) string {
			return regexp.MustCompile(`(?m)^data: .*$`).ReplaceAllString(s, "data: {train: "+test.name+test.data+"}")
		})
		c := load(t, path)
		_, err := Train(context.Background(), Options{Config: c, Factory: newFake().factory})
		_, dry := DryRun(context.Background(), c, newFake().factory)
		if exit.Code(err) != exit.Wrong || strings.Count(err.Error(), test.want) != 1 || exit.Code(dry) != exit.Wrong {
			t.Errorf("%s %s: %v\nwant %s", test.name, test.data, err, test.want)
		}
	}
}
