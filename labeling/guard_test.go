package labeling

import (
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/heuristics"
	"assay/internal/strictyaml"
)

const photographs = "../testdata/oracle/images"

func photograph(t *testing.T, name string) *data.Picture {
	t.Helper()
	p, err := data.Open(filepath.Join(photographs, name), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHashAgainstImagehash(t *testing.T) {
	raw, err := os.ReadFile("testdata/phash.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct{ Hashes map[string]string }
	if err := json.Unmarshal(raw, &reference); err != nil {
		t.Fatal(err)
	}
	if len(reference.Hashes) < 20 {
		t.Fatalf("%d hashes", len(reference.Hashes))
	}
	for name, want := range reference.Hashes {
		if got := fmt.Sprintf("%016x", uint64(PerceptualHash(photograph(t, name)))); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func writeJPEG(t *testing.T, path string, p *data.Picture) {
	t.Helper()
	rgba := image.NewRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		copy(rgba.Pix[4*i:], append(p.Pix[3*i:3*i+3:3*i+3], 255))
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := jpeg.Encode(f, rgba, &jpeg.Options{Quality: 60}); err != nil {
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
	writeJPEG(t, filepath.Join(bench, "1.jpg"), p.Resize(p.Width*2/3, p.Height*2/3, data.Bilinear))
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
		fmt.Fprintf(&rows, "%s.png,%s.png,edit\n", name, map[string]string{"astronaut": "astronaut_purple", "chelsea": "chelsea_mirror",
			"coffee": "coffee_blur", "rocket": "rocket_grey"}[name])
	}
	if err := os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(rows.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	c := load(t, fmt.Sprintf("out: out\nprofile: adiee-released\nsources:\n  - {layout: table, path: %s, pictures: %s}\nguard: {folders: [%s]}\n",
		filepath.Join(dir, "rows.csv"), abs, filepath.Join(dir, "bench")))
	r, err := run(t, c, Encoders{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.Guard.Rows != 2 || r.Guard.Pictures != 1 || len(r.Guard.Unreadable) != 1 || r.TableRows != 6 {
		t.Errorf("%+v, %d rows", r.Guard, r.TableRows)
	}
	listed, err := os.ReadFile(filepath.Join(c.Out, SkippedFile))
	if err != nil || strings.Count(string(listed), "1.jpg") != 2 || !strings.Contains(string(listed), `"table/000000/edit"`) {
		t.Errorf("%s %v", listed, err)
	}
	// The page shows the pictures and asks nobody for anything.
	page, err := os.ReadFile(filepath.Join(c.Out, PageFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"http://", "https://", "url(", "<script", "ZgotmplZ"} {
		if strings.Contains(string(page), s) {
			t.Errorf("the page has %q in it", s)
		}
	}
	if n := strings.Count(string(page), `src="data:image/jpeg;base64,`); n != 12 {
		t.Errorf("%d thumbnails", n)
	}
}

func TestFiles(t *testing.T) {
	c := load(t, everything+"pictures: files\nunlabelled: drop\n")
	r, err := run(t, c, Encoders{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows := table(t, c)
	if len(rows) != r.Labelled || r.Unlabelled == 0 {
		t.Errorf("%d rows, report %+v", len(rows), r)
	}
	for _, row := range rows {
		for _, m := range []data.Image{row.Source, row.Edit} {
			if len(m.Bytes) > 0 || filepath.IsAbs(m.Path) {
				t.Fatalf("%s: %+v", row.ID, m.Path)
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
	for _, want := range []string{"out:", ":1:", "profile:", "sources[0].layout", "sources[1].path", "sources[1].columns", "sources[2].label_range",
		"sources[3].name", "rules.join", "rules.clip_i", "rules.order", "chains.samples", "encoders.device", "encoders.clip", "split.validation",
		"picture: unknown key (did you mean pictures?)", "max_bad"} {
		if !strings.Contains(all, want) {
			t.Errorf("no word of %s in\n%s", want, all)
		}
	}
	for text, want := range map[string]string{"1/4": "{1 4}", "0/4": "{0 4}", "4/4": "{4 4}", "": "{0 0}", "5/4": "", "1": "", "-1/4": "", "1/0": "", "1/2/3": "", " 1/2": ""} {
		s, err := ParseShard(text)
		if got := fmt.Sprint(s); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("shard %q: %s %v, want %s", text, got, err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	c := load(t, `
out: out
profile: adiee-released
sources: [{layout: folder, path: FIXTURES/folder}]
rules: {clip_i: {percentile: 2.5}, dino_i: off, weak: [cosxl]}
chains: {samples: 3}
`)
	if c.Rules.ClipI != (heuristics.Threshold{Value: 2.5, Percentile: true}) || c.Rules.DinoI != (heuristics.Threshold{Off: true}) {
		t.Errorf("thresholds: %+v %+v", c.Rules.ClipI, c.Rules.DinoI)
	}
	released := heuristics.Profiles[heuristics.ProfileReleased]
	if len(c.Rules.Weak) != 1 || len(c.Rules.Strong) != len(released.Rules.Strong) || !c.Chains.Shuffle || c.Chains.Samples != 3 {
		t.Errorf("what the file does not say is the profile's: %+v %+v", c.Rules, c.Chains)
	}
	if !filepath.IsAbs(c.Out) || c.Sources[0].Name != "folder" || c.Encoders.Cache != filepath.Join(c.Out, "cache") {
		t.Errorf("%+v", c)
	}
}
