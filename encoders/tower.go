package encoders

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/internal/workers"
	"assay/ort"
)

// tower is a session that returns an embedding for every entry of its first dimension.
type tower struct {
	*ort.Session
	input, output string
	fixed         int                      // batch size that the graph requires; 0: any
	params        map[string]*tensor.Dense // inputs of every run
	weights       *checkpoints.Weights     // nil for .onnx files
}

// run returns the embeddings of n entries. An output of rank 3 is cut to its first token, the class token.
func (t *tower) run(ctx context.Context, n int, in map[string]*tensor.Dense) ([][]float32, error) {
	maps.Copy(in, t.params)
	out, err := t.Run(ctx, in)
	if err == nil && t.weights != nil {
		err = t.weights.Overwritten()
	}
	if err != nil {
		return nil, err
	}
	y := out[t.output]
	s := y.Shape()
	if len(s) < 2 || s[0] < n {
		return nil, fmt.Errorf("output %s has shape %v for %d entries", t.output, s, n)
	}
	all, width := y.Data().([]float32), s[len(s)-1]
	list := make([][]float32, n)
	for i := range list {
		from := i * (len(all) / s[0])
		list[i] = slices.Clone(all[from : from+width]) // the run's memory is freed as a whole
		for _, v := range list[i] {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return nil, fmt.Errorf("the embedding holds %g: the weights are damaged", v)
			}
		}
	}
	return list, nil
}

// Images implements Encoder.
func (m *Model) Images(ctx context.Context, pictures []*data.Picture) ([][]float32, error) {
	return whole(m.embed(ctx, len(pictures), func(i int) (*data.Picture, error) { return pictures[i], nil }))
}

// Files is Images for picture files; relative paths start at folder. problems[i] is the reason why picture i has no
// embedding. Only a few pictures are in memory at a time.
func (m *Model) Files(ctx context.Context, folder string, images []data.Image) (embeddings [][]float32,
	problems []error, err error) {
	return m.embed(ctx, len(images), func(i int) (*data.Picture, error) { return images[i].Open(folder, data.Limits{}) })
}

// whole joins all errors into one.
func whole(out [][]float32, problems []error, err error) ([][]float32, error) {
	return out, errors.Join(err, errors.Join(problems...))
}

// embed loads n pictures and embeds them batch by batch: while the runtime computes one batch, the next is decoded
// and resized on all cores. load may be called concurrently; it returns nil for a picture to skip. problems[i] is the
// reason why picture i could not be loaded; err aborts everything.
func (m *Model) embed(ctx context.Context, n int, load func(i int) (*data.Picture, error)) (out [][]float32,
	problems []error, err error) {
	all, problems, err := embedTogether(ctx, []*Model{m}, n, func(i int) (*data.Picture, []int, error) {
		p, err := load(i)
		return p, []int{0}, err
	})
	if err != nil {
		return nil, problems, err
	}
	return all[0], problems, nil
}

// embedTogether is embed for several models over the same pictures: load also returns the models that need the
// picture. It returns the embeddings by model and picture.
func embedTogether(ctx context.Context, models []*Model, n int, load func(i int) (*data.Picture, []int, error)) (
	out [][][]float32, problems []error, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, problems = make([][][]float32, len(models)), make([]error, n)
	for k := range out {
		out[k] = make([][]float32, n)
	}
	batches := make(chan batch)
	go func() {
		defer close(batches)
		prepare(ctx, models, n, load, problems, batches)
	}()
	for b := range batches {
		m := models[b.model]
		got, err := m.images.run(ctx, len(b.ready), map[string]*tensor.Dense{m.images.input: m.join(b.ready)})
		if err != nil {
			return nil, nil, err
		}
		for k, p := range b.ready {
			out[b.model][p.index] = got[k]
		}
	}
	return out, problems, context.Cause(ctx)
}

// batch is the pictures of one run of a model.
type batch struct {
	model int
	ready []prepared
}

// prepared is a preprocessed picture.
type prepared struct {
	index  int
	pixels []float32 // [3, height, width]
}

// size is the number of pictures in a full batch.
func (m *Model) size() int {
	if m.images.fixed > 0 {
		return m.images.fixed
	}
	return m.batch
}

// prepare loads pictures and sends them in full batches; the last ones may be smaller.
func prepare(ctx context.Context, models []*Model, n int, load func(i int) (*data.Picture, []int, error),
	problems []error, batches chan<- batch) {
	ready := make([][]prepared, len(models))
	send := func(k, count int) bool {
		select {
		case batches <- batch{k, ready[k][:count:count]}:
			ready[k] = ready[k][count:]
			return true
		case <-ctx.Done():
			return false
		}
	}
	atOnce := models[0].size()
	for from := 0; from < n && ctx.Err() == nil; from += atOnce {
		next := make([][][]float32, min(atOnce, n-from)) // by picture and model
		workers.Do(len(next), func(i int) {
			x, who, err := load(from + i)
			if problems[from+i] = err; err != nil || x == nil {
				return
			}
			next[i] = make([][]float32, len(models))
			for _, k := range who {
				next[i][k] = models[k].processor.pixels(x)
			}
		})
		for i, of := range next {
			for k, pixels := range of {
				if pixels != nil {
					ready[k] = append(ready[k], prepared{from + i, pixels})
				}
			}
		}
		for k, m := range models {
			for len(ready[k]) >= m.size() {
				if !send(k, m.size()) {
					return
				}
			}
		}
	}
	for k, m := range models {
		for len(ready[k]) > 0 && ctx.Err() == nil {
			send(k, min(m.size(), len(ready[k])))
		}
	}
}

// join builds the tower's input [pictures, 3, height, width], padded to the batch size that the graph requires.
func (m *Model) join(b []prepared) *tensor.Dense {
	p := m.processor
	n := max(len(b), m.images.fixed)
	all := make([]float32, 0, n*3*p.height*p.width)
	for i := range n {
		all = append(all, b[min(i, len(b)-1)].pixels...)
	}
	return tensor.New(tensor.WithShape(n, 3, p.height, p.width), tensor.WithBacking(all))
}
