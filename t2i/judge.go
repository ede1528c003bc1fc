// Package t2i provides rewards of text-to-image models as judges of edits: CLIP score, PickScore, HPSv2, the LAION
// aesthetic predictor and ImageReward. They see only the output and the text.
//
// [Import] creates a folder from a released reward: reward.yaml, and the weights that had to be converted. [Open]
// opens it. An output is resized, cropped and normalised as in the reward's own code ([encoders.Processor]); a
// network builds one graph of picture and text, whose output is the score. The pixel gradient is computed by the same
// graph and propagated back through normalisation, crop and resizing.
package t2i

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/encoders"
	"assay/internal/calibration"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/workers"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// Options select where and how a judge runs.
type Options struct {
	Device  string // cpu (default), cuda:N, auto
	Threads int    // of the CPU; 0: chosen by the runtime
	Raw     bool   // without its calibration
}

// The output of a network's graph: [pictures].
const outScore = "score"

// network is the model of a reward.
type network interface {
	// graph builds pixels [pictures, 3, height, width] and the inputs of feeds -> score [pictures].
	graph() (*nn.Graph, error)
	// open opens a graph; lean: without packed copies of the weights.
	open(g *nn.Graph, lean bool) (*ort.Session, error)
	// feeds returns the graph's inputs for one text, in addition to the pixels. Their first dimension is 1.
	feeds(ctx context.Context, text string) (map[string]*tensor.Dense, error)
	// fingerprint identifies weights and tokenizer.
	fingerprint() (string, error)
	Close() error
}

// Judge is an opened reward. It is safe for concurrent use.
type Judge struct {
	config      Config
	net         network
	processor   *encoders.Processor
	fingerprint string
	calibration *calibration.Map // nil: none
	together    int              // pictures per run

	scores, gradients session
}

// session is a session of a network's graph, opened on first use: each holds all weights of the picture's side.
type session struct {
	once   sync.Once
	opened *ort.Session
	err    error
}

func (s *session) open(of func() (*ort.Session, error)) (*ort.Session, error) {
	s.once.Do(func() { s.opened, s.err = of() })
	return s.opened, s.err
}

var _ edit.Differentiable = (*Judge)(nil)

// Open opens a folder created by [Import].
func Open(dir string, o Options) (*Judge, error) {
	file := filepath.Join(dir, ConfigFile)
	c, err := readConfig(file)
	if err != nil {
		return nil, err
	}
	j, err := open(c, o)
	if err == nil {
		if now, e := j.net.fingerprint(); e != nil || now != c.Digest {
			err = errors.Join(e, exit.Usage(fmt.Errorf("the weights or the tokenizer have changed since the judge was "+
				"imported (digest %.12s, not %.12s): import it again", now, c.Digest)), j.Close())
		} else if !o.Raw {
			if err = j.adoptCalibration(); err != nil {
				err = errors.Join(err, j.Close())
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return j, nil
}

// open opens the model of a reward.
func open(c *Config, o Options) (*Judge, error) {
	j := &Judge{config: *c, together: 1}
	device, err := ort.Resolve(o.Device)
	if err != nil {
		return nil, err
	}
	if o.Device = device; device != "cpu" { // there the rounding of a product depends on the number of rows anyway
		j.together = 16
	}
	if c.Kind == imageReward {
		j.net, j.processor, err = openBLIP(c, o)
	} else {
		j.net, j.processor, err = openCLIP(c, o)
	}
	if err != nil {
		return nil, err
	}
	digest, err := j.net.fingerprint()
	if err == nil {
		_, err = j.net.graph() // checks that the weights match the configuration
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	j.fingerprint = store.KeyOf("t2i-1", c.Kind, string(c.Preprocessing), fmt.Sprint(c.Scale), digest).String()
	return j, nil
}

// session returns the session for scores only, or the one for scores and gradients.
func (j *Judge) session(gradients bool) (*ort.Session, error) {
	if !gradients {
		return j.scores.open(func() (*ort.Session, error) {
			g, err := j.net.graph()
			if err != nil {
				return nil, err
			}
			return j.net.open(g, false)
		})
	}
	return j.gradients.open(func() (*ort.Session, error) {
		g, err := j.net.graph()
		if err == nil {
			_, err = g.Backward(outScore, encoders.Pixels)
		}
		if err != nil {
			return nil, err
		}
		return j.net.open(g, true)
	})
}

// Info implements edit.Judge.
func (j *Judge) Info() edit.Info {
	info := edit.Info{Name: kinds[j.config.Kind].card.Name, Range: edit.NoRange()}
	if j.calibration != nil {
		info.Range = edit.Range{0, 1}
	}
	return info
}

// Fingerprint implements edit.Judge.
func (j *Judge) Fingerprint() (string, error) { return j.fingerprint, nil }

// Close implements edit.Judge.
func (j *Judge) Close() error {
	var errs []error
	for _, s := range []*session{&j.scores, &j.gradients} {
		if s.opened != nil {
			errs = append(errs, s.opened.Close())
		}
	}
	return errors.Join(append(errs, j.net.Close())...)
}

// inputs are a preprocessed picture, and its text.
type inputs struct {
	pixels        []float32
	width, height int // of the original picture
	text          string
}

// Size implements [edit.Inputs].
func (in *inputs) Size(edit.Inputs) int { return len(in.pixels) }

// Prepare implements edit.Judge.
func (j *Judge) Prepare(e *edit.Edit) (edit.Inputs, error) {
	p, err := edit.Decode(e.Output)
	if err != nil {
		return nil, fmt.Errorf("edit: %w", err)
	}
	return &inputs{j.processor.Pixels(p), p.Width, p.Height, e.Instruction}, nil
}

// Score implements edit.Judge.
func (j *Judge) Score(ctx context.Context, all []edit.Inputs) ([]edit.Score, []error, error) {
	s, err := j.session(false)
	if err != nil {
		return nil, nil, err
	}
	return edit.Each(ctx, all, func(ctx context.Context, part []edit.Inputs) ([]edit.Score, error) {
		values, _, err := j.runAll(ctx, s, part)
		out := make([]edit.Score, len(values))
		for i, v := range values {
			out[i], _ = j.score(v)
		}
		return out, err
	})
}

// runAll runs a session on some inputs: scores and, with the session for gradients, pixel gradients.
func (j *Judge) runAll(
	ctx context.Context, s *ort.Session, all []edit.Inputs,
) (values []float64, gradients [][]float32, err error) {
	for len(all) > 0 {
		n := min(j.together, len(all))
		part := make([]*inputs, n)
		for i := range part {
			part[i] = all[i].(*inputs)
		}
		v, g, err := j.run(ctx, s, part)
		if err != nil {
			return nil, nil, err
		}
		values, gradients, all = append(values, v...), append(gradients, g...), all[n:]
	}
	return values, gradients, nil
}

// run runs a session once, or picture by picture if the texts have inputs of several shapes.
func (j *Judge) run(ctx context.Context, s *ort.Session, part []*inputs) ([]float64, [][]float32, error) {
	feeds := make([]map[string]*tensor.Dense, len(part))
	for i, in := range part {
		var err error
		if feeds[i], err = j.net.feeds(ctx, in.text); err != nil {
			return nil, nil, err
		}
		for name, t := range feeds[i] {
			if !t.Shape().Eq(feeds[0][name].Shape()) {
				return j.oneByOne(ctx, s, part)
			}
		}
	}
	in := map[string]*tensor.Dense{}
	for name := range feeds[0] {
		in[name] = joined(len(part), func(i int) *tensor.Dense { return feeds[i][name] })
	}
	in[encoders.Pixels] = joined(len(part), func(i int) *tensor.Dense {
		return tensor.New(tensor.WithShape(j.processor.Shape(1)...), tensor.WithBacking(part[i].pixels))
	})
	out, err := s.Run(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	values := make([]float64, len(part))
	for i, v := range out[outScore].Float32s() {
		values[i] = float64(v)
		if math.IsNaN(values[i]) || math.IsInf(values[i], 0) {
			return nil, nil, fmt.Errorf("the score is %g: the weights are damaged", values[i])
		}
	}
	back := out["grad."+encoders.Pixels]
	if back == nil {
		return values, nil, nil
	}
	all := back.Float32s()
	each, gradients := len(all)/len(part), make([][]float32, len(part))
	for i := range gradients {
		gradients[i] = all[i*each : (i+1)*each]
	}
	return values, gradients, nil
}

func (j *Judge) oneByOne(ctx context.Context, s *ort.Session, part []*inputs) ([]float64, [][]float32, error) {
	var values []float64
	var gradients [][]float32
	for i := range part {
		v, g, err := j.run(ctx, s, part[i:i+1])
		if err != nil {
			return nil, nil, err
		}
		values, gradients = append(values, v...), append(gradients, g...)
	}
	return values, gradients, nil
}

// joined concatenates n tensors of the same shape, whose first dimension is 1.
func joined(n int, of func(i int) *tensor.Dense) *tensor.Dense {
	first := of(0)
	if n == 1 {
		return first
	}
	shape := append([]int{n}, first.Shape()[1:]...)
	if _, ids := first.Data().([]int64); ids {
		var all []int64
		for i := range n {
			all = append(all, of(i).Data().([]int64)...)
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(all))
	}
	var all []float32
	for i := range n {
		all = append(all, of(i).Float32s()...)
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(all))
}

// Gradients implements edit.Differentiable.
func (j *Judge) Gradients(ctx context.Context, edits []*edit.Edit) ([]*edit.Gradient, error) {
	s, err := j.session(true)
	if err != nil {
		return nil, err
	}
	all := make([]edit.Inputs, len(edits))
	err = workers.Each(len(edits), 4, func(i int) (err error) {
		all[i], err = j.Prepare(edits[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	values, gradients, err := j.runAll(ctx, s, all)
	if err != nil {
		return nil, err
	}
	out := make([]*edit.Gradient, len(edits))
	return out, workers.Each(len(edits), 4, func(i int) error {
		in := all[i].(*inputs)
		g := j.processor.Adjoint(in.width, in.height, gradients[i])
		score, slope := j.score(values[i])
		for k, v := range g.Values {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("the gradient is %g: the weights are damaged", v)
			}
			g.Values[k] = v * float32(slope)
		}
		out[i] = &edit.Gradient{Output: g, Score: score}
		return nil
	})
}

// addScore declares the output of a network's graph.
func addScore(g *nn.Graph, score string) {
	g.Output(outScore, score, onnx.Float, onnx.Dims("pictures"))
}
