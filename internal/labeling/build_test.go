package labeling

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/heuristics"
	"assay/internal/exit"
	"assay/internal/packed"
	"assay/internal/shards"
	"assay/internal/stats"
	tables "assay/internal/table"
)

// fixtures is a folder of small data sets: data/readers/testdata/layouts.zip.
var fixtures string

func TestMain(m *testing.M) { packed.Main(m, &fixtures, "../../data/readers/testdata/layouts.zip") }

// colours embeds a picture by its mean colour and a text by its letters: enough to distinguish them.
type colours struct{ pictures, texts atomic.Int64 }

func (c *colours) Images(_ context.Context, pictures []*data.Picture) ([][]float32, error) {
	c.pictures.Add(int64(len(pictures)))
	var out [][]float32
	for _, p := range pictures {
		v := make([]float32, 4)
		for i, x := range p.Pix {
			v[i%3] += float32(x) / float32(len(p.Pix))
		}
		v[3] = 20
		out = append(out, v)
	}
	return out, nil
}

func (c *colours) Texts(_ context.Context, texts []string) ([][]float32, error) {
	c.texts.Add(int64(len(texts)))
	var out [][]float32
	for _, t := range texts {
		v := []float32{1, 1, 1, 1}
		for i, b := range []byte(t) {
			v[i%4] += float32(b) / 100
		}
		out = append(out, v)
	}
	return out, nil
}

// measure measures a shard with the test's encoders.
func measure(ctx context.Context, j *Job, e models, shard shards.Ref, progress func(done, total int)) error {
	j.open = func(EncoderConfig, func(string)) (models, func() error, error) {
		return e, func() error { return nil }, nil
	}
	return j.Measure(ctx, tables.Options{Shard: shard, Progress: progress}, nil)
}

// todo returns the number of samples that are not measured yet.
func todo(t *testing.T, j *Job) int {
	t.Helper()
	files, err := j.partFiles(t.Context(), shards.Ref{})
	if err != nil {
		t.Fatal(err)
	}
	return files.total - files.samples
}

func load(t *testing.T, yaml string) *Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "label.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(yaml, "FIXTURES", fixtures)), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run measures all shards and merges.
func run(t *testing.T, c *Config, e models, count int) (*Report, error) {
	t.Helper()
	j, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i := range count {
		if err := measure(t.Context(), j, e, shards.Ref{Index: i, Count: count}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return j.Merge(t.Context())
}

func readTable(t *testing.T, c *Config) (rows []data.Row) {
	t.Helper()
	in, err := data.OpenTable(filepath.Join(c.Out, TableFile))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for row, err := range in.All() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

const everything = `
out: out
profile: adiee-released
sources:
  - {layout: adiee-magicbrush, path: FIXTURES/adiee, name: adiee}
  - {layout: magicbrush, path: FIXTURES/magicbrush, name: turns}
  - {layout: magicbrush, path: FIXTURES/magicbrush, name: sessions, chains: true}
  - {layout: emu-edit, path: FIXTURES/emu_generations.parquet}
  - {layout: editreward, path: FIXTURES/editreward.parquet}
  - {layout: folder, path: FIXTURES/folder}
  - {layout: seed-data-edit, path: FIXTURES/seed3}
  - {layout: instructpix2pix, path: FIXTURES/instructpix2pix}
  - {layout: aim-bench, path: FIXTURES/aimbench}
max_bad: 0.1
`

// The labels of the fixtures' rows, derived by hand from the rules.
func TestLabels(t *testing.T) {
	c := load(t, everything)
	r, err := run(t, c, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, row := range readTable(t, c) {
		label := "none"
		if row.Label != nil {
			label = fmt.Sprintf("%.3g", *row.Label)
		}
		got[row.ID] = label + " " + row.Why
	}
	for id, want := range map[string]string{
		"adiee/000000/source":     "0 source",
		"adiee/000000/target":     "1 target",
		"adiee/000000/cyclediff":  "none ",         // CLIP-D 0.1, similar to the target, neither weak nor strong
		"adiee/000000/diffedit":   "0 weak_editor", // CLIP-D 1.1
		"adiee/000000/magicbrush": "none ",         // CLIP-D 2.1
		"adiee/000001/cyclediff":  "0 no_clip_d",   // NaN
		"adiee/000001/diffedit":   "0 no_clip_d",
		"adiee/000001/magicbrush": "0 dissimilar", // no CLIP-D; CLIP-I 0.8, DINO-I 0.4
		"adiee/000002/cyclediff":  "0 dissimilar", // null: unknown, which is not a failure; 0.7, 0.3
		"adiee/000002/magicbrush": "0 dissimilar", // 0.7, 0.3
		"sessions/100/0-2/0":      "0 chain_source",
		"sessions/100/0-2/1":      "0.5 chain_partial",
		"sessions/100/0-2/2":      "1 chain_target",
		"sessions/100/1-2/0":      "0 chain_earlier",
		"sessions/100/0-1/2":      "0.5 chain_over_edited",
		"sessions/200/0-1/1":      "1 chain_target",
		"emu-edit/h0-000000/mgie": "none ",
		"folder/hat/sdedit":       "0 weak_editor", // also unknown
		"folder/dog/magicbrush":   "none ",

		"editreward/k1-000000/left-A":  "1 given",
		"editreward/k1-000000/right-B": "0 given",
		"editreward/k2-000002/left-A":  "0.167 given",
		"editreward/k2-000002/right-B": "0.5 given",

		"instructpix2pix/0000001/5/target": "1 target",
		"aim-bench/000000/source":          "0 source",
	} {
		if got[id] != want {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
	if _, again := got["turns/100-1/source"]; again || r.Duplicates < 3 {
		t.Errorf("adiee's sources: got %d duplicates, turns/100-1/source again %v, want 3 or more, false",
			r.Duplicates, again)
	}
	if r.Rows != r.TableRows+r.Duplicates || r.TableRows != len(got) || r.Labelled+r.Unlabelled != r.TableRows ||
		r.Bad != 1 || r.Skipped["left out"] != 2 {
		t.Errorf("got counts %+v, want sums that agree, 1 bad row, 2 samples left out, %d rows in the table", r, len(got))
	}
	votes, err := os.ReadFile(filepath.Join(c.Out, PreferencesFile))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"left":"editreward/k1-000000/left-A","right":"editreward/k1-000000/right-B","winner":"left"}
{"left":"editreward/k1-000000/left-A","right":"editreward/k1-000001/right-B","winner":"tie"}
{"left":"editreward/k2-000002/left-A","right":"editreward/k2-000002/right-B","winner":"right"}
`
	if d := cmp.Diff(want, string(votes)); d != "" {
		t.Error(d)
	}
}

// files reads the output files of a run.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{TableFile, ReportFile, PageFile, SkippedFile, PreferencesFile} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(raw)
	}
	return out
}

// many is a table of 300 samples (five parts) with pictures of the fixtures.
func many(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("source,target,edit,method,instruction,source_caption,target_caption,session\n")
	pictures := []string{"100/100-input", "100/100-output1", "100/100-output2", "200/200-input", "200/200-output1"}
	for i := range 300 {
		p := func(k int) string { return "magicbrush_files/images/" + pictures[k%5] + ".png" }
		edit := p(i + i/5%4 + 1)
		if i == 77 {
			edit = "none.png"
		}
		fmt.Fprintf(&b, "%s,%s,%s,%s,edit %d,a man,a man %d,\n", p(i), p(i+1), edit,
			[]string{"aurora", "sdedit", "ip2p"}[i%3], i/3, i%7)
	}
	path := filepath.Join(t.TempDir(), "many.csv")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("out: out\nsources:\n  - {layout: table, path: %s, pictures: %s, name: many}\n", path, fixtures)
}

func TestSameBytes(t *testing.T) {
	yaml := many(t) + "  - {layout: editreward, path: FIXTURES/editreward.parquet}\n"
	measured := &colours{}
	e := models{Clip: measured, Dino: &colours{}}
	one := load(t, yaml)
	if _, err := run(t, one, e, 1); err != nil {
		t.Fatal(err)
	}
	want := files(t, one.Out)
	// per part once as a source, once as anything else; a cache would save more
	if n := measured.pictures.Load(); n > 2*5*5+11 {
		t.Errorf("got %d pictures embedded, want at most %d", n, 2*5*5+11)
	}

	t.Run("shards", func(t *testing.T) {
		c := load(t, yaml)
		if _, err := run(t, c, e, 3); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, files(t, c.Out)); d != "" {
			t.Errorf("got other files than in one go (-want +got):\n%.2000s", d)
		}
	})
	t.Run("machines", func(t *testing.T) {
		c := load(t, yaml)
		j, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		for i := range 4 {
			other := *c
			other.Out = filepath.Join(filepath.Dir(c.Out), fmt.Sprint("machine", i))
			o, err := Open(t.Context(), &other)
			if err != nil {
				t.Fatal(err)
			}
			if err := measure(t.Context(), o, e, shards.Ref{Index: i + 1, Count: 4}, nil); err != nil {
				t.Fatal(err)
			}
			o.Close()
			var missing *MissingError
			if _, err := j.Merge(t.Context()); !errors.As(err, &missing) {
				t.Fatalf("shards are missing: got error %v, want a MissingError", err)
			}
			if err := j.AddShard(t.Context(), other.Out); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := j.Merge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, files(t, c.Out)); d != "" {
			t.Errorf("got other files than in one go (-want +got):\n%.2000s", d)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		c := load(t, yaml)
		const total = 303
		left := math.MaxInt
		for range 100 {
			ctx, stop := context.WithCancel(t.Context())
			j, err := Open(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			todo := todo(t, j)
			if todo > left {
				t.Errorf("got %d samples to do, want at most the %d before", todo, left)
			}
			left = todo
			err = measure(ctx, j, e, shards.Ref{}, func(done, total int) {
				if done >= total-todo+samplesPerPart && done < total { // after a part
					stop()
				}
			})
			j.Close()
			stop()
			if err == nil {
				break
			}
			var e *tables.InterruptedError
			if !errors.As(err, &e) || !errors.Is(err, exit.ErrInterrupted) || e.Rows != total || e.Done <= total-todo {
				t.Fatalf("got %v after %d of %d samples, want that more of them are kept", err, total-todo, total)
			}
		}
		if _, err := run(t, c, e, 1); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, files(t, c.Out)); d != "" {
			t.Errorf("got other files than in one go (-want +got):\n%.2000s", d)
		}
	})
	t.Run("other rules on the same parts", func(t *testing.T) {
		c := load(t, yaml)
		c.Out = one.Out
		c.Rules.Weak = nil
		before := measured.pictures.Load()
		r, err := run(t, c, e, 1)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rules[heuristics.RuleWeakEditor] != 0 || measured.pictures.Load() != before {
			t.Errorf("got rules %v, %d pictures measured again, want none by %s, 0", r.Rules,
				measured.pictures.Load()-before, heuristics.RuleWeakEditor)
		}
		c.Seed++
		var other *PlanError
		if _, err := Open(t.Context(), c); !errors.As(err, &other) {
			t.Errorf("another seed on the same parts: got error %v, want a PlanError", err)
		}
	})
}

func TestThresholdsOfSources(t *testing.T) {
	c := load(t, many(t))
	r, err := run(t, c, models{Clip: &colours{}, Dino: &colours{}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var clip []float64
	for _, row := range readTable(t, c) {
		if row.Why == heuristics.RuleSource {
			clip = append(clip, *row.ClipI)
			if *row.ClipD != 0 {
				t.Errorf("%s: got CLIP-D %v of a source, want 0", row.ID, *row.ClipD)
			}
		}
		if row.Why == heuristics.RuleTarget && !(math.Abs(*row.ClipI-1) <= 1e-9) {
			t.Errorf("%s: got CLIP-I %v of a target, want 1", row.ID, *row.ClipI)
		}
	}
	if want := stats.Quantile(slices.Sorted(slices.Values(clip)), 0.05); r.Thresholds.ClipI == nil ||
		*r.Thresholds.ClipI != want {
		t.Errorf("threshold %v, want %v of %d sources", r.Thresholds.ClipI, want, len(clip))
	}
	if _, err := run(t, load(t, many(t)), models{}, 1); err == nil || !strings.Contains(err.Error(), "fixed threshold") {
		t.Errorf("percentiles of nothing: got error %v, want one that names a fixed threshold", err)
	}
}

func TestBad(t *testing.T) {
	c := load(t, many(t)+"profile: adiee-released\nmax_bad: 0.001\n")
	var bad *BadError
	if _, err := run(t, c, models{}, 1); !errors.As(err, &bad) || bad.Bad != 1 {
		t.Fatalf("got error %v, want a BadError of one row", err)
	}
	raw, err := os.ReadFile(filepath.Join(c.Out, SkippedFile))
	if err != nil {
		t.Fatal(err)
	}
	var line struct {
		Sample           int
		ID, Kind, Reason string
	}
	if err := json.Unmarshal(raw, &line); err != nil || line.Sample != 77 || line.ID != "many/000077/ip2p" ||
		line.Kind != "bad" ||
		!strings.Contains(line.Reason, "none.png: no such file") {
		t.Errorf("got %s (%v), want sample 77, many/000077/ip2p, with its reason", raw, err)
	}
	if _, err := os.Stat(filepath.Join(c.Out, TableFile)); err == nil {
		t.Error("got a table, want none")
	}
}

func TestSplit(t *testing.T) {
	c := load(t, everything+"split: {validation: 0.3}\n")
	if _, err := run(t, c, models{}, 1); err != nil {
		t.Fatal(err)
	}
	sides := map[string]map[string]bool{}
	count := map[string]int{}
	for _, row := range readTable(t, c) {
		p, err := row.Source.Open("", data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(p.Pix[:3])
		if sides[key] == nil {
			sides[key] = map[string]bool{}
		}
		sides[key][row.Split] = true
		count[row.Split]++
	}
	for key, on := range sides {
		if len(on) != 1 {
			t.Errorf("source picture %s: got it in splits %v, want one", key, slices.Collect(maps.Keys(on)))
		}
	}
	if n := count[splitTrain] + count[splitValidation]; count[splitValidation] == 0 || 2*count[splitValidation] > n {
		t.Errorf("got splits %v, want some of validation, at most half", count)
	}
}

func TestDemandedSplit(t *testing.T) {
	c := load(t, `
out: out
profile: adiee-released
sources:
  - {layout: magicbrush, path: FIXTURES/magicbrush_files, name: held, split: test}
  - {layout: adiee-magicbrush, path: FIXTURES/adiee, name: adiee, split: train}
  - {layout: emu-edit, path: FIXTURES/emu.parquet, name: emu, split: own}
`)
	r, err := run(t, c, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Six of held, one of emu (the other is in held); the sources of all outputs of adiee are among them.
	if d := cmp.Diff(map[string]int{"test": 7}, r.Splits); d != "" || r.Skipped["split"] != 8 {
		t.Errorf("splits (-want +got):\n%s\ngot %v left out, want 8 by their splits", d, r.Skipped)
	}
}

// TestSessionsApart: chains are made of consecutive rows. In a table whose rows are shuffled they are in pieces,
// without a bad row, so there is a warning; a session that only lacks a turn has none.
func TestSessionsApart(t *testing.T) {
	for _, c := range []struct{ rows, want string }{
		{"100 1, 100 2, 200 1", ""},
		{"100 1, 100 3, 200 1", ""},
		{"100 1, 200 1, 100 2", "the rows of 1 sessions are apart, the first one 100"},
	} {
		table := "img_id,turn_index,source_img,target_img,instruction\n"
		for at := range strings.SplitSeq(c.rows, ", ") {
			session, turn, _ := strings.Cut(at, " ")
			table += fmt.Sprintf("%s,%s,100/100-input.png,%s/%[1]s-output1.png,do %[2]s\n", session, turn, session)
		}
		path := filepath.Join(t.TempDir(), "turns.csv")
		if err := os.WriteFile(path, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
		job := load(t, fmt.Sprintf("out: out\nsources:\n  - {layout: magicbrush, path: %s, pictures: "+
			"FIXTURES/magicbrush_files/images, chains: true}\nrules: {clip_i: off, dino_i: off}\n", path))
		report, err := run(t, job, models{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(report.Warnings, "\n")
		if apart := strings.Contains(got, "apart"); apart != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("rows %s: got warnings %q, want %q", c.rows, got, c.want)
		}
	}
}
