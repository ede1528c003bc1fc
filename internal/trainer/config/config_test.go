package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"assay/internal/strictyaml"
	"assay/lora"
	"assay/model"
)

func loadText(t *testing.T, text string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

const least = "backbone: b\nout: o\ndata: {train: t.jsonl}\n"

func TestDefaultsAndPaths(t *testing.T) {
	c, err := loadText(t, least)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(c.Out)
	want := Default()
	want.Backbone, want.Out, want.Data.Train = filepath.Join(
		dir,
		"b",
	), filepath.Join(
		dir,
		"o",
	), Strings{
		filepath.Join(dir, "t.jsonl"),
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
}

func TestEveryForm(t *testing.T) {
	c, err := loadText(t, `backbone: /b
out: /o
mode: lora
pair: concat
pair_size: [512, 256]
question: ['a [INSTRUCTION]', 'b "[INSTRUCTION]"']
answer: ['[SCORE]']
head: {hidden: [], kind: classification, values: [0, 0.5, 1]}
lora: {targets: '.*q_proj', rank_pattern: {q_proj: 4}, alpha_pattern: {q_proj: 8.5}, rslora: true}
data: {train: [/a.parquet, /b.jsonl], validation: [/c.jsonl], columns: {label: rating}, sampling: group}
micro_batch: 3
steps: 100
schedule: {warmup: 10}
cache: {vision: disk}
device: cuda:1
`)
	if err != nil {
		t.Fatal(err)
	}
	if c.MicroBatch != 3 || c.Lora.Targets.Pattern != ".*q_proj" || c.Cache.Vision != Disk || len(c.Question) != 2 ||
		c.Data.Validation.Tables[0] != "/c.jsonl" ||
		c.Epochs != 0 {
		t.Errorf("%+v", c)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadText(t, string(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if d := cmp.Diff(c, again); d != "" {
		t.Error(d)
	}
}

// TestPatternsKeepTheirOrder: PEFT's get_pattern_key takes the first pattern that matches, in the order of the file. So
// the order reaches PEFT's configuration and config.yaml, and another order is another configuration.
func TestPatternsKeepTheirOrder(t *testing.T) {
	load := func(ranks, alphas string) *Config {
		c, err := loadText(t, least+"lora: {rank_pattern: {"+ranks+"}, alpha_pattern: {"+alphas+"}}\n")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := load("q_proj: 5, 'layers.1.*': 2", "v_proj: 3.5, .*: 7")
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if want := "rank_pattern:\n    q_proj: 5\n    layers.1.*: 2\n"; !strings.Contains(string(text), want) {
		t.Errorf("got %s, want %q in it", text, want)
	}
	again, err := loadText(t, string(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	ranks := lora.Overrides{{Key: "q_proj", Value: 5}, {Key: "layers.1.*", Value: 2}}
	alphas := lora.Overrides{{Key: "v_proj", Value: 3.5}, {Key: ".*", Value: 7}}
	for name, c := range map[string]*Config{"the file": c, "config.yaml": again} {
		l := PEFTConfig(c)
		back := LoraConfigOf(l)
		if d := cmp.Diff([]lora.Overrides{ranks, alphas, ranks, alphas}, []lora.Overrides{l.Ranks, l.Alphas,
			lora.Overrides(back.RankPattern), lora.Overrides(back.AlphaPattern)}); d != "" {
			t.Errorf("%s: want -, got +:\n%s", name, d)
		}
	}
	other := load("q_proj: 5, 'layers.1.*': 2", ".*: 7, v_proj: 3.5")
	want := []string{`lora.alpha_pattern: ["v_proj" ".*"] in the checkpoint, [".*" "v_proj"] now`}
	if d := cmp.Diff(want, Changed("", c.values(), other.values())); d != "" {
		t.Errorf("another order: want -, got +:\n%s", d)
	}
	for bad, want := range map[string]string{"q_proj: 1.5": "q_proj: want a whole number of at least 1, not 1.5",
		"q_proj: x": "want a number, not x", "q_proj: 2, q_proj: 3": "duplicate key"} {
		_, err := loadText(t, least+"lora: {rank_pattern: {"+bad+"}}\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", bad, err, want)
		}
	}
}

// TestNullIsLeftOut: a null key has its default, even if that depends on other keys.
func TestNullIsLeftOut(t *testing.T) {
	for text, check := range map[string]func(c *Config) bool{
		"steps: 5\nepochs: null\n":                   func(c *Config) bool { return c.Epochs == 0 && c.Steps == 5 },
		"lora: {targets: '.*q_proj', parts: null}\n": func(c *Config) bool { return len(c.Lora.Parts) == 3 },
		"losses: [{kind: bradley_terry}]\nloss: ~\n": func(c *Config) bool { return c.Data.Sampling == WholeGroups },
		"losses: [{kind: bradley_terry, scale: null}]\nloss: ~\n": func(c *Config) bool {
			return c.Losses[0].Scale == 10
		},
		"mode: null\ntrain: {language: full, vision: full}\n": func(c *Config) bool { return c.Mode == "full" },
		"optimizer: {groups: {head: {lr: null, schedule: null}}}\n": func(c *Config) bool {
			return *c.Optimizer.Groups.Head.LR == 1e-4
		},
	} {
		c, err := loadText(t, least+text)
		if err != nil || !check(c) {
			t.Errorf("%q: %v, %+v", text, err, c)
		}
	}
	text := strings.Replace(least, "t.jsonl", "t.jsonl, sampling: null", 1) + "losses: [{kind: bradley_terry}]\n"
	if c, err := loadText(t, text); err != nil || c.Data.Sampling != WholeGroups {
		t.Errorf("data.sampling: null with a loss over pairs: %v, %+v", err, c)
	}
}

func TestCacheSize(t *testing.T) {
	for text, want := range map[string]CacheSize{"512MiB": 512 << 20, "2 GB": 2e9, "1.5GiB": 3 << 29, "0": 0, "1000": 1000,
		"disk": Disk, "70B": 70} {
		c, err := loadText(t, least+"cache: {vision: "+text+"}\n")
		if err != nil || c.Cache.Vision != want {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
}

// TestReportTo: a name, a list of names, or none; it may change when a run resumes.
func TestReportTo(t *testing.T) {
	for text, want := range map[string]string{"": "[tensorboard]", "~": "[tensorboard]", "mlflow": "[mlflow]",
		"[wandb, mlflow]": "[wandb mlflow]", "none": "[none]", "[none, mlflow]": "none cannot be combined",
		"comet": `not "comet"`, "[]": "want one or more names"} {
		t.Run(text, func(t *testing.T) {
			c, err := loadText(t, least+"report_to: "+text+"\n")
			if err != nil && strings.Contains(err.Error(), want) {
				return
			}
			if err != nil || fmt.Sprint([]string(c.ReportTo)) != want {
				t.Errorf("got %+v, %v, want %s", c, err, want)
			}
		})
	}
	if !Moved("report_to", "none", "mlflow") {
		t.Error("got another report_to refused when a run resumes, want it allowed")
	}
}

func TestAllProblemsOfAConfigurationAtOnce(t *testing.T) {
	_, err := loadText(t, `backbone: b
outt: o
mode: qlora
question: no mark
answer: It is.
epochs: 0
batchsize: 4
lora: {r: 0, dropout: 1.0, target: q_proj}
optimizer:
  lr: -1
  betas: [0.9]
micro_batch: many
cache: {vision: lots}
data:
  validation: 1.5
  columns: {score: x}
head: {kind: regression, values: [0, 1]}
device: gpu
`)
	var p strictyaml.Problems
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	var got []string
	for _, x := range p {
		got = append(got, fmt.Sprintf("%d %s", x.Line, x.Key))
	}
	want := []string{
		"1 out",
		"2 outt",
		"3 mode",
		"4 question",
		"5 answer",
		"6 epochs",
		"7 batchsize",
		"8 lora.r",
		"8 lora.dropout",
		"8 lora.target",
		"10 optimizer.lr",
		"11 optimizer.betas",
		"12 micro_batch",
		"13 cache.vision",
		"14 data.train",
		"15 data.validation",
		"16 data.columns.score",
		"17 head.values",
		"18 device",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%v", d, err)
	}
	if !strings.Contains(err.Error(), "run.yaml:7:1: batchsize: unknown key (did you mean batch_size?)") {
		t.Error(err)
	}
}

// TestOneMistake: a wrong value is reported once, not again for every key that depends on it.
func TestOneMistake(t *testing.T) {
	for text, want := range map[string]string{
		"batch_size: -1":                                             "batch_size: want at least 1, not -1",
		"answer: '[WHY] [SCORE]'":                                    "answer: [WHY] is before [SCORE]",
		"batch_size: 0":                                              "batch_size: want at least 1, not 0",
		"mode: head\nloss: {text: 1, score: 0}":                      "loss.score: mode head trains only on this: with 0",
		"mode: head\nloss: {text: 0, score: 0}":                      "loss: with both weights 0 there is nothing to learn",
		"optimizer: {lr: 0}\nschedule: {kind: cosine, min_lr: 1e-6}": "optimizer.lr: want more than 0, not 0",
		"mode: full\nlora: {r: 4}":                                   "lora.r: mode full trains no adapters here: leave",
		"mode: full\nlora: {exclude: [lm_head]}":                     "lora.exclude: mode full trains no adapters here",
		"mode: full\nlora: {parts: [vision]}":                        "lora.parts: mode full trains no adapters here",
		"mode: head\nlora: {targets: o_proj}":                        "lora.targets: mode head trains no adapters here",
		"train: {language: full, vision: full}\nlora: {alpha: 4}":    "lora.alpha: mode full trains no adapters here",
		"mode: text\ntext: {tune: full}\nlora: {dora: true}":         "lora.dora: mode text trains no adapters here",
		"mode: lroa\nlora: {r: 4}":                                   "mode: want one of lora, full, head, text",
		"mode: text\ntext: {tune: fully}\nlora: {r: 4}":              "text.tune: want one of lora, full",
		"optimizer: {lr: 1e-3, groups: {head: {lr: -1, schedule: {kind: cosine}}}}": "" +
			"optimizer.groups.head.lr: want more than 0, not -1",
		"schedule: {kind: cosine, min_lr: 1e-5}\noptimizer: {groups: {head: {lr: 0}}}": "" +
			"optimizer.groups.head.lr: want more than 0, not 0",
		"schedule: {kind: cosine, min_lr: 1e-5}\noptimizer: {groups: {head: {lr: 1e-6, schedule: {warmup: 1}}}}": "" +
			"optimizer.groups.head.lr: is below schedule.min_lr (1e-05): set one for the group",
	} {
		_, err := loadText(t, least+text+"\n")
		if err == nil || strings.Count(err.Error(), "run.yaml:") != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want only %q", text, err, want)
		}
	}
}

// TestNamesElsewhere: for a key name of another program, the error suggests ours, which exists.
func TestNamesElsewhere(t *testing.T) {
	const run = "backbone: b\nout: o\ndata: {train: t.jsonl}\n"
	for name, key := range elsewhere {
		_, err := loadText(t, run+name+": 1\n")
		if want := "run.yaml:4:1: " + name + ": unknown key (use " + key + " here)"; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		path, _, _ := strings.Cut(strings.NewReplacer(",", " ", ":", " ").Replace(key), " ")
		head, rest, nested := strings.Cut(path, ".")
		text := head + ": [[]]\n"
		if nested {
			text = head + ": {" + rest + ": [[]]}\n"
		}
		if _, err := loadText(t, text); err == nil || strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%s is %s here: %v", name, key, err)
		}
	}
}

// TestLoadable: the configuration that a run with losses, or without adapters, writes can be loaded.
func TestLoadable(t *testing.T) {
	for _, extra := range []string{"losses: [{kind: mse, votes: soft}]\n", "mode: full\n", "mode: head\n",
		"train: {language: full, vision: frozen}\n", "train: {language: frozen}\n", "mode: text\ntext: {tune: full}\n"} {
		c, err := loadText(t, "backbone: b\nout: o\ndata: {train: t.jsonl}\n"+extra)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.Loadable()
		if err != nil {
			t.Fatal(err)
		}
		again, err := loadText(t, string(text))
		if err != nil {
			t.Fatalf("%s: %v", extra, err)
		}
		if d := cmp.Diff(c, again); d != "" {
			t.Errorf("%s: %s", extra, d)
		}
	}
}

// TestARunDoesNotReplaceItsBeginning: a new run would remove the weights or tables that training starts from.
func TestARunDoesNotReplaceItsBeginning(t *testing.T) {
	for path, in := range map[string]string{"o/scorer/backbone": "scorer", "o/best": "best", "o/backbone": "backbone",
		"o/adapter": "adapter", "o/checkpoints/qwen": "checkpoints", "o/scorers": "", "o": ""} {
		for key, text := range map[string]string{
			"backbone":        "backbone: %s\ndata: {train: t.jsonl}\n",
			"data.train":      "backbone: b\ndata: {train: [t.jsonl, %s]}\n",
			"data.validation": "backbone: b\ndata: {train: t.jsonl, validation: %s}\n",
		} {
			want := ""
			if in != "" {
				want = key + ": is in a folder that a run replaces (" + in + " in out): use another out"
			}
			_, err := loadText(t, fmt.Sprintf(text, path)+"out: o\n")
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %s: got %v, want %q", key, path, err, want)
			}
		}
	}
}

// TestInitBringsTheScorersSettings fine-tunes the oracle's scorer directory.
func TestInitBringsTheScorersSettings(t *testing.T) {
	dir, err := filepath.Abs("../../../testdata/oracle/llavanext")
	if err != nil {
		t.Fatal(err)
	}
	text := "init: " + filepath.Join(dir, "scorer_adiee") + "\nout: o\ndata: {train: t.jsonl}\nanswer: 'Sure, [SCORE]'\n"
	c, err := loadText(t, text)
	if err != nil {
		t.Fatal(err)
	}
	want := model.HeadConfig{
		Hidden:     []int{20, 8},
		Activation: "relu",
		Kind:       "classification",
		Values:     []float64{0, 0.5, 1},
	}
	if d := cmp.Diff(want, c.Head); d != "" {
		t.Error(d)
	}
	if c.Backbone != filepath.Join(dir, "backbone") || c.Pair != "concat" || c.PairSize[0] != 56 || c.TextLoss != "all" ||
		c.Answer[0] != "Sure, [SCORE]" ||
		!strings.HasPrefix(c.Question[0], "How successfully") {
		t.Errorf("%+v", c)
	}
	if _, err := loadText(t, text+"head: {hidden: [4]}\n"); err == nil || !strings.Contains(err.Error(), "another head") {
		t.Error(err)
	}
	if _, err := loadText(
		t,
		"init: nowhere\nout: o\ndata: {train: t.jsonl}\n",
	); err == nil ||
		!strings.Contains(err.Error(), "run.yaml:1:1: init: not a scorer directory") {
		t.Error(err)
	}
}

// TestShippedConfigurations reads every file below examples/ that is a training run.
func TestShippedConfigurations(t *testing.T) {
	runs := 0
	err := filepath.WalkDir("../../../examples", func(path string, _ fs.DirEntry, err error) error {
		// Files named label... and captions... belong to other commands, whose tests read them; files for clusters
		// and monitoring belong to other programs.
		name := filepath.Base(path)
		others := slices.Contains([]string{"cluster", "monitoring"}, filepath.Base(filepath.Dir(path)))
		if err != nil || others || filepath.Ext(path) != ".yaml" ||
			strings.HasPrefix(name, "label") || strings.HasPrefix(name, "captions") {
			return err
		}
		runs++
		if _, err := Load(path); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil || runs < 3 {
		t.Errorf("%d configurations found: %v", runs, err)
	}
}

// TestDocumentedKeys compares the table in docs/training-keys.md with the configuration: every key, with its default. A
// row may have several, as "| `epochs`, `steps` | `1`, `0` |".
func TestDocumentedKeys(t *testing.T) {
	text, err := os.ReadFile("../../../docs/training-keys.md")
	if err != nil {
		t.Fatal(err)
	}
	_, keys, _ := strings.Cut(string(text), "## Keys")
	keys, _, _ = strings.Cut(keys, "\n## ")
	documented := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| (`[a-z0-9_.]+`(?:, `[a-z0-9_.]+`)*) \\| ([^|]*?) \\|")
	value := regexp.MustCompile("`[^`]*`|none|required")
	for _, m := range row.FindAllStringSubmatch(keys, -1) {
		names, values := strings.Split(m[1], ", "), value.FindAllString(m[2], -1)
		if len(names) != len(values) {
			t.Errorf("docs/training-keys.md: %s: got the defaults %s, want as many", m[1], m[2])
			continue
		}
		for i, name := range names {
			documented[strings.Trim(name, "`")] = values[i]
		}
	}
	for key, value := range defaults(t, "", reflect.ValueOf(*Default())) {
		got, ok := documented[key]
		if !ok {
			t.Errorf("docs/training-keys.md lacks %s, default %s", key, value)
		} else if got != value && got != "required" {
			t.Errorf("docs/training-keys.md: %s has default %s, not %s", key, value, got)
		}
		delete(documented, key)
	}
	for key := range documented {
		t.Errorf("docs/training-keys.md has the unknown key %s", key)
	}
}

var wholeFloat = regexp.MustCompile(`(\d)\.0([\],}\n])`)

// defaults gives every key's default as YAML on one line, in backquotes; empty ones as "none".
func defaults(t *testing.T, prefix string, v reflect.Value) map[string]string {
	out := map[string]string{}
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if key == "-" { // no key of a file
			continue
		}
		key = prefix + key
		f := v.Field(i)
		if _, marshals := f.Interface().(yaml.InterfaceMarshaler); f.Kind() == reflect.Struct && !marshals {
			for k, x := range defaults(t, key+".", f) {
				out[k] = x
			}
			continue
		}
		text, err := yaml.MarshalWithOptions(f.Interface(), yaml.Flow(true))
		if err != nil {
			t.Fatal(err)
		}
		s := "`" + strings.TrimSpace(wholeFloat.ReplaceAllString(string(text), "$1$2")) + "`"
		if f.Kind() == reflect.Slice && f.Len() == 0 || f.Kind() == reflect.Map && f.Len() == 0 ||
			f.Kind() == reflect.String && f.Len() == 0 ||
			s == "`[]`" {
			s = "none"
		}
		out[key] = s
	}
	return out
}
