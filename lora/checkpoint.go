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

// MergeOptions are the checkpoint, the adapter, and the new checkpoint that MergeCheckpoint writes.
type MergeOptions struct {
	Backbone string // Hugging Face checkpoint directory
	Adapter  string // PEFT adapter directory
	Weights  string // directory or file of other weights than the backbone's own; "": these. Then no adapter is fine, too
	Out      string // directory to make: complete or not at all
	Force    bool   // replace Out if it holds a checkpoint already

	Total    func(bytes int64)      // told before the work how much it is; nil: nobody
	Progress func(bytes int64)      // told the bytes done since the last call, from any goroutine; nil: nobody
	Warn     func(text string)      // told of doubts about a scorer that is merged; nil: nobody
	Extra    func(dir string) error // adds files before Out gets its name; nil: none

	// Name gives a tensor of Weights the name that it has in Out; false: it is left out. nil: all stay as they are.
	Name func(stored string) (as string, keep bool)
}

// MergeResult counts what a merge wrote.
type MergeResult struct {
	Weights int   // that the adapter changes
	Bytes   int64 // of all weights
}

// MergeCheckpoint writes a Hugging Face checkpoint whose weights hold the adapter, see [Merge], with copies of the
// files beside the weights.
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

// adapter reads the adapter; nil: there is none, and Weights alone are written.
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
		return nil, exit.Usagef("%s holds no adapter (%s): there is nothing to merge", o.Adapter, ConfigFile)
	}
	return a, err
}

// open opens the weights that are written.
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

// checkUnpacked refuses a backbone whose weights are quantized: the sum could not be stored in their bits.
func checkUnpacked(backbone string) error {
	raw, err := os.ReadFile(filepath.Join(backbone, "config.json"))
	if err != nil {
		return nil // whoever needs the file says so
	}
	packing, _, err := quant.Split(raw)
	if packing == nil || err != nil {
		return err
	}
	return exit.Usagef("%s is packed (%s in its config.json): an adapter cannot be merged into weights of few bits. "+
		"Merge it into the checkpoint that they were made of, and quantise the result (train quantize)", backbone,
		packing.Method)
}

// checkOut refuses to replace anything but, with Force, a checkpoint that is not being read.
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
		return exit.Usagef("%s holds no checkpoint (config.json): --force does not remove it", o.Out)
	}
	out, err := filepath.EvalSymlinks(o.Out)
	if err != nil {
		return err
	}
	for _, source := range []string{o.Backbone, o.Adapter, o.Weights} {
		if real, err := filepath.EvalSymlinks(source); err == nil && inside(real, out) {
			return exit.Usagef("--out %s holds %s, which is being merged; choose another --out", o.Out, source)
		}
	}
	return nil
}

// inside reports whether path is folder or lies in it.
func inside(path, folder string) bool {
	p, err1 := filepath.Abs(path)
	f, err2 := filepath.Abs(folder)
	below, err3 := filepath.Rel(f, p)
	return err1 == nil && err2 == nil && err3 == nil && filepath.IsLocal(below)
}

// checkSpace compares the free space where out will lie with what will be written.
func checkSpace(out string, need int64) error {
	dir, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	var st syscall.Statfs_t
	for syscall.Statfs(dir, &st) != nil { // the folders may have to be made
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
