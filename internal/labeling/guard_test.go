package labeling

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/heuristics"
	"assay/internal/labeling/nearcopy"
	"assay/internal/long"
	"assay/internal/strictyaml"
)

const photographs = "../../testdata/oracle/images"

func photograph(t *testing.T, name string) *data.Picture {
	t.Helper()
	p, err := data.Open(filepath.Join(photographs, name), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func writePNG(t *testing.T, path string, p *data.Picture) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := p.EncodePNG(f); err != nil {
		t.Fatal(err)
	}
}

// A benchmark has the astronaut, smaller and as JPEG; samples with that source are left out.
func TestGuard(t *testing.T) {
	dir := t.TempDir()
	bench := filepath.Join(dir, "bench", "pictures")
	if err := os.MkdirAll(bench, 0o777); err != nil {
		t.Fatal(err)
	}
	p := photograph(t, "astronaut.png")
	writePNG(t, filepath.Join(bench, "1.png"), asJPEG(p.Resize(p.Width*2/3, p.Height*2/3, data.Bilinear), 60))
	if err := os.WriteFile(filepath.Join(bench, "2.png"), []byte("no picture"), 0o644); err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(photographs)
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	rows.WriteString("source,edit,instruction\n")
	for _, name := range []string{"astronaut", "chelsea", "coffee", "rocket"} {
		fmt.Fprintf(&rows, "%s.png,%s.png,edit\n", name,
			map[string]string{"astronaut": "astronaut_purple", "chelsea": "chelsea_mirror",
				"coffee": "coffee_blur", "rocket": "rocket_grey"}[name])
	}
	if err := os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(rows.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	c := load(
		t,
		fmt.Sprintf(
			"out: out\nprofile: adiee-released\nsources:\n  - {layout: table, path: %s, pictures: %s}\nguard: {folders: [%s]}\n",
			filepath.Join(dir, "rows.csv"),
			abs,
			filepath.Join(dir, "bench"),
		),
	)
	r, err := run(t, c, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.Guard.Rows != 2 || r.Guard.Pictures != 1 || len(r.Guard.Unreadable) != 1 || r.TableRows != 6 {
		t.Errorf("got guard %+v, %d rows, want 2 rows left out, 1 picture, 1 that is unreadable, 6 rows", r.Guard,
			r.TableRows)
	}
	listed, err := os.ReadFile(filepath.Join(c.Out, SkippedFile))
	if err != nil || strings.Count(string(listed), "1.png") != 2 ||
		!strings.Contains(string(listed), `"table/000000/edit"`) {
		t.Errorf("got %s (%v), want two rows that show 1.png", listed, err)
	}
	// The page shows the pictures and makes no requests.
	page, err := os.ReadFile(filepath.Join(c.Out, PageFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"http://", "https://", "url(", "<script", "ZgotmplZ"} {
		if strings.Contains(string(page), s) {
			t.Errorf("got %q in the page, want it to load nothing", s)
		}
	}
	if n := strings.Count(string(page), `src="data:image/jpeg;base64,`); n != 12 {
		t.Errorf("got %d thumbnails, want 12", n)
	}
}

func TestFiles(t *testing.T) {
	c := load(t, everything+"pictures: files\nunlabelled: drop\n")
	r, err := run(t, c, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows := readTable(t, c)
	if len(rows) != r.Labelled || r.Unlabelled == 0 {
		t.Errorf("got %d rows, want the %d that are labelled, and some that are not: %d", len(rows), r.Labelled, r.Unlabelled)
	}
	for _, row := range rows {
		for _, m := range []data.Image{row.Source, row.Edit} {
			if len(m.Bytes) > 0 || filepath.IsAbs(m.Path) {
				t.Fatalf("%s: got picture %+v with %d bytes, want a relative path", row.ID, m.Path, len(m.Bytes))
			}
			if _, err := m.Open(c.Out, data.Limits{}); err != nil {
				t.Errorf("%s: %v", row.ID, err)
			}
		}
	}
}

func TestConfigProblems(t *testing.T) {
	path := filepath.Join(t.TempDir(), "label.yaml")
	text := `profile: papers
sources:
  - {layout: magic, path: .}
  - {layout: table, path: none.csv, columns: {picture: x}}
  - {layout: folder, path: ., name: a, label_range: [1, 0]}
  - {layout: folder, path: ., name: a}
  - {layout: table, path: ., name: b, tasks: [x], chains: true, drop: [y]}
  - {layout: magicbrush, path: ., name: c, chains: true}
  - {layout: magicbrush, path: ., name: d, label_range: [0, 10]}
rules: {join: xor, clip_i: high, order: [luck]}
chains: {samples: -1}
encoders: {device: gpu, clip: nowhere}
split: {validation: 1}
picture: files
max_bad: 2
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	problems, ok := err.(strictyaml.Problems)
	if !ok {
		t.Fatalf("%v", err)
	}
	all := strings.Join(problems.Problems(), "\n")
	for _, want := range []string{"out:", ":1:", "profile:", "sources[0].layout", "sources[1].path", "sources[1].columns",
		"sources[2].label_range",
		"sources[3].name", "sources[4].tasks: layout table has none", "sources[4].chains: layout", "sources[4].drop: layout",
		"sources[6].label_range: layout magicbrush has no human labels", "rules.join",
		"rules.clip_i", "rules.order", "chains.samples", "encoders.device", "encoders.clip",
		"split.validation",
		"picture: unknown key (did you mean pictures?)", "max_bad"} {
		if !strings.Contains(all, want) {
			t.Errorf("no word of %s in\n%s", want, all)
		}
	}
	if strings.Contains(all, "sources[5]") {
		t.Errorf("chains of magicbrush are refused:\n%s", all)
	}
}

func TestConfig(t *testing.T) {
	c := load(t, `
out: out
profile: adiee-released
sources: [{layout: folder, path: FIXTURES/folder}]
encoders: {cache_size: 1.5GiB}
rules: {clip_i: {percentile: 2.5}, dino_i: off, weak: [cosxl]}
chains: {samples: 3}
`)
	if c.Encoders.CacheSize != 3<<29 {
		t.Errorf("cache_size: got %d bytes of 1.5GiB, want %d", c.Encoders.CacheSize, 3<<29)
	}
	if c.Rules.ClipI != (heuristics.Threshold{Value: 2.5, Percentile: true}) ||
		c.Rules.DinoI != (heuristics.Threshold{Off: true}) {
		t.Errorf("thresholds: got %+v %+v, want percentile 2.5, off", c.Rules.ClipI, c.Rules.DinoI)
	}
	released := heuristics.Profiles[heuristics.ProfileReleased]
	if len(c.Rules.Weak) != 1 || len(c.Rules.Strong) != len(released.Rules.Strong) || !c.Chains.Shuffle ||
		c.Chains.Samples != 3 {
		t.Errorf("got %+v %+v, want the profile's where the file says nothing", c.Rules, c.Chains)
	}
	if !filepath.IsAbs(c.Out) || c.Sources[0].Name != "folder" || c.Encoders.Cache != filepath.Join(c.Out, "cache") {
		t.Errorf("got %+v, want absolute paths, the layout as the name, the cache below out", c)
	}
}

// A benchmark's picture is found in a source, a target and an output, even if cropped, mirrored or with bars.
func TestGuardLooksAtAllPictures(t *testing.T) {
	long.Test(t)
	dir := t.TempDir()
	bench := filepath.Join(dir, "bench")
	if err := os.MkdirAll(bench, 0o777); err != nil {
		t.Fatal(err)
	}
	open := func(name string) *data.Picture {
		p, err := data.Open(filepath.Join(photos, name+".png"), data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := open("astronaut")
	writePNG(t, filepath.Join(bench, "cropped.png"), crop(p, .1, .05, .1, .05).FlipHorizontal())
	p = open("chelsea")
	writePNG(t, filepath.Join(bench, "framed.png"), laid(filled(p.Width+60, p.Height+100, 200, 30, 30), p.FlipVertical(),
		30, 50))
	writePNG(t, filepath.Join(bench, "turned.png"), asJPEG(watermark(open("coffee")).Rotate90(1), 40))
	writePNG(t, filepath.Join(bench, "black.png"), data.NewPicture(64, 64))
	writePNG(t, filepath.Join(dir, "black.png"), data.NewPicture(64, 64))
	for _, name := range []string{"astronaut", "chelsea", "coffee", "hubble", "tissue", "rocket"} {
		writePNG(t, filepath.Join(dir, name+".png"), open(name))
	}
	rows := `source,target,edit,instruction
astronaut.png,hubble.png,tissue.png,its source
hubble.png,chelsea.png,tissue.png,its target
hubble.png,rocket.png,coffee.png,its output
hubble.png,rocket.png,tissue.png,none
hubble.png,rocket.png,black.png,an editor that gave nothing
`
	if err := os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	c := load(
		t,
		fmt.Sprintf(
			"out: out\nprofile: adiee-released\nsources:\n  - {layout: table, path: %s, pictures: %s}\nguard: {folders: [%s]}\n",
			filepath.Join(dir, "rows.csv"),
			dir,
			bench,
		),
	)
	r, err := run(t, c, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for _, row := range readTable(t, c) {
		left[row.Instruction]++
	}
	raw, err := os.ReadFile(filepath.Join(c.Out, SkippedFile))
	if err != nil {
		t.Fatal(err)
	}
	if left["its source"] != 0 || left["its target"] != 0 || left["none"] != 3 ||
		left["an editor that gave nothing"] == 0 ||
		left["its output"] != 2 { // the source and the target are not a benchmark's
		t.Errorf("got rows %v, guard %+v, want none of its source or target, 2 of its output, 3 of none\n%s", left,
			r.Guard, raw)
	}
	for _, want := range []string{"its source picture is ", "its target picture is ", "its edited picture is ",
		"cropped.png", "framed.png", "turned.png"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %q in\n%s", want, raw)
		}
	}
}

// copying makes near copies: crop, mirror, turn, border, letterbox.
var copying = []func(p *data.Picture) *data.Picture{
	func(p *data.Picture) *data.Picture { return crop(p, .05, .05, .05, .05) },
	func(p *data.Picture) *data.Picture { return p.FlipHorizontal() },
	func(p *data.Picture) *data.Picture { return p.Rotate90(1) },
	func(p *data.Picture) *data.Picture {
		return laid(filled(p.Width+14, p.Height+14, 200, 30, 90), p, 7, 7)
	},
	func(p *data.Picture) *data.Picture {
		return laid(data.NewPicture(p.Width, p.Height*4/3), p, 0, p.Height/6)
	},
}

// isCopy reports whether package nearcopy considers b a near copy of a.
func isCopy(t *testing.T, a, b *data.Picture) (found bool) {
	t.Helper()
	var x nearcopy.Index
	x.Add(0, nearcopy.ThumbnailOf(a))
	x.Add(1, nearcopy.ThumbnailOf(b))
	skip := func(_, _ int32) bool { return false }
	if err := x.Pairs(t.Context(), skip, func(_, _ int32, _ int) { found = true }); err != nil {
		t.Fatal(err)
	}
	return found
}

// Near copies are on one side of a split wherever they are in a row, and whatever the order of the rows.
func TestSplitOfNearCopies(t *testing.T) {
	long.Test(t)
	all := tiles(t)
	var rows [][]string // pairs of samples, the second with a near copy of a picture of the first
	dir := t.TempDir()
	write := func(name string, p *data.Picture) string {
		writePNG(t, filepath.Join(dir, name), p)
		return name
	}
	n := 0
	for i, p := range all {
		copied := copying[n%len(copying)](p)
		if n >= 32 || !isCopy(t, p, copied) {
			continue
		}
		name := func(what string) string { return fmt.Sprintf("%03d-%s.png", n, what) }
		noise := func(what string, seed uint64) string {
			q, rng := data.NewPicture(64, 64), rand.New(rand.NewPCG(seed, uint64(i)))
			for i := range q.Pix {
				q.Pix[i] = byte(rng.IntN(256))
			}
			return write(name(what), q)
		}
		first := []string{noise("a", 1), noise("b", 2), noise("c", 3)}
		second := []string{noise("d", 4), noise("e", 5), noise("f", 6)}
		first[n%3] = write(name("whole"), p)
		second[n/3%3] = write(name("copy"), copied)
		rows = append(rows, append(first, fmt.Sprint(n)), append(second, fmt.Sprint(n)))
		n++
	}
	var before map[string]string
	for range 2 {
		text := "source,target,edit,instruction\n"
		for _, r := range rows {
			text += strings.Join(r, ",") + "\n"
		}
		if err := os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := load(
			t,
			fmt.Sprintf(
				"out: out\nprofile: adiee-released\nsources:\n  - {layout: table, path: %s, pictures: %s}\nsplit: {validation: "+
					"0.5}\n",
				filepath.Join(dir, "rows.csv"),
				dir,
			),
		)
		if _, err := run(t, c, models{}, 1); err != nil {
			t.Fatal(err)
		}
		sides, count := map[string]string{}, map[string]int{}
		for _, row := range readTable(t, c) {
			if have, ok := sides[row.Instruction]; ok && have != row.Split {
				t.Errorf("pair %s: got splits %s and %s, want one", row.Instruction, have, row.Split)
			}
			sides[row.Instruction] = row.Split
			count[row.Split]++
		}
		if len(sides) < 20 || count[splitTrain] == 0 || count[splitValidation] == 0 {
			t.Fatalf("got %d pairs in splits %v, want 20 or more, in both", len(sides), count)
		}
		if before != nil && !maps.Equal(before, sides) {
			t.Errorf("got splits %v, want %v as in another order of rows", sides, before)
		}
		before = sides
		slices.Reverse(rows)
	}
}
