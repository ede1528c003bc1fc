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

// presets are the names that profiles had in their first form, whose CLIP-D was of embeddings of length 1.
var presets = map[string]struct{ profile, rules string }{
	"paper":    {heuristics.ProfileAssay, heuristics.ProfileAssay},
	"released": {heuristics.ProfileAssay, heuristics.ProfileReleased},
}

// adopt gives the configuration the defaults of a profile, or of a preset.
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

// profileName is what the label table says of the rows: the profile, its version, and what the configuration changed.
func (c *Config) profileName() string {
	return c.profile.Describe(c.Encoders.ClipD, c.Rules, c.Chains)
}

// similaritiesOf stands in the table between the profile of a row and the one that measured its similarities.
const similaritiesOf = " with similarities of "

// measuredWith is the profile by which a table's similarities were measured, out of what it says of a row.
func measuredWith(text string) string {
	if _, other, ok := strings.Cut(text, similaritiesOf); ok {
		return other
	}
	return text
}

// unsaid stands for the profile of similarities that came without one.
const unsaid = "?"

// Mixes lists what does not belong together in the configuration: a threshold means nothing with other definitions and
// encoders than it was measured with. Encoders are compared by their architecture, from config.json; weights of the
// same architecture from another source cannot be told apart.
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
		say("profiles are mixed: the thresholds are those of %s, whose CLIP-D is %s, and CLIP-D is measured %s", p.ID(),
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
			say("profiles may be mixed: the thresholds of %s were measured with %s, and what %s is cannot be told: %v", p.ID(),
				e.want, e.key, err)
		case !have.Same(e.want):
			say("profiles are mixed: the thresholds of %s were measured with %s, and %s is %s", p.ID(), e.want, e.key, have)
		}
	}
	return out
}

// architecture reads an encoder's shape out of the config.json of its checkpoint, or of the one beside an .onnx file.
// Defaults as in transformers' CLIPConfig and Dinov2Config.
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

// givenMixes warns of similarities that came with the data and were measured under another profile. given counts rows
// by source and profile.
func (c *Config) givenMixes(given map[givenKey]int) []string {
	var out []string
	for _, key := range slices.SortedFunc(maps.Keys(given), func(a, b givenKey) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.by, b.by))
	}) {
		rows := fmt.Sprintf("%d rows of source %q bring similarities", given[key], c.Sources[key.source].Name)
		p, err := heuristics.ParseProfile(key.by)
		switch {
		case key.by == unsaid:
			out = append(out, rows+", and nobody says how they were measured: say it with sources[].profile, or take "+
				"encoders.given: replace")
		case err != nil:
			out = append(out, fmt.Sprintf("%s of another profile: %v", rows, err))
		case p.ClipD != c.Encoders.ClipD || p.Name != c.profile.Name:
			out = append(out, fmt.Sprintf("profiles are mixed: %s of %s (CLIP-D %s), and the rules are those of %s (CLIP-D %s)",
				rows, p.ID(), p.ClipD, c.profileName(), c.Encoders.ClipD))
		}
	}
	return out
}
