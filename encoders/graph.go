package encoders

import (
	"fmt"
	"math"

	"assay/checkpoints"
	"assay/data"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/ort"
)

// Pixels is the input of a graph that [Model.ImageGraph] starts: [pictures, 3, height, width].
const Pixels = inPixels

// ImageGraph starts a graph with the picture tower of a checkpoint, for callers to extend from the embedding
// [pictures, width].
func (m *Model) ImageGraph(name string) (g *nn.Graph, embedding string, width int64, err error) {
	g = nn.NewGraph(name, m.weights)
	embedding, width, err = m.towers.images(g)
	return g, embedding, width, err
}

// OpenGraph opens a session for a graph over the checkpoint's weights; lean: see LowMemory of [ort.Options]. Threads
// do not spin, since pictures are decoded at the same time.
func (m *Model) OpenGraph(g *nn.Graph, o Options, lean bool) (*ort.Session, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	return ort.OpenOver(m.weights, g.M, ort.Options{Device: o.Device, Threads: o.Threads, NoSpin: true, LowMemory: lean})
}

// LogitScale is the factor that CLIP multiplies cosines by: exp(logit_scale).
func (m *Model) LogitScale() (float64, error) {
	info, ok := m.weights.Info(logitScale)
	if !ok {
		return 0, fmt.Errorf("encoder %s: no tensor %s", m.path, logitScale)
	}
	raw, err := m.weights.Bytes(logitScale)
	if err != nil {
		return 0, err
	}
	v, err := checkpoints.Float32s(info.Type, raw)
	if err == nil && len(v) != 1 {
		err = fmt.Errorf("encoder %s: %s has %d numbers", m.path, logitScale, len(v))
	}
	if err != nil {
		return 0, err
	}
	return math.Exp(float64(v[0])), nil
}

// Preprocessing is a way to preprocess pictures. All of them resize the shorter side and crop the centre; they differ
// in rounding.
type Preprocessing string

// The ways to preprocess pictures.
const (
	Transformers   Preprocessing = "transformers"    // Pillow resizes; the crop's margins are rounded down
	Torchvision    Preprocessing = "torchvision"     // Pillow resizes; the crop's margins are rounded half to even
	Tensor         Preprocessing = "tensor"          // torchvision resizes a tensor of floats with antialias
	TensorNoSmooth Preprocessing = "tensor_no_alias" // the same without antialias: the default before torchvision 0.17
)

// Preprocessings lists all ways to preprocess pictures.
func Preprocessings() []Preprocessing {
	return []Preprocessing{Transformers, Torchvision, Tensor, TensorNoSmooth}
}

// Processor preprocesses pictures for a tower, and backpropagates gradients to them.
type Processor struct {
	processor
	way Preprocessing
}

// Processor returns the checkpoint's processor with another way to resize and crop.
func (m *Model) Processor(way Preprocessing) *Processor { return &Processor{*m.processor, way} }

// NewProcessor returns a processor for squares of side pixels, with the mean and std of OpenAI's CLIP.
func NewProcessor(side int, way Preprocessing) *Processor {
	return &Processor{processor{
		colours: backbone.Colours{Mean: [3]float32{0.48145466, 0.4578275, 0.40821073},
			Std: [3]float32{0.26862954, 0.26130258, 0.27577711}},
		resize: backbone.Size{Shortest: side}, height: side, width: side}, way}
}

// Shape is the shape of the pixels of n pictures.
func (p *Processor) Shape(n int) []int { return []int{n, 3, p.height, p.width} }

// filter is the resize filter.
func (p *Processor) filter() data.Filter {
	if p.way == TensorNoSmooth {
		return data.TorchBicubic
	}
	return data.Bicubic
}

// margin is the number of pixels that the crop removes at the left or top; negative if the crop is larger than the
// picture.
func (p *Processor) margin(have, want int) int {
	if p.way == Transformers {
		return int(math.Floor(float64(have-want) / 2))
	}
	return int(math.RoundToEven(float64(have-want) / 2))
}

// Pixels returns the normalised picture [3, height, width].
func (p *Processor) Pixels(x *data.Picture) []float32 {
	w, h := p.resized(x.Width, x.Height)
	left, top := p.margin(w, p.width), p.margin(h, p.height)
	if p.way == Transformers || p.way == Torchvision {
		return x.Resize(w, h, data.Bicubic).Crop(left, top, p.width, p.height).Normalize(p.colours.Mean, p.colours.Std)
	}
	all := x.ResizeFloat(w, h, p.filter())
	out := make([]float32, 3*p.height*p.width)
	for c := range 3 {
		for y := range p.height {
			for i := range p.width {
				v := all[3*((top+y)*w+left+i)+c] / 255
				out[(c*p.height+y)*p.width+i] = (v - p.colours.Mean[c]) / p.colours.Std[c]
			}
		}
	}
	return out
}

// Adjoint backpropagates a gradient with respect to Pixels to the picture of width x height pixels.
func (p *Processor) Adjoint(width, height int, gradient []float32) *data.Gradient {
	w, h := p.resized(width, height)
	cut, whole := data.NewGradient(p.width, p.height), data.NewGradient(w, h)
	cut.Normalize(gradient, p.colours.Std)
	whole.Paste(cut, p.margin(w, p.width), p.margin(h, p.height))
	return whole.Resize(width, height, p.filter())
}
