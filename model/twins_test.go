package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/oracle"
	"assay/model"
)

// TestTwins: scorers with equal image processors share what is prepared of a picture, and score it as they do alone.
// Those with other processors do not share.
func TestTwins(t *testing.T) {
	folder := oracle.Folders(t)[0]
	picture := func(name string) *data.Picture {
		p, err := data.Open(filepath.Join(folder, "images", name), data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pair := model.Pair{Source: picture("coffee.png"), Edit: picture("coffee_blur.png"), Instruction: "blur it"}
	open := func(dir string) *model.Scorer {
		s, err := model.OpenScorer(dir, model.Options{Device: "cpu", Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	prepare := func(s *model.Scorer, pair model.Pair) *model.Sample {
		sample, err := s.Prepare(pair)
		if err != nil {
			t.Fatal(err)
		}
		return sample
	}
	score := func(s *model.Scorer, sample *model.Sample) float64 {
		all, err := s.Score(t.Context(), []*model.Sample{sample})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	dir := filepath.Join(folder, "llavanext", "scorer")
	a, b, c := open(dir), open(dir), open(dir)
	one, two := prepare(a, pair), prepare(b, pair)
	other := prepare(open(otherColours(t, dir)), pair)
	own := pair
	own.Pixels = true // which may be changed, and are not shared
	three := prepare(c, own)
	for i := range one.Pictures {
		if &one.Pictures[i].Pixels[0] != &two.Pictures[i].Pixels[0] {
			t.Errorf("picture %d was prepared for each of two scorers of one processor", i)
		}
		if other.Pictures[i].Pixels[0] == one.Pictures[i].Pixels[0] {
			t.Errorf("picture %d: a processor of other colours made the same pixel %g", i, one.Pictures[i].Pixels[0])
		}
	}
	alone := score(c, three)
	if x, y := score(a, one), score(b, two); x != alone || y != alone {
		t.Errorf("scores of shared pictures: got %v and %v, want %v", x, y, alone)
	}
}

// otherColours copies a scorer over a backbone whose processor has another mean.
func otherColours(t *testing.T, scorer string) string {
	t.Helper()
	cfg, err := model.ReadScorerConfig(filepath.Join(scorer, model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	from := cfg.Backbone
	if !filepath.IsAbs(from) {
		from = filepath.Join(scorer, from)
	}
	dir, backbone := t.TempDir(), t.TempDir()
	for into, of := range map[string]string{dir: scorer, backbone: from} {
		if err := os.CopyFS(into, os.DirFS(of)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"preprocessor_config.json", "processor_config.json"} {
		file := filepath.Join(backbone, name)
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		changed := strings.Replace(string(text), "0.48145466", "0.25", 1)
		if err := os.WriteFile(file, []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, model.ConfigFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "backbone:") {
			line = "backbone: " + backbone + "\n"
		}
		lines = append(lines, line)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}
