package fresh

import (
	"errors"
	"fmt"
)

// Sizes are the dimensions of a LLaVA-NeXT model: a Llama language model, a CLIP vision tower, a projector.
type Sizes struct {
	Hidden       int     `yaml:"hidden"`       // width of the language model
	Layers       int     `yaml:"layers"`       // its layers
	Heads        int     `yaml:"heads"`        // its attention heads
	KVHeads      int     `yaml:"kv_heads"`     // its key and value heads, a divisor of heads
	Intermediate int     `yaml:"intermediate"` // width inside its MLPs
	Context      int     `yaml:"context"`      // positions, tokens
	RopeTheta    float64 `yaml:"rope_theta"`   // base of the rotary embedding's wavelengths

	VisionHidden       int `yaml:"vision_hidden"`       // width of the vision tower, a multiple of 4
	VisionLayers       int `yaml:"vision_layers"`       // its layers; the last one is never used
	VisionHeads        int `yaml:"vision_heads"`        // its attention heads
	VisionIntermediate int `yaml:"vision_intermediate"` // width inside its MLPs

	ImageSize int     `yaml:"image_size"` // height and width of a tile, pixels
	Patch     int     `yaml:"patch"`      // height and width of a patch, pixels
	Grid      [][]int `yaml:"grid"`       // arrangements of tiles a picture may be cut into, [rows, columns]

	Vocab int `yaml:"vocab"` // tokens at most, special ones included; a short text may give fewer
}

// Defaults is a model of some 3 million parameters.
func Defaults() Sizes {
	return Sizes{
		Hidden: 192, Layers: 4, Heads: 6, KVHeads: 2, Intermediate: 512, Context: 8192, RopeTheta: 10000,
		VisionHidden: 128, VisionLayers: 4, VisionHeads: 4, VisionIntermediate: 512,
		ImageSize: 84, Patch: 14, Grid: [][]int{{1, 2}, {2, 1}, {2, 2}, {1, 3}, {3, 1}},
		Vocab: 1024,
	}
}

// Problem is one wrong size.
type Problem struct {
	Key  string // its YAML key
	Text string
}

func (p Problem) Error() string { return p.Key + ": " + p.Text }

// Check reports every size that does not fit, joined; each is a Problem.
func (s Sizes) Check() error {
	var problems []error
	bad := func(ok bool, key, format string, args ...any) {
		if !ok {
			problems = append(problems, Problem{key, fmt.Sprintf(format, args...)})
		}
	}
	positive := true
	for _, v := range []struct {
		key   string
		value int
	}{
		{"hidden", s.Hidden}, {"layers", s.Layers}, {"heads", s.Heads}, {"kv_heads", s.KVHeads}, {"intermediate", s.Intermediate}, {"context", s.Context},
		{"vision_hidden", s.VisionHidden}, {"vision_layers", s.VisionLayers}, {"vision_heads", s.VisionHeads},
		{"vision_intermediate", s.VisionIntermediate}, {"image_size", s.ImageSize}, {"patch", s.Patch},
	} {
		bad(v.value >= 1 && v.value <= 1<<20, v.key, "%d is not between 1 and %d", v.value, 1<<20)
		positive = positive && v.value >= 1
	}
	if positive {
		bad(s.Hidden%(2*s.Heads) == 0, "hidden", "%d is not a multiple of twice the %d heads", s.Hidden, s.Heads)
		bad(s.Heads%s.KVHeads == 0, "kv_heads", "%d does not divide the %d heads", s.KVHeads, s.Heads)
		bad(s.VisionHidden%s.VisionHeads == 0, "vision_hidden", "%d is not a multiple of the %d vision_heads", s.VisionHidden, s.VisionHeads)
		bad(s.ImageSize%s.Patch == 0, "image_size", "%d is not a multiple of the patch, %d", s.ImageSize, s.Patch)
	}
	bad(s.VisionHidden%4 == 0, "vision_hidden", "%d is not a multiple of 4", s.VisionHidden)
	bad(s.VisionLayers != 1, "vision_layers", "1 leaves nothing: the features are those before the last layer")
	bad(s.RopeTheta > 1, "rope_theta", "%v is not above 1", s.RopeTheta)
	bad(s.Vocab >= 256+len(specialTokens) && s.Vocab <= 1<<24, "vocab", "%d is not between %d (the bytes and the special tokens) and %d", s.Vocab, 256+len(specialTokens), 1<<24)
	bad(len(s.Grid) > 0, "grid", "empty: name at least one arrangement of tiles")
	for i, g := range s.Grid {
		ok := len(g) == 2 && min(g[0], g[1]) >= 1 && max(g[0], g[1]) <= 64
		bad(ok, "grid", "entry %d, %v, is not [rows, columns] between 1 and 64", i, g)
	}
	return errors.Join(problems...)
}

// TileTokens is the number of image tokens of one tile.
func (s Sizes) TileTokens() int { return (s.ImageSize / s.Patch) * (s.ImageSize / s.Patch) }
