package model

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/store"
	"assay/model/batch"
	"assay/onnx"
)

// TestStoredFeatures: image features that an earlier process stored are reused for the same picture and backbone,
// wherever the backbone is. They are not reused for another picture or pairing, or after a byte of the vision tower's
// weights or of the preprocessor's configuration changed.
func TestStoredFeatures(t *testing.T) {
	backbone, folder := t.TempDir(), t.TempDir()
	if err := os.CopyFS(backbone, os.DirFS("../backbones/tiny")); err != nil {
		t.Fatal(err)
	}
	open := func(name string) *data.Picture {
		p, err := data.Open("../testdata/oracle/images/"+name+".png", data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	coffee, blur, rocket := open("coffee"), open("coffee_blur"), open("rocket")
	// computed reports whether scoring needed the vision tower, and returns the score.
	computed := func(source, output *data.Picture, change func(p *ScorerState)) (bool, float64) {
		t.Helper()
		p, err := LoadScorerState("../backbones/tiny-scorer")
		if err != nil {
			t.Fatal(err)
		}
		p.Config.Backbone, p.Config.Digests = backbone, nil // it is changed below
		if change != nil {
			change(p)
		}
		kept, err := store.Open(folder, store.Options{Warn: func(text string) { t.Error(text) }})
		if err != nil {
			t.Fatal(err)
		}
		defer kept.Close()
		s, err := NewScorer(p, Options{Store: kept})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sample, err := s.Sample(edit.New(source, output, "blur the picture"), Ask{})
		if err != nil {
			t.Fatal(err)
		}
		scores, err := s.Score01(context.Background(), []*batch.Sample{sample})
		if err != nil {
			t.Fatal(err)
		}
		return s.run.Sessions.Open["vision"] != nil, scores[0]
	}
	again, first := computed(coffee, blur, nil)
	if !again {
		t.Fatal("nothing was computed the first time")
	}
	if again, score := computed(coffee, blur, nil); again || score != first {
		t.Errorf("the same again: computed %v, score %v, was %v", again, score, first)
	}
	if again, _ := computed(coffee, rocket, nil); !again {
		t.Error("another picture was known")
	}
	if again, _ := computed(coffee, blur, func(p *ScorerState) { p.Config.PairSize = []int{56, 56} }); !again {
		t.Error("pictures of another size were known")
	}
	other := func(p *ScorerState) { p.Config.Passes[0].Prompt = "Was [INSTRUCTION] done?" }
	if again, _ := computed(coffee, blur, other); again {
		t.Error("features depend on the question")
	}
	if moved := filepath.Join(t.TempDir(), "elsewhere"); true {
		if err := os.CopyFS(moved, os.DirFS(backbone)); err != nil {
			t.Fatal(err)
		}
		if again, _ := computed(coffee, blur, func(p *ScorerState) { p.Config.Backbone = moved }); again {
			t.Error("the same backbone in another folder was not known")
		}
	}
	w, err := checkpoints.OpenWeights(backbone)
	if err != nil {
		t.Fatal(err)
	}
	var vision string
	for _, name := range w.Names() {
		if len(name) > 7 && name[:7] == "visual." ||
			filepath.Base(name) == name && len(name) > 13 && name[:13] == "model.visual." {
			vision = name
			break
		}
	}
	tensor, err := w.Bytes(vision)
	if err != nil {
		t.Fatal(err, w.Names()[:3])
	}
	marked := append([]byte(nil), tensor...)
	w.Close()
	change := func(name string, edit func(raw []byte) []byte) {
		path := filepath.Join(backbone, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, edit(raw), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if again, _ := computed(coffee, blur, nil); !again {
			t.Errorf("%s was changed in place: stale features were reused", name)
		}
		if again, _ := computed(coffee, blur, nil); again {
			t.Errorf("%s did not change again", name)
		}
	}
	change(checkpoints.SingleFile, func(raw []byte) []byte {
		at := find(raw, marked)
		raw[at+len(marked)/2+1] ^= 0x10 // in the middle, where a digest of a few samples of the file may miss it
		return raw
	})
	change("preprocessor_config.json", func(raw []byte) []byte { return append(raw, '\n') })
}

func find(raw, part []byte) int {
	for i := range raw {
		if len(raw)-i >= len(part) && string(raw[i:i+len(part)]) == string(part) {
			return i
		}
	}
	return -1
}

// TestStateFingerprint: the fingerprint of hidden states covers what they depend on, and nothing else.
func TestStateFingerprint(t *testing.T) {
	print := func(change func(p *ScorerState)) string {
		t.Helper()
		p, err := LoadScorerState("../backbones/tiny-scorer")
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		s, err := NewScorer(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		k, err := s.StateFingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := print(func(*ScorerState) {})
	for name, change := range map[string]func(p *ScorerState){
		"pair_size":      func(p *ScorerState) { p.Config.PairSize = []int{56, 56} },
		"score_position": func(p *ScorerState) { p.Config.Passes[0].Position = "at" },
		"answer":         func(p *ScorerState) { p.Config.Passes[0].Answer = "It is [SCORE]" },
		"alpha":          func(p *ScorerState) { p.Adapter.Targets[0].Scale *= 2 },
		"an adapter's tensor": func(p *ScorerState) {
			for _, x := range p.Adapter.Tensors {
				x.Data().([]float32)[0]++
				break
			}
		},
		"the score token": func(p *ScorerState) { p.Tensors["score_token.embedding"].Data().([]float32)[0]++ },
	} {
		if print(change) == first {
			t.Errorf("%s is not in the fingerprint", name)
		}
	}
	for name, change := range map[string]func(p *ScorerState){
		"the head":    func(p *ScorerState) { p.Tensors["layers.0.bias"].Data().([]float32)[0]++ },
		"score_range": func(p *ScorerState) { p.Config.ScoreRange = [2]float64{0, 1} },
	} {
		if print(change) != first {
			t.Errorf("%s is in the fingerprint of states", name)
		}
	}
}

// TestFeaturesOfAnotherDevice: a CPU and a GPU that computes in half precision do not take each other's features, which
// have another type there. Pictures without features may come from either.
func TestFeaturesOfAnotherDevice(t *testing.T) {
	p, err := LoadScorerState("../testdata/oracle/qwen2_5_vl/scorer_sequence")
	if err != nil {
		t.Fatal(err)
	}
	p.Config.DType = "float16" // see Network.Computes
	var scorers []*Scorer
	for _, o := range []Options{{}, {Device: "cuda:0", On: "cpu"}} {
		s, err := NewScorer(p, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		scorers = append(scorers, s)
	}
	for i, from := range scorers {
		picture := data.NewPicture(56+28*i, 56)
		score := func(by *Scorer) error {
			sample, err := from.Sample(edit.New(picture, picture, "blur it"), Ask{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = by.Score01(t.Context(), []*batch.Sample{sample})
			return err
		}
		other := scorers[1-i]
		if err := errors.Join(score(other), score(from), score(from)); err != nil {
			t.Errorf("scorer %d: got error %v, want none", i, err)
		}
		const want = "prepared by a scorer on a device of another kind"
		if err := score(other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("scorer %d, with features: got error %v, want %q", i, err, want)
		}
	}
}

// TestEveryNodeIsRead: graphs for the CPU, which exports consist of, have no nodes that nothing reads.
func TestEveryNodeIsRead(t *testing.T) {
	p, err := LoadScorerState("../testdata/oracle/qwen2_5_vl/scorer_sequence")
	if err != nil {
		t.Fatal(err)
	}
	graphs, err := Graphs(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range graphs {
		read := onnx.ReadBy(m.Nodes)
		for _, o := range m.Outputs {
			read[o.Name] = true
		}
		for _, n := range m.Nodes {
			if !slices.ContainsFunc(n.Outputs, func(y string) bool { return read[y] }) {
				t.Errorf("%s: nothing reads what %s computes, %s of %q", name, n.Name, n.Op, n.Inputs)
			}
		}
	}
}
