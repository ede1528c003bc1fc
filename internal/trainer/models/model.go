// Package models has what a run trains behind one interface, Model: scorers whose adapter, backbone, head and score
// token train in a step graph (scorer.go), scorers whose head alone trains on kept hidden states (head.go), and models
// that learn the answers of conversations (text.go). It also opens them by a configuration and plans their memory.
//
// What only some models do are interfaces of their own: [Planner] and [dataset.Inspector] (all that [Open] makes),
// [Graph] and [Targeter] (step graphs), [dataset.Prefetcher] (scorers), [Preparer] (heads).
package models

import (
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

// StepInput is what a micro-batch learns from: with Items what the terms of the objective (Config.Losses) compare, else
// the examples' labels, which the model fills in.
type StepInput = model.StepInput

// noTerms refuses an objective of terms, for models that learn from examples as they are.
func noTerms(in StepInput) error {
	if len(in.Items) > 0 {
		return errors.New("this model does not train on losses of several terms")
	}
	return nil
}

// StepResult is what one run of forward and backward pass gives.
type StepResult struct {
	Loss, CE, ScoreLoss, Score []float64       // per example; Score is score01; CE may be empty if there is no text
	Tokens                     int             // of all examples
	Grads                      []*tensor.Dense // in the order of Params, of sum_i weight loss_i
	Terms                      [][]float64     // for each term the losses of its items

	// Of answers that are rewarded, sums over the tokens of each: of the divergence from the base, and of clipped ratios.
	Divergence, Clipped []float64
}

// Check compares what a model gave for n samples with their number.
func (r *StepResult) Check(n int) error {
	if len(r.Loss) != n || len(r.ScoreLoss) != n || len(r.Score) != n || len(r.CE) != 0 && len(r.CE) != n {
		return fmt.Errorf("the model gave %d losses for %d samples", len(r.Loss), n)
	}
	return nil
}

// MicroBatches are the parts of a step's batch.
type MicroBatches interface {
	Step() int64
	Len() int
	Run(ctx context.Context, i int) (*StepResult, error) // forward and backward
	Done(i int, out *StepResult)                         // in order, once its gradients are summed
}

// Model is what the loop trains.
type Model interface {
	// Params are the trainable tensors, always the same ones in the same order.
	Params() []optim.Param
	// Step runs forward and backward pass over a micro-batch. The result is a function of the arguments and of the
	// parameters only.
	Step(ctx context.Context, batch []dataset.Example, in StepInput) (*StepResult, error)
	// Score gives score01 of every example.
	Score(ctx context.Context, batch []dataset.Example) ([]float64, error)
	// SaveScorer writes a complete scorer directory into the existing empty dir, which is a sibling of its final place.
	SaveScorer(dir string) error
	// Fingerprint names and hashes what a resumed run must find again: the backbone and so on.
	Fingerprint() map[string]string
	Close() error
}

// Factory makes the model of a configuration, with the parameters that a fresh run begins with.
type Factory func(ctx context.Context, c *config.Config) (Model, error)

// Preparer is a model that wants to see the examples of a run before it begins (the head alone: hidden states are
// computed once). done is called with the number of examples finished.
type Preparer interface {
	Prepare(ctx context.Context, examples iter.Seq2[dataset.Example, error], done func(n int)) error
}

// Planner is a model that can say what a run will need.
type Planner interface {
	// Plan estimates memory. The caller fills in RunSize and Trains.
	Plan(ctx context.Context, in PlanInput) (*Plan, error)
}

// PlanInput is what a plan is made of.
type PlanInput struct {
	Examples         []dataset.Example // the first ones of the run
	Rows, Validation int               // numbers of training and of validation rows
	MicroBatch       int               // of the run, where that is known; 0: as the configuration says
	Group            int               // edits of the largest group, which is in one run of the graph; 0: no whole groups
}

// Plan is what train --dry-run prints.
type Plan struct {
	Device  string `json:"device"`            // the one that would be used, in words
	Kernels string `json:"kernels,omitempty"` // operators of the layers, and why these
	RunSize
	MicroBatch int               `json:"micro_batch"`         // samples per run of the graph; the model's if auto
	Recompute  *RecomputedLayers `json:"recompute,omitempty"` // where it is auto
	Tokens     TokenCount        `json:"tokens"`              // of an example, over the sample looked at
	Shared     *SharedTokens     `json:"shared,omitempty"`    // what the edits of a whole group begin with
	Parameters int64             `json:"parameters"`          // of backbone, adapter and head
	Trainable  int64             `json:"trainable"`           // of them
	Trains     Trained           `json:"trains"`              // which
	MemoryNeed
}

// RunSize is what the trainer knows of a run, whatever the model is.
type RunSize struct {
	Steps      int64              `json:"steps"`               // optimizer steps
	Examples   int64              `json:"examples"`            // samples seen over the run
	Groups     int64              `json:"groups,omitempty"`    // whole groups seen over the run, if it keeps them whole
	Rows       int                `json:"rows"`                // labelled training rows
	Validation int                `json:"validation"`          // validation rows
	BadRows    []dataset.BadRow   `json:"bad_rows,omitempty"`  // rows that would be set aside
	Warnings   []string           `json:"warnings,omitempty"`  // of rows that are used
	Summary    *objective.Summary `json:"found,omitempty"`     // groups and what compares their edits, if they are used
	Benchmark  string             `json:"benchmark,omitempty"` // that says which scorer is best
	BatchSize  int                `json:"batch_size"`          // samples per step
}

// MemoryNeed is what a run takes of the device's memory.
type MemoryNeed struct {
	Bytes  map[string]int64 `json:"bytes"`            // memory wanted, by what for
	Host   map[string]int64 `json:"host,omitempty"`   // the machine's beside a GPU's, which Bytes is then
	Absent string           `json:"absent,omitempty"` // what is missing of the backbone's weights; nothing trains then
	Partly bool             `json:"partly,omitempty"` // a part of the weights is there, a shard is missing
	Need   int64            `json:"need"`             // all of it
	Memory int64            `json:"memory,omitempty"` // what the device has free; 0: not known
	Fits   *bool            `json:"fits,omitempty"`   // whether that suffices
}

// Err says why the run that is planned would fail: a shard of the weights is missing, or there is too little memory.
// Weights that are absent as a whole are no reason: a run can be planned before they are fetched.
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

// RecomputedLayers are the first so many layers of all (and blocks of a tower that trains), which the backward pass
// computes again.
type RecomputedLayers struct {
	First int `json:"first"`
	Of    int `json:"of"`
}

func (r *RecomputedLayers) String() string {
	return fmt.Sprintf("the first %d of %d layers", r.First, r.Of)
}

// SharedTokens says what the edits of one group, the first of several edits, save in a step.
type SharedTokens struct {
	Edits    int    `json:"edits"`
	Together int    `json:"together"`      // tokens that go through the language model
	OneByOne int    `json:"one_by_one"`    // the same if every edit ran by itself
	Why      string `json:"why,omitempty"` // why nothing is shared
}

// TokenCount describes the lengths of examples, in tokens.
type TokenCount struct {
	Min  int     `json:"min"`
	Mean float64 `json:"mean"`
	Max  int     `json:"max"`
}

// add counts one of several examples.
func (t *TokenCount) add(n, of int) {
	if t.Min == 0 {
		t.Min = n
	}
	t.Min, t.Max = min(t.Min, n), max(t.Max, n)
	t.Mean += float64(n) / float64(of)
}

// Measured is what a model makes of a micro-batch of validation rows.
type Measured struct {
	Scores     []float64          // of scorers
	Dimensions [][]edit.Dimension // of scorers of format 2, on 0..1
	Text       TextMeasure        // of mode text
	Examples   []dataset.Example  // what is compared of them, without their pictures
}

// TextMeasure adds up what a model makes of the tokens of answers.
type TextMeasure struct {
	Loss   float64 // sum of -log softmax
	Tokens int
	Right  int // those that were the likeliest

	Answers, Read int // of objective grpo: those that were made, and that all terms of the reward could read
	Reward        float64
}

// Candidate is the scorer in its present state.
func (m *ScorerModel) Candidate() edit.Judge { return m.tuner.Scorer }

// Targeter is a model with a text loss.
type Targeter interface {
	Targets(e *dataset.Example) (int, error) // tokens that an example's text loss is over; 0: it has none
}
