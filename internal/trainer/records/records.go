// Package records writes what a run reports as it goes: a line in metrics.jsonl for every step and validation,
// TensorBoard curves, and the progress bar.
package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/journal"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/events"
)

// MetricsFile is the run's record: one JSON object per line, append-only.
const MetricsFile = "metrics.jsonl"

// Number is a float64 whose NaN and infinities are null in JSON.
type Number float64

// None is a Number that is not defined.
var None = Number(math.NaN())

// MarshalJSON writes null for NaN and infinities.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// StepMetrics is the line of one optimizer step. All means are over the batch.
type StepMetrics struct {
	Kind      string  `json:"kind"` // train
	Step      int64   `json:"step"` // steps done, including this one
	Epoch     float64 `json:"epoch"`
	Samples   int64   `json:"samples"`          // edits seen so far
	Groups    int64   `json:"groups,omitempty"` // groups seen so far, in a run with whole groups
	Loss      Number  `json:"loss"`
	Text      *Number `json:"text_loss,omitempty"`
	ScoreLoss Number  `json:"score_loss"`
	L1        Number  `json:"l1"` // |score01 - label|

	Terms map[string]Number `json:"losses,omitempty"` // mean of each term of the objective, before its weight
	Items map[string]int    `json:"items,omitempty"`  // number of edits, pairs or orders in each term

	Answers *AnswerMetrics `json:"answers,omitempty"` // of objective grpo

	LR       float64 `json:"lr"`
	LRs      Rates   `json:"lrs,omitempty"` // by parameter group, for groups with their own
	GradNorm Number  `json:"grad_norm"`     // before clipping
	Tokens   int     `json:"tokens"`
	Skipped  bool    `json:"skipped,omitempty"` // something was not finite: no update
	Waited   Number  `json:"waited"`            // share of the step's time spent waiting for examples
	Seconds  float64 `json:"seconds"`           // of training so far
}

// AnswerMetrics are the metrics of the answers that a step learns from.
type AnswerMetrics struct {
	Reward     Number            `json:"reward"`     // mean
	RewardStd  Number            `json:"reward_std"` // over all answers of the step
	Rewards    map[string]Number `json:"rewards"`    // mean of each term
	SameReward Number            `json:"frac_reward_zero_std"`
	KL         *Number           `json:"kl,omitempty"` // mean over tokens; nil: beta is 0
	ClipRatio  Number            `json:"clip_ratio"`   // share of tokens whose ratio is clipped
	Length     Number            `json:"completion_length"`
	Truncated  Number            `json:"truncated"` // share of truncated answers
	Read       Number            `json:"read"`      // share of answers that all rewards could parse
}

// scalars returns the values for the curves.
func (a *AnswerMetrics) scalars() []events.Scalar {
	out := []events.Scalar{
		{Tag: "train/reward", Value: float64(a.Reward)},
		{Tag: "train/reward_std", Value: float64(a.RewardStd)},
		{Tag: "train/frac_reward_zero_std", Value: float64(a.SameReward)},
		{Tag: "train/clip_ratio", Value: float64(a.ClipRatio)},
		{Tag: "train/completion_length", Value: float64(a.Length)},
		{Tag: "train/truncated", Value: float64(a.Truncated)},
		{Tag: "train/read", Value: float64(a.Read)},
	}
	if a.KL != nil {
		out = append(out, events.Scalar{Tag: "train/kl", Value: float64(*a.KL)})
	}
	for _, name := range slices.Sorted(maps.Keys(a.Rewards)) {
		out = append(out, events.Scalar{Tag: "train/rewards/" + name, Value: float64(a.Rewards[name])})
	}
	return out
}

// Rates are learning rates by parameter group.
type Rates map[string]float64

// WaitedShare returns the share of a step's time that was spent waiting for examples, rounded to 0.001.
func WaitedShare(waited, all time.Duration) Number {
	return Number(math.Round(1000*waited.Seconds()/max(all.Seconds(), 1e-9)) / 1000)
}

// ValidationMetrics are the metrics over the validation rows.
type ValidationMetrics struct {
	Kind     string  `json:"kind"` // validation
	Step     int64   `json:"step"`
	L1       Number  `json:"l1"`       // mean |score01 - label|
	Spearman Number  `json:"spearman"` // rank correlation; null if one side is constant
	Accuracy Number  `json:"accuracy"` // share of scores whose nearest class of 0, 0.5, 1 equals the label's
	Rows     int     `json:"rows"`
	PairRows int     `json:"pairs,omitempty"`         // pairs of edits of a group in which one is better
	Pairs    *Number `json:"pair_accuracy,omitempty"` // share of pairs that the scores order correctly; ties count half
	Loss     *Number `json:"loss,omitempty"`          // in mode text: mean over the tokens of the answers
	Tokens   int     `json:"tokens,omitempty"`        // number of these tokens
	By       string  `json:"by,omitempty"`            // metric that decides the best, if not L1

	TokenAccuracy *Number `json:"token_accuracy,omitempty"` // in mode text: share of tokens that were the most likely

	Reward *Number `json:"reward,omitempty"` // in objective grpo: mean over one greedy answer per prompt
	Read   *Number `json:"read,omitempty"`   // share of these answers that all rewards could parse

	Benchmark *Number `json:"benchmark,omitempty"`       // the number of validate.benchmark
	Lower     bool    `json:"lower_is_better,omitempty"` // of the benchmark

	Dimensions map[string]*DimensionMetrics `json:"dimensions,omitempty"` // of the heads of a scorer of format 2

	Best    bool    `json:"best"`    // the best so far
	Seconds float64 `json:"seconds"` // of training so far
}

// DimensionMetrics are the metrics of a head over the validation rows that have a label or a comparison in its
// dimension.
type DimensionMetrics struct {
	Rows     int     `json:"rows"`                    // with a label
	L1       *Number `json:"l1,omitempty"`            // mean |value - label|, in 0..1
	Spearman *Number `json:"spearman,omitempty"`      // null if one side is constant
	Accuracy *Number `json:"accuracy,omitempty"`      // for unordered classes: share of correct ones
	PairRows int     `json:"pairs,omitempty"`         // as in ValidationMetrics
	Pairs    *Number `json:"pair_accuracy,omitempty"` //

	Untrained bool `json:"untrained,omitempty"` // no loss trains the head: validate.by ignores it
}

// Error returns the mean error of a head in 0..1: L1, or the share of wrong classes; without labels, the share of
// wrong pairs.
func (m *DimensionMetrics) Error() float64 {
	switch {
	case m.Accuracy != nil:
		return 1 - float64(*m.Accuracy)
	case m.L1 != nil:
		return float64(*m.L1)
	}
	return 1 - float64(*m.Pairs)
}

// Recorder appends to metrics.jsonl and the TensorBoard file of a run.
type Recorder struct {
	lines  *journal.File
	events *events.Writer // nil: none
	name   string         // of the event file

	Progress dataset.Progress
}

// New opens the files at the sizes that a checkpoint recorded: anything written after it is cut off, so that nothing
// is recorded twice. name is the name of the event file; empty: a new one. Without curves there is no event file.
func New(dir, name string, size, eventSize int64, curves bool) (*Recorder, error) {
	path := filepath.Join(dir, MetricsFile)
	lines, err := journal.OpenFile(path, size)
	if errors.Is(err, journal.ErrShort) {
		return nil, fmt.Errorf("%s is shorter than the checkpoint says (%d bytes): it was modified; start over with --fresh",
			path, size)
	}
	if err != nil {
		return nil, err
	}
	r := &Recorder{lines: lines}
	if !curves {
		return r, nil
	}
	if name == "" {
		name = fmt.Sprintf("events.out.tfevents.%010d.assay", time.Now().Unix())
	}
	r.name = name
	if r.events, err = events.Open(filepath.Join(dir, name), eventSize, wall()); err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	return r, nil
}

// EventsFile returns the name of the event file; "": none.
func (r *Recorder) EventsFile() string { return r.name }

func wall() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

// line appends one JSON object.
func (r *Recorder) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = r.lines.Write(append(text, '\n'))
	return err
}

// Step records a step.
func (r *Recorder) Step(m *StepMetrics) error {
	if r == nil { // not the main process
		return nil
	}
	scalars := []events.Scalar{
		{Tag: "train/loss", Value: float64(m.Loss)},
		{Tag: "train/score_loss", Value: float64(m.ScoreLoss)},
		{Tag: "train/l1", Value: float64(m.L1)},
		{Tag: "train/lr", Value: m.LR},
		{Tag: "train/grad_norm", Value: float64(m.GradNorm)},
		{Tag: "train/waited", Value: float64(m.Waited)},
	}
	if math.IsNaN(float64(m.ScoreLoss)) && !math.IsNaN(float64(m.Loss)) { // conversations have no scores
		scalars = append(scalars[:1], scalars[3:]...)
	}
	if m.Answers != nil {
		scalars = append(scalars, m.Answers.scalars()...)
	}
	if m.Text != nil {
		scalars = append(scalars, events.Scalar{Tag: "train/text_loss", Value: float64(*m.Text)})
	}
	for _, name := range slices.Sorted(maps.Keys(m.LRs)) {
		scalars = append(scalars, events.Scalar{Tag: "train/lr/" + name, Value: m.LRs[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Terms)) {
		scalars = append(scalars, events.Scalar{Tag: "train/losses/" + name, Value: float64(m.Terms[name])})
	}
	return r.add(m, m.Step, scalars)
}

// Validation records a validation.
func (r *Recorder) Validation(m *ValidationMetrics) error {
	if r == nil {
		return nil
	}
	scalars := []events.Scalar{
		{Tag: "validation/l1", Value: float64(m.L1)},
		{Tag: "validation/spearman", Value: float64(m.Spearman)},
		{Tag: "validation/accuracy", Value: float64(m.Accuracy)},
	}
	if m.Loss != nil {
		scalars = []events.Scalar{
			{Tag: "validation/loss", Value: float64(*m.Loss)},
			{Tag: "validation/token_accuracy", Value: float64(*m.TokenAccuracy)},
		}
	}
	if m.Reward != nil {
		scalars = []events.Scalar{
			{Tag: "validation/reward", Value: float64(*m.Reward)},
			{Tag: "validation/read", Value: float64(*m.Read)},
		}
	}
	if m.Pairs != nil {
		scalars = append(scalars, events.Scalar{Tag: "validation/pair_accuracy", Value: float64(*m.Pairs)})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Dimensions)) {
		d := m.Dimensions[name]
		for what, v := range map[string]*Number{"l1": d.L1, "spearman": d.Spearman, "accuracy": d.Accuracy,
			"pair_accuracy": d.Pairs} {
			if v != nil {
				scalars = append(scalars, events.Scalar{Tag: "validation/" + name + "/" + what, Value: float64(*v)})
			}
		}
	}
	if m.Benchmark != nil {
		scalars = append(scalars, events.Scalar{Tag: "validation/benchmark", Value: float64(*m.Benchmark)})
		if m.Rows == 0 {
			scalars = scalars[3:]
		}
	}
	return r.add(m, m.Step, scalars)
}

// add records a line of the metrics, and the curves of a step.
func (r *Recorder) add(line any, step int64, scalars []events.Scalar) error {
	err := r.line(line)
	if r.events != nil {
		err = errors.Join(err, r.events.Add(step, wall(), scalars...))
	}
	return r.told(err)
}

func (r *Recorder) told(err error) error {
	if err != nil {
		return fmt.Errorf("writing the metrics: %w (the last checkpoint is intact: free disk space and run again)", err)
	}
	return nil
}

// Sync flushes the files to disk, and returns what a checkpoint records: the sizes of metrics.jsonl and the event
// file in bytes, and the name of the event file.
func (r *Recorder) Sync() (metrics, events int64, eventsFile string, err error) {
	err = r.lines.Sync()
	if r.events != nil {
		err, events = errors.Join(err, r.events.Sync()), r.events.Size()
	}
	return r.lines.Size(), events, r.name, r.told(err)
}

// Advance updates the progress bar after a micro-batch; last is the last complete step.
func (r *Recorder) Advance(l *dataset.Loader, last *StepMetrics, part []dataset.Example) {
	if r == nil {
		return
	}
	note := ""
	if last != nil {
		note = fmt.Sprintf("loss %.4f", last.Loss)
		if last.Answers != nil {
			note += fmt.Sprintf(", reward %.4f", last.Answers.Reward)
		}
		if last.Waited >= 0.01 {
			note += fmt.Sprintf(", %.0f %% waiting", 100*float64(last.Waited))
		}
	}
	n := len(part)
	if part[0].Completion != nil { // several answers belong to one row, which counts with its first answer
		n = 0
		for i := range part {
			if part[i].Completion.Number == 0 {
				n++
			}
		}
	}
	if l.Groups != nil {
		n = part[n-1].Unit - part[0].Unit + 1
	}
	r.Progress.Add(int64(n), note)
}

// Close ends the progress bar and closes the files.
func (r *Recorder) Close() error {
	r.Progress.Close()
	err := r.lines.Close()
	if r.events != nil {
		err = errors.Join(err, r.events.Close())
	}
	return err
}
