package config

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/strictyaml"
	"assay/lora"
	"assay/ort"
)

// Instruction is the placeholder for the edit instruction in a question template.
const Instruction = "[INSTRUCTION]"

// checker reports problems with values that have the right type.
type checker struct{ *strictyaml.Document }

func (d checker) oneOf(key, value string, allowed ...string) {
	named := slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == "" })
	d.Want(slices.Contains(allowed, value), key, "want one of %s, not %q", strings.Join(named, ", "), value)
}

// Check returns all problems of the values, for a configuration that a program has changed: [Load] checks files.
func (c *Config) Check() error {
	var d strictyaml.Document
	c.check(&d)
	return d.Err()
}

func (c *Config) check(doc *strictyaml.Document) {
	d := checker{doc}
	d.Want(c.Backbone != "" || c.Init != "" || c.Judge != nil, "backbone",
		"is required: the folder of a Hugging Face checkpoint")
	d.Want(c.Out != "", "out", "is required: the run directory to write")
	const replaced = "is in a folder that a run replaces (%s in out): use another out"
	d.Want(c.replaces(c.Init) == "", "init", replaced, c.replaces(c.Init))
	d.Want(c.Init != "" || c.replaces(c.Backbone) == "", "backbone", replaced, c.replaces(c.Backbone))
	for _, path := range c.Data.Train {
		d.Want(c.replaces(path) == "", "data.train", replaced, c.replaces(path))
	}
	for _, path := range c.Data.Validation.Tables {
		d.Want(c.replaces(path) == "", "data.validation", replaced, c.replaces(path))
	}
	d.oneOf("mode", c.Mode, "lora", "full", "head", ModeText)
	c.checkText(d)
	c.checkGRPO(d)
	d.oneOf("dtype", c.Dtype, "auto", "float32", "bfloat16")
	d.Want(c.Device == CUDAAuto || ort.IsDevice(c.Device), "device", "want auto, cpu, cuda:N or cuda:auto, not %q",
		c.Device)
	d.oneOf("reduce", c.Reduce, ReduceOrdered, ReduceFast)
	d.Want(c.Threads >= 0, "threads", "want at least 0 (all cores), not %d", c.Threads)
	d.oneOf("device_options.cudnn_search", c.DeviceOptions.CudnnSearch, "", "exhaustive", "heuristic", "default")
	d.oneOf("device_options.kernels", c.DeviceOptions.Kernels, "", "auto", "plain", "fused")
	d.Want(c.DeviceOptions.MemoryLimit >= 0, "device_options.memory_limit", "want a size like 60GB")
	d.oneOf("recompute", c.Recompute, "none", "layers", RecomputeAuto)
	d.oneOf("non_finite", c.NonFinite, "stop", "skip")
	d.oneOf("augment", c.Augment, "none", "adiee")
	d.Want(c.Mode != "head" || c.Augment == "none", "augment",
		"mode head trains on hidden states that are computed once: want none")
	for _, name := range c.ReportTo {
		d.oneOf("report_to", name, ReportTensorBoard, ReportWandB, ReportMLflow, ReportNone)
	}
	d.Want(len(c.ReportTo) > 0, "report_to", "want one or more names; %s: no curves", ReportNone)
	d.Want(!c.Reports(ReportNone) || len(c.ReportTo) == 1, "report_to", "%s cannot be combined", ReportNone)
	c.checkScorer(d)
	c.checkLora(d)
	c.checkTrain(d)
	c.checkGroups(d)
	c.checkData(d)
	c.checkLosses(d)
	c.checkCourse(d)
	c.checkPlateaus(d)
}

// replaces returns the folder that a new run replaces and that path is in; "": none.
func (c *Config) replaces(path string) string {
	for _, name := range append([]string{CheckpointsDir}, ResultDirs...) {
		rest, err := filepath.Rel(filepath.Join(c.Out, name), path)
		if c.Out != "" && path != "" && err == nil && filepath.IsLocal(rest) {
			return name
		}
	}
	return ""
}

func ascending(values []float64) bool {
	for i := 1; i < len(values); i++ {
		if values[i] <= values[i-1] {
			return false
		}
	}
	return true
}

func (c *Config) checkLora(d checker) {
	l := &c.Lora
	d.Want(l.R >= 1, "lora.r", "want a rank of at least 1, not %d", l.R)
	d.Want(l.Alpha > 0, "lora.alpha", "want more than 0, not %g", l.Alpha)
	d.Want(l.Dropout >= 0 && l.Dropout < 1, "lora.dropout", "want at least 0 and below 1, not %g", l.Dropout)
	d.Want(len(l.Targets.List) > 0 || l.Targets.Pattern != "", "lora.targets",
		"want layer names, a regular expression or all-linear")
	d.Want(len(l.Parts) > 0 || c.Train != nil, "lora.parts", "want one or more of %s", strings.Join(lora.Parts(), ", "))
	for _, p := range l.Parts {
		d.oneOf("lora.parts", p, lora.Parts()...)
	}
	if l.Bias != "" {
		d.oneOf("lora.bias", l.Bias, lora.BiasNone, lora.BiasAll, lora.BiasLora)
	}
	if l.Start != "" {
		d.oneOf("lora.start", l.Start, string(lora.StartPiSSA), string(lora.StartOLoRA))
	}
	d.Want(!l.DoRA || l.Start == "", "lora.start", "cannot be combined with lora.dora: leave one of them out")
	for _, x := range l.RankPattern {
		d.Want(x.Value >= 1 && x.Value == math.Trunc(x.Value), "lora.rank_pattern",
			"%s: want a whole number of at least 1, not %g", x.Key, x.Value)
	}
	for _, x := range l.AlphaPattern {
		d.Want(x.Value > 0, "lora.alpha_pattern", "%s: want more than 0, not %g", x.Key, x.Value)
	}
	for _, i := range l.Layers {
		d.Want(i >= 0, "lora.layers", "want layer indices of at least 0, not %d", i)
	}
	c.checkNoAdapters(d)
}

// checkNoAdapters refuses settings of adapters in a run that trains none. (A resolved config.yaml has their defaults.)
func (c *Config) checkNoAdapters(d checker) {
	if c.Adapts() || c.BringsAdapter() || d.Bad("mode") || d.Bad("text.tune") {
		return
	}
	now, usual := c.values(), Default().values()
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if !strings.HasPrefix(key, "lora.") || key == "lora.parts" && (c.Train != nil || c.Lora.Targets.wholePaths()) {
			continue // these two set lora.parts
		}
		d.Want(now[key] == usual[key], key, "mode %s trains no adapters here: leave this out", c.Mode)
	}
}

func (c *Config) checkData(d checker) {
	t := &c.Data
	d.Want(len(t.Train) > 0, "data.train", "is required: one or more label tables (Parquet or JSONL)")
	d.oneOf("data.sampling", t.Sampling, "rows", "group", WholeGroups)
	d.Want(t.GroupEdits >= 0 && (t.GroupEdits <= c.BatchSize || c.BatchSize < 1), "data.group_edits",
		"want at most batch_size (%d), not %d; 0: batch_size", c.BatchSize, t.GroupEdits)
	d.Want(t.GroupEdits == 0 || t.Sampling == WholeGroups, "data.group_edits", "only for data.sampling: %s", WholeGroups)
	d.oneOf("data.balance", t.Balance, "", ByLabel, ByTable)
	d.Want(t.Balance != ByLabel || t.Sampling != WholeGroups, "data.balance",
		"whole groups have edits with every label: want data.sampling: rows or group")
	d.Want(t.Skip >= 0, "data.skip", "want at least 0, not %d", t.Skip)
	d.Want(t.ValidationSplit == "" || t.Validation.Fraction == 0, "data.validation_split",
		"set this or a fraction in data.validation, not both")
	d.Want(
		t.ValidationSplit == "" || len(t.Validation.Tables) > 0 || t.TrainSplit != "" && t.TrainSplit != t.ValidationSplit,
		"data.validation_split", "takes rows from the training tables: data.train_split must name a different split")
	for ours := range t.Columns {
		err := data.CheckEditColumn(ours)
		d.Want(err == nil, "data.columns."+ours, "%v", err)
	}
}

// steps checks a number of steps or a fraction of all steps.
func steps(d checker, key string, n float64) {
	d.Want(n >= 0 && (n < 1 || n == float64(int64(n))), key,
		"want a whole number of steps, or below 1 a fraction of all steps, not %g", n)
}

// checkCourse checks the optimizer and the length of the run.
func (c *Config) checkCourse(d checker) {
	o, s := &c.Optimizer, &c.Schedule
	d.oneOf("optimizer.name", o.Name, "adamw", "adamw_8bit", "lion", "adafactor")
	d.oneOf("optimizer.decay", o.Decay, "all", "weights")
	d.Want(o.LR > 0, "optimizer.lr", "want more than 0, not %g", o.LR)
	d.Want(len(o.Betas) == 2 && slices.Min(o.Betas) >= 0 && slices.Max(o.Betas) < 1, "optimizer.betas",
		"want two numbers of at least 0 and below 1, not %v", o.Betas)
	usual := Default().Optimizer // a resolved config.yaml contains these values
	d.Want(o.Name != "adafactor" || slices.Equal(o.Betas, usual.Betas), "optimizer.betas",
		"adafactor has no betas: leave it out")
	d.Want(strings.HasPrefix(o.Name, "adamw") || o.Eps == usual.Eps, "optimizer.eps",
		"%s has no eps setting: leave it out", o.Name)
	d.Want(o.Eps > 0, "optimizer.eps", "want more than 0, not %g", o.Eps)
	d.Want(o.WeightDecay >= 0, "optimizer.weight_decay", "want at least 0, not %g", o.WeightDecay)
	s.check(d, "schedule.", "optimizer.lr", o.LR)
	d.Want(c.Loss.Text >= 0, "loss.text", "want at least 0, not %g", c.Loss.Text)
	d.Want(c.Loss.Score >= 0, "loss.score", "want at least 0, not %g", c.Loss.Score)
	d.Want(c.Loss.Text+c.Loss.Score > 0, "loss", "with both weights 0 there is nothing to learn")
	d.Want(c.Mode != "head" || c.Loss.Score != 0 || c.Loss.Text == 0, "loss.score",
		"mode head trains only on this: with 0 there is nothing to learn")
	d.Want(c.BatchSize >= 1, "batch_size", "want at least 1, not %d", c.BatchSize)
	d.Want(c.ClipNorm >= 0, "clip_norm", "want at least 0 (no clipping), not %g", c.ClipNorm)
	d.Want(c.Epochs >= 1 || c.Epochs == 0 && c.Steps > 0, "epochs", "want at least 1, not %d", c.Epochs)
	d.Want(c.Steps >= 0, "steps", "want at least 0 (epochs decide), not %d", c.Steps)
	d.Want(c.Steps <= 0 || c.Epochs == 0, "steps", "set steps or epochs, not both")
	d.Want(c.Checkpoint.Steps >= 0, "checkpoint.steps", "want at least 0 (off), not %d", c.Checkpoint.Steps)
	d.Want(c.Checkpoint.Minutes >= 0, "checkpoint.minutes", "want at least 0 (off), not %g", c.Checkpoint.Minutes)
	d.Want(c.Checkpoint.Keep >= 1, "checkpoint.keep", "want at least 1, not %d", c.Checkpoint.Keep)
	d.Want(c.Cache.Size > 0, "cache.size", "want a size like 20GB")
	d.Want(c.Validate.Every >= 0, "validate.every", "want at least 0 (after every epoch), not %d", c.Validate.Every)
	if c.Mode == ModeText {
		by := []string{"auto", ByLoss, ByTokenAccuracy}
		if c.GRPO != nil {
			by = []string{"auto", ByReward}
		}
		d.oneOf("validate.by", c.Validate.By, by...)
	} else {
		d.oneOf("validate.by", c.Validate.By, "auto", ByL1, BySpearman, ByPairs, ByDimensions,
			ByBenchmark)
	}
	c.checkBenchmark(d)
	d.Want(c.Validate.Patience >= 0, "validate.patience", "want at least 0 (to the end), not %d", c.Validate.Patience)
	d.Want(c.Validate.Limit >= 0, "validate.limit", "want at least 0 (all rows), not %d", c.Validate.Limit)
}
