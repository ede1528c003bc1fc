package heuristics

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Profile groups the settings that belong together when edits are labelled: the definitions of the similarities, the
// encoders that the thresholds were measured with, the rules and the chains. A threshold means nothing without the
// rest. Name and version are written to every label table; changing a profile requires a new version.
type Profile struct {
	Name    string
	Version int
	About   string
	ClipD   Direction
	// Clip and Dino are the encoders that the fixed thresholds are for; empty: the thresholds are percentiles of the
	// data's own similarities, so any encoders will do.
	Clip, Dino Architecture
	Rules      Rules
	Chains     Chains
}

// ID is name/version.
func (p Profile) ID() string { return fmt.Sprintf("%s/%d", p.Name, p.Version) }

// Architecture identifies encoders by their shape. Weights of the same shape from another source are not told apart.
type Architecture struct {
	Name       string // of the published checkpoint
	Family     string // model_type of config.json
	Hidden     int    // of the vision tower
	Layers     int
	Patch      int // pixels
	Projection int // length of embeddings, if it is not Hidden
}

// Same reports whether two encoders have the same shape, whatever their names.
func (a Architecture) Same(b Architecture) bool {
	a.Name, b.Name = "", ""
	return a == b
}

func (a Architecture) String() string {
	if a.Name != "" {
		return a.Name
	}
	text := fmt.Sprintf("%s of %d layers, width %d, patches of %d", a.Family, a.Layers, a.Hidden, a.Patch)
	if a.Projection > 0 {
		text += fmt.Sprintf(", embeddings of %d", a.Projection)
	}
	return text
}

// Names of the profiles.
const (
	ProfileReleased = "adiee-released" // as in ADIEE's code
	ProfilePaper    = "adiee-paper"    // as in the ADIEE paper
	ProfileAssay    = "assay"          // the paper's rules with CLIP-D of unit-length embeddings
)

// Profiles are all profiles by name. They differ in:
//
//   - thresholds of CLIP-I and DINO-I: 0.83 and 0.4, the 5th percentiles of ADIEE's data with its encoders
//     (released); the 5th percentiles of the sources in the data (paper, assay).
//   - CLIP-D: of raw embeddings (released, paper), or of unit-length ones (assay).
//   - joined instructions: shuffled (released); in order (paper, assay).
//   - pictures of other chains: one for each (j1, j2), label 0 (released); none (paper, assay).
//
// The paper says "negative" for a failing CLIP-D and "below 0.2" for a partial success; the code compares with <=.
// Here every threshold is inclusive: the source's own CLIP-D is 0, which is a failure. The code's test for an
// undefined CLIP-D compares NaN with ==, so its rule never fires; here it does, in every profile.
var Profiles = map[string]Profile{
	ProfileReleased: {
		Name:    ProfileReleased,
		Version: 1,
		About:   "ADIEE's released code: fixed thresholds, measured with clip-vit-base-patch16 and dinov2-base",
		ClipD:   DirectionRaw,
		Clip:    Architecture{"clip-vit-base-patch16", "clip", 768, 12, 16, 512},
		Dino:    Architecture{"dinov2-base", "dinov2", 768, 12, 14, 0},
		Rules:   releasedRules(),
		Chains:  Chains{Joint: ". ", OverEditedLabel: 0.5, Shuffle: true, Foreign: 1},
	},
	ProfilePaper: {
		Name:    ProfilePaper,
		Version: 1,
		About:   "the ADIEE paper: thresholds are percentiles of the sources",
		ClipD:   DirectionRaw,
		Rules:   paperRules(),
		Chains:  Chains{Joint: ". ", OverEditedLabel: 0.5},
	},
	ProfileAssay: {
		Name:    ProfileAssay,
		Version: 1,
		About:   "the paper's rules with CLIP-D of unit-length embeddings",
		ClipD:   DirectionUnit,
		Rules:   paperRules(),
		Chains:  Chains{Joint: ". ", OverEditedLabel: 0.5},
	},
}

// ProfileNames lists the profiles, sorted.
func ProfileNames() []string { return slices.Sorted(maps.Keys(Profiles)) }

// ParseProfile reads name or name/version, and ignores anything that Describe adds.
func ParseProfile(text string) (Profile, error) {
	id, _, _ := strings.Cut(text, " ")
	name, version, versioned := strings.Cut(id, "/")
	p, ok := Profiles[name]
	if !ok {
		return Profile{}, fmt.Errorf("no profile %q, only %v", name, ProfileNames())
	}
	if versioned && version != fmt.Sprint(p.Version) {
		return Profile{}, fmt.Errorf("profile %s has version %d here, not %q: its definitions may differ", name, p.Version,
			version)
	}
	return p, nil
}

// Describe returns the profile's ID and the settings that differ from it: "adiee-paper/1 + rules.weak, chains.joint".
func (p Profile) Describe(d Direction, r Rules, c Chains) string {
	var changed []string
	if d != p.ClipD {
		changed = append(changed, "clip_d")
	}
	for _, part := range []struct {
		key       string
		own, have reflect.Value
	}{{"rules", reflect.ValueOf(p.Rules), reflect.ValueOf(r)}, {"chains", reflect.ValueOf(p.Chains), reflect.ValueOf(c)}} {
		for i := range part.own.NumField() {
			key := part.own.Type().Field(i).Tag.Get("yaml")
			if !reflect.DeepEqual(part.own.Field(i).Interface(), part.have.Field(i).Interface()) {
				changed = append(changed, part.key+"."+key)
			}
		}
	}
	if changed == nil {
		return p.ID()
	}
	return p.ID() + " + " + strings.Join(changed, ", ")
}
