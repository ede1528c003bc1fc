package metrics

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/onnx"
)

// Export defines which metric is exported, and from what.
type Export struct {
	Kind    string // lpips-vgg, lpips-alex or aesthetic
	Weights string // of the trunk (torchvision's vgg16 or alexnet), or of the aesthetic head
	Lin     string // lpips: its own linear layers
	Encoder string // aesthetic: the CLIP checkpoint under the head
	Out     string // output folder: model.onnx and metric.yaml
}

// Kinds lists the kinds of [Export].
func Kinds() []string { return []string{"aesthetic", "lpips-alex", "lpips-vgg"} }

// opset of the exported graphs.
const opset = 17

// Write creates the folder with the graph and its metric.yaml.
func (e *Export) Write() error {
	var b *onnx.Builder
	var text string
	var err error
	switch e.Kind {
	case "lpips-vgg", "lpips-alex":
		b, err = lpipsGraph(e.Kind, e.Weights, e.Lin)
		text = fmt.Sprintf(lpipsFile, strings.TrimPrefix(e.Kind, "lpips-"))
	case "aesthetic":
		b, err = aestheticGraph(e.Weights)
		text = fmt.Sprintf(aestheticFile, e.encoder())
	default:
		err = fmt.Errorf("unknown kind %q: choose one of %s", e.Kind, strings.Join(Kinds(), ", "))
	}
	if err != nil {
		return err
	}
	raw, err := b.M.Encode()
	if err == nil {
		err = onnx.Check(b.M)
	}
	if err == nil {
		err = os.MkdirAll(e.Out, 0o777)
	}
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"model.onnx": raw, "metric.yaml": []byte(text)} {
		if err := atomicfile.WriteBytes(filepath.Join(e.Out, name), content); err != nil {
			return err
		}
	}
	return nil
}

// encoder is the path of the encoder as written in the metric's file.
func (e *Export) encoder() string {
	path, err := atomicfile.From(e.Out, e.Encoder)
	if err != nil {
		return e.Encoder
	}
	return path
}

const lpipsFile = `# LPIPS (Zhang et al. 2018), version 0.1, %s: the distance of the edit from the source. Pictures
# stay as they are, and must have one size.
format: 1
name: lpips
about: perceptual distance of two pictures, 0 for equal ones
model: model.onnx
inputs: {first: source, second: edit}   # FED-Bench: lpips_src_trg; with second: target lpips_src_gt
prepare: {mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}   # -1..1
output: {name: distance, range: [0, 1000]}
`

const aestheticFile = `# The aesthetic predictor: layers on CLIP's embedding of length 1.
format: 1
name: aesthetic
about: how pleasing the edit looks, about 0 to 10
model: model.onnx
encoder: %s
of: [edit]
unit: true
output: {name: score, range: [-10, 20]}
`

// conv is a convolution of a trunk, followed by a ReLU; LPIPS compares the outputs marked tap.
type conv struct {
	index, stride, pad int64
	pool               int64 // size of the max pooling with stride 2 before it; 0: none
	tap                bool
}

// The trunks' features as torchvision numbers them.
var trunks = map[string][]conv{
	"lpips-alex": {{0, 4, 2, 0, true}, {3, 1, 2, 3, true}, {6, 1, 1, 3, true}, {8, 1, 1, 0, true}, {10, 1, 1, 0, true}},
	"lpips-vgg": {{0, 1, 1, 0, false}, {2, 1, 1, 0, true}, {5, 1, 1, 2, false}, {7, 1, 1, 0, true},
		{10, 1, 1, 2, false}, {12, 1, 1, 0, false}, {14, 1, 1, 0, true}, {17, 1, 1, 2, false}, {19, 1, 1, 0, false},
		{21, 1, 1, 0, true}, {24, 1, 1, 2, false}, {26, 1, 1, 0, false}, {28, 1, 1, 0, true}},
}

// lpipsGraph is LPIPS 0.1 of two pictures [1, 3, H, W] on -1..1. The features of both are normalised over channels.
// Squared differences are weighted by lin, averaged over positions and summed over layers.
func lpipsGraph(kind, trunk, lin string) (*onnx.Builder, error) {
	if trunk == "" || lin == "" {
		return nil, errors.New("lpips needs the trunk's weights (torchvision's) and its own linear layers")
	}
	w, err := checkpoints.OpenTensors(trunk)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	l, err := checkpoints.OpenTensors(lin)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	b := onnx.NewBuilder(kind, opset)
	shape := []onnx.Dim{onnx.Fixed(1), onnx.Fixed(3), onnx.Symbol("height"), onnx.Symbol("width")}
	var taps [2][]string
	var channels []int64
	for side, name := range []string{"first", "second"} {
		x := b.Input(name, onnx.Float, shape)
		x = b.Op("Sub", x, b.Floats([]int64{1, 3, 1, 1}, -.030, -.088, -.188))
		x = b.Op("Div", x, b.Floats([]int64{1, 3, 1, 1}, .458, .448, .450))
		if taps[side], channels, err = features(b, newWeights(w), trunks[kind], x); err != nil {
			return nil, within(trunk, err)
		}
	}
	sum := ""
	for k := range taps[0] {
		d := b.Op("Sub", unitChannels(b, taps[0][k]), unitChannels(b, taps[1][k]))
		weight, _, err := newWeights(l).take(b, fmt.Sprintf("lin%d.model.1.weight", k), 1, channels[k], 1, 1)
		if err != nil {
			return nil, within(lin, err)
		}
		d = b.OpA("Conv", onnx.Attrs{"kernel_shape": []int64{1, 1}}, b.Op("Mul", d, d), weight)
		d = b.OpA("ReduceMean", onnx.Attrs{"axes": []int64{1, 2, 3}, "keepdims": 0}, d)
		if sum == "" {
			sum = d
		} else {
			sum = b.Op("Add", sum, d)
		}
	}
	b.Output("distance", sum, onnx.Float, []onnx.Dim{onnx.Fixed(1)})
	return b, nil
}

// features builds the trunk and returns the compared outputs with their channel counts.
func features(b *onnx.Builder, w *weights, trunk []conv, x string) (taps []string, channels []int64, err error) {
	in := int64(3)
	for _, c := range trunk {
		if c.pool > 0 {
			x = b.OpA("MaxPool", onnx.Attrs{"kernel_shape": []int64{c.pool, c.pool}, "strides": []int64{2, 2}}, x)
		}
		weight, shape, err := w.take(b, fmt.Sprintf("features.%d.weight", c.index), -1, in, -1, -1)
		if err != nil {
			return nil, nil, err
		}
		bias, _, err := w.take(b, fmt.Sprintf("features.%d.bias", c.index), shape[0])
		if err != nil {
			return nil, nil, err
		}
		in = shape[0]
		x = b.Op("Relu", b.OpA("Conv", onnx.Attrs{"kernel_shape": shape[2:], "strides": []int64{c.stride, c.stride},
			"pads": slices.Repeat([]int64{c.pad}, 4)}, x, weight, bias))
		if c.tap {
			taps, channels = append(taps, x), append(channels, in)
		}
	}
	return taps, channels, nil
}

// unitChannels is x / (sqrt(sum_c x^2) + 1e-10).
func unitChannels(b *onnx.Builder, x string) string {
	norm := b.OpA("ReduceL2", onnx.Attrs{"axes": []int64{1}, "keepdims": 1}, x)
	return b.Op("Div", x, b.Op("Add", norm, b.Scalar(onnx.Float, 1e-10)))
}

// aestheticGraph is a [LinearHead] on an embedding.
func aestheticGraph(path string) (b *onnx.Builder, err error) {
	if path == "" {
		return nil, errors.New("aesthetic needs the head's weights")
	}
	f, err := checkpoints.OpenTensors(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer func() { err = within(path, err) }()
	layers := linearLayers(f)
	if len(layers) == 0 {
		return nil, errors.New("no tensor weight or layers.N.weight")
	}
	first, _ := f.Info(layers[0] + "weight")
	if len(first.Shape) != 2 {
		return nil, fmt.Errorf("%sweight is %v, want [out, in]", layers[0], first.Shape)
	}
	b = onnx.NewBuilder("aesthetic", opset)
	w, width := newWeights(f), first.Shape[1]
	x, err := w.linear(b, b.Input("embedding", onnx.Float, []onnx.Dim{onnx.Fixed(1), onnx.Fixed(width)}), width)
	if err != nil {
		return nil, err
	}
	for _, name := range f.Names() { // except batch counters and the like, which are not floats
		if info, _ := f.Info(name); info.Type.IsFloat() && !w.used[name] {
			return nil, fmt.Errorf("unexpected tensor %s", name)
		}
	}
	b.Output("score", x, onnx.Float, []onnx.Dim{onnx.Fixed(1), onnx.Fixed(1)})
	return b, nil
}

// within prefixes an error with the file it is about.
func within(path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
