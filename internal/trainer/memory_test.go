package trainer

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/trainer/models"
)

// TestPlansAreOfTheMicroBatchTheyPrint: the memory needed grows with micro_batch, with validation rows, and with a
// trained tower.
func TestPlansAreOfTheMicroBatchTheyPrint(t *testing.T) {
	long.Test(t)
	plan := func(extra string, f models.Factory) *models.Plan {
		t.Helper()
		c := load(t, pictureRun(t, "llavanext", strings.Replace(extra, "batch_size: 2\n", "", 1)))
		c.BatchSize = 8
		p, err := DryRun(context.Background(), c, f)
		if err != nil {
			t.Fatal(err)
		}
		if p.Need != models.Total(p.Bytes) || p.Memory > 0 && (p.Fits == nil || *p.Fits != (p.Need <= p.Memory)) {
			t.Errorf("%+v", p)
		}
		return p
	}
	one, four := plan("micro_batch: 1\n", models.OpenPlan), plan("micro_batch: 4\n", models.OpenPlan)
	if one.MicroBatch != 1 || four.MicroBatch != 4 {
		t.Errorf("micro-batches of %d and %d", one.MicroBatch, four.MicroBatch)
	}
	if a, b := one.Bytes["training step"], four.Bytes["training step"]; b < 3*a || b > 5*a {
		t.Errorf("a step takes %d bytes, one over four samples %d", a, b)
	}
	if one.Bytes["scoring"] != 0 || one.Bytes["vision tower"] == 0 {
		t.Errorf("%v", one.Bytes)
	}
	less := plan("micro_batch: 4\nrecompute: layers\n", models.OpenPlan)
	if a, b := four.Bytes["training step"], less.Bytes["training step"]; b >= a {
		t.Errorf("with recomputation a step takes %d bytes, %d without", b, a)
	}
	tower := plan("micro_batch: 1\nlora: {parts: [language, vision]}\n", models.OpenPlan)
	if a, b := one.Bytes["training step"], tower.Bytes["training step"]; b <= a || tower.Bytes["vision tower"] != 0 {
		t.Errorf("with the tower a step takes %d bytes, %d without", b, a)
	}
	// a GPU that does not exist here: as many samples as fit
	small, large := plan(
		"micro_batch: auto\n",
		models.OpenPlanFor(one.Need-one.Bytes["weights"]/2),
	), plan(
		"",
		models.OpenPlanFor(80e9),
	)
	if large.Device != "cuda:0" || large.Memory != 80e9 || !*large.Fits || small.MicroBatch > large.MicroBatch {
		t.Errorf("%+v %+v", small, large)
	}
	tiny := plan("micro_batch: auto\n", models.OpenPlanFor(1e6))
	if tiny.MicroBatch != 1 || *tiny.Fits {
		t.Errorf("a megabyte is enough: %+v", tiny)
	}
}

// damage sets one value of a tensor of a checkpoint.
func damage(t *testing.T, dir, name string, bits uint32) {
	t.Helper()
	path := filepath.Join(dir, checkpoints.SingleFile)
	f, err := checkpoints.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, ok := f.Info(name)
	f.Close()
	if !ok || info.Type.Size() != 4 {
		t.Fatalf("%s: %+v", name, info)
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		binary.LittleEndian.PutUint32(raw[info.Offset+4*5:], bits)
		err = os.WriteFile(path, raw, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedWeightsAreNamed: NaN and infinities in a backbone are reported as damaged weights, whatever non_finite
// is.
func TestDamagedWeightsAreNamed(t *testing.T) {
	long.Test(t)
	const prefix = "model.language_model."
	for _, test := range []struct {
		tensor string
		bits   uint32
		want   string
		code   int
	}{
		{"layers.1.mlp.up_proj.weight", math.Float32bits(float32(math.NaN())),
			"layers.1.mlp.up_proj.weight holds NaN at index 5", exit.Failed},
		{"layers.0.self_attn.o_proj.weight", math.Float32bits(float32(math.Inf(1))),
			"layers.0.self_attn.o_proj.weight holds +Inf at index 5", exit.Failed},
		{"embed_tokens.weight", math.Float32bits(float32(math.NaN())), "embed_tokens.weight holds NaN", exit.Wrong},
	} {
		for _, mode := range []string{"", "non_finite: skip\n"} {
			path := pictureRun(t, "llavanext", mode)
			c := load(t, path)
			backbone := filepath.Join(t.TempDir(), "backbone")
			if err := os.CopyFS(backbone, os.DirFS(c.Backbone)); err != nil {
				t.Fatal(err)
			}
			w, err := checkpoints.OpenWeights(backbone)
			if err != nil {
				t.Fatal(err)
			}
			name := prefix + test.tensor
			if !w.Has(name) {
				name = "language_model.model." + test.tensor
			}
			w.Close()
			damage(t, backbone, name, test.bits)
			c.Backbone = backbone
			_, err = Train(context.Background(), Options{Config: c, Factory: models.Open})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), backbone) ||
				exit.Code(err) != test.code {
				t.Errorf("%s %s: %v", test.tensor, mode, err)
			}
		}
	}
}
