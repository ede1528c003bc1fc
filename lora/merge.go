package lora

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas64"

	"assay/checkpoints"
	"assay/internal/atomicfile"
)

// mergeBlock is the size in bytes of the pieces that Merge works on.
const mergeBlock = 4 << 20

// mergePiece is a range of one tensor's bytes, whole rows if change is set; change is nil for tensors that stay as they are.
type mergePiece struct {
	info           checkpoints.Info
	offset, length int64 // bytes in the tensor
	change         *delta
	in             *os.File // read, not mapped: mapped pages would look like used memory, up to the whole file
	out            *checkpoints.Writer
}

// rowBytes is the length of a row of a matrix.
func (p *mergePiece) rowBytes() int64 { return p.info.Shape[1] * int64(p.info.Type.Size()) }

// delta is s B A of one weight, ready for use in rows.
type delta struct {
	a    []blas64.Vector // rows of A in float64
	b    []float32       // [out, r]
	rank int
	s    float64
}

// Merge writes the backbone's weights into the folder dir, with s B A added to those that the adapter changes: in float64,
// rounded once to the stored type. Names, types, files, metadata and index stay as they are. It runs on all cores, holds a
// few blocks of 4 MiB at a time, and calls progress (may be nil) with the bytes done since the last call, from any
// goroutine. When ctx ends or something fails, the file at work is removed; a caller that wants all files or none merges into
// a folder of [atomicfile.WriteDir].
func Merge(ctx context.Context, w *checkpoints.Weights, a *Adapter, dir string, progress func(bytes int64)) error {
	if err := a.Check(Modules(w)); err != nil {
		return err
	}
	changes, err := changedKeys(w, a)
	if err != nil {
		return err
	}
	for _, shard := range w.Shards() {
		if err := mergeShard(ctx, shard, changes, a, filepath.Join(dir, shard.Name), progress); err != nil {
			return err
		}
	}
	if w.Shards()[0].Name == checkpoints.SingleFile {
		return nil
	}
	index, err := os.ReadFile(filepath.Join(w.Dir(), checkpoints.IndexFile))
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, checkpoints.IndexFile), func(f io.Writer) error {
		_, err := f.Write(index)
		return err
	})
}

// changedKeys maps the checkpoint's keys of changed weights to module paths.
func changedKeys(w *checkpoints.Weights, a *Adapter) (map[string]string, error) {
	byName := index(Modules(w))
	changes := map[string]string{}
	for _, t := range a.Targets {
		key := byName[t.Module].Key
		if key == "" {
			return nil, fmt.Errorf("%s has no weight of its own in %s: it shares that of the embedding, which the adapter does not change; the two cannot be merged", t.Module, w.Dir())
		}
		if info, _ := w.Info(key); !info.Type.IsFloat() {
			return nil, fmt.Errorf("%s: tensor %q is of type %v; only floating-point weights can be merged", w.Dir(), key, info.Type)
		}
		changes[key] = t.Module
	}
	return changes, nil
}

func mergeShard(ctx context.Context, shard *checkpoints.Shard, changes map[string]string, a *Adapter, path string, progress func(int64)) error {
	var infos []checkpoints.Info
	for _, name := range shard.Names() {
		info, _ := shard.Info(name)
		infos = append(infos, info)
	}
	out, err := checkpoints.NewWriter(path, infos, shard.Metadata())
	if err != nil {
		return err
	}
	in, err := os.Open(shard.Path())
	if err != nil {
		out.Abort()
		return err
	}
	defer in.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pieces := make(chan mergePiece)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			var buffer []byte
			var err error
			for p := range pieces {
				if buffer, err = p.write(buffer); err != nil {
					cancel(err)
				}
				if progress != nil {
					progress(p.length)
				}
			}
		})
	}
	err = split(ctx, mergePiece{in: in, out: out}, infos, changes, a, pieces)
	close(pieces)
	workers.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		out.Abort()
		return err
	}
	return out.Close()
}

// split sends a shard's tensors in pieces of whole rows.
func split(ctx context.Context, p mergePiece, infos []checkpoints.Info, changes map[string]string, a *Adapter, pieces chan<- mergePiece) error {
	for _, p.info = range infos {
		step := int64(mergeBlock)
		p.change = nil
		if module, ok := changes[p.info.Name]; ok {
			p.change = newDelta(a, module)
			row := p.rowBytes()
			step = max(1, mergeBlock/row) * row
		}
		for p.offset = 0; p.offset < p.info.Length; p.offset += step {
			p.length = min(step, p.info.Length-p.offset)
			select {
			case pieces <- p:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func newDelta(a *Adapter, module string) *delta {
	matA, matB, s, _ := a.Delta(module)
	d := &delta{b: matB.Data().([]float32), rank: matA.Shape()[0], s: s}
	in, values := matA.Shape()[1], matA.Data().([]float32)
	wide := make([]float64, len(values))
	for i, v := range values {
		wide[i] = float64(v)
	}
	for k := range d.rank {
		d.a = append(d.a, blas64.Vector{N: in, Inc: 1, Data: wide[k*in : (k+1)*in]})
	}
	return d
}

// write reads, changes and writes the piece. buffer is reused and returned.
func (p *mergePiece) write(buffer []byte) ([]byte, error) {
	data := slices.Grow(buffer[:0], int(p.length))[:p.length]
	if _, err := p.in.ReadAt(data, p.info.Offset+p.offset); err != nil {
		return data, fmt.Errorf("%s: tensor %q: %w", p.in.Name(), p.info.Name, err)
	}
	if p.change != nil {
		v, err := checkpoints.Float32s(p.info.Type, data)
		if err != nil {
			return data, err
		}
		p.change.add(v, int(p.info.Shape[1]), int(p.offset/p.rowBytes()))
		if data, err = checkpoints.AppendFloat32s(data[:0], p.info.Type, v); err != nil {
			return data, err
		}
	}
	return data, p.out.WriteAt(p.info.Name, data, p.offset)
}

// add adds s B A to rows of a weight [rows, in], the first of which is row first of the whole.
func (d *delta) add(weight []float32, in, first int) {
	sum := blas64.Vector{N: in, Inc: 1, Data: make([]float64, in)}
	for row := 0; row*in < len(weight); row++ {
		d.row(first+row, sum)
		w := weight[row*in : (row+1)*in]
		for i, x := range sum.Data {
			w[i] = float32(float64(w[i]) + x)
		}
	}
}

// row sets sum to row o of s B A: s * sum over k of B[o, k] A[k, :].
func (d *delta) row(o int, sum blas64.Vector) {
	clear(sum.Data)
	for k, a := range d.a {
		blas64.Axpy(d.s*float64(d.b[o*d.rank+k]), a, sum)
	}
}
