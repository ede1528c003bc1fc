package model_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	"assay/model/batch"
)

// TestShared: scorers that show a pair in the same way, to equal image processors, share its prepared pictures, and
// score it as they do alone. Other scorers do not share, nor do edits of other pictures.
func TestShared(t *testing.T) {
	folder := oracle.Folders(t)[0]
	picture := func(name string) *data.Picture {
		p, err := data.Open(filepath.Join(folder, "images", name), data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	source, output := picture("coffee.png"), picture("coffee_blur.png")
	same := filepath.Join(folder, "llavanext", "scorer")
	open := func(dir string) *model.Scorer {
		s, err := model.OpenScorer(dir, model.Options{Device: "cpu", Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	prepare := func(dir string, e *edit.Edit, shared *model.Shared) (*model.Scorer, *batch.Sample) {
		s := open(dir)
		sample, err := s.Sample(e, model.Ask{Shared: shared})
		if err != nil {
			t.Fatal(err)
		}
		return s, sample
	}
	score := func(s *model.Scorer, sample *batch.Sample) float64 {
		all, err := s.Score01(t.Context(), []*batch.Sample{sample})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	shared, asked := &model.Shared{}, edit.New(source, output, "blur it")
	a, first := prepare(same, asked, shared)
	changed := func(file, old, text string) string { return altered(t, same, file, old, text) }
	for name, c := range map[string]struct {
		dir, instruction string
		output           *data.Picture
		shares           bool
	}{
		"the same scorer":     {same, "blur it", output, true},
		"another instruction": {same, "make it red", output, true},
		"another picture":     {same, "blur it", picture("coffee_blur.png"), false},
		"other colours":       {changed("processor_config.json", "0.48145466", "0.25"), "blur it", output, false},
		"another size":        {changed(model.ConfigFile, "pair", "pair_size: [40, 40]\npair"), "blur it", output, false},
		"two pictures":        {changed(model.ConfigFile, `pair: "concat"`, "pair: sequence"), "blur it", output, false},
	} {
		e := edit.New(source, c.output, c.instruction)
		b, second := prepare(c.dir, e, shared)
		if got := &first.Pictures[0].Pixels[0] == &second.Pictures[0].Pixels[0]; got != c.shares {
			t.Errorf("%s: shared is %v, want %v", name, got, c.shares)
		}
		alone, third := prepare(c.dir, e, nil)
		if got, want := score(b, second), score(alone, third); got != want {
			t.Errorf("%s: got the score %v, want %v as it is alone", name, got, want)
		}
	}
	want := score(a, first)
	again := &model.Shared{}
	if _, err := a.Sample(asked, model.Ask{Shared: again}); err != nil { // its own features, not shared
		t.Fatal(err)
	}
	if got := score(prepare(same, asked, again)); got != want {
		t.Errorf("after features were cached: got the score %v, want %v", got, want)
	}

	// A scorer that got its pictures from another one also finds them by their keys, once it has their features.
	keyed := func(p edit.Picture) *edit.Edit {
		return &edit.Edit{Sources: []edit.Picture{keyedPicture{p, "source"}}, Output: keyedPicture{p, "output"},
			Instruction: "blur it"}
	}
	shown := keyed(output)
	shown.Sources[0] = keyedPicture{source, "source"}
	by := &model.Shared{}
	prepare(same, shown, by)
	b, sample := prepare(same, shown, by)
	if got := score(b, sample); got != want {
		t.Errorf("with keys: got the score %v, want %v", got, want)
	}
	sample, err := b.Sample(keyed(lost{}), model.Ask{Shared: &model.Shared{}})
	if err != nil {
		t.Fatalf("pictures with cached features were decoded again: %v", err)
	}
	if got := score(b, sample); got != want {
		t.Errorf("only by keys: got the score %v, want %v", got, want)
	}
}

// keyedPicture is a picture with a key.
type keyedPicture struct {
	edit.Picture
	key string
}

func (p keyedPicture) Key() string { return p.key }

// lost is a picture that cannot be decoded.
type lost struct{}

func (lost) Decode() (*data.Picture, error) { return nil, errors.New("it is lost") }

// altered copies a scorer with its backbone, and replaces a text of one of their files.
func altered(t *testing.T, scorer, name, old, text string) string {
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
	replace := func(file, old, text string) {
		raw, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(raw), old) {
			t.Fatalf("%s: %v, no %q in %s", file, err, old, raw)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(raw), old, text, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var line string
	raw, err := os.ReadFile(filepath.Join(dir, model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(raw)) {
		if strings.HasPrefix(l, "backbone:") {
			line = l
		}
	}
	replace(filepath.Join(dir, model.ConfigFile), line, "backbone: "+backbone+"\n")
	if name == model.ConfigFile {
		replace(filepath.Join(dir, name), old, text)
	} else {
		replace(filepath.Join(backbone, name), old, text)
	}
	return dir
}
