package metrics

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nlpodyssey/gopickle/pytorch"
	"github.com/nlpodyssey/gopickle/types"

	"assay/checkpoints"
	"assay/onnx"
)

// weights are tensors of float32 by their names.
type weights struct {
	path    string
	tensors map[string]weight
	used    map[string]bool
}

type weight struct {
	shape  []int64
	values []float32
}

// readWeights reads a .safetensors file, or what torch.save made of a state dict (.pth, .pt, .bin).
func readWeights(path string) (*weights, error) {
	w := &weights{path, map[string]weight{}, map[string]bool{}}
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors":
		err = w.readSafetensors()
	case ".pth", ".pt", ".bin", ".ckpt":
		err = w.readPickle()
	default:
		err = fmt.Errorf("want .safetensors, or .pth, .pt, .bin or .ckpt as torch.save makes them")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

func (w *weights) readSafetensors() error {
	f, err := checkpoints.OpenFile(w.path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		raw, err := f.Bytes(name)
		if err != nil {
			return err
		}
		values, err := checkpoints.Float32s(info.Type, raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w.tensors[name] = weight{info.Shape, values}
	}
	return nil
}

// readPickle reads a state dict. The reader knows tensors and plain collections only: nothing of the file is run.
func (w *weights) readPickle() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	loaded, err := pytorch.Load(w.path)
	if err != nil {
		return err
	}
	if d, ok := loaded.(*types.Dict); ok { // {"state_dict": {...}}
		if inner, ok := d.Get("state_dict"); ok {
			loaded = inner
		}
	}
	switch d := loaded.(type) {
	case *types.OrderedDict:
		for e := d.List.Front(); e != nil; e = e.Next() {
			entry := e.Value.(*types.OrderedDictEntry)
			if err := w.add(entry.Key, entry.Value); err != nil {
				return err
			}
		}
	case *types.Dict:
		for _, key := range d.Keys() {
			if err := w.add(key, d.MustGet(key)); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("it holds a %T: a state dict was expected", loaded)
	}
	return nil
}

// add adds a tensor of a state dict.
func (w *weights) add(key, value any) error {
	name, ok := key.(string)
	t, isTensor := value.(*pytorch.Tensor)
	if !ok || !isTensor {
		return fmt.Errorf("%v is a %T: a state dict of tensors was expected", key, value)
	}
	var from []float32
	switch s := t.Source.(type) {
	case *pytorch.FloatStorage:
		from = s.Data
	case *pytorch.HalfStorage:
		from = s.Data
	case *pytorch.BFloat16Storage:
		from = s.Data
	case *pytorch.DoubleStorage:
		for _, x := range s.Data {
			from = append(from, float32(x))
		}
	default:
		return nil // counters of batches and the like
	}
	values, err := contiguous(t, from)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	shape := make([]int64, len(t.Size))
	for i, n := range t.Size {
		shape[i] = int64(n)
	}
	w.tensors[name] = weight{shape, values}
	return nil
}

// contiguous copies the elements of a tensor in the order of its shape.
func contiguous(t *pytorch.Tensor, from []float32) ([]float32, error) {
	count, last := 1, t.StorageOffset
	for i, n := range t.Size {
		if n < 1 || t.Stride[i] < 0 {
			return nil, fmt.Errorf("shape %v, strides %v", t.Size, t.Stride)
		}
		count *= n
		last += (n - 1) * t.Stride[i]
	}
	if t.StorageOffset < 0 || last >= len(from) {
		return nil, fmt.Errorf("shape %v reaches beyond the %d numbers of its storage", t.Size, len(from))
	}
	out := make([]float32, count)
	at := make([]int, len(t.Size))
	for k := range out {
		place := t.StorageOffset
		for i := range at {
			place += at[i] * t.Stride[i]
		}
		out[k] = from[place]
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < t.Size[i] {
				break
			}
			at[i] = 0
		}
	}
	return out, nil
}

// take adds a tensor to a graph as an initializer. -1 stands for any size.
func (w *weights) take(b *onnx.Builder, name string, want ...int64) (string, []int64, error) {
	t, ok := w.tensors[name]
	if !ok {
		return "", nil, fmt.Errorf("%s has no tensor %s", w.path, name)
	}
	same := len(want) == len(t.shape)
	for i := range want {
		same = same && (want[i] < 0 || want[i] == t.shape[i])
	}
	if !same {
		return "", nil, fmt.Errorf("%s: %s is %v, want %v", w.path, name, t.shape, want)
	}
	w.used[name] = true
	return b.Weight(&onnx.Tensor{Name: name, Type: onnx.Float, Shape: slices.Clone(t.shape),
		Data: onnx.Float32Bytes(t.values)}), t.shape, nil
}
