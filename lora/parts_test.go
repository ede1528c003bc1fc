package lora

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPartsKeepToThemselves restricts selections to parts on the modules of both families, in three spellings: the
// result is the unrestricted selection within these parts.
func TestPartsKeepToThemselves(t *testing.T) {
	p := readPEFT(t)
	spell := map[string]func(string) string{
		"transformers 5": func(s string) string { return s },
		"before 4.52":    oldName,
	}
	tried := 0
	for _, family := range []string{"llavanext", "qwen2_5_vl"} {
		var linear []string
		for name, kind := range p.kinds(t, family) {
			if kind == "linear" {
				linear = append(linear, name)
			}
		}
		slices.Sort(linear)
		for _, targets := range []Names{{List: []string{"q_proj", "v_proj", "qkv"}}, {Regex: allLinear},
			{List: []string{"linear_2", "fc1", "0", "up_proj"}}} {
			for _, exclude := range []Names{{}, {List: []string{"v_proj", "layers.0.mlp.up_proj"}},
				{Regex: `(?i).*\.0\..*PROJ`}} {
				for spelling, rename := range spell {
					for _, parts := range [][]string{{Language}, {Vision}, {Projector}, {Language, Projector}, {Vision, Projector},
						{Language, Vision}, Parts()} {
						c := NewConfig(4, 8, targets)
						c.Exclude = exclude
						want := selected(t, c, linear, rename, func(module string) bool { return slices.Contains(parts, Part(module)) })
						c.Exclude = exclude.Within(parts)
						got := selected(t, c, linear, rename, func(string) bool { return true })
						if d := cmp.Diff(want, got); d != "" {
							t.Fatalf("%s, %s, %v without %v, %v: %q (-want +got):\n%s", family, spelling, targets, exclude, parts,
								c.Exclude.Regex, d)
						}
						if len(want) > 0 {
							tried++
						}
						if back, rest := c.Exclude.Outside(); exclude.empty() && (!slices.Equal(back, parts) || !rest.empty()) {
							t.Errorf("%q leaves %v and %v, want %v", c.Exclude.Regex, back, rest, parts)
						}
					}
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("got %d selections that have modules, want at least 100", tried)
	}
}

// oldName returns a module's path before transformers 4.52.
func oldName(name string) string {
	for _, r := range renamed[:5] {
		if len(name) > len(r.to) && name[:len(r.to)] == r.to {
			return r.from + name[len(r.to):]
		}
	}
	return name
}

// selected returns the modules, by their current path, that a configuration selects with another spelling.
func selected(t *testing.T, c *Config, linear []string, rename func(string) string, keep func(string) bool) []string {
	t.Helper()
	today := map[string]string{}
	for _, name := range linear {
		today[rename(name)] = name
	}
	targets, err := c.Match(slices.Sorted(maps.Keys(today)))
	if err != nil {
		targets = nil // none is left
	}
	out := []string{}
	for _, x := range targets {
		if name := today[x.Module]; keep(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestPart: the part that a path belongs to.
func TestPart(t *testing.T) {
	for path, want := range map[string]string{
		"model.multi_modal_projector.linear_1.weight": Projector,
		"model.visual.merger.mlp.0.weight":            Projector,
		"model.image_newline":                         Projector,
		"model.visual.blocks.0.attn.qkv":              Vision,
		"model.visual.merger_list.0":                  Vision,
		"model.vision_tower.encoder.layers.0":         Vision,
		"model.language_model.layers.0.mlp.up_proj":   Language,
		"lm_head.weight":                              Language,
		"model.visual":                                Language, // no module of the tower
	} {
		t.Run(path, func(t *testing.T) {
			if got := Part(path); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestAnd: an expression is added to existing exclusions; names are quoted, and flags come first.
func TestAnd(t *testing.T) {
	for name, test := range map[string]struct {
		exclude Names
		want    string
	}{
		"nothing":    {Names{}, "x.*"},
		"names":      {Names{List: []string{"a.b", "c"}}, `(.*\.)?(a\.b|c)|x.*`},
		"expression": {Names{Regex: "a|b"}, "(a|b)|x.*"},
		"flags":      {Names{Regex: "(?is)a|b"}, "(?is)(a|b)|x.*"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(Names{Regex: test.want}, test.exclude.And("x.*")); diff != "" {
				t.Errorf("exclusions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOutside: the parts that an exclusion of whole parts allows; any other exclusion allows all.
func TestOutside(t *testing.T) {
	for name, test := range map[string]struct {
		exclude Names
		parts   []string
		rest    Names
	}{
		"nothing":      {Names{}, Parts(), Names{}},
		"all parts":    {Names{}.Within(Parts()), Parts(), Names{}},
		"language":     {Names{}.Within([]string{Language}), []string{Language}, Names{}},
		"vision":       {Names{}.Within([]string{Vision}), []string{Vision}, Names{}},
		"the last two": {Names{}.Within([]string{Projector, Vision}), []string{Vision, Projector}, Names{}},
		"no part":      {Names{}.Within(nil), Parts(), Names{}.Within(nil)},
		"names":        {Names{List: []string{"a"}}, Parts(), Names{List: []string{"a"}}},
		"names and language": {Names{List: []string{"a"}}.Within([]string{Language}), Parts(),
			Names{List: []string{"a"}}.Within([]string{Language})},
	} {
		t.Run(name, func(t *testing.T) {
			parts, rest := test.exclude.Outside()
			if !slices.Equal(parts, test.parts) || cmp.Diff(test.rest, rest) != "" {
				t.Errorf("got %q and %v, want %q and %v", parts, rest, test.parts, test.rest)
			}
		})
	}
}

// TestCover: the smallest set of modules with the wanted parameters and no others.
func TestCover(t *testing.T) {
	all := []string{"a.x.w", "a.x.b", "a.y.w", "b.x.w", "b.z", "c.d.e.w", "root"}
	for name, test := range map[string]struct {
		wanted, want []string
	}{
		"none":                  {nil, nil},
		"a whole module":        {[]string{"a.x.w", "a.x.b"}, []string{"a.x"}},
		"half a module":         {[]string{"a.x.w"}, nil},
		"the module around":     {[]string{"a.x.w", "a.x.b", "a.y.w"}, []string{"a"}},
		"the outermost":         {[]string{"c.d.e.w"}, []string{"c"}},
		"one within":            {[]string{"b.x.w"}, []string{"b.x"}},
		"beside all modules":    {[]string{"root", "b.x.w"}, []string{"b.x"}},
		"a module's own":        {[]string{"b.z"}, nil},
		"several, out of order": {[]string{"c.d.e.w", "b.x.w", "b.z", "a.y.w"}, []string{"a.y", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Cover(all, func(path string) bool { return slices.Contains(test.wanted, path) })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
		})
	}
}
