package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/lora"
	"assay/model/backbone"
)

// cardFile is the model card.
const cardFile = "README.md"

// MergeScorer merges the adapter of the scorer directory dir into its backbone, see [lora.MergeCheckpoint]. The result
// is a checkpoint and a scorer directory in one, whose backbone is the folder itself. Weights separate from their
// backbone, as imported judges have them, are written under the backbone's own names, without their heads, which the
// scorer has; such a scorer needs no adapter. Backbone of the options, if not empty, is the backbone's current folder;
// Adapter, Weights, Name and Extra are set here.
func MergeScorer(ctx context.Context, dir string, o lora.MergeOptions) (*lora.MergeResult, error) {
	p, err := LoadScorerState(dir)
	if err != nil {
		return nil, err
	}
	if err := p.Config.NotAlone("merged"); err != nil {
		return nil, err
	}
	p = p.At(o.Backbone)
	if text := p.Undigested(); text != "" && o.Warn != nil {
		o.Warn(text)
	}
	if _, err := p.CheckBackbone(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	o.Backbone, o.Adapter = p.Config.Backbone, dir
	if p.Config.Weights != "" {
		o.Weights, o.Name = p.Config.Weights, backbone.BackboneName
	}
	o.Extra = func(out string) error {
		if p.Config.Weights != "" {
			if err := fitVocabulary(out); err != nil {
				return err
			}
		}
		return p.copyMerged(out)
	}
	return lora.MergeCheckpoint(ctx, o)
}

// fitVocabulary sets vocab_size in the config.json of a merged checkpoint to that of its embedding table.
func fitVocabulary(dir string) error {
	path := filepath.Join(dir, "config.json")
	config, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	w, err := checkpoints.OpenWeights(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	if config, err = backbone.VocabOfTable(config, w); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.Write(path, func(f io.Writer) error {
		var b bytes.Buffer
		if err := json.Indent(&b, config, "", "  "); err != nil {
			return err
		}
		_, err := b.WriteTo(f)
		return err
	})
}

// copyMerged makes the merged checkpoint in dir a scorer directory: its backbone is the folder itself.
func (p *ScorerState) copyMerged(dir string) error {
	err := atomicfile.Copy(filepath.Join(p.Dir, HeadFile), filepath.Join(dir, HeadFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // heads of choices may be the backbone's own rows
		return err
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, ConfigFile))
	if err != nil {
		return err
	}
	c, file := *p.Config, filepath.Join(dir, ConfigFile)
	c.Digests = nil
	set := append(c.identityKeys(), yaml.MapItem{Key: "backbone", Value: "."}, yaml.MapItem{Key: "weights"})
	if err := writeKeys(file, text, set); err != nil {
		return err
	}
	if err := p.carryCalibration(dir); err != nil {
		return err
	}
	if err := addDigests(file); err != nil {
		return err
	}
	err = atomicfile.Copy(filepath.Join(p.Dir, cardFile), filepath.Join(dir, cardFile))
	if errors.Is(err, os.ErrNotExist) { // a model card is optional
		return nil
	}
	return err
}
