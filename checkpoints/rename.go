package checkpoints

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// OpenWeightsAt is OpenWeights for a directory, or for a single .safetensors file with any name.
func OpenWeightsAt(path string) (*Weights, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if info.IsDir() {
		return OpenWeights(path)
	}
	if ext := filepath.Ext(path); ext != ".safetensors" {
		return nil, fmt.Errorf("weights: %s: want a .safetensors file or a folder; PyTorch pickles (.pth, .bin) are not "+
			"supported: save it with safetensors.torch.save_file", path)
	}
	w := &Weights{dir: filepath.Dir(path), stored: map[string]*Shard{}, alias: map[string]string{}}
	if err := w.open([]string{filepath.Base(path)}, nil); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Rename renames or hides every stored tensor. It must be called before anything is read, and at most once.
func (w *Weights) Rename(name func(stored string) (as string, keep bool)) error {
	stored, names := map[string]*Shard{}, map[string]string{}
	for _, old := range slices.Sorted(maps.Keys(w.stored)) {
		as, keep := name(old)
		if !keep {
			continue
		}
		if stored[as] != nil {
			return fmt.Errorf("%s: tensor %q and another one are both renamed to %q", w.dir, old, as)
		}
		if stored[as] = w.stored[old]; as != old {
			names[as] = old
		}
	}
	w.stored, w.names = stored, names
	return nil
}

// KnownAs returns the new name of a tensor in the files; false: it is hidden. See [Weights.Rename].
func (w *Weights) KnownAs(inFile string) (name string, ok bool) {
	for name, stored := range w.names {
		if stored == inFile {
			return name, true
		}
	}
	if _, other := w.names[inFile]; other { // the name now belongs to another tensor
		return "", false
	}
	return inFile, w.stored[inFile] != nil
}

// Renamed reports whether tensors may be renamed or hidden.
func (w *Weights) Renamed() bool { return w.names != nil }
