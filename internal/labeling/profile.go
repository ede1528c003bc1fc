package labeling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/heuristics"
)

// presets are the old names of profiles, whose CLIP-D was computed from embeddings of length 1.
var presets = map[string]struct{ profile, rules string }{
	"paper":    {heuristics.ProfileAssay, heuristics.ProfileAssay},
	"released": {heuristics.ProfileAssay, heuristics.ProfileReleased},
}

// adopt sets the defaults of a profile or preset, and reports whether there is one with that name.
func (c *Config) adopt(profile, preset string) bool {
	p, err := heuristics.ParseProfile(profile)
	r := p
	if old, ok := presets[preset]; ok {
		p, r, err = heuristics.Profiles[old.profile], heuristics.Profiles[old.rules], nil
	}
	if err != nil {
		return false
	}
	c.profile, c.Profile, c.Preset = p, profile, preset
	c.Encoders.ClipD, c.Rules, c.Chains = p.ClipD, r.Rules, r.Chains
	return true
}

// profileName is the column profile of the label table: the profile, its version, and what the configuration changed.
func (c *Config) profileName() string {
	return c.profile.Describe(c.Encoders.ClipD, c.Rules, c.Chains)
}

// similaritiesOf separates, in the table, the profile of a row from the profile that its similarities were measured
// with.
const similaritiesOf = " with similarities of "

// measuredWith returns the profile that the similarities of a row were measured with, from the table's column
// profile.
func measuredWith(text string) string {
	if _, other, ok := strings.Cut(text, similaritiesOf); ok {
		return other
	}
	return text
}

// unsaid represents the profile of similarities that came without one.
const unsaid = "?"

// Mixes lists the settings of the configuration that do not belong together: a threshold is meaningless with a
// definition or encoders other than the ones it was measured with. Encoders are compared by their architecture, from
// config.json; different weights of the same architecture cannot be distinguished.
func (c *Config) Mixes() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if c.Preset != "" {
		say("preset is the old name of profile: %s is profile %s", c.Preset, c.profileName())
	}
	p := c.profile
	if old, ok := presets[c.Preset]; ok {
		p = heuristics.Profiles[old.rules]
	}
	if c.Encoders.ClipD != p.ClipD {
		say("profiles are mixed: the thresholds are from %s, whose CLIP-D is %s, but CLIP-D is measured %s", p.ID(),
			p.ClipD, c.Encoders.ClipD)
	}
	for _, e := range []struct {
		key, path string
		want      heuristics.Architecture
	}{{"encoders.clip", c.Encoders.Clip, p.Clip}, {"encoders.dino", c.Encoders.Dino, p.Dino}} {
		if e.path == "" || e.want.Family == "" {
			continue
		}
		have, err := architecture(e.path)
		switch {
		case err != nil:
			say("profiles may be mixed: the thresholds of %s were measured with %s, and the architecture of %s is unknown: %v",
				p.ID(), e.want, e.key, err)
		case !have.Same(e.want):
			say("profiles are mixed: the thresholds of %s were measured with %s, but %s is %s", p.ID(), e.want, e.key, have)
		}
	}
	return out
}

// architecture reads an encoder's shape from the config.json of its checkpoint, or from the one next to an .onnx
// file. Defaults are as in transformers' CLIPConfig and Dinov2Config.
func architecture(path string) (a heuristics.Architecture, err error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		path = filepath.Dir(path)
	}
	raw, err := os.ReadFile(filepath.Join(path, "config.json"))
	if err != nil {
		return a, err
	}
	type shape struct {
		ModelType  string `json:"model_type"`
		Hidden     int    `json:"hidden_size"`
		Layers     int    `json:"num_hidden_layers"`
		Patch      int    `json:"patch_size"`
		Projection int    `json:"projection_dim"`
	}
	top := struct {
		shape
		Vision json.RawMessage `json:"vision_config"`
	}{shape: shape{Hidden: 768, Layers: 12, Patch: 14}}
	if err := json.Unmarshal(raw, &top); err != nil {
		return a, fmt.Errorf("%s: %w", filepath.Join(path, "config.json"), err)
	}
	s := top.shape
	if strings.HasPrefix(s.ModelType, "clip") {
		s = shape{ModelType: s.ModelType, Hidden: 768, Layers: 12, Patch: 32, Projection: 512}
		vision := json.RawMessage(raw)
		if len(top.Vision) > 0 {
			vision = top.Vision
		}
		if err := json.Unmarshal(vision, &s); err != nil {
			return a, fmt.Errorf("%s: vision_config: %w", filepath.Join(path, "config.json"), err)
		}
		if top.Projection > 0 {
			s.Projection = top.Projection
		}
		s.ModelType = "clip"
	}
	return heuristics.Architecture{Family: s.ModelType, Hidden: s.Hidden, Layers: s.Layers, Patch: s.Patch,
		Projection: s.Projection}, nil
}

// givenMixes returns warnings about similarities that came with the data and were measured with another profile.
// given counts rows by source and profile.
func (c *Config) givenMixes(given map[givenKey]int) []string {
	var out []string
	for _, key := range slices.SortedFunc(maps.Keys(given), func(a, b givenKey) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.by, b.by))
	}) {
		rows := fmt.Sprintf("%d rows of source %q come with similarities", given[key], c.Sources[key.source].Name)
		p, err := heuristics.ParseProfile(key.by)
		switch {
		case key.by == unsaid:
			out = append(out, rows+", but their profile is unknown: set sources[].profile, or use "+
				"encoders.given: replace")
		case err != nil:
			out = append(out, fmt.Sprintf("%s of another profile: %v", rows, err))
		case p.ClipD != c.Encoders.ClipD || p.Name != c.profile.Name:
			out = append(out, fmt.Sprintf("profiles are mixed: %s of %s (CLIP-D %s), but the rules are from %s (CLIP-D %s)",
				rows, p.ID(), p.ClipD, c.profileName(), c.Encoders.ClipD))
		}
	}
	return out
}
