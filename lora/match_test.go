package lora

import (
	"compress/gzip"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/checkpoints"
	"assay/onnx"
)

// peftFile is testdata/match.json.gz, written by tools/oracle/lora_match.py with PEFT 0.21.2.
type peftFile struct {
	Modules map[string]json.RawMessage
	Cases   []struct {
		Family string
		Config json.RawMessage
		Result json.RawMessage
	}
}

func readPEFT(t *testing.T) *peftFile {
	t.Helper()
	f, err := os.Open("testdata/match.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var p peftFile
	if err := json.NewDecoder(z).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// shapes is a checkpoint of names and shapes only.
type shapes map[string][]int64

func (s shapes) Names() []string { return slices.Sorted(maps.Keys(s)) }
func (s shapes) Info(name string) (checkpoints.TensorInfo, bool) {
	shape, ok := s[name]
	return checkpoints.TensorInfo{Name: name, Type: onnx.Float, Shape: shape}, ok
}

func (p *peftFile) checkpoint(t *testing.T, family string) shapes {
	t.Helper()
	var s shapes
	if err := json.Unmarshal(p.Modules[family+".keys"], &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *peftFile) kinds(t *testing.T, family string) map[string]string {
	t.Helper()
	var kinds map[string]string
	if err := json.Unmarshal(p.Modules[family], &kinds); err != nil {
		t.Fatal(err)
	}
	return kinds
}

// TestModules compares the modules read from a checkpoint's keys with those of the model in transformers.
func TestModules(t *testing.T) {
	p := readPEFT(t)
	for _, family := range []string{"llavanext", "qwen2_5_vl"} {
		t.Run(family, func(t *testing.T) {
			keys := p.checkpoint(t, family)
			kinds := p.kinds(t, family)
			spellings := map[string]shapes{"transformers 5": keys, "published": {}, "modules": {}}
			for k, shape := range keys {
				hub := strings.Replace(k, "vision_tower.", "vision_tower.vision_model.", 1)
				spellings["published"][hub] = shape
				spellings["modules"][Canonical(k)] = shape
			}
			for spelling, keys := range spellings {
				var linear []string
				for _, m := range Modules(keys) {
					kind, ok := kinds[m.Name]
					if !ok || m.Linear != (kind == "linear") {
						t.Errorf("%s, %s: got module %+v, want a %q as in transformers", family, spelling, m, kind)
					}
					if m.Linear {
						linear = append(linear, m.Name)
						if diff := cmp.Diff(keys[m.Key], []int64{m.Out, m.In}); diff != "" || Canonical(m.Key) != m.Name+".weight" {
							t.Errorf("%s: got canonical key %s, want %s.weight; shape (-want +got):\n%s", m.Name, Canonical(m.Key), m.Name,
								diff)
						}
					}
				}
				var want []string
				for name, kind := range kinds {
					if kind == "linear" {
						want = append(want, name)
					}
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, linear); diff != "" {
					t.Errorf("%s, %s: linear layers (-want +got):\n%s", family, spelling, diff)
				}
			}
		})
	}
}

func TestTiedOutputLayerIsAModule(t *testing.T) {
	keys := readPEFT(t).checkpoint(t, "qwen2_5_vl")
	embed := keys["model.embed_tokens.weight"]
	delete(keys, "lm_head.weight")
	i := slices.IndexFunc(Modules(keys), func(m Module) bool { return m.Name == "lm_head" })
	if i < 0 {
		t.Fatalf("modules: got no lm_head in %v, want it", Modules(keys))
	}
	if diff := cmp.Diff(Module{Name: "lm_head", Linear: true, Out: embed[0], In: embed[1]}, Modules(keys)[i]); diff != "" {
		t.Error(diff)
	}
}

// TestMatchAgreesWithPEFT compares modules, ranks, alphas and scales of several hundred configurations.
func TestMatchAgreesWithPEFT(t *testing.T) {
	p := readPEFT(t)
	modules := map[string][]Module{}
	for _, family := range []string{"llavanext", "qwen2_5_vl"} {
		t.Run(family, func(t *testing.T) {
			modules[family] = Modules(p.checkpoint(t, family))
			for name, kind := range p.kinds(t, family) { // activations and the like are in no checkpoint
				if !slices.ContainsFunc(modules[family], func(m Module) bool { return m.Name == name }) {
					if kind == "linear" {
						t.Fatalf("got no linear layer %s in the checkpoint, want PEFT's", name)
					}
					modules[family] = append(modules[family], Module{Name: name})
				}
			}
		})
	}
	for _, c := range p.Cases {
		config, err := parseConfig(c.Config)
		if err != nil {
			t.Errorf("%s: parseConfig: got error %v, want none", c.Config, err)
			continue
		}
		got, err := config.MatchModules(modules[c.Family])
		var want map[string][3]float64
		if json.Unmarshal(c.Result, &want) != nil { // an error in PEFT
			if err == nil {
				t.Errorf("%s: got %d modules, want PEFT's error %s", c.Config, len(got), c.Result)
			}
			continue
		}
		kinds := p.kinds(t, c.Family)
		odd := ""
		for name := range want {
			if kinds[name] != "linear" {
				odd = name
			}
		}
		if odd != "" { // PEFT adapts embeddings and convolutions, too
			if err == nil || !strings.Contains(err.Error(), "not a linear layer") {
				t.Errorf("%s: got error %v for %s, want one with %q", c.Config, err, odd, "not a linear layer")
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got error %v, want none", c.Config, err)
			continue
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d modules, PEFT has %d", c.Config, len(got), len(want))
		}
		for _, target := range got {
			w := want[target.Module]
			if float64(target.Rank) != w[0] || target.Alpha != w[1] || !(math.Abs(target.Scale-w[2]) <= 1e-15*math.Abs(w[2])) {
				t.Errorf("%s: got %+v, want PEFT's rank, alpha and scale %v", c.Config, target, w)
			}
		}
	}
}

func TestPythonExpressions(t *testing.T) {
	for pattern, c := range map[string]struct{ yes, no string }{
		`(?P<a>\w)\.(?P=a)`:           {"q.q", "q.k"},
		`(?P<a>\w)\.(?P=a)\.(?P=a)\Z`: {"q.q.q", "q.q.k"},
		`a\\Z`:                        {`a\Z`, "a"},
		`\(?P<a`:                      {"(P<a", "x"},
		`a|b`:                         {"b", "xb"},
	} {
		t.Run(pattern, func(t *testing.T) {
			re, err := compile("target_modules", pattern, `\A(?:`, `)\z`)
			if err != nil {
				t.Error(err)
				return
			}
			for s, want := range map[string]bool{c.yes: true, c.no: false} {
				if got, err := re.MatchString(s); got != want || err != nil {
					t.Errorf("%q on %q: got %v, %v, want %v", pattern, s, got, err, want)
				}
			}
		})
	}
	if _, err := parseConfig(
		[]byte(`{"target_modules": "a(b"}`),
	); err == nil ||
		!strings.Contains(err.Error(), `target_modules: regular expression "a(b"`) {
		t.Errorf("parseConfig: got error %v, want one with %q", err, `target_modules: regular expression "a(b"`)
	}
}
