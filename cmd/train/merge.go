package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/lora"
)

func init() { register(newMergeCommand) }

// mergeOptions are the flags of train merge; scorer stands for the backbone that it names and the adapter in it.
type mergeOptions struct {
	scorer, backbone, adapter, out string
	force                          bool
}

// mergeResult is what train merge reports.
type mergeResult struct {
	Out    string `json:"out"`
	Merged int    `json:"merged_weights"`
	Bytes  int64  `json:"bytes"`  // of all weights
	Scorer bool   `json:"scorer"` // the folder is a scorer directory, too
}

func newMergeCommand() *cobra.Command {
	var o mergeOptions
	c := &cobra.Command{
		Use:   "merge (--scorer DIR | --backbone DIR --adapter DIR) --out DIR",
		Short: "Add an adapter to its backbone's weights",
		Long: `merge writes a Hugging Face checkpoint whose weights hold the adapter: W + scale B A, rounded once to the stored type.
Names, types, shards and the files beside the weights stay as they are. With --scorer the folder is a scorer directory as
well, whose backbone is the folder itself. It appears when it is complete, or not at all.`,
		Example: `  train merge --scorer testdata/oracle/llavanext/scorer --out build/merged
  train merge --backbone testdata/oracle/llavanext/backbone --adapter testdata/oracle/llavanext/scorer --out build/merged-backbone`,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := merge(c, o)
			if err != nil {
				return err
			}
			return cli.Print(c, r, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d merged weights, %.1f MB in all\n", r.Out, r.Merged, float64(r.Bytes)/1e6)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.scorer, "scorer", "", "scorer directory with an adapter")
	f.StringVar(&o.backbone, "backbone", "", "Hugging Face checkpoint directory")
	f.StringVar(&o.adapter, "adapter", "", "PEFT adapter directory")
	f.StringVar(&o.out, "out", "", "directory to make")
	f.BoolVar(&o.force, "force", false, "replace --out if it holds a checkpoint already")
	return c
}

func merge(c *cobra.Command, o mergeOptions) (*mergeResult, error) {
	if o.out == "" || (o.scorer != "") == (o.backbone != "" || o.adapter != "") || (o.backbone == "") != (o.adapter == "") {
		return nil, cli.Usagef("merge needs --out and either --scorer, or --backbone with --adapter")
	}
	if o.scorer != "" {
		var err error
		if o.backbone, err = scorerBackbone(o.scorer); err != nil {
			return nil, err
		}
		o.adapter = o.scorer
	}
	if err := o.checkOut(); err != nil {
		return nil, err
	}
	a, err := lora.Load(o.adapter)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no adapter (%s): there is nothing to merge", o.adapter, lora.ConfigFile)
	} else if err != nil {
		return nil, err
	}
	w, err := checkpoints.OpenWeights(o.backbone)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r := &mergeResult{Out: o.out, Merged: len(a.Targets), Scorer: o.scorer != ""}
	for _, name := range w.Names() {
		info, _ := w.Info(name)
		r.Bytes += info.Length
	}
	if err := checkSpace(o.out, r.Bytes); err != nil {
		return nil, err
	}
	p := cli.NewProgress(c, "merging, bytes", r.Bytes, "bytes")
	defer p.Close()
	err = atomicfile.ReplaceDir(o.out, func(dir string) error {
		if err := lora.Merge(c.Context(), w, a, dir, func(n int64) { p.Add(n, "") }); err != nil {
			return err
		}
		if err := checkpoints.CopyCompanions(o.backbone, dir); err != nil {
			return err
		}
		if o.scorer != "" {
			return copyScorer(o.scorer, dir)
		}
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("interrupted, nothing was written to %s: %w", o.out, err)
	}
	return r, err
}

// scorerConfig is what merge needs of a scorer.yaml; the model package reads the rest.
type scorerConfig struct {
	Backbone string `yaml:"backbone"`
}

const scorerFile, headFile, cardFile = "scorer.yaml", "head.safetensors", "README.md"

// scorerBackbone returns the path of a scorer's backbone.
func scorerBackbone(dir string) (string, error) {
	path := filepath.Join(dir, scorerFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w (a scorer directory is wanted)", err)
	}
	var s scorerConfig
	if err := yaml.Unmarshal(text, &s); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if s.Backbone == "" {
		return "", fmt.Errorf("%s: backbone is missing", path)
	}
	if filepath.IsAbs(s.Backbone) {
		return s.Backbone, nil
	}
	return filepath.Join(dir, filepath.FromSlash(s.Backbone)), nil
}

// copyScorer makes the merged checkpoint in dir a scorer directory: its backbone is the folder itself.
func copyScorer(scorer, dir string) error {
	text, err := os.ReadFile(filepath.Join(scorer, scorerFile))
	if err != nil {
		return err
	}
	file, err := parser.ParseBytes(text, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(scorer, scorerFile), err)
	}
	at, err := yaml.PathString("$.backbone")
	if err != nil {
		return err
	}
	if err := at.ReplaceWithReader(file, strings.NewReader(".")); err != nil {
		return err
	}
	err = atomicfile.Write(filepath.Join(dir, scorerFile), func(w io.Writer) error {
		_, err := io.WriteString(w, file.String())
		return err
	})
	if err != nil {
		return err
	}
	if err := atomicfile.Copy(filepath.Join(scorer, headFile), filepath.Join(dir, headFile)); err != nil {
		return err
	}
	err = atomicfile.Copy(filepath.Join(scorer, cardFile), filepath.Join(dir, cardFile))
	if errors.Is(err, os.ErrNotExist) { // a model card is not a must
		return nil
	}
	return err
}

// checkOut refuses to replace anything but, with --force, a checkpoint that is not being read.
func (o mergeOptions) checkOut() error {
	entries, err := os.ReadDir(o.out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	} else if err != nil {
		return err
	}
	if !o.force {
		return cli.Usagef("%s exists already and is not empty: choose another --out, or give --force to replace it", o.out)
	}
	if _, err := os.Stat(filepath.Join(o.out, "config.json")); err != nil {
		return cli.Usagef("%s holds no checkpoint (config.json): --force does not remove it", o.out)
	}
	out, err := filepath.EvalSymlinks(o.out)
	if err != nil {
		return err
	}
	for _, source := range []string{o.backbone, o.adapter} {
		if real, err := filepath.EvalSymlinks(source); err == nil && inside(real, out) {
			return cli.Usagef("--out %s holds %s, which is being merged; choose another --out", o.out, source)
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
