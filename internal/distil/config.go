package distil

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/hub"
	"assay/internal/remote"
	"assay/internal/strictyaml"
	"assay/internal/trainer/config"
	"assay/model"
)

// readable returns the error that train would return for a configuration, or that it would learn no reasons, before
// the teacher is asked anything.
func (r *run) readable(text []byte) error {
	dir, err := os.MkdirTemp("", "distil-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, configFile)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return err
	}
	c, err := config.Load(path)
	var problems strictyaml.Problems
	if errors.As(err, &problems) { // the keys are the user's, but not the file and its lines
		for i := range problems {
			if problems[i].Key != "" {
				problems[i].File = ""
			}
		}
	}
	if err != nil {
		return fmt.Errorf("the student's configuration (%s): %w", r.Config, err)
	}
	if r.Reasons && c.TextWeight() == 0 {
		return fmt.Errorf("%s: with --reasons, want a term {kind: text} in losses (or loss.text more than 0), or leave "+
			"losses and loss out: otherwise the reasons are paid for and not learned", r.Config)
	}
	return nil
}

// configuration returns the student's configuration with the labels as its data, with losses that fit them if it has
// none, and with absolute paths.
func (r *run) configuration() ([]byte, error) {
	raw, err := os.ReadFile(r.Config)
	if err != nil {
		return nil, err
	}
	var c yaml.MapSlice
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Config, err)
	}
	out, err := filepath.Abs(r.Out)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(r.Config))
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"backbone", "init", "scorer"} {
		text, ok := get(c, key).(string)
		if _, name, err := hub.Of(folder, text); ok && err == nil && !name && !remote.Is(text) {
			c = set(c, key, strictyaml.Absolute(folder, text))
		}
	}
	validate, _ := get(c, "validate").(map[string]any)
	benchmark, _ := validate["benchmark"].(map[string]any)
	for _, key := range []string{"ratings", "images", "votes", "targets"} {
		if text, ok := benchmark[key].(string); ok {
			benchmark[key] = strictyaml.Absolute(folder, text)
		}
	}
	if get(c, "cache") != nil {
		return nil, fmt.Errorf("%s: cache: leave it out; the run uses its own cache", r.Config)
	}
	c = set(c, "out", filepath.Join(out, "run"))
	data, _ := get(c, "data").(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	data["train"] = filepath.Join(out, labelsFile)
	if _, fraction := strictyaml.Float(data["validation"]); !fraction { // tables have other labels
		delete(data, "validation")
	}
	for _, key := range []string{"train_split", "validation_split"} {
		if data[key] != nil {
			return nil, fmt.Errorf("%s: data.%s: leave it out; every edit of --in is learned from (data.validation: 0.1 holds "+
				"a tenth of their groups out)", r.Config, key)
		}
	}
	if columns, ok := data["columns"].(map[string]any); ok {
		for _, label := range []string{"label", "ratings", "rank", "why"} { // distil writes these
			delete(columns, label)
		}
	}
	c = set(c, "data", data)
	if c, err = r.objective(c, folder); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Config, err)
	}
	text, err := yaml.MarshalWithOptions(c, yaml.IndentSequence(true))
	return append([]byte("# Written by score distil; train --config runs it as it is.\n\n"), text...), err
}

// classes are the values of a student whose configuration does not set its head: eleven, like points from 0 to 10.
var classes = []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}

// started returns the scorer that init names; nil: there is none, or only an adapter, or train refuses it.
func started(c yaml.MapSlice, folder string) (*model.ScorerConfig, error) {
	text, _ := get(c, "init").(string)
	if text == "" {
		return nil, nil
	}
	dir, err := hub.Beside(folder, text)
	if err != nil {
		return nil, err
	}
	if s, err := model.ReadScorerConfig(filepath.Join(dir, model.ConfigFile)); err == nil {
		return s, nil
	}
	return nil, nil
}

// explained adds the teacher's text to every answer that lacks it.
func explained(c yaml.MapSlice, init *model.ScorerConfig) yaml.MapSlice {
	answers := config.Default().Answer
	if init != nil {
		answers = config.Strings{init.OnePass().Answer}
	}
	if own := get(c, "answer"); own != nil && answers.UnmarshalValue(own) != nil {
		return c // train refuses it
	}
	answers = slices.Clone(answers)
	for i, answer := range answers {
		if !strings.Contains(answer, model.WhyMark) {
			answers[i] = answer + " " + model.WhyMark
		}
	}
	return set(c, "answer", answers)
}

// objective adds the losses that the configuration does not set: on the distribution of the ratings over the classes,
// or on the order only; with reasons also on the teacher's text after the score.
func (r *run) objective(c yaml.MapSlice, folder string) (yaml.MapSlice, error) {
	init, err := started(c, folder)
	if err != nil {
		return nil, err
	}
	heads := get(c, "scorer") != nil || init != nil && init.Format == 2
	if r.Reasons && heads {
		return nil, errors.New("a scorer of format 2 has no text loss: leave out --reasons")
	}
	if r.Reasons {
		c = explained(c, init)
	}
	if get(c, "losses") != nil || get(c, "loss") != nil {
		return c, nil
	}
	if heads {
		return nil, errors.New("losses: a scorer with several heads needs the losses set, for example {kind: gaussian, " +
			"votes: soft}")
	}
	head, _ := get(c, "head").(map[string]any)
	kind := head["kind"]
	if kind == nil && init != nil { // its head stays
		kind = init.OnePass().Head.Kind
	}
	if kind == nil && !r.Order {
		if head == nil {
			head = map[string]any{}
		}
		if kind, head["kind"] = "classification", "classification"; head["values"] == nil {
			head["values"] = classes
		}
		c = set(c, "head", head)
	}
	term := map[string]any{"kind": "l1"}
	switch {
	case r.Order:
		term = map[string]any{"kind": "bradley_terry"}
	case kind == "classification":
		term = map[string]any{"kind": "classes", "votes": "soft"}
	}
	losses := []map[string]any{term}
	if r.Reasons {
		losses = append(losses, map[string]any{"kind": "text", "weight": 0.1})
	}
	return set(c, "losses", losses), nil
}

// get returns the value of a key; set replaces or appends it. The mapping keeps its order.
func get(c yaml.MapSlice, key string) any {
	for _, item := range c {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

func set(c yaml.MapSlice, key string, value any) yaml.MapSlice {
	for i := range c {
		if c[i].Key == key {
			c[i].Value = value
			return c
		}
	}
	return append(c, yaml.MapItem{Key: key, Value: value})
}
