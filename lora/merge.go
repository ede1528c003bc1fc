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
	"assay/internal/workers"
)

// mergeBlock is the size in bytes of the pieces that Merge works on.
const mergeBlock = 4 << 20

// delta is s B A of one weight, ready for use in rows.
type delta struct {
	a    []blas64.Vector // rows of A in float64
	b    []float32       // [out, r]
	rank int
	s    float64
}

// Merge writes the backbone's weights into the folder dir, with s B A added to those that the adapter changes: in
// float64, rounded once to the stored type. Names, types, files, metadata and index stay as they are. It runs on all
// cores, holds a few blocks of 4 MiB at a time, and calls progress (may be nil) with the bytes done since the last
// call, from any goroutine. When ctx ends or something fails, the file at work is removed; a caller that wants all
// files or none merges into a folder of [atomicfile.WriteDir].
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
			return nil, fmt.Errorf("%s has no weight of its own in %s: it shares that of the embedding, which the adapter "+
				"does not change; the two cannot be merged",
				t.Module, w.Dir())
		}
		if info, _ := w.Info(key); !info.Type.IsFloat() {
			return nil, fmt.Errorf("%s: tensor %q is of type %v; only floating-point weights can be merged", w.Dir(), key,
				info.Type)
		}
		changes[key] = t.Module
	}
	return changes, nil
}

func mergeShard(
	ctx context.Context,
	shard *checkpoints.Shard,
	changes map[string]string,
	a *Adapter,
	path string,
	progress func(int64),
) error {
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
	m := merger{in: in, out: out, progress: progress}
	for _, info := range infos {
		var change *delta
		if module, ok := changes[info.Name]; ok {
			change = newDelta(a, module)
		}
		if err := m.tensor(ctx, info, change); err != nil {
			out.Abort()
			return err
		}
	}
	return out.Close()
}

// merger copies the tensors of one file to another.
type merger struct {
	in       *os.File // read, not mapped: mapped pages would look like used memory, up to the whole file
	out      *checkpoints.Writer
	progress func(bytes int64) // may be nil
	buffers  sync.Pool         // of *[]byte
}

// tensor copies one tensor in pieces on all cores, with change added to it (nil: none).
func (m *merger) tensor(ctx context.Context, info checkpoints.Info, change *delta) error {
	step := int64(mergeBlock)
	if change != nil { // whole rows
		row := rowBytes(info)
		step = max(1, mergeBlock/row) * row
	}
	pieces := int((info.Length + step - 1) / step)
	return workers.Each(pieces, runtime.GOMAXPROCS(0), func(i int) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		offset := int64(i) * step
		length := min(step, info.Length-offset)
		err := m.piece(info, change, offset, length)
		if err == nil && m.progress != nil {
			m.progress(length)
		}
		return err
	})
}

// piece reads, changes and writes length bytes of a tensor.
func (m *merger) piece(info checkpoints.Info, change *delta, offset, length int64) error {
	buffer, _ := m.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	defer m.buffers.Put(buffer)
	*buffer = slices.Grow((*buffer)[:0], int(length))[:length]
	if _, err := m.in.ReadAt(*buffer, info.Offset+offset); err != nil {
		return fmt.Errorf("%s: tensor %q: %w", m.in.Name(), info.Name, err)
	}
	if change != nil {
		v, err := checkpoints.Float32s(info.Type, *buffer)
		if err != nil {
			return err
		}
		change.add(v, int(info.Shape[1]), int(offset/rowBytes(info)))
		if *buffer, err = checkpoints.AppendFloat32s((*buffer)[:0], info.Type, v); err != nil {
			return err
		}
	}
	return m.out.WriteAt(info.Name, *buffer, offset)
}

// rowBytes is the length of a row of a matrix.
func rowBytes(info checkpoints.Info) int64 { return info.Shape[1] * int64(info.Type.Size()) }

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
