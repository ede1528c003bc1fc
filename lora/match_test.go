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
	"time"

	"github.com/dlclark/regexp2"
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

// TestModules compares the modules read from a checkpoint's keys with the modules of the model in transformers.
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
		if odd != "" { // PEFT also adapts embeddings and convolutions
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

// TestMatchSays: selections and errors for a small model.
func TestMatchSays(t *testing.T) {
	const q0, q1, q7 = "m.layers.0.q", "m.layers.1.q", "m.tail.7.2.q"
	linear := []string{q0, "m.layers.0.v", q1, "m.layers.1.v", q7, "lm_head"}
	for name, test := range map[string]struct {
		change func(c *Config)
		want   []string
		err    string
	}{
		"ends":      {func(*Config) {}, []string{q0, q1, q7}, ""},
		"full name": {func(c *Config) { c.Targets.List = []string{"m.layers.0.v"} }, []string{"m.layers.0.v"}, ""},
		"part of a name": {func(c *Config) { c.Targets.List = []string{"ayers.0.v", "m.layers.1.q"} },
			[]string{q1}, ""},
		"all":        {func(c *Config) { c.Targets = Names{Regex: "All-Linear"} }, linear[:5], ""},
		"the output": {func(c *Config) { c.Targets.List = []string{"lm_head"} }, linear[5:], ""},
		"expression": {func(c *Config) { c.Targets = Names{Regex: `m\..*\.q`} }, []string{q0, q1, q7}, ""},
		"alternatives": {func(c *Config) { c.Targets = Names{Regex: `lm_head|m\.layers\.0\.q`} },
			[]string{q0, "lm_head"}, ""},
		"a layer":         {func(c *Config) { c.LayersToTransform = []int{1} }, []string{q1}, ""},
		"the first count": {func(c *Config) { c.LayersToTransform = []int{7} }, []string{q7}, ""},
		"layers' pattern": {func(c *Config) { c.LayersToTransform, c.LayersPattern = []int{0, 1, 7}, []string{"layers"} },
			[]string{q0, q1}, ""},
		"two patterns": {func(c *Config) { c.LayersToTransform, c.LayersPattern = []int{1, 7}, []string{"layers", "tail"} },
			[]string{q1, q7}, ""},
		"full name, another layer": {func(c *Config) {
			c.Targets.List, c.LayersToTransform = []string{"m.layers.0.v", "q"}, []int{1}
		}, []string{"m.layers.0.v", "m.layers.1.q"}, ""},
		"no layer": {func(c *Config) { c.Targets.List, c.LayersToTransform = []string{"lm_head", "head", "q"}, []int{1} },
			[]string{q1, "lm_head"}, ""},
		"excluded end":        {func(c *Config) { c.Exclude.List = []string{"0.q"} }, []string{q1, q7}, ""},
		"excluded name":       {func(c *Config) { c.Exclude.List = []string{q0} }, []string{q1, q7}, ""},
		"excluded expression": {func(c *Config) { c.Exclude.Regex = `.*\.1\..` }, []string{q0, q7}, ""},
		"half an expression":  {func(c *Config) { c.Exclude.Regex = `m\.layers|\.q` }, []string{q0, q1, q7}, ""},
		"saved":               {func(c *Config) { c.ModulesToSave = []string{"1"} }, []string{q0, q7}, ""},
		"saved around":        {func(c *Config) { c.ModulesToSave = []string{"v", "layers"} }, []string{q7}, ""},
		"nothing, excluded": {func(c *Config) { c.Exclude.List = []string{"q", "v"} }, nil,
			`target_modules ["q"] matches none of the model's 6 linear layers (m.layers.1.v, ...); 5 are excluded`},
		"nothing": {func(c *Config) { c.Targets.List = []string{"x", "y"} }, nil,
			`target_modules ["x" "y"] matches none of the model's 6 linear layers (m.layers.1.v, ...); 0 are excluded`},
		"collision": {func(c *Config) { c.ModulesToSave = []string{"q"} }, nil,
			`target_modules ["q"] and modules_to_save ["q"] collide: everything that target_modules matches`},
		"no collision": {func(c *Config) { c.Targets.List, c.ModulesToSave = []string{"x"}, []string{"q"} }, nil,
			`target_modules ["x"] matches none of the model's 6 linear layers (m.layers.1.v, ...); 3 are excluded`},
		"not linear": {func(c *Config) { c.Targets.List = []string{"q", "norm"} }, nil,
			`target_modules ["q" "norm"] matches m.norm, which is not a linear layer`},
		"not linear, excluded": {func(c *Config) { c.Targets.List, c.Exclude.List = []string{"v", "norm"}, []string{"norm"} },
			[]string{"m.layers.0.v", "m.layers.1.v"}, ""},
		"bad expression": {func(c *Config) { c.Targets = Names{Regex: "("} }, nil, "target_modules: regular expression"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(2, 3, Names{List: []string{"q"}})
			test.change(c)
			got, err := c.Match(linear, "m", "m.norm")
			holdsError(t, "Match", err, test.err)
			var names []string
			for _, x := range got {
				names = append(names, x.Module)
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
		})
	}
	_, err := NewConfig(1, 1, Names{List: []string{"q"}}).Match(nil)
	holdsError(t, "no layers", err, `matches none of the model's 0 linear layers; 0 are excluded`)
}

// TestMatcher: whether a module is adapted, and whether it is excluded, as opposed to not selected.
func TestMatcher(t *testing.T) {
	layers := func(c *Config) { c.LayersToTransform = []int{1} }
	for name, test := range map[string]struct {
		change        func(c *Config)
		module        string
		hit, excluded bool
	}{
		"meant":               {func(*Config) {}, "m.q", true, false},
		"full name":           {func(*Config) {}, "q", true, false},
		"not meant":           {func(*Config) {}, "m.v", false, false},
		"excluded end":        {func(c *Config) { c.Exclude.List = []string{"q"} }, "m.q", false, true},
		"excluded expression": {func(c *Config) { c.Exclude.Regex = ".*q" }, "m.q", false, true},
		"not excluded":        {func(c *Config) { c.Exclude.Regex = ".*v" }, "m.q", true, false},
		"saved":               {func(c *Config) { c.ModulesToSave = []string{"v", "m"} }, "m.q", false, true},
		"all":                 {func(c *Config) { c.Targets = Names{Regex: "all-linear"} }, "m.v", true, false},
		"the output":          {func(c *Config) { c.Targets = Names{Regex: "all-linear"} }, "lm_head", false, false},
		"the older output": {func(c *Config) { c.Targets = Names{Regex: "all-linear"} }, "language_model.lm_head", false,
			false},
		"expression":       {func(c *Config) { c.Targets = Names{Regex: "m.*"} }, "m.v", true, false},
		"other expression": {func(c *Config) { c.Targets = Names{Regex: "m"} }, "m.v", false, false},
		"layer":            {layers, "m.layers.1.q", true, false},
		"other layer":      {layers, "m.layers.2.q", false, false},
		"no layer":         {layers, "m.q", false, false},
		"too large":        {layers, "m.layers.99999999999999999999.q", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(1, 1, Names{List: []string{"q"}})
			test.change(c)
			m, err := newMatcher(c)
			if err != nil {
				t.Fatal(err)
			}
			hit, excluded, err := m.match(test.module)
			if err != nil || hit != test.hit || excluded != test.excluded {
				t.Errorf("got %t, excluded %t, %v, want %t, excluded %t", hit, excluded, err, test.hit, test.excluded)
			}
		})
	}
}

// TestRanksAndAlphas: the first pattern that matches a name or its end counts; the scale is alpha/r or alpha/sqrt(r).
func TestRanksAndAlphas(t *testing.T) {
	c := NewConfig(4, 8, Names{List: []string{"q", "v", "k", "xq"}})
	c.Ranks = Overrides{{`layers\.0\.q`, 9}, {"q", 16}}
	c.Alphas = Overrides{{"v", 6}, {`.*\.0\.v`, 7}, {"q", 5}}
	names := []string{"m.layers.0.q", "m.layers.1.q", "m.layers.0.v", "m.layers.0.k", "xq"}
	want := []Target{{names[0], 9, 5, 5.0 / 9}, {names[1], 16, 5, 5.0 / 16}, {names[2], 4, 6, 6.0 / 4},
		{names[3], 4, 8, 2}, {names[4], 4, 8, 2}}
	for name, root := range map[string]func(float64) float64{
		"alpha/r": func(r float64) float64 { return r }, "alpha/sqrt(r)": math.Sqrt,
	} {
		t.Run(name, func(t *testing.T) {
			c.RSLoRA = name == "alpha/sqrt(r)"
			got, err := c.Match(names)
			if err != nil {
				t.Fatal(err)
			}
			expect := slices.Clone(want)
			for i := range expect {
				expect[i].Scale = expect[i].Alpha / root(float64(expect[i].Rank))
			}
			if diff := cmp.Diff(expect, got); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEndlessExpressions: an expression that backtracks forever is stopped, in every field.
func TestEndlessExpressions(t *testing.T) {
	const endless = `(a+)+x`
	period := func(d time.Duration) { // for the timeout checks
		regexp2.StopTimeoutClock()
		regexp2.SetTimeoutCheckPeriod(d)
	}
	period(time.Millisecond)
	t.Cleanup(func() { period(regexp2.DefaultClockPeriod) })
	module := strings.Repeat("a", 64) + ".q"
	for name, change := range map[string]func(c *Config){
		"target_modules":  func(c *Config) { c.Targets = Names{Regex: endless} },
		"exclude_modules": func(c *Config) { c.Exclude = Names{Regex: endless} },
		"modules_to_save": func(c *Config) { c.ModulesToSave = []string{endless} },
		"rank_pattern":    func(c *Config) { c.Ranks = Overrides{{endless, 2}} },
		"alpha_pattern":   func(c *Config) { c.Alphas = Overrides{{endless, 2}} },
		"layers_pattern": func(c *Config) {
			c.LayersToTransform, c.LayersPattern = []int{1}, []string{endless}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(2, 3, Names{List: []string{"q"}})
			change(c)
			m, err := newMatcher(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range [][]*regexp2.Regexp{m.saved, m.layers, m.ranks, m.alphas, {m.targets, m.exclude}} {
				for _, re := range list {
					if re != nil {
						re.MatchTimeout = 10 * time.Millisecond // not the full 2 s
					}
				}
			}
			if _, _, err = m.match(module); err == nil {
				_, err = m.target(module)
			}
			holdsError(t, name, err, "match timeout")
		})
	}
	re, err := compile("x", "a", "", "")
	if err != nil || re.MatchTimeout != 2*time.Second {
		t.Errorf("got a limit of %v, %v, want 2 s", re.MatchTimeout, err)
	}
}
