package model

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"assay/checkpoints"
	"assay/internal/workers"
	"assay/store"
)

// RecordOrigin writes into c.Origin what a scorer is made of, for comparison whenever it is opened. These are SHA-256
// digests of the prompts, of the files of its weights, and of the base's other files.
func RecordOrigin(c *ScorerConfig) (err error) {
	path := c.Weights
	if path == "" {
		path = c.Backbone
	}
	w, err := checkpoints.OpenWeightsAt(path)
	if err != nil {
		return err
	}
	defer w.Close()
	o := c.Origin
	if o.Weights, err = weightDigests(w); err != nil {
		return err
	}
	if o.Base, err = baseDigests(c.Backbone); err != nil {
		return err
	}
	o.Passes = map[string]string{}
	for i := range c.Passes {
		o.Passes[c.Passes[i].Name] = c.Passes[i].digest()
	}
	return nil
}

// checkOrigin refuses a scorer that is not made any more of what was imported. What is not recorded is not compared.
func (c *ScorerConfig) checkOrigin(w *checkpoints.Weights) error {
	o := c.Origin
	if o == nil {
		return nil
	}
	const again = "the scores would be another judge's; make the scorer again with `score import`"
	for i := range c.Passes {
		q := &c.Passes[i]
		if want, ok := o.Passes[q.Name]; ok && want != q.digest() {
			return fmt.Errorf("%s: the prompt or answer of pass %s is not the imported one (origin.passes): %s", ConfigFile,
				q.Name, again)
		}
	}
	compare := func(what, dir string, want, got map[string]string) error {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if digest, ok := got[name]; !ok {
				return fmt.Errorf("%s, of which the scorer was imported, is not there (%s): %s", filepath.Join(dir, name), what,
					again)
			} else if digest != want[name] {
				return fmt.Errorf("%s was changed since the scorer was imported (%s): %s", filepath.Join(dir, name), what, again)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if _, ok := want[name]; !ok {
				return fmt.Errorf("%s was not there when the scorer was imported (%s): %s", filepath.Join(dir, name), what, again)
			}
		}
		return nil
	}
	if len(o.Base) > 0 {
		got, err := baseDigests(c.Backbone)
		if err == nil {
			err = compare("origin.base", c.Backbone, o.Base, got)
		}
		if err != nil {
			return err
		}
	}
	if len(o.Weights) == 0 || w.Absent() {
		return nil
	}
	got, err := weightDigests(w)
	if err != nil {
		return err
	}
	return compare("origin.weights", w.Dir(), o.Weights, got)
}

// digest is the SHA-256 of what a pass says.
func (q *PassConfig) digest() string {
	sum := sha256.Sum256([]byte(string(q.Prompt) + "\x00" + string(q.Answer)))
	return hex.EncodeToString(sum[:])
}

// weightDigests are those of a checkpoint's shards by name. Large files are read once: see [store.Files].
func weightDigests(w *checkpoints.Weights) (map[string]string, error) {
	shards := w.Shards()
	sums := make([]store.Key, len(shards))
	err := workers.Each(len(shards), 4, func(i int) (err error) {
		sums[i], err = store.FileDigest(shards[i].Path())
		return err
	})
	out := map[string]string{}
	for i, s := range shards {
		out[s.Name] = sums[i].String()
	}
	return out, err
}

// baseDigests are those of the files of a checkpoint, besides its weights and their index, that numbers depend on.
func baseDigests(dir string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range describing {
		if name == checkpoints.IndexFile { // says where weights lie
			continue
		}
		k, err := store.FileDigest(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		out[name] = k.String()
	}
	return out, nil
}
