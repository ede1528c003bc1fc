package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/lora"
	"assay/model"
)

// pictureRun writes a run with the oracle's pictures and its small backbone of the family; extra is YAML.
func pictureRun(t *testing.T, family, extra string) string {
	t.Helper()
	dir, root := t.TempDir(), oracle.Folders(t)[0]
	var rows strings.Builder
	for i, p := range oracle.Read[[]struct{ Input, Edited string }](t, filepath.Join(root, "images", "pairs.json")) {
		for label, edit := range []string{p.Input, p.Edited} {
			fmt.Fprintf(
				&rows,
				`{"id": "%d-%d", "group": "g%d", "source": %q, "edit": %q, "instruction": "edit number %d", "label": %d}`+"\n",
				i,
				label,
				i,
				filepath.Join(root, p.Input),
				filepath.Join(root, edit),
				i,
				label,
			)
		}
	}
	text := fmt.Sprintf("out: out\ndata: {train: table.jsonl}\nbatch_size: 2\nsteps: 1\ndevice: cpu\n%s", extra)
	if !strings.Contains(extra, "init:") {
		text += fmt.Sprintf("backbone: %s\nhead: {hidden: [8]}\n", filepath.Join(root, family, "backbone"))
	}
	path := filepath.Join(dir, "run.yaml")
	for name, text := range map[string]string{path: text, filepath.Join(dir, "table.jsonl"): rows.String()} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// plainTrain runs a configuration with the real models.
func plainTrain(path string, o Options) (*Result, error) {
	c, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	o.Config, o.Factory = c, models.Open
	return Train(context.Background(), o)
}

// TestTrainedParts trains what lora.parts and targets name, and nothing else; the files, the plan and the messages
// agree.
func TestTrainedParts(t *testing.T) {
	long.Test(t)
	for _, test := range []struct {
		family, lora string
		parts        []string // of config.yaml
		language     bool
		others       int // adapters outside the language model
	}{
		{"llavanext", "", []string{"language"}, true, 0},
		{"llavanext", "lora: {targets: all-linear}", []string{"language"}, true, 0},
		{"llavanext", "lora: {parts: [language, vision, projector]}", lora.Parts(), true, 1},
		{"llavanext", "lora: {targets: [linear_1], parts: [projector]}", []string{"projector"}, false, 1},
		{"llavanext", `lora: {targets: '.*(q_proj|linear_2)'}`, lora.Parts(), true, 1},
		{"qwen2_5_vl", "lora: {targets: all-linear, exclude: [v_proj]}", []string{"language"}, true, 0},
		{"qwen2_5_vl", "lora: {targets: all-linear, parts: [language, vision]}", []string{"language", "vision"}, true, 1},
	} {
		path := pictureRun(t, test.family, test.lora+"\n")
		said := ""
		r, err := plainTrain(path, Options{Note: func(s string) { said += s + "\n" }})
		if err != nil {
			t.Fatalf("%s %s: %v", test.family, test.lora, err)
		}
		a, err := lora.Load(r.Scorer)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		var modules []string
		for _, x := range a.Targets {
			count[lora.Part(x.Module)]++
			if !strings.Contains(
				x.Module,
				"vision_tower.encoder.layers.2.",
			) { // PEFT adapts CLIP's last layer, whose output is not used
				modules = append(modules, x.Module)
			}
		}
		others := count[lora.Vision] + count[lora.Projector]
		if test.language != (count[lora.Language] > 0) || (others > 0) != (test.others > 0) {
			t.Errorf("%s %s: the adapter is on %v", test.family, test.lora, count)
		}
		want := fmt.Sprintf(
			"trains %d adapters in the language model, %d in vision, %d in the projector; head; 2 token rows; %d parameters\n",
			count[lora.Language],
			r.Trains.Adapters[lora.Vision],
			count[lora.Projector],
			r.Trains.Parameters,
		)
		if said != want {
			t.Errorf("%s %s: it said %q, want %q", test.family, test.lora, said, want)
		}
		var plan models.Resolved
		raw, err := os.ReadFile(filepath.Join(r.Run, config.PlanFile))
		if err == nil {
			err = json.Unmarshal(raw, &plan)
		}
		if err != nil || !slices.Equal(plan.Trains.Modules, modules) || plan.Auto["device"] != "cpu" || plan.MicroBatch == 0 {
			t.Errorf("%s %s: plan.json has %+v, %v", test.family, test.lora, plan, err)
		}
		again := load(t, filepath.Join(r.Run, config.ConfigFile))
		if !slices.Equal(again.Lora.Parts, test.parts) {
			t.Errorf("%s %s: config.yaml has parts %v, want %v", test.family, test.lora, again.Lora.Parts, test.parts)
		}
		dry, err := DryRun(context.Background(), again, models.OpenPlan)
		if err != nil || dry.Trains.Digest != r.Trains.Digest {
			t.Errorf("%s %s: the dry run of config.yaml says %v, %v", test.family, test.lora, dry, err)
		}
	}
	_, err := plainTrain(pictureRun(t, "llavanext", "lora: {targets: [linear_1]}\n"), Options{})
	if exit.Code(err) != exit.Wrong ||
		!strings.Contains(
			err.Error(),
			"lora.parts is [language]; they match 0 adapters in the language model, 0 in vision, 1 in the projector",
		) {
		t.Error(err)
	}
}

// TestInitOfEnsemble: the error says that an ensemble cannot be trained on.
func TestInitOfEnsemble(t *testing.T) {
	const first = "../../backbones/tiny-scorer"
	state, err := model.LoadScorerState(first)
	if err != nil {
		t.Fatal(err)
	}
	state.Tensors["score_token.embedding"].Float32s()[0]++
	second, ensemble := t.TempDir(), filepath.Join(t.TempDir(), "ensemble")
	if err := state.Save(second); err != nil {
		t.Fatal(err)
	}
	if err := model.WriteEnsemble([]string{first, second}, "", ensemble); err != nil {
		t.Fatal(err)
	}
	_, err = plainTrain(pictureRun(t, "llavanext", "init: "+ensemble+"\n"), Options{})
	if want := "an ensemble of 2, which cannot be trained on"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

// TestInitKeepsItsAdapter fine-tunes a scorer: its adapter trains, config.yaml records it, and a different lora
// section is refused with an error that names both.
func TestInitKeepsItsAdapter(t *testing.T) {
	long.Test(t)
	first, err := plainTrain(
		pictureRun(t, "llavanext", "lora: {r: 4, alpha: 6, rank_pattern: {v_proj: 2}, layers: [0]}\n"),
		Options{},
	)
	if err != nil {
		t.Fatal(err)
	}
	init := "init: " + first.Scorer + "\n"
	for _, same := range []string{"", "lora: {r: 4}\n",
		"lora: {targets: '(?!.*vision).*layers.0.*\\.(q_proj|v_proj)', layers: null, dropout: 0.1}\n"} {
		r, err := plainTrain(pictureRun(t, "llavanext", init+same), Options{})
		if same != "" && strings.Contains(same, "layers: null") { // PEFT has no layers_to_transform with an expression
			if err == nil {
				t.Error("layers beside an expression")
			}
			continue
		}
		if err != nil || r.Trains.Digest != first.Trains.Digest {
			t.Errorf("%q: %v", same, err)
			continue
		}
		c := load(t, filepath.Join(r.Run, config.ConfigFile))
		if c.Lora.R != 4 || c.Lora.Alpha != 6 ||
			!slices.Equal(c.Lora.RankPattern, config.Overrides{{Key: "v_proj", Value: 2}}) ||
			!slices.Equal(c.Lora.Parts, []string{"language"}) ||
			!slices.Equal(c.Lora.Layers, []int{0}) {
			t.Errorf("%q: config.yaml has %+v", same, c.Lora)
		}
	}
	root := oracle.Folders(t)[0]
	for extra, want := range map[string]string{
		"lora: {r: 16}\n": "has 2 adapters in the language model, 0 in " +
			"vision, 0 in the projector, rank 2 and 4; the lora section asks for 2 adapters",
		"lora: {alpha: 12}\n": "rank 4 and scale 3; there it has rank 4 and " +
			"scale 1.5",
		"lora: {rslora: true}\n":                      "scale 3; there it has rank 4 and scale 1.5",
		"lora: {targets: [q_proj]}\n":                 "no model.language_model.layers.0.self_attn.v_proj, which it has",
		"lora: {targets: [q_proj, v_proj, k_proj]}\n": "k_proj, which it does not have",
		"lora: {parts: [language, vision]}\n":         "which it does not have",
		"score_token: '[RATE]'\nanswer: '[RATE]'\n": `score_token: "[RATE]" here, but the scorer ` +
			`of init was trained with "[SCORE]"`,
		"head: {hidden: [4]}\n":       "the scorer of init has another head",
		"mode: head\nlora: {r: 16}\n": "the lora section asks for",
		"backbone: " + filepath.Join(root, "qwen2_5_vl", "backbone") + "\n": "is not the backbone of the scorer of init",
	} {
		_, err := plainTrain(pictureRun(t, "llavanext", init+extra), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", extra, err, want)
		}
	}
	said := ""
	r, err := plainTrain(
		pictureRun(t, "llavanext", init+"pair: concat\nscore_range: [0, 100]\n"),
		Options{Note: func(s string) { said += s + "\n" }},
	)
	if err != nil || !strings.Contains(said, `pair: "sequence" in the scorer of init, "concat" in this run`) ||
		!strings.Contains(said, "score_range") ||
		len(r.Trains.Departures) != 2 {
		t.Errorf("%v %q", err, said)
	}
	a, err := lora.LoadConfig(first.Scorer)
	if err != nil || a.Exclude.Regex == "" {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestAnotherPlanIsNotResumed: a run only resumes with the same trained tensors.
func TestAnotherPlanIsNotResumed(t *testing.T) {
	path := pictureRun(t, "llavanext", "")
	if _, err := plainTrain(path, Options{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for extra, want := range map[string]string{"lora: {parts: [language, vision]}\n": "in vision, 0 in the projector",
		"mode: head\n": "0 adapters in the language model"} {
		if err := os.WriteFile(path, append(slices.Clone(text), extra...), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, force := range []bool{false, true} {
			if _, err := plainTrain(
				path,
				Options{Force: force},
			); exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), want+"") ||
				!strings.Contains(err.Error(), "in the checkpoint of step 1") {
				t.Errorf("%s: %v", extra, err)
			}
		}
	}
}
