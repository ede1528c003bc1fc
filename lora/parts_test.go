package lora

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPartsKeepToThemselves restricts selections to parts on the modules of both families, in three spellings: what is
// left is what the unrestricted selection has in these parts.
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

// oldName is a module's path before transformers 4.52.
func oldName(name string) string {
	for _, r := range renamed[:5] {
		if len(name) > len(r.to) && name[:len(r.to)] == r.to {
			return r.from + name[len(r.to):]
		}
	}
	return name
}

// selected gives the modules, by their path today, that a configuration selects where they are spelled otherwise.
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
