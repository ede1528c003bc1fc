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
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/lora"
)

// cardFile is the model card.
const cardFile = "README.md"

// MergeScorer merges the adapter of the scorer directory dir into its backbone, see [lora.MergeCheckpoint]. The result
// is a checkpoint and a scorer directory in one, whose backbone is the folder itself. Weights apart from their
// backbone, as imported judges have them, are written under the backbone's own names, without their heads, which the
// scorer has; such a scorer needs no adapter. Backbone, Adapter, Weights, Name and Extra of the options are set here.
func MergeScorer(ctx context.Context, dir string, o lora.MergeOptions) (*lora.Merged, error) {
	backbone, weights, err := scorerPaths(dir)
	if err != nil {
		return nil, err
	}
	o.Backbone, o.Adapter = backbone, dir
	if weights != "" {
		o.Weights, o.Name = weights, backboneName
	}
	o.Extra = func(out string) error {
		if weights != "" {
			if err := fitVocabulary(out); err != nil {
				return err
			}
		}
		return copyScorer(dir, out)
	}
	return lora.MergeCheckpoint(ctx, o)
}

// scorerPaths returns the paths of a scorer's backbone and of its weights where they lie apart, and reads nothing else:
// whatever else the file says is copied.
func scorerPaths(dir string) (backbone, weights string, err error) {
	path := filepath.Join(dir, ConfigFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("%w (a scorer directory is wanted)", err)
	}
	var s struct {
		Backbone string `yaml:"backbone"`
		Weights  string `yaml:"weights"`
	}
	if err := yaml.Unmarshal(text, &s); err != nil {
		return "", "", fmt.Errorf("%s: %w", path, err)
	}
	if s.Backbone == "" {
		return "", "", fmt.Errorf("%s: backbone is missing", path)
	}
	below := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, filepath.FromSlash(path))
	}
	return below(s.Backbone), below(s.Weights), nil
}

// fitVocabulary gives the config.json of a merged checkpoint the vocab_size of its embedding table.
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
	if config, err = vocabOfTable(config, w); err != nil {
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
	if top, ok := file.Docs[0].Body.(*ast.MappingNode); ok { // weights and backbone are one now
		top.Values = slices.DeleteFunc(top.Values, func(v *ast.MappingValueNode) bool {
			return v.Key.String() == "weights"
		})
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
	err = atomicfile.Copy(filepath.Join(scorer, HeadFile), filepath.Join(dir, HeadFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // heads of choices may be the backbone's own rows
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
