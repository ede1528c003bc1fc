package fresh

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Sizes are the dimensions of a model: a Llama language model with a CLIP vision tower and a projector (llava_next), a
// Qwen2 language model with a vision tower and a merger (qwen2_vl; qwen2_5_vl, with window attention), or a Qwen3
// language model with features of several vision layers added to its layers (qwen3_vl).
type Sizes struct {
	Family string `yaml:"family"` // llava_next, qwen2_vl, qwen2_5_vl or qwen3_vl

	Hidden       int     `yaml:"hidden"`       // width of the language model
	Layers       int     `yaml:"layers"`       // its layers
	Heads        int     `yaml:"heads"`        // its attention heads
	KVHeads      int     `yaml:"kv_heads"`     // its key and value heads, a divisor of heads
	Intermediate int     `yaml:"intermediate"` // width inside its MLPs
	Context      int     `yaml:"context"`      // positions, tokens
	RopeTheta    float64 `yaml:"rope_theta"`   // base of the rotary embedding's wavelengths

	VisionHidden       int `yaml:"vision_hidden"`       // width of the vision tower: a multiple of 4 (Qwen: of 4 heads)
	VisionLayers       int `yaml:"vision_layers"`       // its layers; the last one of llava_next is never used
	VisionHeads        int `yaml:"vision_heads"`        // its attention heads
	VisionIntermediate int `yaml:"vision_intermediate"` // width inside its MLPs

	Patch int `yaml:"patch"` // height and width of a patch, pixels

	// of llava_next
	ImageSize int     `yaml:"image_size"` // height and width of a tile, pixels
	Grid      [][]int `yaml:"grid"`       // arrangements of tiles a picture may be cut into, [rows, columns]

	// of the Qwens
	Merge        int   `yaml:"merge"`         // patches along the edge of a token
	MRopeSection []int `yaml:"mrope_section"` // rotary frequencies for time, row, column; empty: as published
	MinPixels    int   `yaml:"min_pixels"`    // smaller pictures are enlarged to it
	MaxPixels    int   `yaml:"max_pixels"`    // larger pictures are reduced to it

	// of qwen2_5_vl
	Window        int   `yaml:"window"`         // edge of an attention window, pixels
	FullAttention []int `yaml:"full_attention"` // vision layers that see the whole picture, from 0

	// of qwen3_vl
	HeadDim      int   `yaml:"head_dim"`      // width of the language model's heads
	PositionSide int   `yaml:"position_side"` // edge of the vision tower's position table
	Deepstack    []int `yaml:"deepstack"`     // vision layers whose features go into the language model, from 0

	Vocab int `yaml:"vocab"` // tokens at most, special ones included; a short text may yield fewer
}

// Defaults returns the sizes of a model of that family with some 3 million parameters.
func Defaults(name string) (Sizes, error) {
	f, err := familyOf(name)
	if err != nil {
		return Sizes{}, err
	}
	s := Sizes{
		Family:             name,
		Hidden:             192,
		Layers:             4,
		Heads:              6,
		KVHeads:            2,
		Intermediate:       512,
		Context:            8192,
		RopeTheta:          10000,
		VisionHidden:       128,
		VisionLayers:       4,
		VisionHeads:        4,
		VisionIntermediate: 512,
		Patch:              14,
		Vocab:              1024,
	}
	f.defaults(&s)
	return s, nil
}

// SizeError is one wrong size.
type SizeError struct {
	Key  string // its YAML key
	Text string
}

func (p SizeError) Error() string { return p.Key + ": " + p.Text }

// Check returns all invalid sizes, joined; each is a SizeError.
func (s Sizes) Check() error {
	f, err := familyOf(s.Family)
	if err != nil {
		return errors.Join(err)
	}
	var problems []error
	bad := func(ok bool, key, format string, args ...any) {
		if !ok {
			problems = append(problems, SizeError{key, fmt.Sprintf(format, args...)})
		}
	}
	positive := true
	for _, v := range []struct {
		key   string
		value int
	}{
		{"hidden", s.Hidden},
		{"layers", s.Layers},
		{"heads", s.Heads},
		{"kv_heads", s.KVHeads},
		{"intermediate", s.Intermediate},
		{"context", s.Context},
		{"vision_hidden", s.VisionHidden},
		{"vision_layers", s.VisionLayers},
		{"vision_heads", s.VisionHeads},
		{"vision_intermediate", s.VisionIntermediate},
		{"patch", s.Patch},
	} {
		bad(v.value >= 1 && v.value <= 1<<20, v.key, "%d is not between 1 and %d", v.value, 1<<20)
		positive = positive && v.value >= 1
	}
	if positive {
		bad(s.HeadDim != 0 || s.Hidden%(2*s.Heads) == 0, "hidden", "%d is not a multiple of twice the %d heads", s.Hidden,
			s.Heads)
		bad(s.Heads%s.KVHeads == 0, "kv_heads", "%d does not divide the %d heads", s.KVHeads, s.Heads)
		bad(s.VisionHidden%s.VisionHeads == 0, "vision_hidden", "%d is not a multiple of the %d vision_heads",
			s.VisionHidden, s.VisionHeads)
	}
	bad(s.RopeTheta > 1, "rope_theta", "%v is not above 1", s.RopeTheta)
	least := 256 + len(f.special) + len(f.added)
	bad(s.Vocab >= least && s.Vocab <= 1<<24, "vocab", "%d is not between %d (the bytes and the special tokens) and %d",
		s.Vocab, least, 1<<24)
	s.checkFamily(bad)
	f.check(s, bad)
	return errors.Join(problems...)
}

// checkFamily rejects sizes that only other families have.
func (s Sizes) checkFamily(bad func(ok bool, key, format string, args ...any)) {
	const qwens = Qwen25VL + ", " + Qwen2VL + ", " + Qwen3VL
	for _, v := range []struct {
		key, families string
		given         bool
	}{
		{"image_size", LlavaNext, s.ImageSize != 0},
		{"grid", LlavaNext, s.Grid != nil},
		{"merge", qwens, s.Merge != 0},
		{"mrope_section", qwens, s.MRopeSection != nil},
		{"min_pixels", qwens, s.MinPixels != 0},
		{"max_pixels", qwens, s.MaxPixels != 0},
		{"window", Qwen25VL, s.Window != 0},
		{"full_attention", Qwen25VL, s.FullAttention != nil},
		{"head_dim", Qwen3VL, s.HeadDim != 0},
		{"position_side", Qwen3VL, s.PositionSide != 0},
		{"deepstack", Qwen3VL, s.Deepstack != nil},
	} {
		has := slices.Contains(strings.Split(v.families, ", "), s.Family)
		bad(!v.given || has, v.key, "only %s has it; the family is %s", v.families, s.Family)
	}
}
