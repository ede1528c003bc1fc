package model_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/calibration"
	"assay/internal/exit"
	"assay/lora"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
)

const (
	shippedBackbone = "../backbones/tiny"
	shippedScorer   = "../backbones/tiny-scorer"
)

// copyTree copies the files of a folder.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// written writes the shipped scorer with a copy of its backbone next to it, as training does.
func written(t *testing.T) (scorer, backbone string) {
	t.Helper()
	root := t.TempDir()
	backbone = filepath.Join(root, "backbone")
	copyTree(t, shippedBackbone, backbone)
	return writtenOver(t, root, backbone), backbone
}

// writtenOver writes the shipped scorer for a backbone into a folder below root.
func writtenOver(t *testing.T, root, backbone string) (scorer string) {
	t.Helper()
	scorer = filepath.Join(root, "scorer")
	p, err := model.LoadScorerState(shippedScorer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(scorer, 0o777); err != nil {
		t.Fatal(err)
	}
	c := *p.Config
	c.Backbone, c.Digests, p.Config = backbone, nil, &c
	if err := p.Save(scorer); err != nil {
		t.Fatal(err)
	}
	return scorer
}

// opens opens a scorer and closes it again.
func opens(dir string, o model.Options) error {
	s, err := model.OpenScorer(dir, o)
	if err == nil {
		err = s.Close()
	}
	return err
}

// blurred is the score of a shipped picture and its blurred copy.
func blurred(t *testing.T, dir string, o model.Options) float64 {
	t.Helper()
	s, err := model.OpenScorer(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	image := func(name string) edit.Picture {
		return data.File{Image: data.Image{Path: name + ".png"}, Folder: "../testdata/oracle/images"}
	}
	sample, err := s.Sample(edit.New(image("coffee"), image("coffee_blur"), "blur the picture"), model.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	scores, err := s.Score01(t.Context(), []*batch.Sample{sample})
	if err != nil {
		t.Fatal(err)
	}
	return scores[0]
}

// rewrite changes a file in place.
func rewrite(t *testing.T, path string, change func(raw []byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(raw), 0o666); err != nil {
		t.Fatal(err)
	}
}

// flipSigns changes the sign of every number of a .safetensors file of float32.
func flipSigns(raw []byte) []byte {
	for i := 8 + int(binary.LittleEndian.Uint64(raw)) + 3; i < len(raw); i += 4 {
		raw[i] ^= 0x80
	}
	return raw
}

func blank(raw []byte) []byte { return append(raw, '\n') }

// TestChangedFiles: a scorer whose backbone, head or adapter differs from the one it was written with is refused with
// the file's name, and opens again when the file is restored. Files that scores do not depend on may change.
func TestChangedFiles(t *testing.T) {
	scorer, backbone := written(t)
	if err := opens(scorer, model.Options{Warn: func(text string) { t.Error(text) }}); err != nil {
		t.Fatal(err)
	}
	object := func([]byte) []byte { return []byte("{}") }
	for _, c := range []struct {
		folder, name string
		change       func(raw []byte) []byte
		want         string // in the error, besides the name; "": no error
	}{
		{backbone, "model.safetensors", flipSigns, "digests.weights"},
		{backbone, "config.json", blank, "digests.backbone"},
		{backbone, "tokenizer.json", blank, "digests.backbone"},
		{backbone, "tokenizer_config.json", blank, "digests.backbone"},
		{backbone, "chat_template.jinja", blank, "digests.backbone"},
		{backbone, "preprocessor_config.json", blank, "digests.backbone"},
		{backbone, "special_tokens_map.json", object, "was not there when the scorer was made"},
		{scorer, model.HeadFile, flipSigns, "digests.scorer"},
		{scorer, lora.WeightsFile, flipSigns, "digests.scorer"},
		{scorer, lora.ConfigFile, blank, "digests.scorer"},
		{backbone, "generation_config.json", blank, ""},
		{backbone, "README.md", blank, ""},
		{backbone, "added_tokens.json", object, ""},      // tokenizer.json has them
		{backbone, "chat_template.json", object, ""},     // chat_template.jinja comes first
		{backbone, "model-extra.safetensors", blank, ""}, // not a tensor file of the checkpoint
		{scorer, "README.md", blank, ""},
	} {
		path := filepath.Join(c.folder, c.name)
		old, missing := os.ReadFile(path)
		rewrite(t, path, c.change)
		err := opens(scorer, model.Options{})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s changed: error %v, want none", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s changed: error %v, want one with %q and %q", c.name, err, path, c.want)
		case c.want != "" && exit.Code(err) != exit.Wrong:
			t.Errorf("%s changed: exit code %d, want %d", c.name, exit.Code(err), exit.Wrong)
		}
		if missing != nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, old, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := opens(scorer, model.Options{}); err != nil {
		t.Errorf("all files restored: %v", err)
	}
	file := filepath.Join(scorer, model.ConfigFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, file, func(raw []byte) []byte {
		return []byte(strings.Replace(string(raw), "    config.json:", "    ../config.json:", 1))
	})
	err = opens(scorer, model.Options{})
	if err == nil || !strings.Contains(err.Error(), `"../config.json" is not a file of`) {
		t.Errorf("a name that escapes the folder: error %v", err)
	}
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(backbone, "chat_template.jinja")); err != nil {
		t.Fatal(err)
	}
	err = opens(scorer, model.Options{})
	if err == nil || !strings.Contains(err.Error(), "chat_template.jinja is missing") {
		t.Errorf("no chat template: error %v, want one that names it", err)
	}
}

// TestReplacedWhileOpen: a file that is replaced after a scorer was opened, and before its first score, is an error:
// sessions open the files by their names, and the scores would be another scorer's.
func TestReplacedWhileOpen(t *testing.T) {
	scorer, backbone := written(t)
	s, err := model.OpenScorer(scorer, model.Options{Device: "cpu", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := data.NewPicture(32, 32)
	sample, err := s.Sample(edit.New(p, p, "a"), model.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(backbone, "model.safetensors")
	raw, err := os.ReadFile(weights)
	if err == nil {
		err = os.WriteFile(weights+".new", flipSigns(raw), 0o666)
	}
	if err == nil {
		err = os.Rename(weights+".new", weights)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := weights + " was changed while in use"
	if got, err := s.Score01(t.Context(), []*batch.Sample{sample}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got scores %v, error %v, want an error with %q", got, err, want)
	}
}

// TestChangedIndex: for a checkpoint in several files the index is recorded as well: it defines which file a tensor is
// read from, and two files may have it.
func TestChangedIndex(t *testing.T) {
	root := t.TempDir()
	backbone := filepath.Join(root, "backbone")
	copyTree(t, shippedBackbone, backbone)
	raw, err := os.ReadFile(filepath.Join(backbone, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+binary.LittleEndian.Uint64(raw)], &header); err != nil {
		t.Fatal(err)
	}
	delete(header, "__metadata__")
	names := slices.Sorted(maps.Keys(header))
	index := func(second ...string) []byte {
		places := map[string]string{}
		for _, name := range names {
			places[name] = "model-00001-of-00002.safetensors"
		}
		for _, name := range second {
			places[name] = "model-00002-of-00002.safetensors"
		}
		text, err := json.Marshal(map[string]any{"weight_map": places})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, content := range map[string][]byte{"model-00001-of-00002.safetensors": raw,
		"model-00002-of-00002.safetensors": flipSigns(slices.Clone(raw)), checkpoints.IndexFile: index(names[0])} {
		if err := os.WriteFile(filepath.Join(backbone, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(backbone, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	scorer := writtenOver(t, root, backbone)
	if err := opens(scorer, model.Options{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(backbone, checkpoints.IndexFile)
	rewrite(t, path, func([]byte) []byte { return index(names[0], names[1]) })
	if err := opens(scorer, model.Options{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("another index: got %v, want an error with %s", err, path)
	}
}

// TestMovedScorer: a scorer is found through links, together with its backbone elsewhere, or with the option for the
// backbone's location; its scores are bit-identical. A different backbone is refused.
func TestMovedScorer(t *testing.T) {
	scorer, backbone := written(t)
	want := blurred(t, scorer, model.Options{})
	root := t.TempDir()
	link := filepath.Join(root, "deep", "link")
	files := filepath.Join(root, "files") // a folder of links
	for _, dir := range []string{filepath.Dir(link), files} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(scorer, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{model.ConfigFile, model.HeadFile, lora.ConfigFile, lora.WeightsFile} {
		if err := os.Symlink(filepath.Join(scorer, name), filepath.Join(files, name)); err != nil {
			t.Fatal(err)
		}
	}
	both, alone := filepath.Join(root, "both"), filepath.Join(root, "alone", "scorer")
	copyTree(t, scorer, filepath.Join(both, "scorer"))
	copyTree(t, backbone, filepath.Join(both, "backbone"))
	copyTree(t, scorer, alone)
	for _, c := range []struct{ dir, backbone string }{
		{link, ""},
		{files, ""},
		{filepath.Join(both, "scorer"), ""},
		{alone, backbone},
		{alone, filepath.Join(both, "backbone")},
	} {
		if got := blurred(t, c.dir, model.Options{Backbone: c.backbone}); got != want {
			t.Errorf("%s with backbone %q: score %v, want %v", c.dir, c.backbone, got, want)
		}
	}
	line := filepath.Join(alone, model.ConfigFile) + ":2: backbone: ../backbone"
	if err := opens(alone, model.Options{}); err == nil || !strings.Contains(err.Error(), line) ||
		!strings.Contains(err.Error(), "--backbone DIR") || exit.Code(exit.Named(err)) != exit.Wrong {
		t.Errorf("no backbone: error %v, want one with %q", err, line)
	}
	other := filepath.Join(both, "backbone", "model.safetensors")
	rewrite(t, other, flipSigns)
	err := opens(alone, model.Options{Backbone: filepath.Dir(other)})
	if err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("another backbone: error %v, want one with %q", err, other)
	}
	err = opens(alone, model.Options{Backbone: filepath.Join(root, "gone")})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(root, "gone")) || strings.Contains(err.Error(), ":2:") {
		t.Errorf("--backbone names nothing: error %v, want one with that folder", err)
	}
}

// TestUndigestedScorer: a scorer of an earlier version is read with a warning, and gets digests when it is written.
func TestUndigestedScorer(t *testing.T) {
	scorer, backbone := written(t)
	file := filepath.Join(scorer, model.ConfigFile)
	rewrite(t, file, func(raw []byte) []byte {
		text, _, _ := strings.Cut(string(raw), "digests:")
		return []byte(text)
	})
	var told []string
	warn := func(text string) { told = append(told, text) }
	if err := opens(scorer, model.Options{Warn: warn}); err != nil || len(told) != 1 || !strings.Contains(told[0], file) {
		t.Fatalf("error %v, warnings %q, want one about %s", err, told, file)
	}
	p, err := model.LoadScorerState(scorer)
	if err != nil {
		t.Fatal(err)
	}
	k := &calibration.Calibration{Format: 1, Scorer: p.Digest()}
	k = k.With(calibration.Map{Method: calibration.Platt, A: -1})
	if err := p.InstallCalibration(k); err != nil {
		t.Fatal(err)
	}
	told = nil
	if err := opens(scorer, model.Options{Warn: warn}); err != nil || len(told) > 0 {
		t.Errorf("calibrated: error %v, warnings %q", err, told)
	}
	for path, change := range map[string]func([]byte) []byte{
		filepath.Join(backbone, "model.safetensors"): flipSigns,
		filepath.Join(scorer, calibration.File):      blank,
	} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, path, change)
		if err := opens(scorer, model.Options{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s changed: error %v, want one that names it", path, err)
		}
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(t, file, func(raw []byte) []byte { // as after a kill while a calibration is written
		before, after, _ := strings.Cut(string(raw), "    "+calibration.File+": ")
		_, after, _ = strings.Cut(after, "\n")
		return []byte(before + after)
	})
	if err := opens(scorer, model.Options{Warn: warn}); err != nil || len(told) > 0 {
		t.Errorf("the calibration has no digest: error %v, warnings %q", err, told)
	}
	rewrite(t, file, func(raw []byte) []byte {
		return []byte(strings.Replace(string(raw), "calibration: "+calibration.File+"\n", "", 1))
	})
	if err := opens(scorer, model.Options{Warn: warn}); err != nil || len(told) > 0 {
		t.Errorf("the line of the calibration removed: error %v, warnings %q", err, told)
	}
}

// TestNoScorer: the error for a folder that is not a scorer directory explains what it is.
func TestNoScorer(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	for _, path := range []string{"run/scorer/scorer.yaml", "fresh/checkpoints/x", "tiny/config.json", "empty/x"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		"run":                   "its scorer is run/scorer",
		"fresh":                 "has no scorer yet",
		"tiny":                  "is a checkpoint, not a scorer",
		"empty":                 "expected a scorer directory",
		"nothing":               "expected a scorer directory",
		"TIGER-Lab/EditReward":  "score fetch TIGER-Lab/EditReward",
		root + "/TIGER-Lab/a.b": "score fetch TIGER-Lab/a.b",
		"run/nothing":           "expected a scorer directory",
		"/nowhere/models/x":     "expected a scorer directory",
	} {
		err := opens(dir, model.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("--scorer %s: error %v, want %q", dir, err, want)
		}
	}
	for dir, want := range map[string]string{
		"Qwen/Qwen2.5-VL-7B-Instruct": "score fetch Qwen/Qwen2.5-VL-7B-Instruct",
		"run/scorer":                  "is a scorer, not a checkpoint",
		"empty":                       "a Hugging Face checkpoint directory",
	} {
		b, err := backbone.OpenBackbone(dir)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("backbone %s: error %v, want %q", dir, err, want)
		}
	}
}
