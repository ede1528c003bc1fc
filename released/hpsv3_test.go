package released_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	"assay/onnx"
	"assay/released"
)

type hpsSuite struct {
	MaxPixels int `json:"max_pixels"`
	Cases     []struct {
		ID       int
		Picture  string
		Text     string
		At       int `json:"reward_index"`
		Mu       float64
		LogSigma float64 `json:"log_sigma"`
		Score    float64
		Tokens   []int   `json:"image_tokens"`
		IDs      []int64 `json:"input_ids"`
	}
}

// hpsOptions returns the options to import the HPSv3 of the fixtures.
func hpsOptions(t *testing.T, s suite) (released.Options, hpsSuite) {
	t.Helper()
	dir := filepath.Join(s.dir, "hpsv3")
	all := oracle.Read[hpsSuite](t, filepath.Join(dir, "cases.json"))
	config := filepath.Join(t.TempDir(), "hpsv3.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "max_pixels: %d\n", all.MaxPixels), 0o666); err != nil {
		t.Fatal(err)
	}
	return released.Options{
		Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "HPSv3.safetensors"), Config: config,
		Prompts: filepath.Join(dir, "prompts"),
	}, all
}

func openHPS(t *testing.T, s suite) (*model.Scorer, hpsSuite) {
	t.Helper()
	o, all := hpsOptions(t, s)
	return open(t, "hpsv3", o), all
}

func TestHPSv3(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		scorer, all := openHPS(t, s)
		expect := oracle.Tensors(t, filepath.Join(s.dir, "hpsv3", "expect.safetensors"))
		for _, c := range all.Cases {
			t.Run(fmt.Sprint(c.ID), func(t *testing.T) {
				sample := prepare(t, scorer, &edit.Edit{Output: s.picture(t, c.Picture), Instruction: c.Text})
				r, j := readings(t, scorer, sample)[0], judge(t, scorer, sample)
				if !slices.Equal(r.IDs, c.IDs) || r.At != c.At {
					t.Errorf("reads %d of %v, want %d of %v", r.At, r.IDs, c.At, c.IDs)
				}
				near(t, "score", j.Score01, c.Score)
				near(t, "log of sigma", math.Log(j.Sigma), c.LogSigma)
				name := fmt.Sprintf("case%d", c.ID)
				floats(t, expect, name+".hidden", r.State)
				floats(t, expect, name+".output", r.Outputs["preference"])
				pixels(t, scorer, expect, name, sample)
				g := gradient(t, scorer, &edit.Edit{Output: s.picture(t, c.Picture), Instruction: c.Text})
				if g.Source() != nil || g.Score01 != j.Score01 {
					t.Errorf("got a gradient of %+v, source %v, want %g and no source", g.Score, g.Source(), j.Score01)
				}
			})
		}
	})
}

// withLayer copies weights, and adds a linear layer of zeros, [2, 2], with this number to a head.
func withLayer(t *testing.T, dir, head string, number int) string {
	t.Helper()
	f, err := checkpoints.OpenFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bytes := map[string][]byte{}
	var infos []checkpoints.TensorInfo
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		if bytes[name], err = f.Bytes(name); err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
	}
	for part, shape := range map[string][]int64{"weight": {2, 2}, "bias": {2}} {
		name := fmt.Sprintf("%s.%d.%s", head, number, part)
		bytes[name] = make([]byte, 8*len(shape))
		infos = append(infos, checkpoints.TensorInfo{Name: name, Type: onnx.Float, Shape: shape})
	}
	to := t.TempDir()
	w, err := checkpoints.NewWriter(filepath.Join(to, "model.safetensors"), infos, nil)
	for name, b := range bytes {
		if err == nil {
			err = w.Write(name, b)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestRefused: errors say what is wrong with the files that judges are imported from.
func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		good := released.Options{
			Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"),
			Config: filepath.Join(dir, "config", "EditReward-tiny.yaml"), Prompts: filepath.Join(dir, "prompts"),
		}
		yaml := func(text string) string {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			return path
		}
		for want, change := range map[string]func(o *released.Options){
			"no tensors rm_head.":     func(o *released.Options) { o.Config = "" },
			"there are no tensors rm": func(o *released.Options) { o.Weights = o.Base },
			`"qwen3_vl": want qwen2`:  func(o *released.Options) { o.Base = filepath.Join(s.folder, "qwen3_vl", "backbone") },
			"embedding table has":     func(o *released.Options) { o.Base = filepath.Join(s.dir, "adiee", "regressor") },
			"pooling_strategy":        func(o *released.Options) { o.Config = yaml("pooling_strategy: max\n") },
			"one number for both":     func(o *released.Options) { o.Config = yaml("min_pixels: 784\nmax_pixels: 1568\n") },
			"rm_head_type is missing": func(o *released.Options) { o.Config = yaml("") },
			`"max_pixel"`: func(o *released.Options) {
				o.Config = yaml("rm_head_type: ranknet_multi_head\npooling_strategy: mean\nmax_pixel: 6272\n")
			},
			"unknown key":         func(o *released.Options) { o.Config = filepath.Join(o.Base, "config.json") },
			"PyTorch pickles":     func(o *released.Options) { o.Weights = yaml("not weights") },
			"numbers [0 3 5 7]":   func(o *released.Options) { o.Weights = withLayer(t, o.Weights, "rm_heads.head_0", 7) },
			"following.txt":       func(o *released.Options) { o.Prompts = t.TempDir() },
			"--prompts is needed": func(o *released.Options) { o.Prompts = "" },
		} {
			kind, o := "editreward", good
			if change(&o); want == "no tensors rm_head." {
				kind, o.Prompts = "hpsv3", filepath.Join(s.dir, "hpsv3", "prompts")
			}
			if want == "embedding table has" { // another family's tokenizer and configuration
				want = "config.json"
			}
			o.Out = filepath.Join(t.TempDir(), "scorer")
			if _, err := released.Import(kind, o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one about %q", err, want)
			}
			if _, err := os.Stat(o.Out); err == nil {
				t.Errorf("%s: %s was created", want, o.Out)
			}
		}
	})
}
