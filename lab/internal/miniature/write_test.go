package miniature

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/data/readers"
	"assay/internal/long"
)

// digests returns the digest of every file in a folder.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		sum := sha256.Sum256(raw)
		out[strings.TrimPrefix(path, dir)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writeSet(t *testing.T, w *World, s Set) (string, *Summary) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	summary, err := w.Write(t.Context(), dir, s, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return dir, summary
}

// One seed always makes the same data set, on any number of CPUs; another seed makes another one.
func TestDeterminism(t *testing.T) {
	long.Test(t)
	w := testWorld(t, true)
	for _, embed := range []bool{false, true} {
		s := Set{Seed: 3, Instructions: 20, Chains: 4, Embed: embed}
		before := runtime.GOMAXPROCS(1)
		one, _ := writeSet(t, w, s)
		runtime.GOMAXPROCS(3)
		three, _ := writeSet(t, w, s)
		runtime.GOMAXPROCS(before)
		if d := cmp.Diff(digests(t, one), digests(t, three)); d != "" {
			t.Errorf("embedded %v: one processor and three:\n%s", embed, d)
		}
		s.Seed = 4
		other, _ := writeSet(t, w, s)
		if cmp.Equal(digests(t, one), digests(t, other)) {
			t.Error("two seeds, one data set")
		}
	}
}

// The tables can be read with the layouts that they are written for, in both forms, and the truth file has every
// output and nothing else.
func TestTablesAreRead(t *testing.T) {
	long.Test(t)
	w := testWorld(t, true)
	var digest []string
	for _, embed := range []bool{false, true} {
		dir, summary := writeSet(t, w, Set{Seed: 3, Instructions: 28, Chains: 6, Embed: embed})
		ext := ".jsonl"
		if embed {
			ext = ".parquet"
		}
		var text strings.Builder
		open := func(layout, name string, chains bool) readers.Reader {
			r, err := readers.Open(t.Context(), layout, readers.Options{Path: filepath.Join(dir, name+ext), Chains: chains})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		show := func(m data.Image) *data.Picture {
			p, err := m.Open(dir, data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Width != w.Size || p.Height != w.Size {
				t.Errorf("a picture of %d x %d", p.Width, p.Height)
			}
			sum := sha256.Sum256(p.Pix)
			text.Write(sum[:])
			return p
		}
		truth, err := ReadTruth(filepath.Join(dir, TruthFile))
		if err != nil {
			t.Fatal(err)
		}
		degrees := map[string]Truth{}
		for _, row := range truth {
			degrees[row.ID] = row
		}
		edits := open("table", EditsTable, false)
		defer edits.Close()
		if edits.Len() != 28*len(Editors) || summary.Outputs != edits.Len() {
			t.Errorf("%d rows, %d outputs", edits.Len(), summary.Outputs)
		}
		for i := range edits.Len() {
			s, err := edits.Read(i)
			if err != nil {
				t.Fatal(err)
			}
			known, ok := degrees[s.ID]
			if !ok || known.Group()+"/"+s.Outputs[0].Editor != s.ID || s.SourceCaption == s.TargetCaption ||
				s.SourceCaption == "" {
				t.Errorf("%+v: %+v", s, known)
			}
			source, edit := show(s.Source), show(s.Outputs[0].Picture)
			show(s.Target)
			if (known.Kind == Noop) != (far(source, edit) == 0) {
				t.Errorf("%s: %s", s.ID, known.Kind)
			}
			text.WriteString(s.ID + s.Instruction + s.SourceCaption + s.TargetCaption)
		}
		chains := open("magicbrush", ChainsTable, true)
		defer chains.Close()
		found := 0
		for i := range chains.Len() {
			s, err := chains.Read(i)
			if _, left := err.(readers.Left); left {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			found++
			for j := range s.Chain.Pictures {
				show(s.Chain.Pictures[j])
			}
			if degrees[s.ID+"/0-1/1"].Degree != 1 || degrees[s.ID+"/0-1/0"].Degree != 0 || degrees[s.ID+"/0-2/1"].Degree != 0.5 {
				t.Errorf("chain %s", s.ID)
			}
		}
		if found != 6 || summary.Chains != 6 {
			t.Errorf("%d chains", found)
		}
		digest = append(digest, text.String())
	}
	if digest[0] != digest[1] {
		t.Error("files and embedded pictures differ")
	}
}

// An exam has every kind that a task can have, under neutral names.
func TestExam(t *testing.T) {
	long.Test(t)
	dir, summary := writeSet(t, testWorld(t, false), Set{Seed: 1, Instructions: 56, Exam: true})
	for _, k := range Kinds {
		if n := summary.Kinds[k]; n < 28 || n > 56 {
			t.Errorf("%s: %d of 56", k, n)
		}
	}
	truth, err := ReadTruth(filepath.Join(dir, TruthFile))
	if err != nil {
		t.Fatal(err)
	}
	names := map[Kind]map[string]bool{}
	for _, row := range truth {
		if names[row.Kind] == nil {
			names[row.Kind] = map[string]bool{}
		}
		names[row.Kind][row.ID[len(row.Group()):]] = true
	}
	for k, n := range names {
		if len(n) < 4 {
			t.Errorf("%s is always among %v", k, n)
		}
	}
	scores := filepath.Join(t.TempDir(), "scores.csv")
	text := "id,mine\n"
	for _, row := range truth {
		text += row.ID + "," + map[bool]string{true: "1", false: "0.5"}[row.Degree == 1] + "\n"
	}
	if err := os.WriteFile(scores, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	rows, err := Join(truth, scores, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if r := Evaluate(rows); r.Outputs != summary.Outputs || r.PerfectOver[Noop] != 1 || len(r.Families) != len(Families) {
		t.Errorf("%+v", r)
	}
	if _, err := Join(truth, scores, "yours"); err == nil || !strings.Contains(err.Error(), `row 1: column "yours"`) {
		t.Errorf("a column that is not there: %v", err)
	}
	if err := os.WriteFile(scores, []byte("id,mine\n000000/editor-1,1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Join(
		truth,
		scores,
		"mine",
	); err == nil ||
		!strings.Contains(err.Error(), "no score for 000000/editor-2") {
		t.Errorf("missing scores: %v", err)
	}
	const head = "id,degree,parts,kind,family,photo,difference\n"
	for table, want := range map[string]string{
		head + "a/1,0.5,1,half,grey,x,y\na/1,1,1,half,grey,x,y\n": `row 2: column "id": a/1 occurs twice`,
		head + "a/1,1.5,1,half,grey,x,y\n":                        `row 1: column "degree": want 0 to 1`,
		"id,mine\na/1,1\na/1,2\n":                                 `row 2: column "mine": a/1 occurs twice`,
		"id,mine\na/1,inf\n":                                      `row 1: column "mine": want a finite number`,
	} {
		if err := os.WriteFile(scores, []byte(table), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := ReadTruth(scores)
		if strings.HasPrefix(table, "id,mine") {
			_, err = Join(nil, scores, "mine")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", table, err, want)
		}
	}
}

// A folder is complete or absent.
func TestInterrupted(t *testing.T) {
	w := testWorld(t, true)
	dir := filepath.Join(t.TempDir(), "set")
	ctx, cancel := context.WithCancel(t.Context())
	var done atomic.Int32
	_, err := w.Write(ctx, dir, Set{Seed: 1, Instructions: 200}, func(int) {
		if done.Add(1) == 3 {
			cancel()
		}
	})
	if err == nil {
		t.Fatal("the interrupt was not noticed")
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if _, err := w.Write(t.Context(), dir, Set{Seed: 1}, func(int) {}); err == nil {
		t.Error("a data set of nothing")
	}
}
