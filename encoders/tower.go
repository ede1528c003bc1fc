package encoders

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/internal/workers"
	"assay/ort"
)

// tower is a session that gives an embedding for every entry of its first dimension.
type tower struct {
	*ort.Session
	input, output string
	fixed         int                      // entries of a run, if the graph allows no other number; 0: any
	params        map[string]*tensor.Dense // inputs of every run
}

// run returns the embeddings of n entries. An output of rank 3 is cut to its first token, the class token.
func (t *tower) run(ctx context.Context, n int, in map[string]*tensor.Dense) ([][]float32, error) {
	maps.Copy(in, t.params)
	out, err := t.Run(ctx, in)
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
	return whole(m.look(ctx, len(pictures), func(i int) (*data.Picture, error) { return pictures[i], nil }))
}

// Files is Images of picture files; folder is where relative paths start. problems[i] says why picture i has no embedding.
// However many they are, few are in memory at a time.
func (m *Model) Files(ctx context.Context, folder string, images []data.Image) (embeddings [][]float32, problems []error, err error) {
	return m.look(ctx, len(images), func(i int) (*data.Picture, error) { return images[i].Open(folder, data.Limits{}) })
}

// whole makes one error of all.
func whole(out [][]float32, problems []error, err error) ([][]float32, error) {
	return out, errors.Join(err, errors.Join(problems...))
}

// look loads n pictures and embeds them, batch by batch: while one is on the runtime the next is decoded and resized, on all
// cores. load may be called at once for several i; it returns nil for a picture that is not wanted. problems[i] says why
// picture i could not be loaded; err ends everything.
func (m *Model) look(ctx context.Context, n int, load func(i int) (*data.Picture, error)) (out [][]float32, problems []error, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, problems = make([][]float32, n), make([]error, n)
	batches := make(chan []prepared)
	go func() {
		defer close(batches)
		m.prepare(ctx, n, load, problems, batches)
	}()
	for b := range batches {
		got, err := m.images.run(ctx, len(b), map[string]*tensor.Dense{m.images.input: m.join(b)})
		if err != nil {
			return nil, nil, err
		}
		for k, p := range b {
			out[p.index] = got[k]
		}
	}
	return out, problems, context.Cause(ctx)
}

// prepared is a picture that is ready for the tower.
type prepared struct {
	index  int
	pixels []float32 // [3, height, width]
}

// prepare loads pictures and sends them in full batches, the last one perhaps smaller.
func (m *Model) prepare(ctx context.Context, n int, load func(i int) (*data.Picture, error), problems []error, batches chan<- []prepared) {
	size := m.batch
	if m.images.fixed > 0 {
		size = m.images.fixed
	}
	var ready []prepared
	send := func(k int) bool {
		select {
		case batches <- ready[:k:k]:
			ready = ready[k:]
			return true
		case <-ctx.Done():
			return false
		}
	}
	for from := 0; from < n && ctx.Err() == nil; from += size {
		next := make([][]float32, min(size, n-from))
		workers.Do(len(next), func(k int) {
			x, err := load(from + k)
			if problems[from+k] = err; err == nil && x != nil {
				next[k] = m.processor.pixels(x)
			}
		})
		for k, pixels := range next {
			if pixels != nil {
				ready = append(ready, prepared{from + k, pixels})
			}
		}
		if len(ready) >= size && !send(size) {
			return
		}
	}
	for len(ready) > 0 && ctx.Err() == nil {
		send(min(size, len(ready)))
	}
}

// join makes the tower's input [pictures, 3, height, width], filled up to the number that the graph wants.
func (m *Model) join(b []prepared) *tensor.Dense {
	p := m.processor
	n := max(len(b), m.images.fixed)
	all := make([]float32, 0, n*3*p.height*p.width)
	for i := range n {
		all = append(all, b[min(i, len(b)-1)].pixels...)
	}
	return tensor.New(tensor.WithShape(n, 3, p.height, p.width), tensor.WithBacking(all))
}
