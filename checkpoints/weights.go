package checkpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gorgonia.org/tensor"

	"assay/internal/workers"
	"assay/onnx"
)

// Hugging Face's names of the files of a checkpoint.
const (
	SingleFile = "model.safetensors"
	IndexFile  = "model.safetensors.index.json"
)

// Weights is a Hugging Face checkpoint directory: model.safetensors, or shards with an index.
type Weights struct {
	dir       string
	folder    string
	shards    []*Shard
	stored    map[string]*Shard
	alias     map[string]string
	parts     map[string]bool            // stored parts of quantized tensors
	quantized map[string]QuantizedTensor // see AddQuantized
	absent    bool                       // see OpenOrAbsent
	why       error                      // error that names the missing file or tensor
	partly    bool                       // absent, but some of its files exist
	read      sync.Map                   // stored names that were requested: see Unread

	names map[string]string // name -> name in the file, if different: see Rename
}

// Shard is one file of a checkpoint.
type Shard struct {
	*SafetensorsFile
	Name     string // file name in the checkpoint directory
	location string // path below Weights.Folder, symbolic links resolved
}

// Location is the shard's path below Weights.Folder, as external tensors name it.
func (s *Shard) Location() string { return s.location }

// index is model.safetensors.index.json.
type index struct {
	WeightMap map[string]string `json:"weight_map"`
}

// OpenWeights maps a checkpoint's files. Symbolic links, as in Hugging Face's cache, are followed.
func OpenWeights(dir string) (*Weights, error) {
	w := &Weights{dir: dir, stored: map[string]*Shard{}, alias: map[string]string{}}
	names, listed, err := shardNames(dir)
	if err != nil {
		return nil, err
	}
	if err := w.open(names, listed); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// shardNames finds the checkpoint's files, and the file of every tensor if there is an index.
func shardNames(dir string) (names []string, listed map[string]string, err error) {
	if _, err := os.Stat(filepath.Join(dir, SingleFile)); err == nil {
		return []string{SingleFile}, nil, nil
	}
	path := filepath.Join(dir, IndexFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, missingCheckpoint(dir)
	} else if err != nil {
		return nil, nil, err
	}
	var x index
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(x.WeightMap) == 0 {
		return nil, nil, fmt.Errorf("%s: weight_map is missing or empty", path)
	}
	shards := map[string]bool{}
	for tensor, name := range x.WeightMap {
		if name != filepath.Base(name) || name == ".." || name == "." {
			return nil, nil, fmt.Errorf("%s: tensor %q is in %q, which is not a file name", path, tensor, name)
		}
		shards[name] = true
	}
	return slices.Sorted(maps.Keys(shards)), x.WeightMap, nil
}

var errNoWeights = errors.New("not a Hugging Face checkpoint with weights")

func missingCheckpoint(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("checkpoint directory: %w", err)
	}
	if bins, _ := filepath.Glob(filepath.Join(dir, "pytorch_model*.bin")); len(bins) > 0 {
		return fmt.Errorf("%s has PyTorch pickles (%s), which are not supported; save it with transformers' "+
			"save_pretrained(safe_serialization=True)",
			dir, filepath.Base(bins[0]))
	}
	return fmt.Errorf("%s has neither %s nor %s: %w", dir, SingleFile, IndexFile, errNoWeights)
}

func (w *Weights) open(names []string, listed map[string]string) error {
	var resolved []string
	for _, name := range names {
		path := filepath.Join(w.dir, name)
		full, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) && listed != nil {
			return fmt.Errorf("%s: the shard %s of %s's %d is missing (it has %d of the %d tensors); download it: %w", w.dir,
				name, IndexFile, len(names), inShard(listed, name), len(listed), err)
		} else if err != nil {
			return fmt.Errorf("checkpoint shard: %w", err)
		}
		if full, err = filepath.Abs(full); err != nil {
			return err
		}
		if full, err = filepath.EvalSymlinks(full); err != nil { // the working directory may contain links
			return err
		}
		f, err := OpenFile(path)
		if err != nil {
			return err
		}
		s := &Shard{SafetensorsFile: f, Name: name}
		w.shards = append(w.shards, s)
		resolved = append(resolved, full)
		for _, t := range f.header.tensors {
			if listed != nil && listed[t.Name] != name {
				continue // transformers also goes by the index
			}
			w.stored[t.Name] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if w.stored[name] == nil {
			return fmt.Errorf("%s: tensor %q is listed in %s, but not in the file", filepath.Join(w.dir, IndexFile), name,
				listed[name])
		}
	}
	w.folder = commonFolder(resolved)
	for i, s := range w.shards {
		s.location = filepath.ToSlash(strings.TrimPrefix(resolved[i][len(w.folder):], string(filepath.Separator)))
	}
	return nil
}

// inShard counts the tensors that an index puts into a shard.
func inShard(listed map[string]string, name string) (n int) {
	for _, shard := range listed {
		if shard == name {
			n++
		}
	}
	return n
}

// commonFolder returns the deepest folder that contains all absolute paths.
func commonFolder(paths []string) string {
	folder := filepath.Dir(paths[0])
	for _, p := range paths[1:] {
		for !strings.HasPrefix(p, strings.TrimSuffix(folder, string(filepath.Separator))+string(filepath.Separator)) {
			folder = filepath.Dir(folder)
		}
	}
	return folder
}

// Close unmaps all files.
func (w *Weights) Close() error {
	var errs []error
	for _, s := range w.shards {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Forget is [SafetensorsFile.Forget] for all files.
func (w *Weights) Forget() {
	for _, s := range w.shards {
		s.Forget()
	}
}

// NonFinite searches all tensors for NaN and infinities, in parallel, and returns the name of the first tensor, by
// name, that has one, with the value and its index; "" if there is none.
func (w *Weights) NonFinite() (name, what string, err error) {
	if w.absent {
		return "", "", nil
	}
	names := slices.Sorted(maps.Keys(w.stored))
	found := make([]string, len(names))
	err = workers.Each(len(names), runtime.GOMAXPROCS(0), func(i int) error {
		info, raw, err := w.Part(names[i])
		if err != nil {
			return err
		}
		if !info.Type.IsFloat() {
			return nil
		}
		const part = 1 << 20
		size := info.Type.Size()
		for at := 0; at < len(raw); at += part * size {
			values, err := Float32s(info.Type, raw[at:min(len(raw), at+part*size)])
			if err != nil {
				return err
			}
			for k, v := range values {
				if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
					found[i] = fmt.Sprintf("%v at index %d of %v", v, at/size+k, info.Shape)
					return nil
				}
			}
		}
		return nil
	})
	w.Forget()
	for i, f := range found {
		if f != "" && err == nil {
			return names[i], f, nil
		}
	}
	return "", "", err
}

// Dir returns the directory as given to OpenWeights.
func (w *Weights) Dir() string { return w.dir }

// Folder returns the absolute folder, without symbolic links, that Tensor's locations are relative to. ONNX Runtime
// refuses links and "..", and a Hugging Face cache consists of links (snapshots/x/model.safetensors ->
// ../../blobs/hash), so this is the common parent of the real files.
func (w *Weights) Folder() string { return w.folder }

// Shards returns the checkpoint's files in the order of their names.
func (w *Weights) Shards() []*Shard { return w.shards }

// Unchanged returns an error if one of the files was changed or replaced since it was opened: see
// [SafetensorsFile.Unchanged].
func (w *Weights) Unchanged() error { return w.each((*Shard).Unchanged) }

// Overwritten returns an error if one of the files was written to since it was opened: see
// [SafetensorsFile.Overwritten].
func (w *Weights) Overwritten() error { return w.each((*Shard).Overwritten) }

// each returns the first error of the checkpoint's files.
func (w *Weights) each(check func(*Shard) error) error {
	if w.absent {
		return nil
	}
	for _, s := range w.shards {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// Alias adds another name for a stored tensor. One checkpoint layout exists in several spellings; the reader chooses
// one and adds aliases for the others.
func (w *Weights) Alias(canonical, stored string) { w.alias[canonical] = stored }

func (w *Weights) find(name string) (*Shard, string) {
	if s := w.stored[name]; s != nil {
		return s, name
	}
	stored, ok := w.alias[name]
	if !ok {
		return nil, name
	}
	return w.stored[stored], stored
}

// Names returns the stored names, sorted; quantized tensors replace their parts.
func (w *Weights) Names() []string {
	names := slices.Collect(maps.Keys(w.quantized))
	for name := range w.stored {
		if !w.parts[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// inFile returns the name of a stored tensor in its file.
func (w *Weights) inFile(stored string) string {
	if name, ok := w.names[stored]; ok {
		return name
	}
	return stored
}

// Unread returns the stored names, sorted, that neither Tensor nor Dense was called with.
func (w *Weights) Unread() []string {
	return slices.DeleteFunc(w.Names(), func(name string) bool {
		_, read := w.read.Load(name)
		return read
	})
}

// Has reports whether a tensor with this name or alias exists.
func (w *Weights) Has(name string) bool {
	if w.quantized[name] != nil {
		return true
	}
	s, _ := w.find(name)
	return s != nil
}

// Info describes a tensor; Name is the stored name. A quantized tensor has its own name, and the length of its parts.
func (w *Weights) Info(name string) (TensorInfo, bool) {
	if d := w.quantized[name]; d != nil {
		return TensorInfo{Name: name, Type: onnx.Float, Shape: d.Shape(), Length: d.Stored()}, true
	}
	s, stored := w.find(name)
	if s == nil {
		return TensorInfo{}, false
	}
	info, ok := s.Info(w.inFile(stored))
	info.Name = stored
	return info, ok
}

// Bytes returns a tensor's mapped bytes; see [SafetensorsFile.Bytes]. Quantized tensors have none.
func (w *Weights) Bytes(name string) ([]byte, error) {
	if w.quantized[name] != nil {
		return nil, fmt.Errorf("%s: tensor %q is stored quantized: it has no plain bytes", w.dir, name)
	}
	s, stored := w.find(name)
	if s == nil {
		return nil, w.missing(name)
	}
	if err := w.Present(); err != nil {
		return nil, err
	}
	return s.Bytes(w.inFile(stored))
}

// Dense returns a copy of a tensor; see [SafetensorsFile.Dense].
func (w *Weights) Dense(name string) (*tensor.Dense, error) {
	if d := w.quantized[name]; d != nil {
		return w.dequantized(d)
	}
	s, stored := w.find(name)
	if s == nil {
		return nil, w.missing(name)
	}
	if err := w.Present(); err != nil {
		return nil, err
	}
	w.read.Store(stored, true)
	return s.Dense(w.inFile(stored))
}

// Tensor returns a tensor, with the requested name, that refers to its bytes in the checkpoint. Its location is
// relative to Folder.
func (w *Weights) Tensor(name string) (*onnx.Tensor, error) {
	if d := w.quantized[name]; d != nil {
		return w.lazyTensor(name, d), nil
	}
	s, stored := w.find(name)
	if s == nil {
		return nil, w.missing(name)
	}
	w.read.Store(stored, true)
	info, _ := s.Info(w.inFile(stored))
	t := info.Tensor(s.location)
	t.Name = name
	return t, nil
}

func (w *Weights) missing(name string) error {
	if stored, ok := w.alias[name]; ok && stored != name {
		return fmt.Errorf("%s: no tensor %q (nor %q) among its %d", w.dir, name, stored, len(w.stored))
	}
	return fmt.Errorf("%s: no tensor %q among its %d", w.dir, name, len(w.stored))
}
