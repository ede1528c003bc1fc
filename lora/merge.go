package lora

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// mergeBlock is the size in bytes of the pieces that Merge processes.
const mergeBlock = 4 << 20

// delta is the change to one weight, by row: s B A is added, and DoRA rows are scaled to their magnitude. Or the full
// weight is replaced.
type delta struct {
	a       []blas64.Vector // rows of A in float64
	b       []float32       // [out, r]
	rank    int
	s       float64
	lengths []float32 // magnitudes m of DoRA; nil: none
	whole   []float32 // the new weight; nil: the old one plus s B A
}

// Merge writes the backbone's weights into the folder dir; the weights that the adapter (nil: none) changes get s B A
// added, or are replaced. It computes in float64, and rounds once to the stored type. Types, files, metadata, names
// and index do not change. If the weights were renamed ([checkpoints.Weights.Rename]), the new names are written, and
// hidden tensors are not. It runs on all cores and holds a few blocks of 4 MiB at a time. It calls progress (may be
// nil) with the bytes done since the last call, from any goroutine. When ctx ends or something fails, the file being
// written is removed. A caller that needs all files or none merges into a folder of [atomicfile.WriteDir].
func Merge(ctx context.Context, w *checkpoints.Weights, a *Adapter, dir string, progress func(bytes int64)) error {
	changes := map[string]string{}
	if a != nil {
		var err error
		if a, changes, err = a.changes(w); err != nil {
			return err
		}
	}
	shards := w.Shards()
	lists := map[string]string{} // tensor -> file
	for _, shard := range shards {
		name := shard.Name
		if w.Renamed() && len(shards) == 1 {
			name = checkpoints.SingleFile
		}
		kept := keptTensors(w, shard)
		if len(kept) == 0 {
			continue
		}
		for _, t := range kept {
			lists[t.Name] = name
		}
		s := shardMerge{shard: shard, kept: kept, changes: changes, adapter: a, progress: progress}
		if err := s.write(ctx, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if shards[0].Name == checkpoints.SingleFile || w.Renamed() && len(shards) == 1 {
		return nil
	}
	return writeIndex(w, lists, filepath.Join(dir, checkpoints.IndexFile))
}

// changes returns the adapter to merge, and the weights that it changes, see changedKeys.
func (a *Adapter) changes(w *checkpoints.Weights) (*Adapter, map[string]string, error) {
	if err := a.Check(Modules(w)); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(a.CheckWhole(w), a.Bind(w)); err != nil {
		return nil, nil, err
	}
	if len(a.InitOffset) > 0 {
		var err error
		if a, err = a.plain(); err != nil {
			return nil, nil, err
		}
	}
	changes, err := changedKeys(w, a)
	return a, changes, err
}

// keptTensors returns the tensors of a file that are written, under their (renamed) names.
func keptTensors(w *checkpoints.Weights, shard *checkpoints.Shard) (kept []checkpoints.TensorInfo) {
	for _, stored := range shard.Names() {
		info, _ := shard.Info(stored)
		if w.Renamed() {
			name, ok := w.KnownAs(stored)
			if !ok || w.ShardOf(name) != shard {
				continue
			}
			info.Name = name
		}
		kept = append(kept, info)
	}
	return kept
}

// writeIndex copies the index of a checkpoint, or writes one for the new names.
func writeIndex(w *checkpoints.Weights, lists map[string]string, path string) error {
	index, err := os.ReadFile(filepath.Join(w.Dir(), checkpoints.IndexFile))
	if err != nil {
		return err
	}
	if w.Renamed() {
		var size int64
		for name := range lists {
			info, _ := w.Info(name)
			size += info.Length
		}
		index, err = json.MarshalIndent(map[string]any{
			"metadata": map[string]any{"total_size": size}, "weight_map": lists}, "", "  ")
		if err != nil {
			return err
		}
	}
	return atomicfile.WriteBytes(path, index)
}

// changedKeys maps the checkpoint keys of changed weights to the paths of modules, or of replaced parameters.
func changedKeys(w *checkpoints.Weights, a *Adapter) (map[string]string, error) {
	byName := index(Modules(w))
	changes := map[string]string{}
	for _, t := range a.Targets {
		key := byName[t.Module].Key
		if key == "" {
			return nil, fmt.Errorf("%s has no weight of its own in %s: it shares the embedding's, which the adapter "+
				"does not change; they cannot be merged",
				t.Module, w.Dir())
		}
		if info, _ := w.Info(key); !info.Type.IsFloat() {
			return nil, fmt.Errorf("%s: tensor %q is of type %v; only floating-point weights can be merged", w.Dir(), key,
				info.Type)
		}
		changes[key] = t.Module
	}
	whole, err := a.selected(w)
	if err != nil {
		return nil, err
	}
	for path, key := range whole {
		if info, _ := w.Info(key); !info.Type.IsFloat() {
			return nil, fmt.Errorf("%s: tensor %q is of type %v; only floating-point weights can be merged", w.Dir(), key,
				info.Type)
		}
		changes[key] = path
	}
	return changes, nil
}

// shardMerge is the work on one file.
type shardMerge struct {
	shard    *checkpoints.Shard
	kept     []checkpoints.TensorInfo // as stored in the file, under their new names
	changes  map[string]string
	adapter  *Adapter
	progress func(bytes int64) // may be nil
}

func (s *shardMerge) write(ctx context.Context, path string) error {
	out, err := checkpoints.NewWriter(path, s.kept, s.shard.Metadata())
	if err != nil {
		return err
	}
	in, err := os.Open(s.shard.Path())
	if err != nil {
		out.Abort()
		return err
	}
	defer in.Close()
	m := merger{in: in, out: out, progress: s.progress}
	for _, info := range s.kept {
		var change *delta
		if module, ok := s.changes[info.Name]; ok {
			change = newDelta(s.adapter, module)
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
	in       *os.File // read, not mapped: mapped pages would count as used memory, up to the size of the file
	out      *checkpoints.Writer
	progress func(bytes int64) // may be nil
	buffers  sync.Pool         // of *[]byte
}

// tensor copies one tensor in pieces on all cores, and applies change (nil: none).
func (m *merger) tensor(ctx context.Context, info checkpoints.TensorInfo, change *delta) error {
	step := int64(mergeBlock)
	if change != nil && change.whole == nil { // whole rows
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
func (m *merger) piece(info checkpoints.TensorInfo, change *delta, offset, length int64) error {
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
		v, err := change.values(info, *buffer, offset)
		if err != nil {
			return err
		}
		if *buffer, err = checkpoints.AppendFloat32s((*buffer)[:0], info.Type, v); err != nil {
			return err
		}
	}
	return m.out.WriteAt(info.Name, *buffer, offset)
}

// values returns a piece of the new weight; old is the same piece of the old weight, starting at byte offset.
func (d *delta) values(info checkpoints.TensorInfo, old []byte, offset int64) ([]float32, error) {
	if d.whole != nil {
		size := int64(info.Type.Size())
		return d.whole[offset/size : (offset+int64(len(old)))/size], nil
	}
	v, err := checkpoints.Float32s(info.Type, old)
	if err == nil {
		d.add(v, int(info.Shape[1]), int(offset/rowBytes(info)))
	}
	return v, err
}

// rowBytes returns the size of a row of a matrix, in bytes.
func rowBytes(info checkpoints.TensorInfo) int64 { return info.Shape[1] * int64(info.Type.Size()) }

func newDelta(a *Adapter, module string) *delta {
	if t := a.Tensors[NameParameter(module)]; t != nil {
		return &delta{whole: t.Float32s()}
	}
	matA, matB, s, _ := a.Delta(module)
	d := &delta{b: matB.Data().([]float32), rank: matA.Shape()[0], s: s}
	if m := a.Tensors[NameM(module)]; m != nil {
		d.lengths = m.Float32s()
	}
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

// add adds s B A to rows of a weight [rows, in], starting at row first of the full weight, and scales them to the
// magnitudes of DoRA.
func (d *delta) add(weight []float32, in, first int) {
	sum := blas64.Vector{N: in, Inc: 1, Data: make([]float64, in)}
	for row := 0; row*in < len(weight); row++ {
		d.row(first+row, sum)
		w := weight[row*in : (row+1)*in]
		scale := 1.0
		if d.lengths != nil {
			square := 0.0
			for i, x := range sum.Data {
				square += (float64(w[i]) + x) * (float64(w[i]) + x)
			}
			scale = float64(d.lengths[first+row]) / math.Sqrt(square)
		}
		for i, x := range sum.Data {
			w[i] = float32(scale * (float64(w[i]) + x))
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
