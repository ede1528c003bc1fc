package trainer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/atomicfile"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/model"
	"assay/model/text"
)

// large is a shipped configuration with figures computed by hand from it and the published checkpoint.
type large struct {
	example, backbone string
	tokenizer         string // of the oracle, instead of the published one, which is too large for the repository
	placeholder, end  string
	imageToken        map[string]string // config.json's line: that of the tokenizer
	vocab             int64
	pictures          int   // tokens
	backboneSize      int64 // parameters
	trainable         int64
	layer, stream     int64 // floats of activations per token: in a layer, and between layers
	heads             int64
	layers            int
}

var larges = []large{
	{
		// Text: 2 tables of 128320 x 4096, 32 layers of 2 (4096² + 1024 4096) + 3 14336 4096 + 2 4096, a norm:
		// 8,030,785,536.
		// Vision: 24 layers of 12,596,224, embeddings and norms 1,198,080. Projector 20,979,712, newline 4096.
		// Trained: 32 (8 (4096 + 4096) + 8 (4096 + 1024)), head 4096-256-16-3, two rows of 4096.
		// Pictures: 24 x 24 overview, two tiles side by side with a newline a row: 576 + 24 (48 + 1).
		example:      "adiee.yaml",
		backbone:     "llama3-llava-next-8b-hf",
		tokenizer:    "llavanext",
		placeholder:  "<image>",
		end:          "<|eot_id|>",
		vocab:        128320,
		imageToken:   map[string]string{`"image_token_index": 128256`: `"image_token_index": 744`},
		pictures:     1752,
		backboneSize: 8_030_785_536 + 24*12_596_224 + 1_198_080 + 20_979_712 + 4096,
		trainable:    32*8*(8192+5120) + (4096+1)*256 + (256+1)*16 + (16+1)*3 + 2*4096,
		layer:        6*4096 + 2*(32+8)*128 + 5*14336,
		stream:       32 * 4096,
		heads:        32,
		layers:       32,
	},
	{
		// Text: 2 tables of 152064 x 3584, 28 layers of 233,057,792, a norm: 7,615,616,512. Vision: 32 blocks of 19,702,200,
		// patches 1280 3 2 14², merger 44,574,464.
		// Trained: 28 (8 (3584 + 3584) + 8 (3584 + 512)), head 3584-256-16-3, two rows of 3584.
		example:      "qwen2.5-vl-7b-frames.yaml",
		backbone:     "Qwen2.5-VL-7B-Instruct",
		tokenizer:    "qwen2_5_vl",
		placeholder:  "<|image_pad|>",
		end:          "<|im_end|>",
		vocab:        152064,
		imageToken:   map[string]string{`"image_token_id": 151655`: `"image_token_id": 749`},
		pictures:     18 * 18,
		backboneSize: 7_615_616_512 + 32*19_702_200 + 1280*3*2*14*14 + 44_574_464,
		trainable:    28*8*(7168+4096) + (3584+1)*256 + (256+1)*16 + (16+1)*3 + 2*3584,
		layer:        6*3584 + 2*(28+4)*128 + 5*18944,
		stream:       28 * 3584,
		heads:        28,
		layers:       28,
	},
	{
		// Text: 2 tables of 151936 x 4096, 36 layers of 2 (4096² + 1024 4096) + 2 128 + 3 12288 4096 + 2 4096, a norm.
		// Vision: 27 blocks of 15,239,504, patches 1152 (3 2 16² + 1), table 48² 1152, merger 40,119,040, three more of
		// 40,125,952 each. The norms of these three are over the four patches of a token. Trained: 36 (8 (4096 + 4096) + 8
		// (4096 + 1024)), head 4096-256-16-3, two rows of 4096.
		example:      "qwen3-vl-8b-frames.yaml",
		backbone:     "Qwen3-VL-8B-Instruct",
		tokenizer:    "qwen3_vl",
		placeholder:  "<|image_pad|>",
		end:          "<|im_end|>",
		vocab:        151936,
		imageToken:   map[string]string{`"image_token_id": 151655`: `"image_token_id": 749`},
		pictures:     16 * 16,
		backboneSize: 8_190_735_360 + 27*15_239_504 + 1152*(3*2*16*16+1) + 48*48*1152 + 40_119_040 + 3*40_125_952,
		trainable:    36*8*(8192+5120) + (4096+1)*256 + (256+1)*16 + (16+1)*3 + 2*4096,
		layer:        6*4096 + 2*(32+8)*128 + 5*12288,
		stream:       36 * 4096,
		heads:        32,
		layers:       36,
	},
}

// run writes the example next to a configuration without weights, and a table of 64 groups of two rows for training
// and one for validation.
func (l *large) run(t *testing.T) (*config.Config, string) {
	t.Helper()
	dir, root := t.TempDir(), oracle.Folders(t)[0]
	backbone := filepath.Join(dir, "backbones", l.backbone)
	configs := packed.Unpack(t, "testdata/large.zip")
	if err := os.CopyFS(backbone, os.DirFS(filepath.Join(configs, l.backbone))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} {
		if err := atomicfile.Copy(
			filepath.Join(root, l.tokenizer, "backbone", name),
			filepath.Join(backbone, name),
		); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(backbone, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range l.imageToken { // as in the substitute tokenizer
		text = []byte(strings.Replace(string(text), from, to, 1))
	}
	if err := os.WriteFile(filepath.Join(backbone, "config.json"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	pair := oracle.Read[[]struct{ Input, Edited string }](t, filepath.Join(root, "images", "pairs.json"))[0]
	var rows strings.Builder
	for group := range 65 {
		split := "train"
		if group == 64 {
			split = "validation"
		}
		for label := range 2 {
			fmt.Fprintf(
				&rows,
				`{"id": "%d-%d", "group": "%d", "source": %q, "edit": %q, `+
					`"instruction": "make it purple", "label": %d, "split": %q}`+"\n",
				group,
				label,
				group,
				filepath.Join(root, pair.Input),
				filepath.Join(root, pair.Edited),
				label,
				split,
			)
		}
	}
	table := filepath.Join(dir, "labels.jsonl")
	if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	c := load(t, filepath.Join("..", "..", "examples", l.example))
	if base := filepath.Base(c.Backbone); base != l.backbone {
		t.Errorf("backbone %s, want %s", base, l.backbone)
	}
	c.Backbone, c.Out, c.Data.Train, c.Device = backbone, filepath.Join(dir, "out"), config.Strings{table}, "cpu"
	return c, dir
}

// tokens returns the fewest and the most tokens of an example.
func (l *large) tokens(t *testing.T, c *config.Config) (least, most int) {
	t.Helper()
	p, err := text.Open(c.Backbone, "[SCORE]", l.vocab)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, q := range c.Question {
		for _, a := range c.Answer {
			prompt, err := p.Prompt(1, strings.ReplaceAll(q, "[INSTRUCTION]", "make it purple"))
			if err != nil {
				t.Fatal(err)
			}
			tokens, err := p.Encode(prompt, a, l.end, l.placeholder, []int{l.pictures})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(tokens.IDs); least == 0 || n < least {
				least = n
			}
			most = max(most, len(tokens.IDs))
		}
	}
	return least, most
}

// TestLargeDryRuns plans the shipped recipes on checkpoints of the published sizes whose weights are absent.
func TestLargeDryRuns(t *testing.T) {
	long.Test(t)
	for _, l := range larges {
		t.Run(l.backbone, func(t *testing.T) {
			c, dir := l.run(t)
			p, err := DryRun(context.Background(), c, models.OpenPlan)
			if err != nil {
				t.Fatal(err)
			}
			least, most := l.tokens(t, c)
			if p.Tokens.Min < least || p.Tokens.Max > most || p.Tokens.Min > p.Tokens.Max {
				t.Errorf("%+v tokens, want %d to %d", p.Tokens, least, most)
			}
			want := &models.Plan{
				Device: "cpu",
				// 30 epochs of 64 groups
				RunSize: models.RunSize{Steps: 10, Examples: 1920, Rows: 128, Validation: 2, BatchSize: 192},
				MicroBatch: max(
					1,
					int(2048/p.Tokens.Mean),
				),
				Tokens:     p.Tokens,
				Parameters: l.backboneSize + l.trainable,
				Trainable:  l.trainable,
				Trains:     p.Trains,
				Kernels:    "plain (results on the CPU keep their bits)",
				MemoryNeed: models.MemoryNeed{
					Absent: p.Absent, Bytes: p.Bytes, Need: p.Need, Memory: p.Memory, Fits: p.Fits},
			}
			if p.Memory < 64<<30 { // the free memory of this machine decides
				want.MicroBatch = p.MicroBatch
			}
			rows := int64(p.Tokens.Max * p.MicroBatch)
			// recomputation: at least one layer with scores and softmax, and the inputs of all
			floor := 4 * rows * (l.layer + 2*l.heads*int64(p.Tokens.Max) + l.stream) * 8 / 10
			if got := p.Bytes["training step"]; p.Bytes["weights"] != 4*l.backboneSize ||
				p.Bytes["gradients and optimizer"] != 24*l.trainable ||
				got < floor || got > 3*floor || p.Bytes["scoring"] == 0 ||
				p.Bytes["vision tower"] == 0 ||
				p.Need != models.Total(p.Bytes) {
				t.Errorf("memory %v, the step at least %d", p.Bytes, floor)
			}
			// q_proj and v_proj of every layer of the language model; CLIP's tower, whose names end the same, is left alone
			if says := fmt.Sprintf(
				"%d adapters in the language model, 0 in vision, 0 in the projector; head; 2 token rows; %d parameters",
				2*l.layers,
				l.trainable,
			); p.Trains.String() != says {
				t.Errorf("the run trains %v, want %s", p.Trains, says)
			}
			if len(p.Warnings) != 3 {
				t.Errorf("got warnings %q, want those of one edit with several labels, on both sides, and of few steps",
					p.Warnings)
			}
			p.Warnings = nil
			if d := cmp.Diff(want, p); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
			if _, err := os.Stat(c.Out); !os.IsNotExist(err) {
				t.Error("the dry run wrote something")
			}
			if _, err := models.Open(
				context.Background(),
				c,
			); err == nil || !strings.Contains(err.Error(), dir) ||
				!strings.Contains(err.Error(), "safetensors") {
				t.Errorf("training without weights: %v", err)
			}
		})
	}
}

// TestLargeDryRunsOfOtherModes plans to train every weight, and only the head.
func TestLargeDryRunsOfOtherModes(t *testing.T) {
	long.Test(t)
	l := larges[1]
	c, _ := l.run(t)
	head := int64((3584+1)*256 + (256+1)*16 + (16+1)*3)
	for mode, want := range map[string]int64{"full": l.backboneSize + head + 2*3584, "head": head} {
		c.Mode = mode
		p, err := DryRun(context.Background(), c, models.OpenPlan)
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		if p.Trainable != want || p.Steps != 10 {
			t.Errorf("%s: %d parameters train in %d steps, want %d in 10", mode, p.Trainable, p.Steps, want)
		}
		if mode == "head" && p.Bytes["weights, while hidden states are computed"] != 4*l.backboneSize {
			t.Errorf("%v", p.Bytes)
		}
	}
}

// TestLargeFits plans LoRA on Qwen2.5-VL-7B: eight pairs of 1,414 tokens at once, with text loss over all of them.
// Without recomputation they need at most 60 GB with fused kernels. Validation needs no more: its graph shares the
// weights. Dropout needs none either: its rows are drawn again. On a GPU of 56 GB recompute: auto leaves a tenth free.
func TestLargeFits(t *testing.T) {
	long.Test(t)
	for _, run := range []struct {
		recompute, validation, kernels string
		first                          int // layers that are recomputed, of 28
		memory, most                   int64
		dropout                        float64
	}{
		{"none", "", "fused (as configured)", 0, 80e9, 60e9, 0},
		{"none", "", "fused (as configured)", 0, 80e9, 58e9, 0.05},
		{config.RecomputeAuto, "validation", "fused (faster on a GPU)", 0, 80e9, 60e9, 0},
		{config.RecomputeAuto, "validation", "fused (faster on a GPU)", 7, 56e9, 50.4e9, 0},
	} {
		t.Run(fmt.Sprint(run.recompute, run.memory, run.dropout), func(t *testing.T) {
			c, _ := larges[1].run(t)
			c.Pair, c.PairSize, c.Augment = model.Sequence, []int{728, 728}, "none"
			c.Question = []string{`How well was "[INSTRUCTION]" carried out, from 0 to 10?`}
			c.Answer = []string{"It is [SCORE]."}
			c.BatchSize, c.MicroBatch, c.Recompute, c.Data.ValidationSplit = 8, 8, run.recompute, run.validation
			c.Device, c.Dtype, c.Lora.Dropout = "cuda:0", "bfloat16", run.dropout
			if c.DeviceOptions.Kernels = "auto"; strings.Contains(run.kernels, "configured") {
				c.DeviceOptions.Kernels = "fused"
			}
			p, err := DryRun(t.Context(), c, models.OpenPlanFor(run.memory))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.1f GB for 8 pairs of %.0f tokens: %v, recomputed: %v", float64(p.Need)/1e9, p.Tokens.Mean, p.Bytes,
				p.Recompute)
			if p.Need > run.most || p.Need < 45e9 || p.MicroBatch != 8 || p.Tokens.Mean < 1400 {
				t.Errorf("%d bytes for %d pairs of %.0f tokens, want at most %d for 8", p.Need, p.MicroBatch, p.Tokens.Mean,
					run.most)
			}
			if p.Kernels != run.kernels {
				t.Errorf("got kernels %q, want %q", p.Kernels, run.kernels)
			}
			if p.Recompute != nil && p.Recompute.First != run.first {
				t.Errorf("recomputes %v, want %d", p.Recompute, run.first)
			}
		})
	}
}

// TestLargeGRPOFits plans GRPO on Qwen2.5-VL-7B on an 80 GB GPU: eight answers of 1,024 tokens at once. Their losses
// are computed in chunks: the logits of all tokens, and their gradient, are 5 GB each.
func TestLargeGRPOFits(t *testing.T) {
	long.Test(t)
	l, _ := larges[1].run(t)
	c := load(t, grpoConfig(t, "qwen2_5_vl", "micro_batch: 8\ndtype: bfloat16\ndevice_options: {kernels: fused}\n"+
		"grpo: {num_generations: 4, max_completion_length: 1024, rewards: [{kind: match, column: truth}]}\n"))
	c.Backbone, c.Device, c.BatchSize, c.GRPO.NumGenerations = l.Backbone, "cuda:0", 8, 8
	p, err := DryRun(t.Context(), c, models.OpenPlanFor(80e9))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f GB: %v", float64(p.Need)/1e9, p.Bytes)
	if p.Need > 50e9 || p.Need < 40e9 || p.MicroBatch != 8 {
		t.Errorf("%.1f GB for %d answers, want 40 to 50 for 8", float64(p.Need)/1e9, p.MicroBatch)
	}
}
