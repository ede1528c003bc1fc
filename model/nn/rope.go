package nn

import (
	"math"
	"slices"

	"assay/internal/strictjson"
)

// RopeConfig is the rotary part: rope_parameters of transformers 5, or rope_theta and rope_scaling of older files.
type RopeConfig struct {
	Type      string // default, linear, dynamic, llama3, yarn, proportional
	Theta     float64
	Factor    float64
	LowFreq   float64 // llama3
	HighFreq  float64
	Original  float64 // original_max_position_embeddings of llama3 and yarn
	BetaFast  float64 // yarn
	BetaSlow  float64
	Truncate  bool    // yarn: the ramp starts and ends at integer frequency indices
	Partial   float64 // partial_rotary_factor: for proportional, the fraction of the frequencies that rotate
	Sections  []int   // mrope_section: how many frequencies each axis gets, in order; empty: there is one axis
	Woven     bool    // mrope_interleaved: the axes alternate, frequency by frequency
	Attention float64 // factor applied to cosines and sines
	Rounded   bool    // frequencies are rounded to bfloat16, as after a cast of the full model
}

// ropeKeys are all keys that transformers accepts in rope_parameters. A rope type ignores keys that it does not read,
// with a warning, and so do we.
var ropeKeys = strictjson.Harmless{}.AnyValue(
	"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "short_factor",
	"long_factor", "low_freq_factor", "high_freq_factor", "mscale", "mscale_all_dim", "truncate", "mrope_section",
)

// read fills in the rotary part of a text_config. Only one of the two spellings may have content.
func (r *RopeConfig) read(o *strictjson.Object, c *TextConfig) {
	mrope := len(r.Sections) > 0
	r.Type, r.Attention, r.Partial = "default", 1, 1
	o.Get("rope_theta", &r.Theta)
	o.Opt("partial_rotary_factor", &r.Partial)
	p := o.Sub("rope_scaling")
	if q := o.Sub("rope_parameters"); p == nil || p.Empty() {
		p = q
	} else if q != nil && !q.Empty() {
		o.Failf("rope_scaling", "it and rope_parameters are both set: keep one")
	}
	if p == nil {
		p = o.None("rope_parameters")
	}
	p.Get("type", &r.Type) // before transformers 4.43
	p.Get("rope_type", &r.Type)
	p.Get("rope_theta", &r.Theta)
	p.Opt("partial_rotary_factor", &r.Partial)
	if mrope {
		p.Get("mrope_section", &r.Sections)
		if r.Woven {
			woven := true // transformers does not read it
			if p.Get("mrope_interleaved", &woven); !woven {
				p.Failf("mrope_interleaved", "false is not supported; a %s interleaves its axes", c.ModelType)
			}
		} else if r.Type == "mrope" {
			r.Type = "default"
		}
	}
	r.readType(p, c)
	r.check(p, c)
	p.Close(ropeKeys)
}

// readType reads the keys of the rope type.
func (r *RopeConfig) readType(p *strictjson.Object, c *TextConfig) {
	need := func(key string, into *float64) {
		if p.Get(key, into); p.Raw(key) == nil {
			p.Failf(key, "a rope of type %s needs it", r.Type)
		}
	}
	r.Original = float64(c.MaxPositions)
	switch r.Type {
	case "default":
	case "linear", "dynamic":
		need("factor", &r.Factor)
	case "proportional":
		r.Factor = 1
		p.Get("factor", &r.Factor)
	case "llama3":
		need("factor", &r.Factor)
		need("low_freq_factor", &r.LowFreq)
		need("high_freq_factor", &r.HighFreq)
		p.Get("original_max_position_embeddings", &r.Original)
		if r.LowFreq <= 0 || r.HighFreq <= r.LowFreq {
			p.Failf("high_freq_factor", "%g must exceed low_freq_factor, %g, which must exceed 0", r.HighFreq, r.LowFreq)
		}
	case "yarn":
		r.readYarn(p, c)
	default:
		p.Failf("rope_type",
			"%q is not supported; default, linear, dynamic, llama3, yarn, proportional and (Qwen-VL) mrope are", r.Type)
		r.Type = "default"
	}
}

// readYarn follows the first part of transformers' _compute_yarn_parameters.
func (r *RopeConfig) readYarn(p *strictjson.Object, c *TextConfig) {
	var scale, all float64
	r.Truncate = true
	p.Get("original_max_position_embeddings", &r.Original)
	if p.Raw("factor") == nil {
		p.Failf("factor", "a rope of type yarn needs it")
	}
	p.Opt("factor", &r.Factor)
	if !p.Has("factor") && r.Original > 0 {
		r.Factor = float64(c.MaxPositions) / r.Original
	}
	p.Opt("beta_fast", &r.BetaFast)
	p.Opt("beta_slow", &r.BetaSlow)
	if r.BetaFast == 0 {
		r.BetaFast = 32
	}
	if r.BetaSlow == 0 {
		r.BetaSlow = 1
	}
	p.Get("truncate", &r.Truncate)
	p.Opt("mscale", &scale)
	p.Opt("mscale_all_dim", &all)
	grown := func(m float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(r.Factor) + 1
	}
	if r.Attention = grown(1); scale != 0 && all != 0 {
		r.Attention = grown(scale) / grown(all)
	}
	p.Opt("attention_factor", &r.Attention)
	if r.BetaFast < 0 || r.BetaSlow < 0 {
		p.Failf("beta_fast", "%g and beta_slow, %g, must be positive", r.BetaFast, r.BetaSlow)
	}
}

func (r *RopeConfig) check(p *strictjson.Object, c *TextConfig) {
	if r.Theta <= 0 || r.Type == "yarn" && r.Theta == 1 {
		p.Failf("rope_theta", "%g is not a valid base", r.Theta)
	}
	if r.Type != "default" && r.Factor <= 0 {
		p.Failf("factor", "%g is not positive", r.Factor)
	}
	if r.Original <= 0 {
		p.Failf("original_max_position_embeddings", "%g is not positive", r.Original)
	}
	if r.Type == "dynamic" && c.HeadDim < 4 {
		p.Failf("rope_type", "dynamic rope needs a head_dim above 2")
	}
	switch turned := int(float64(c.HeadDim) * r.Partial); {
	case r.Type == "default": // transformers then rotates all of a head
	case r.Type == "proportional" && (r.Partial < 0 || r.Partial > 1), r.Type != "proportional" && turned != c.HeadDim:
		p.Failf("partial_rotary_factor", "%g of a head of %d is not supported with rope type %s", r.Partial, c.HeadDim,
			r.Type)
	}
	r.checkSections(p, c)
}

func (r *RopeConfig) checkSections(p *strictjson.Object, c *TextConfig) {
	total := 0
	for _, n := range r.Sections {
		total += n
	}
	switch n := len(r.Sections); {
	case r.Woven && (n != 3 || slices.Min(r.Sections) < 0): // their sum may exceed the number of frequencies
		p.Failf("mrope_section", "%v must be three frequency counts", r.Sections)
	case !r.Woven && n > 0 && (2*total != c.HeadDim || slices.Min(r.Sections) < 0):
		p.Failf("mrope_section", "%v must sum to head_dim/2 = %d frequencies", r.Sections, c.HeadDim/2)
	}
}

// Axes returns the number of positions per row: 3 (time, row, column) if the frequencies are split among axes, else 1.
func (r *RopeConfig) Axes() int {
	if len(r.Sections) > 0 {
		return 3
	}
	return 1
}

// axis returns the axis of frequency i: sections are assigned to the axes in turn. If Woven, single frequencies are,
// until the section of rows or columns is used up; the remaining ones belong to time.
func (r *RopeConfig) axis(i int) int {
	if r.Woven {
		if axis := i % 3; i < 3*r.Sections[axis] {
			return axis
		}
		return 0
	}
	for s, n := range r.Sections {
		if i < n {
			return s % r.Axes()
		}
		i -= n
	}
	return 0
}

// InvFreq returns the head_dim/2 rotary frequencies theta^(-2i/d), scaled by the rope type, with the float32 steps of
// transformers (modeling_rope_utils).
func (c *TextConfig) InvFreq() []float32 {
	r, f := &c.Rope, make([]float32, c.HeadDim/2)
	base := r.Theta
	if r.Type == "dynamic" { // up to max_position_embeddings; longer samples are refused
		n, dim := float64(c.MaxPositions), float64(c.HeadDim)
		base *= math.Pow(r.Factor*n/n-(r.Factor-1), dim/(dim-2))
	}
	for i := range f {
		e := float32(2*i) / float32(c.HeadDim)
		power := float32(math.Pow(base, float64(e)))
		v := 1 / power
		switch r.Type {
		case "linear":
			v /= float32(r.Factor)
		case "proportional":
			if i >= int(math.Floor(r.Partial*float64(c.HeadDim)/2)) {
				v = 0
			}
			v /= float32(r.Factor)
		case "llama3":
			v = r.llama3(v)
		case "yarn":
			keep := 1 - r.ramp(i, c.HeadDim)
			v = 1/(float32(r.Factor)*power)*(1-keep) + v*keep
		}
		if f[i] = v; r.Rounded {
			f[i] = bfloat16(v)
		}
	}
	return f
}

// llama3 slows frequencies whose wavelength exceeds the original context, with a smooth transition between two bounds.
func (r *RopeConfig) llama3(v float32) float32 {
	wave := 2 * math.Pi / float64(v)
	switch {
	case wave > r.Original/r.LowFreq:
		return v / float32(r.Factor)
	case wave < r.Original/r.HighFreq:
		return v
	}
	smooth := (r.Original/wave - r.LowFreq) / (r.HighFreq - r.LowFreq)
	return float32((1-smooth)*float64(v)/r.Factor + smooth*float64(v))
}

// ramp returns how much yarn interpolates frequency i: 0 if it makes at least BetaFast rotations within the original
// context, and 1 if it makes at most BetaSlow.
func (r *RopeConfig) ramp(i, dim int) float32 {
	at := func(turns float64) float64 {
		return float64(dim) * math.Log(r.Original/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := at(r.BetaFast), at(r.BetaSlow)
	if r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = math.Max(low, 0), math.Min(high, float64(dim-1))
	if low == high {
		high += 0.001
	}
	return min(max((float32(i)-float32(low))/float32(high-low), 0), 1)
}
