package lora

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/quant"
)

// MergeOptions are the inputs and the output of MergeCheckpoint.
type MergeOptions struct {
	Backbone string // Hugging Face checkpoint directory
	Adapter  string // PEFT adapter directory
	Weights  string // directory or file to use instead of the backbone's weights (Adapter may then be absent); "": none
	Out      string // directory to create: complete or not at all
	Force    bool   // replace Out if it already contains a checkpoint

	Total    func(bytes int64)      // called before the work starts; may be nil
	Progress func(bytes int64)      // called with the bytes done since the last call, from any goroutine; may be nil
	Warn     func(text string)      // called with doubts about a scorer that is merged; may be nil
	Extra    func(dir string) error // adds files before Out gets its name; may be nil

	// Name returns the name of a tensor of Weights in Out; false: it is left out. nil: names do not change.
	Name func(stored string) (as string, keep bool)
}

// MergeResult counts what a merge wrote.
type MergeResult struct {
	Weights int   // number that the adapter changes
	Bytes   int64 // of all weights
}

// MergeCheckpoint writes a Hugging Face checkpoint with the adapter merged into its weights, see [Merge], and copies
// of its other files.
func MergeCheckpoint(ctx context.Context, o MergeOptions) (*MergeResult, error) {
	if err := o.checkOut(); err != nil {
		return nil, err
	}
	a, err := o.adapter()
	if err != nil {
		return nil, err
	}
	w, err := o.open()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r := &MergeResult{}
	if a != nil {
		r.Weights = len(a.Targets) + len(a.Whole)
	}
	for _, name := range w.Names() {
		info, _ := w.Info(name)
		r.Bytes += info.Length
	}
	if err := checkSpace(o.Out, r.Bytes); err != nil {
		return nil, err
	}
	if o.Total != nil {
		o.Total(r.Bytes)
	}
	err = atomicfile.ReplaceDir(o.Out, func(dir string) error {
		if err := Merge(ctx, w, a, dir, o.Progress); err != nil {
			return err
		}
		if err := checkpoints.CopyCompanions(o.Backbone, dir); err != nil || o.Extra == nil {
			return err
		}
		return o.Extra(dir)
	})
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("interrupted, nothing was written to %s: %w", o.Out, err)
	}
	return r, err
}

// adapter reads the adapter; nil: none, and Weights are written unchanged.
func (o *MergeOptions) adapter() (*Adapter, error) {
	a, err := Load(o.Adapter)
	none := errors.Is(err, os.ErrNotExist)
	if none && o.Weights != "" {
		return nil, nil
	}
	if err := checkUnpacked(o.Backbone); err != nil {
		return nil, err
	}
	if none {
		return nil, exit.Usagef("%s contains no adapter (%s): there is nothing to merge", o.Adapter, ConfigFile)
	}
	return a, err
}

// open opens the weights to write.
func (o *MergeOptions) open() (*checkpoints.Weights, error) {
	if o.Weights == "" {
		return checkpoints.OpenWeights(o.Backbone)
	}
	w, err := checkpoints.OpenWeightsAt(o.Weights)
	if err != nil || o.Name == nil {
		return w, err
	}
	if err := w.Rename(o.Name); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// checkUnpacked refuses a backbone with quantized weights: the sum could not be stored in their bits.
func checkUnpacked(backbone string) error {
	raw, err := os.ReadFile(filepath.Join(backbone, "config.json"))
	if err != nil {
		return nil // reported by the code that needs the file
	}
	packing, _, err := quant.Split(raw)
	if packing == nil || err != nil {
		return err
	}
	return exit.Usagef("%s is packed (%s in its config.json): an adapter cannot be merged into quantized weights. "+
		"Merge it into the original checkpoint, and quantise the result (train quantize)", backbone,
		packing.Method)
}

// checkOut refuses to replace anything except, with Force, a checkpoint that is not being read.
func (o *MergeOptions) checkOut() error {
	entries, err := os.ReadDir(o.Out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	} else if err != nil {
		return err
	}
	if !o.Force {
		return exit.Usagef("%s exists already and is not empty: choose another --out, or give --force to replace it", o.Out)
	}
	if _, err := os.Stat(filepath.Join(o.Out, "config.json")); err != nil {
		return exit.Usagef("%s is not a checkpoint (no config.json): --force does not remove it", o.Out)
	}
	out, err := filepath.EvalSymlinks(o.Out)
	if err != nil {
		return err
	}
	for _, source := range []string{o.Backbone, o.Adapter, o.Weights} {
		if real, err := filepath.EvalSymlinks(source); err == nil && inside(real, out) {
			return exit.Usagef("--out %s contains %s, which is being merged; use another --out", o.Out, source)
		}
	}
	return nil
}

// inside reports whether path is folder or is inside it.
func inside(path, folder string) bool {
	p, err1 := filepath.Abs(path)
	f, err2 := filepath.Abs(folder)
	below, err3 := filepath.Rel(f, p)
	return err1 == nil && err2 == nil && err3 == nil && filepath.IsLocal(below)
}

// checkSpace returns an error if there is not enough free space for out.
func checkSpace(out string, need int64) error {
	dir, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	var st syscall.Statfs_t
	for syscall.Statfs(dir, &st) != nil { // the folders may not exist yet
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return fmt.Errorf("%s: the merged weights take %.1f GB, %.1f GB are free", dir, float64(need)/1e9, float64(free)/1e9)
	}
	return nil
}
