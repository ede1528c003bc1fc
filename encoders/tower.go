package encoders

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/ort"
)

// tower is a session that gives an embedding for every entry of its first dimension.
type tower struct {
	*ort.Session
	input, output string
	fixed         int // entries of a run, if the graph allows no other number; 0: any
}

// run returns the embeddings of n entries. An output of rank 3 is cut to its first token, the class token.
func (t *tower) run(ctx context.Context, n int, in map[string]*tensor.Dense) ([][]float32, error) {
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
	out, problems, err := m.look(ctx, len(pictures), func(i int) (*data.Picture, error) { return pictures[i], nil })
	return out, errors.Join(err, errors.Join(problems...))
}

// look loads n pictures and embeds them, batch by batch: while one is on the runtime the next is decoded and resized, on all
// cores. problems[i] says why picture i could not be loaded; err ends everything.
func (m *Model) look(ctx context.Context, n int, load func(i int) (*data.Picture, error)) (out [][]float32, problems []error, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, problems = make([][]float32, n), make([]error, n)
	batches := make(chan batch)
	go func() {
		defer close(batches)
		for from := 0; from < n; from += m.pictures() {
			select {
			case batches <- m.prepare(ctx, from, min(from+m.pictures(), n), load, problems):
			case <-ctx.Done():
				return
			}
		}
	}()
	for b := range batches {
		if len(b.index) == 0 {
			continue
		}
		got, err := m.images.run(ctx, len(b.index), map[string]*tensor.Dense{m.images.input: b.pixels})
		if err != nil {
			return nil, nil, err
		}
		for k, i := range b.index {
			out[i] = got[k]
		}
	}
	return out, problems, context.Cause(ctx)
}

// pictures is how many go into a run.
func (m *Model) pictures() int {
	if m.images.fixed > 0 {
		return m.images.fixed
	}
	return m.batch
}

// batch is prepared pictures: pixels [len(index) or the tower's fixed number, 3, height, width] of the pictures of that index.
type batch struct {
	index  []int
	pixels *tensor.Dense
}

// prepare loads the pictures from to to-1 and makes their pixels, leaving out those that cannot be loaded.
func (m *Model) prepare(ctx context.Context, from, to int, load func(i int) (*data.Picture, error), problems []error) batch {
	p := m.processor
	each := 3 * p.height * p.width
	pixels := make([]float32, max(to-from, m.images.fixed)*each)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), to-from) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := from + int(next.Add(1)) - 1
				if i >= to {
					return
				}
				x, err := load(i)
				if err != nil {
					problems[i] = err
					continue
				}
				copy(pixels[(i-from)*each:], p.pixels(x))
			}
		})
	}
	wg.Wait()
	var b batch
	for i := from; i < to; i++ {
		if problems[i] == nil {
			copy(pixels[len(b.index)*each:], pixels[(i-from)*each:(i-from+1)*each])
			b.index = append(b.index, i)
		}
	}
	n := max(len(b.index), m.images.fixed)
	if n > 0 {
		b.pixels = tensor.New(tensor.WithShape(n, 3, p.height, p.width), tensor.WithBacking(pixels[:n*each]))
	}
	return b
}
