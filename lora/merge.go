package lora

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"gonum.org/v1/gonum/blas/blas64"

	"assay/checkpoints"
)

// mergeBlock is the size in bytes of the pieces that Merge works on.
const mergeBlock = 4 << 20

// mergePiece is a range of one tensor's bytes, whole rows if change is set; change is nil for tensors that stay as they are.
type mergePiece struct {
	info   checkpoints.Info
	data   []byte
	offset int64 // of data in the tensor
	change *delta
	writer *checkpoints.Writer
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
// a folder of [checkpoints.WriteDir].
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
	return checkpoints.WriteAtomic(filepath.Join(dir, checkpoints.IndexFile), func(f io.Writer) error {
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pieces := make(chan mergePiece)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for p := range pieces {
				if err := p.write(); err != nil {
					cancel(err)
				}
				if progress != nil {
					progress(int64(len(p.data)))
				}
			}
		})
	}
	err = split(ctx, shard, infos, changes, a, out, pieces)
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
func split(ctx context.Context, shard *checkpoints.Shard, infos []checkpoints.Info, changes map[string]string, a *Adapter, out *checkpoints.Writer, pieces chan<- mergePiece) error {
	for _, info := range infos {
		data, err := shard.Bytes(info.Name)
		if err != nil {
			return err
		}
		p := mergePiece{info: info, writer: out}
		step := int64(mergeBlock)
		if module, ok := changes[info.Name]; ok {
			p.change = newDelta(a, module)
			row := p.rowBytes()
			step = max(1, mergeBlock/row) * row
		}
		for p.offset = 0; p.offset < info.Length; p.offset += step {
			p.data = data[p.offset:min(p.offset+step, info.Length)]
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

func (p *mergePiece) write() error {
	data := p.data
	if p.change != nil {
		v, err := checkpoints.Float32s(p.info.Type, p.data)
		if err != nil {
			return err
		}
		in, first := int(p.info.Shape[1]), int(p.offset/p.rowBytes())
		sum := blas64.Vector{N: in, Inc: 1, Data: make([]float64, in)}
		for row := 0; row*in < len(v); row++ {
			p.change.row(first+row, sum)
			weight := v[row*in : (row+1)*in]
			for i, x := range sum.Data {
				weight[i] = float32(float64(weight[i]) + x)
			}
		}
		if data, err = checkpoints.AppendFloat32s(nil, p.info.Type, v); err != nil {
			return err
		}
	}
	return p.writer.WriteAt(p.info.Name, data, p.offset)
}

// row sets sum to row o of s B A: s * sum over k of B[o, k] A[k, :].
func (d *delta) row(o int, sum blas64.Vector) {
	clear(sum.Data)
	for k, a := range d.a {
		blas64.Axpy(d.s*float64(d.b[o*d.rank+k]), a, sum)
	}
}
