// Package models implements what a run trains behind one interface, Model: scorers whose adapter, backbone, head and
// score token train in a step graph (scorer.go), scorers of which only the head trains, on cached hidden states
// (head.go), and models that learn the answers of conversations (text.go). It also opens them from a configuration
// and plans their memory.
//
// What only some models do has separate interfaces: [Planner] and [dataset.Inspector] (all that [Open] makes),
// [Graph] and [Targeter] (step graphs), [dataset.Prefetcher] (scorers), [Preparer] (heads).
package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/objective"
	"assay/model"
)

// StepInput is what a micro-batch learns from: Items, which the terms of the objective (Config.Losses) compare, or
// without them the examples' labels, which the model fills in.
type StepInput = model.StepInput

// noTerms refuses an objective with terms, for models that only learn from single examples.
func noTerms(in StepInput) error {
	if len(in.Items) > 0 {
		return errors.New("this model does not train on losses of several terms")
	}
	return nil
}

// StepResult is the result of one forward and backward pass.
type StepResult struct {
	Loss, CE, ScoreLoss, Score []float64       // per example; Score is score01; CE may be empty if there is no text
	Tokens                     int             // of all examples together
	Grads                      []*tensor.Dense // in the order of Params, of sum_i weight loss_i
	Terms                      [][]float64     // for each term, the losses of its items

	// For rewarded answers, sums over the tokens of each answer: KL divergence from the base, and number of clipped
	// ratios.
	Divergence, Clipped []float64
}

// Check returns an error if a result does not have one loss for each of n samples.
func (r *StepResult) Check(n int) error {
	if len(r.Loss) != n || len(r.ScoreLoss) != n || len(r.Score) != n || len(r.CE) != 0 && len(r.CE) != n {
		return fmt.Errorf("the model returned %d losses for %d samples", len(r.Loss), n)
	}
	return nil
}

// MicroBatches are the parts of a step's batch.
type MicroBatches interface {
	Step() int64
	Len() int
	Run(ctx context.Context, i int) (*StepResult, error) // forward and backward
	Done(i int, out *StepResult)                         // called in order, once the gradients are summed
}

// Model is what the training loop trains.
type Model interface {
	// Params returns the trainable tensors, always the same ones in the same order.
	Params() []optim.Param
	// Step runs the forward and backward pass over a micro-batch. The result is a function of the arguments and of
	// the parameters only.
	Step(ctx context.Context, batch []dataset.Example, in StepInput) (*StepResult, error)
	// Score returns score01 of every example.
	Score(ctx context.Context, batch []dataset.Example) ([]float64, error)
	// SaveScorer writes a complete scorer directory into the existing empty dir, which is next to its final path.
	SaveScorer(dir string) error
	// Fingerprint returns hashes by name of what must be unchanged when a run resumes: the backbone and so on.
	Fingerprint() map[string]string
	Close() error
}

// Factory creates the model of a configuration, with the initial parameters of a new run.
type Factory func(ctx context.Context, c *config.Config) (Model, error)

// Preparer is a model that must see the examples of a run before it begins (mode head: hidden states are computed
// once). done is called with the number of examples finished.
type Preparer interface {
	Prepare(ctx context.Context, examples iter.Seq2[dataset.Example, error], done func(n int)) error
}

// Planner is a model that can estimate what a run will need.
type Planner interface {
	// Plan estimates memory. The caller fills in RunSize and Trains.
	Plan(ctx context.Context, in PlanInput) (*Plan, error)
}

// PlanInput is what a plan is computed from.
type PlanInput struct {
	Examples         []dataset.Example // the first ones of the run
	Rows, Validation int               // numbers of training and of validation rows
	MicroBatch       int               // of the run, if known; 0: as configured
	Group            int               // edits in the largest group, which is never split; 0: no whole groups
}

// Plan is what train --dry-run prints.
type Plan struct {
	Device  string `json:"device"`            // description of the device that would be used
	Kernels string `json:"kernels,omitempty"` // kernels of the layers, and why they were chosen
	RunSize
	MicroBatch int               `json:"micro_batch"`         // samples per run of the graph; chosen by the model if auto
	Recompute  *RecomputedLayers `json:"recompute,omitempty"` // if recompute is auto
	Tokens     TokenCount        `json:"tokens"`              // per example, over the sampled examples
	Shared     *SharedTokens     `json:"shared,omitempty"`    // prefix shared by the edits of a whole group
	Parameters int64             `json:"parameters"`          // of backbone, adapter and head
	Trainable  int64             `json:"trainable"`           // number of trainable parameters
	Trains     Trained           `json:"trains"`              // what they are
	MemoryNeed
}

// RunSize is what the trainer knows about a run, independent of the model.
type RunSize struct {
	Steps      int64              `json:"steps"`               // optimizer steps
	Examples   int64              `json:"examples"`            // samples seen over the run
	Groups     int64              `json:"groups,omitempty"`    // groups seen over the run, if it keeps groups whole
	Rows       int                `json:"rows"`                // labelled training rows
	Validation int                `json:"validation"`          // validation rows
	BadRows    []dataset.BadRow   `json:"bad_rows,omitempty"`  // rows that would be set aside
	Warnings   []string           `json:"warnings,omitempty"`  // about rows that are used
	Summary    *objective.Summary `json:"found,omitempty"`     // groups and what compares their edits, if they are used
	Benchmark  string             `json:"benchmark,omitempty"` // that decides which scorer is best
	BatchSize  int                `json:"batch_size"`          // samples per step
}

// MemoryNeed is the memory that a run needs.
type MemoryNeed struct {
	Bytes  map[string]int64 `json:"bytes"`            // memory needed, by purpose
	Host   map[string]int64 `json:"host,omitempty"`   // host memory on a GPU, where Bytes is GPU memory
	Absent string           `json:"absent,omitempty"` // which weights of the backbone are missing; nothing trains then
	Partly bool             `json:"partly,omitempty"` // some weights exist, but a shard is missing
	Need   int64            `json:"need"`             // total of Bytes
	Memory int64            `json:"memory,omitempty"` // free memory of the device; 0: unknown
	Fits   *bool            `json:"fits,omitempty"`   // whether Need fits into Memory
}

// Err returns why the planned run would fail: a shard of the weights is missing, or there is too little memory.
// Weights that are all absent are not an error: a run can be planned before they are downloaded.
func (p *MemoryNeed) Err() error {
	switch {
	case p.Partly:
		return fmt.Errorf("the run would fail: %s", p.Absent)
	case p.Fits != nil && !*p.Fits:
		return fmt.Errorf("the run would not fit: it needs %.1f GB, %.1f GB are free", float64(p.Need)/1e9,
			float64(p.Memory)/1e9)
	}
	return nil
}

// RecomputedLayers are the first layers (and blocks of a vision tower that trains), which the backward pass
// recomputes.
type RecomputedLayers struct {
	First int `json:"first"`
	Of    int `json:"of"`
}

func (r *RecomputedLayers) String() string {
	return fmt.Sprintf("the first %d of %d layers", r.First, r.Of)
}

// SharedTokens says how many tokens the first group with several edits saves in a step.
type SharedTokens struct {
	Edits    int    `json:"edits"`
	Together int    `json:"together"`      // tokens that go through the language model, with sharing
	OneByOne int    `json:"one_by_one"`    // the same if every edit ran separately
	Why      string `json:"why,omitempty"` // why nothing is shared
}

// TokenCount describes the lengths of examples, in tokens.
type TokenCount struct {
	Min  int     `json:"min"`
	Mean float64 `json:"mean"`
	Max  int     `json:"max"`
}

// add counts one example of several.
func (t *TokenCount) add(n, of int) {
	t.Min = cmp.Or(t.Min, n)
	t.Min, t.Max = min(t.Min, n), max(t.Max, n)
	t.Mean += float64(n) / float64(of)
}

// Measured is a model's output for a micro-batch of validation rows.
type Measured struct {
	Scores     []float64          // of scorers
	Dimensions [][]edit.Dimension // of scorers of format 2, in 0..1
	Text       TextMeasure        // of mode text
	Examples   []dataset.Example  // their labels and annotations, without pictures
}

// TextMeasure adds up metrics over the tokens of answers.
type TextMeasure struct {
	Loss   float64 // sum of -log softmax
	Tokens int
	Right  int // tokens that were the most likely

	Answers, Read int // of objective grpo: generated answers, and answers that all reward terms could parse
	Reward        float64
}

// Candidate returns the scorer in its current state.
func (m *ScorerModel) Candidate() edit.Judge { return m.tuner.Scorer }

// Targeter is a model with a text loss.
type Targeter interface {
	Targets(e *dataset.Example) (int, error) // number of tokens in an example's text loss; 0: none
}
