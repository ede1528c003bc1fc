// Package config reads the YAML file of a training run. Load decodes it strictly, fills in what init, mode and other
// keys imply, makes paths absolute, and reports all problems at once, each with its line. The result is a Config in
// which every key has a value; a run writes it into its directory, and a resumed run compares it with the
// configuration that the run started with.
package config

import (
	"fmt"
	"slices"

	"assay/internal/store"
	"assay/lora"
	"assay/losses"
	"assay/model"
	"assay/ort"
)

// Config is one training run, as described by its YAML file. Every key except backbone, out and data.train has a
// default (see Default and docs/training-keys.md). Paths are relative to the file's folder.
type Config struct {
	Backbone string `yaml:"backbone"` // Hugging Face checkpoint directory
	Init     string `yaml:"init"`     // scorer directory to fine-tune from; its scorer.yaml sets defaults

	Scorer string `yaml:"scorer,omitempty"` // scorer.yaml of format 2 for a new scorer, instead of the keys pair to dtype
	Out    string `yaml:"out"`              // run directory
	Mode   string `yaml:"mode"`             // lora, full, head, text

	Pair     string `yaml:"pair"`             // sequence, concat, frames
	PairSize []int  `yaml:"pair_size"`        // [height, width] in pixels; empty: pictures keep their size
	Layout   string `yaml:"layout,omitempty"` // instruction_first, or empty: pictures first
	// with [INSTRUCTION]; if there are several, one is drawn per sample and epoch
	Question      Strings          `yaml:"question"`
	Answer        Strings          `yaml:"answer"`         // with the score token
	TextLoss      string           `yaml:"text_loss"`      // answer, all
	ScoreRange    []float64        `yaml:"score_range"`    // [lo, hi] of reported scores
	Head          model.HeadConfig `yaml:"head"`           //
	ScoreToken    string           `yaml:"score_token"`    //
	ScorePosition string           `yaml:"score_position"` // at, before
	ChatTemplate  string           `yaml:"chat_template"`  // Jinja; empty: the checkpoint's
	EndOfTurn     string           `yaml:"end_of_turn"`    // empty: the tokenizer's

	NumberPictures string `yaml:"number_pictures,omitempty"` // "Picture {n}: " before each picture; empty: nothing

	Dtype string `yaml:"dtype"` // auto, float32, bfloat16

	Train *TrainConfig `yaml:"train,omitempty"` // what trains, by part

	Lora LoraConfig `yaml:"lora"`
	Data DataConfig `yaml:"data"`
	Loss LossConfig `yaml:"loss"`

	Text *TextConfig `yaml:"text,omitempty"` // of mode text

	Objective string      `yaml:"objective,omitempty"` // of mode text: grpo; empty: learn the answers of the conversations
	GRPO      *GRPOConfig `yaml:"grpo,omitempty"`      // of that objective

	Losses []losses.Spec `yaml:"losses,omitempty"` // terms of the objective, instead of Loss

	Optimizer  OptimizerConfig `yaml:"optimizer"`
	Schedule   ScheduleConfig  `yaml:"schedule"`
	BatchSize  int             `yaml:"batch_size"`  // samples per optimizer step
	MicroBatch MicroBatch      `yaml:"micro_batch"` // samples per run of the graph, or auto
	ClipNorm   float64         `yaml:"clip_norm"`   // largest L2 norm of the gradient; 0: no clipping
	Epochs     int             `yaml:"epochs"`      // 0: steps decide
	Steps      int64           `yaml:"steps"`       // optimizer steps; 0: epochs decide
	Seed       uint64          `yaml:"seed"`        //
	NonFinite  string          `yaml:"non_finite"`  // stop, skip
	Augment    string          `yaml:"augment"`     // none, adiee

	Reduce  string `yaml:"reduce"`  // how gradients are summed over ranks: ordered, fast
	Device  string `yaml:"device"`  // auto, cpu, cuda:N, cuda:auto
	Threads int    `yaml:"threads"` // 0: all cores

	DeviceOptions DeviceOptions `yaml:"device_options,omitempty"`
	Recompute     string        `yaml:"recompute"` // none, layers, auto

	Checkpoint CheckpointConfig `yaml:"checkpoint"`
	Validate   ValidateConfig   `yaml:"validate"`
	Cache      CacheConfig      `yaml:"cache"`
	ReportTo   Strings          `yaml:"report_to"` // where curves are shown: tensorboard, wandb, mlflow; or none

	Judge *model.ScorerConfig `yaml:"-"` // the scorer.yaml of scorer or init, if it has format 2

	Ranks int `yaml:"-"` // processes that train together, for memory planning; 0: one
}

// DeviceOptions are the options of a CUDA device, see ort.CUDAOptions, and the kernels on any device.
type DeviceOptions struct {
	MemoryLimit CacheSize `yaml:"memory_limit,omitempty"` // bytes; 0: all of the device
	CudnnSearch string    `yaml:"cudnn_search,omitempty"` // exhaustive, heuristic, default
	Kernels     string    `yaml:"kernels,omitempty"`      // auto, plain, fused: see model.Options
}

// CUDA returns the options in the form that sessions take.
func (o DeviceOptions) CUDA() ort.CUDAOptions {
	return ort.CUDAOptions{MemoryLimit: int64(o.MemoryLimit), CudnnSearch: o.CudnnSearch}
}

// LoraConfig configures the adapters and the layers that get one. Each key means the same as in PEFT.
type LoraConfig struct {
	R            int       `yaml:"r"`
	Alpha        float64   `yaml:"alpha"`
	Dropout      float64   `yaml:"dropout"`
	Targets      Targets   `yaml:"targets"`
	Parts        []string  `yaml:"parts"` // of the model: language, vision, projector
	Exclude      Targets   `yaml:"exclude,omitempty"`
	RankPattern  Overrides `yaml:"rank_pattern"`
	AlphaPattern Overrides `yaml:"alpha_pattern"`
	RSLora       bool      `yaml:"rslora"`
	Layers       []int     `yaml:"layers,omitempty"` // layers_to_transform
	DoRA         bool      `yaml:"dora,omitempty"`   // use_dora
	Bias         string    `yaml:"bias,omitempty"`   // none, all, lora_only; "": none
	Start        string    `yaml:"start,omitempty"`  // init_lora_weights: pissa, olora; "": PEFT's default

	ModulesToSave []string `yaml:"modules_to_save,omitempty"`
}

// DataConfig names the label tables.
type DataConfig struct {
	Train           Strings           `yaml:"train"`                 // tables
	TrainSplit      string            `yaml:"train_split"`           // only rows with this in their split column
	Validation      Validation        `yaml:"validation"`            // tables, or a fraction of the training groups
	ValidationSplit string            `yaml:"validation_split"`      // only rows with this in their split column
	Columns         map[string]string `yaml:"columns"`               // our name to the table's
	Sampling        string            `yaml:"sampling"`              // rows, group, whole_groups
	Balance         string            `yaml:"balance,omitempty"`     // label, table: draw each equally often
	Weight          string            `yaml:"weight,omitempty"`      // the table column with the sampling weight
	GroupEdits      int               `yaml:"group_edits,omitempty"` // maximum edits per group in a step; 0: batch_size
	Skip            int               `yaml:"skip"`                  // unusable rows that may be set aside
}

// LossConfig weighs the two parts of the loss.
type LossConfig struct {
	Text  float64 `yaml:"text"`  // cross-entropy of the text
	Score float64 `yaml:"score"` // |score01 - label|, or the cross-entropy of the classes
}

// OptimizerConfig is an optimizer with decoupled weight decay.
type OptimizerConfig struct {
	Name        string    `yaml:"name"`
	LR          float64   `yaml:"lr"`
	Betas       []float64 `yaml:"betas"`
	Eps         float64   `yaml:"eps"`
	WeightDecay float64   `yaml:"weight_decay"`
	Decay       string    `yaml:"decay"` // all, weights: which tensors decay

	Groups *GroupsConfig `yaml:"groups,omitempty"` // of tensors, with their own learning rates
}

// ScheduleConfig is the learning rate schedule; see optim.Schedule.
type ScheduleConfig struct {
	Kind   string  `yaml:"kind"`   // constant, linear, cosine, restarts, wsd, plateau
	Warmup float64 `yaml:"warmup"` // steps, or below 1 the fraction of all steps
	MinLR  float64 `yaml:"min_lr"` // final rate of every kind except constant
	Cycles int64   `yaml:"cycles"` // of restarts
	Decay  float64 `yaml:"decay"`  // of wsd: steps at the end, or below 1 the fraction of all steps

	Factor    float64 `yaml:"factor"`    // of plateau: the rate is multiplied by this
	Patience  int64   `yaml:"patience"`  // of plateau: validations without improvement that are allowed
	Threshold float64 `yaml:"threshold"` // of plateau: relative improvement that counts as better
}

// CheckpointConfig says how often the run's state is saved: when the first of the intervals is over. 0 disables an
// interval.
type CheckpointConfig struct {
	Steps   int64   `yaml:"steps"`
	Minutes float64 `yaml:"minutes"`
	Keep    int     `yaml:"keep"` // number of newest checkpoints that are kept
}

// ValidateConfig says when the validation rows are scored; they always are at the end.
type ValidateConfig struct {
	Every int64  `yaml:"every"` // steps; 0: after every epoch
	Limit int    `yaml:"limit"` // rows; 0: all
	By    string `yaml:"by"`    // auto, l1, spearman, pair_accuracy, benchmark: what is best

	Benchmark *BenchmarkConfig `yaml:"benchmark,omitempty"` // of by: benchmark

	Patience int64 `yaml:"patience"` // the run ends after this many validations without improvement; 0: off
}

// CacheConfig bounds the cached outputs of the frozen parts.
type CacheConfig struct {
	Vision CacheSize `yaml:"vision"` // image features: bytes in memory, or in Folder
	Folder string    `yaml:"folder"` // of the store; "": cache below the run directory
	Size   CacheSize `yaml:"size"`   // bytes of that folder
}

// Default returns the configuration of an empty file. It lacks backbone, out and data.train.
func Default() *Config {
	return &Config{
		Mode:     "lora",
		Pair:     "sequence",
		PairSize: []int{},
		Question: Strings{
			`Can you rate how successful the edit instruction "[INSTRUCTION]" has been executed from the first image to the ` +
				`second image with a score from 0 to 10?`,
		},
		Answer:        Strings{"It is [SCORE]."},
		TextLoss:      "answer",
		ScoreRange:    []float64{0, 10},
		Head:          model.HeadConfig{Hidden: []int{256, 16}, Activation: "relu", Kind: "regression"},
		ScoreToken:    "[SCORE]",
		ScorePosition: "at",
		Dtype:         "auto",
		Lora: LoraConfig{R: 8, Alpha: 16, Targets: Targets{List: []string{"q_proj", "v_proj"}},
			Parts: []string{lora.Language}},
		Data:       DataConfig{Columns: map[string]string{}, Sampling: "rows"},
		Loss:       LossConfig{Text: 1, Score: 10},
		Optimizer:  OptimizerConfig{Name: "adamw", LR: 1e-4, Betas: []float64{0.9, 0.999}, Eps: 1e-8, Decay: "all"},
		Schedule:   defaultSchedule(),
		BatchSize:  16,
		MicroBatch: Auto,
		ClipNorm:   1,
		Epochs:     1,
		NonFinite:  "stop",
		Augment:    "none",
		Reduce:     ReduceOrdered,
		Device:     "auto",
		Recompute:  "none",
		Checkpoint: CheckpointConfig{Minutes: 10, Keep: 2},
		Validate:   ValidateConfig{By: "auto"},
		Cache:      CacheConfig{Vision: 1 << 30, Size: store.DefaultLimit},
		ReportTo:   Strings{ReportTensorBoard},
	}
}

// The ways to sum gradients over ranks.
const (
	ReduceOrdered = "ordered" // in the order of the micro-batches
	ReduceFast    = "fast"    // in the library's order
)

// The values of report_to.
const (
	ReportNone        = "none"
	ReportTensorBoard = "tensorboard"
	ReportWandB       = "wandb"
	ReportMLflow      = "mlflow"
)

// ScoredAnswer returns the answer used for scoring: without the reasons that are trained after the score.
func (c *Config) ScoredAnswer() string { return model.WithoutWhy(c.Answer[0]) }

// Reports reports whether the run's curves are sent to a value of report_to.
func (c *Config) Reports(to string) bool { return slices.Contains(c.ReportTo, to) }

// What data.balance may name.
const (
	ByLabel = "label"
	ByTable = "table"
)

// CUDAAuto is the GPU whose index is the process's index on its machine.
const CUDAAuto = "cuda:auto"

// OnDevice returns the configuration for one of several processes (0: one), with the device of the local-th process
// on its machine.
func OnDevice(c *Config, processes, local int) *Config {
	here := *c
	here.Ranks = processes
	if c.Device == CUDAAuto {
		here.Device = fmt.Sprintf("cuda:%d", local)
	}
	return &here
}
