// Package released imports third-party judges as scorers: reward models with their own heads, and models that judge
// by the likelihoods of their next token. An imported scorer is a scorer directory of format 2 like any other;
// weights are referred to in place. Third-party prompts are not part of this program: they come from the user's copy
// of the judge's code, and are compared with the digests of the published prompts.
package released

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/modelcard"
	"assay/model"
)

// Options describe what is imported. Which of them apply depends on the kind.
type Options struct {
	Base    string // checkpoint directory: configuration, tokenizer, processor
	Weights string // directory, or one .safetensors file; "": the base's own
	Config  string // the judge's own configuration (YAML); "": the published one
	Prompts string // the judge's code (a Python file), a text, or a folder of texts
	Out     string // scorer directory to create
	Copy    bool   // copy base and weights into it

	PairSize []int  // adiee: [height, width] of each picture
	Answer   string // adiee: the assumed answer of the model, instead of generating it

	Choices  []string  // choices: the answers
	Values   []float64 // of each; nil: the answers are numbers
	Range    []float64 // lowest and highest possible value; nil: of Values
	Pictures []string  // choices: what is shown; nil: source and edit
	Fusion   string    // choices with several prompts; "": mean
	Joint    bool      // choices of several tokens, by their joint likelihoods
	Alpha    string    // choices: white or drop
}

// Imported describes the created scorer.
type Imported struct {
	Out        string            `json:"out"`
	Kind       string            `json:"kind"`
	Name       string            `json:"name"`
	Published  bool              `json:"published"`         // the prompts are the published ones
	Prompts    map[string]string `json:"prompts,omitempty"` // SHA-256 by name
	Dimensions []string          `json:"dimensions"`
	Warnings   []string          `json:"warnings,omitempty"`
}

// imports are the kinds of judges.
var imports = map[string]func(o *Options) (*judge, error){
	"editreward": editReward,
	"hpsv3":      hpsv3,
	"adiee":      adiee,
	"choices":    choices,
}

// Kinds lists what can be imported.
func Kinds() []string { return []string{"editreward", "hpsv3", "adiee", "choices"} }

// judge is a scorer to be written, and its model card.
type judge struct {
	state    *model.ScorerState
	card     modelcard.Card
	warnings []string
}

// Import creates the scorer directory o.Out atomically. It is opened once before it gets its final name, to check
// that all files that it refers to fit.
func Import(kind string, o Options) (*Imported, error) {
	make := imports[kind]
	if make == nil {
		return nil, exit.Usage(fmt.Errorf("kind %q: want one of %s", kind, strings.Join(Kinds(), ", ")))
	}
	j, err := make(&o)
	if err != nil {
		return nil, err
	}
	c := j.state.Config
	if err := c.Normalize(); err != nil {
		return nil, err
	}
	if err := model.RecordOrigin(c); err != nil {
		return nil, err
	}
	r := &Imported{
		Out:       o.Out,
		Kind:      kind,
		Name:      c.Origin.Name,
		Published: c.Origin.Published,
		Prompts:   c.Origin.Prompts,
		Warnings:  j.warnings,
	}
	for _, q := range c.Passes {
		r.Dimensions = append(r.Dimensions, q.Heads...)
	}
	slices.Sort(r.Dimensions)
	return r, atomicfile.WriteDir(o.Out, func(dir string) error {
		if o.Copy {
			if err := copyCheckpoint(c, dir); err != nil {
				return err
			}
		}
		if err := j.state.Save(dir); err != nil {
			return err
		}
		if err := writeCard(filepath.Join(dir, "README.md"), c, j.card); err != nil {
			return err
		}
		state, err := model.LoadScorerState(dir)
		if err != nil {
			return err
		}
		s, err := model.NewScorer(state, model.Options{Device: "cpu"}) // its errors do not name dir, which is temporary
		if err != nil {
			return err
		}
		return errors.Join(checkJudge(s, c), s.Close())
	})
}

// checkJudge compares the prompts that were read back with the written ones, to the last blank, and checks a
// question.
func checkJudge(s *model.Scorer, written *model.ScorerConfig) error {
	read := s.Config()
	for i, q := range written.Passes {
		if read.Passes[i].Prompt != q.Prompt || read.Passes[i].Answer != q.Answer {
			return fmt.Errorf("the prompt of %s changes when it is written to %s: please report it", q.Name, model.ConfigFile)
		}
	}
	return s.CheckText(&edit.Edit{Instruction: "make it brighter"}, model.Ask{})
}

// openWeights opens the weights of a judge under the names of their files.
func openWeights(o *Options) (*checkpoints.Weights, error) {
	if o.Weights == "" {
		return nil, exit.Usage(errors.New("--weights is needed: the judge's own, a folder or a .safetensors file"))
	}
	return checkpoints.OpenWeightsAt(o.Weights)
}

// absolute makes the paths of a judge absolute: scorer.yaml then refers to them from its own location.
func (o *Options) absolute() (base, weights string, err error) {
	if base, err = filepath.Abs(o.Base); err != nil || o.Weights == "" {
		return base, "", err
	}
	weights, err = filepath.Abs(o.Weights)
	return base, weights, err
}

// copyCheckpoint copies base and weights into a scorer directory, which is then self-contained.
func copyCheckpoint(c *model.ScorerConfig, dir string) error {
	base := filepath.Join(dir, "backbone")
	if err := os.Mkdir(base, 0o777); err != nil {
		return err
	}
	if err := checkpoints.CopyCompanions(c.Backbone, base); err != nil {
		return err
	}
	from, to := c.Weights, filepath.Join(dir, "weights")
	if from == "" {
		from, to = c.Backbone, base
	} else if err := os.Mkdir(to, 0o777); err != nil {
		return err
	}
	w, err := checkpoints.OpenWeightsAt(from)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.CopyTo(to); err != nil {
		return err
	}
	c.Backbone = base
	if c.Weights != "" {
		if c.Weights = to; len(w.Shards()) == 1 {
			c.Weights = filepath.Join(to, w.Shards()[0].Name)
		}
	}
	return nil
}

// digest returns the SHA-256 of a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
