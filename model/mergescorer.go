package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"assay/internal/atomicfile"
	"assay/lora"
)

// cardFile is the model card.
const cardFile = "README.md"

// MergeScorer merges the adapter of the scorer directory dir into its backbone, see [lora.MergeCheckpoint]. The result
// is a checkpoint and a scorer directory in one, whose backbone is the folder itself. Backbone, Adapter and Extra of
// the options are set here.
func MergeScorer(ctx context.Context, dir string, o lora.MergeOptions) (*lora.Merged, error) {
	backbone, err := scorerBackbone(dir)
	if err != nil {
		return nil, err
	}
	o.Backbone, o.Adapter = backbone, dir
	o.Extra = func(out string) error { return copyScorer(dir, out) }
	return lora.MergeCheckpoint(ctx, o)
}

// scorerBackbone returns the path of a scorer's backbone, and reads nothing else: whatever else the file says is
// copied.
func scorerBackbone(dir string) (string, error) {
	path := filepath.Join(dir, ConfigFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w (a scorer directory is wanted)", err)
	}
	var s struct {
		Backbone string `yaml:"backbone"`
		Weights  string `yaml:"weights"`
	}
	if err := yaml.Unmarshal(text, &s); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if s.Backbone == "" {
		return "", fmt.Errorf("%s: backbone is missing", path)
	}
	if s.Weights != "" {
		return "", fmt.Errorf("%s: a scorer with weights apart from its backbone is not merged", path)
	}
	if filepath.IsAbs(s.Backbone) {
		return s.Backbone, nil
	}
	return filepath.Join(dir, filepath.FromSlash(s.Backbone)), nil
}

// copyScorer makes the merged checkpoint in dir a scorer directory: its backbone is the folder itself.
func copyScorer(scorer, dir string) error {
	path := filepath.Join(scorer, ConfigFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseBytes(text, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	at, err := yaml.PathString("$.backbone")
	if err != nil {
		return err
	}
	if err := at.ReplaceWithReader(file, strings.NewReader(".")); err != nil {
		return err
	}
	for _, key := range []string{"$.origin.weights", "$.origin.base"} { // those files are not the imported ones any more
		if at, err = yaml.PathString(key); err != nil {
			return err
		}
		if _, err := at.FilterFile(file); yaml.IsNotFoundNodeError(err) {
			continue
		} else if err != nil {
			return err
		}
		if err := at.ReplaceWithReader(file, strings.NewReader("{}")); err != nil {
			return err
		}
	}
	err = atomicfile.Write(filepath.Join(dir, ConfigFile), func(w io.Writer) error {
		_, err := io.WriteString(w, file.String())
		return err
	})
	if err != nil {
		return err
	}
	if err := atomicfile.Copy(filepath.Join(scorer, HeadFile), filepath.Join(dir, HeadFile)); err != nil {
		return err
	}
	if err := carryCalibration(scorer, dir); err != nil {
		return err
	}
	err = atomicfile.Copy(filepath.Join(scorer, cardFile), filepath.Join(dir, cardFile))
	if errors.Is(err, os.ErrNotExist) { // a model card is not a must
		return nil
	}
	return err
}
