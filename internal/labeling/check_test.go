package labeling

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/data/readers"
	"assay/heuristics"
)

// A percentile of a similarity that nothing measures fails the run, so the check reports it in advance.
func TestCheckOfThresholds(t *testing.T) {
	const source = "out: out\nprofile: assay\nsources: [{layout: %s, name: a}]\n%s"
	const turns, outputs = "magicbrush, path: FIXTURES/magicbrush_files", "emu-edit, path: FIXTURES/emu.parquet"
	clip, err := filepath.Abs("../../testdata/oracle/clip/model")
	if err != nil {
		t.Fatal(err)
	}
	weightless := filepath.Join(t.TempDir(), "clip") // only a model's description
	if err := os.CopyFS(weightless, os.DirFS(clip)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(weightless, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		layout, rest string
		want         []string
	}{
		{turns, "rules: {clip_i: off, dino_i: off}\nencoders: {clip: " + weightless + "}", []string{"encoders.clip"}},
		{turns, "", []string{"rules.clip_i", "rules.dino_i"}},
		{turns, "rules: {clip_i: off, dino_i: 0.4}", nil},
		{turns, "rules: {dino_i: off}\nencoders: {clip: " + clip + "}", nil},
		{turns, "rules: {order: [source, target]}", nil},
		{outputs, "rules: {dino_i: off}\nencoders: {clip: " + clip + "}", []string{"no sample that was read has a target"}},
	} {
		r, err := Check(t.Context(), load(t, fmt.Sprintf(source, c.layout, c.rest)), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Problems) != len(c.want) || r.OK != (c.want == nil) {
			t.Errorf("%s, %s: got ok %v, problems %q, sources %+v, want problems with %q", c.layout, c.rest, r.OK,
				r.Problems, r.Sources, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(r.Problems[i], want) {
				t.Errorf("%s: %q", want, r.Problems[i])
			}
		}
	}
}

// Parts of another seed are refused, and the error names the key.
func TestPlanNamesKeys(t *testing.T) {
	c := load(t, "out: out\nprofile: assay\nsources: [{layout: magicbrush, path: FIXTURES/magicbrush_files}]\n")
	for _, change := range []struct {
		change func()
		want   string
	}{
		{func() {}, ""},
		{func() { c.Seed++ }, "(seed)"},
		{func() { c.Encoders.Given = "replace" }, "(encoders.given, seed)"},
	} {
		change.change()
		j, err := Open(t.Context(), c)
		if err == nil {
			j.Close()
		}
		var other *PlanError
		if errors.As(err, &other) != (change.want != "") || (err != nil) != (change.want != "") ||
			err != nil && !strings.Contains(err.Error(), change.want) {
			t.Errorf("want %q: %v", change.want, err)
		}
	}
	// A plan of an earlier version has no keys.
	path := filepath.Join(c.Out, partsFolder, planFile)
	if err := os.WriteFile(path, []byte(`{"made":"x","sources":[]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "another configuration: use") {
		t.Errorf("a plan without keys: got error %v, want one of another configuration", err)
	}
}

// An unknown value in the split column is refused: the row is listed.
func TestOwnSplit(t *testing.T) {
	abs, err := filepath.Abs(photographs)
	if err != nil {
		t.Fatal(err)
	}
	rows := filepath.Join(t.TempDir(), "rows.csv")
	text := "source,edit,instruction,split\nastronaut.png,astronaut_purple.png,x,test\n" +
		"chelsea.png,chelsea_mirror.png,x,0.7\n" +
		"coffee.png,coffee_blur.png,x,\n"
	if err := os.WriteFile(rows, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c := load(
		t,
		fmt.Sprintf(
			"out: out\nprofile: adiee-released\nmax_bad: 0.5\nsources: [{layout: table, path: %s, pictures: %s, split: own}]\n",
			rows,
			abs,
		),
	)
	r, err := run(t, c, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.Splits["0.7"] != 0 || r.Splits["test"] != 2 || r.Bad != 2 || r.TableRows != 4 {
		t.Errorf("got splits %v, %d bad, %d rows, want 2 of test, none of 0.7, 2 bad, 4 rows", r.Splits, r.Bad, r.TableRows)
	}
	listed, err := os.ReadFile(filepath.Join(c.Out, SkippedFile))
	if err != nil || strings.Count(string(listed), `split \"0.7\" is not one of [train validation val dev test]`) != 2 {
		t.Errorf("got %s (%v), want two rows whose split is 0.7", listed, err)
	}
}

// tableSource writes a CSV file, and returns it as a source with a split.
func tableSource(t *testing.T, name, split string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".csv")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{layout: table, path: %s, pictures: %s/magicbrush_files/images, name: %s, split: %s}", path,
		fixtures, name, split)
}

// TestOwnSplitOfNone: a source whose rows have no split cannot be split by its own.
func TestOwnSplitOfNone(t *testing.T) {
	c := load(t, "out: out\nprofile: adiee-released\nsources: ["+tableSource(t, "plain", "own", "source,edit,instruction",
		one+","+two+",x")+"]\n")
	_, err := run(t, c, models{}, 1)
	if err == nil || !strings.Contains(err.Error(), `source "plain": split: own, but none of its rows has a split`) {
		t.Errorf("got error %v, want one that names the source", err)
	}
}

// TestSplitOfRepeatedRows: an edit that is also held out is held out, and an edit in two sessions joins them, whatever
// the order of the rows.
func TestSplitOfRepeatedRows(t *testing.T) {
	const head = "id,source,edit,target,method,instruction,label"
	a := "a," + one + "," + three + "," + two + ",aurora,edit,0.5"
	b := "b," + one + "," + four + "," + two + ",ip2p,edit,0.5"
	const sessions = "id,session,source,edit,method,instruction,label"
	first, again := "a,s1,"+one+","+two+",aurora,edit,0.5", "b,s2,"+one+","+two+",aurora,edit,0.5"
	other := "c,s2," + three + "," + four + ",aurora,edit,0.5"
	for name, c := range map[string]struct {
		sources []string
		want    map[string]int
		skipped int
	}{
		"held out, all of it twice": {[]string{tableSource(t, "big", "train", head, a, b),
			tableSource(t, "held", "validation", head, a)}, map[string]int{"validation": 3}, 1},
		"held out with one more": {[]string{tableSource(t, "big", "train", head, a),
			tableSource(t, "held", "validation", head, a, b)}, map[string]int{"validation": 4}, 0},
		"held out first": {[]string{tableSource(t, "held", "validation", head, a, b),
			tableSource(t, "big", "train", head, a)}, map[string]int{"validation": 4}, 0},
		"of no split, also held out": {[]string{tableSource(t, "big", `""`, head, a, b),
			tableSource(t, "held", "test", head, a)}, map[string]int{"test": 4}, 0},
		"sessions": {[]string{tableSource(t, "t", `""`, sessions, first, again, other)}, map[string]int{"train": 4}, 0},
		"sessions, the repeated edit first": {[]string{tableSource(t, "t", `""`, sessions, again, other, first)},
			map[string]int{"train": 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := run(t, load(t, "out: out\nprofile: adiee-released\nmax_bad: 0\nsplit: {validation: 0.5}\nsources:\n  - "+
				strings.Join(c.sources, "\n  - ")+"\n"), models{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, r.Splits); d != "" || r.Skipped["split"] != c.skipped {
				t.Errorf("splits (-want +got):\n%s\ngot %v left out, want %d by their splits", d, r.Skipped, c.skipped)
			}
		})
	}
}

// A picture of another chain does not join the scenes of the two chains. If they are on different sides, its row is
// left out.
func TestForeignPictureOnAnotherSide(t *testing.T) {
	dir := t.TempDir()
	var rows strings.Builder
	rows.WriteString("img_id,turn_index,source_img,target_img,instruction,split\n")
	tiles := tiles(t)
	for i := range 8 {
		for k := range 2 {
			writePNG(t, filepath.Join(dir, fmt.Sprintf("%d-%d.png", i, k)), tiles[5*i+k])
		}
		split := "train"
		if i%2 == 1 {
			split = "test"
		}
		fmt.Fprintf(&rows, "%d,1,%d-0.png,%d-1.png,edit,%s\n", i, i, i, split)
	}
	chains := filepath.Join(dir, "chains.csv")
	if err := os.WriteFile(chains, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	c := load(
		t,
		fmt.Sprintf(
			"out: out\nprofile: adiee-released\nseed: 3\nchains: {foreign: 2}\nsources:\n  - {layout: magicbrush, path: %s, "+
				"pictures: %s, chains: true, split: own}\n",
			chains,
			dir,
		),
	)
	r, err := run(t, c, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]int{}
	for _, row := range readTable(t, c) {
		kept[row.Why]++
		if row.Why == heuristics.ChainForeign && row.Split == "" {
			t.Errorf("%s: got no split, want one", row.ID)
		}
	}
	listed, err := os.ReadFile(filepath.Join(c.Out, SkippedFile))
	if err != nil {
		t.Fatal(err)
	}
	left := strings.Count(string(listed), "its foreign picture is in split ")
	if kept[heuristics.ChainForeign] == 0 || left == 0 || r.Skipped["split"] != left ||
		kept[heuristics.ChainForeign]+left+r.Candidates.Duplicates != 16 {
		t.Errorf("got %v kept, %d left out, %v skipped, want 16 foreign rows in all, some of both\n%s", kept, left,
			r.Skipped, listed)
	}
	// No picture is on two sides.
	sides := map[string]string{}
	for _, row := range readTable(t, c) {
		for _, m := range []string{string(row.Source.Bytes), string(row.Edit.Bytes)} {
			if have, ok := sides[m]; ok && have != row.Split {
				t.Errorf("%s: got a picture in splits %s and %s, want one", row.ID, have, row.Split)
			}
			sides[m] = row.Split
		}
	}
}

// TestCheckInOrder: the pictures of a sample that cannot be read are named in their order, the same in every check.
func TestCheckInOrder(t *testing.T) {
	s := &readers.Sample{ID: "a", Chain: &readers.Chain{}}
	want := "a"
	for i := range 20 {
		name := fmt.Sprintf("nosuch-%d.png", i)
		s.Chain.Pictures = append(s.Chain.Pictures, data.Image{Path: name})
		want += fmt.Sprintf("; picture %d of the chain: open %s: no such file or directory", i, name)
	}
	f := SourceCheck{Pictures: map[string]int{}}
	f.sample(s, func(string) {})
	if want = strings.Replace(want, "; ", ": ", 1); len(f.Reasons) != 1 || f.Reasons[0] != want {
		t.Errorf("got %q, want %q", f.Reasons, want)
	}
}
