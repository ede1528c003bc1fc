package trainer

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
	"assay/losses"
	"assay/model"
)

// writeHeadsRun writes a run over two tables: one has quality labels, the other emotion names and some valence
// labels.
func writeHeadsRun(t *testing.T, heads, text string) string {
	t.Helper()
	dir, root := t.TempDir(), oracle.Folders(t)[0]
	scorer := fmt.Sprintf(`format: 2
backbone: %s
passes: [{pictures: [source, edit], prompt: '[INSTRUCTION]', position: last, heads: [%s]}]
heads:
`, filepath.Join(root, "qwen2_5_vl", "backbone"), heads)
	for name, head := range map[string]string{"quality": "{hidden: [4], outputs: value}",
		"emotion": "{outputs: classes, names: [calm, fear, awe]}", "valence": "{outputs: value}"} {
		if strings.Contains(heads, name) {
			scorer += fmt.Sprintf("  %s: %s\n", name, head)
		}
	}
	var first, second strings.Builder
	for g, p := range oracle.Read[[]struct{ Input, Edited string }](t, filepath.Join(root, "images", "pairs.json")) {
		for k, picture := range []string{p.Input, p.Edited} {
			row := fmt.Sprintf(`{"id": "%d-%d", "source": %q, "edit": %q, "instruction": "edit %d", `, g, k,
				filepath.Join(root, p.Input), filepath.Join(root, picture), g)
			if g%3 == 0 {
				fmt.Fprintf(&first, "%s\"label_quality\": %d}\n", row, k)
				continue
			}
			valence := "null"
			if g%3 == 1 {
				valence = fmt.Sprint(0.25 * float64(g%4))
			}
			fmt.Fprintf(&second, "%s\"label_emotion\": %q, \"label_valence\": %s}\n", row, []string{"calm", "awe"}[k], valence)
		}
	}
	return writeRunOf(t, dir, map[string]string{
		"scorer.yaml": scorer, "a.jsonl": first.String(), "b.jsonl": second.String(),
		"run.yaml": "scorer: scorer.yaml\nout: out\ndata: {train: [a.jsonl, b.jsonl], validation: 0.3, balance: table}\n" +
			"device: cpu\nthreads: 2\nbatch_size: 4\nsteps: 4\noptimizer: {lr: 0.01}\n" + text,
	})
}

const headsLosses = "losses: [{kind: mse, dimension: quality}, {kind: classes, dimension: emotion, weight: 0.5}, " +
	"{kind: huber, dimension: valence}]\n"

// TestHeads: a run over tables with labels for different heads trains all heads, measures each, and writes a scorer
// that returns the class.
func TestHeads(t *testing.T) {
	long.Test(t)
	ctx := context.Background()
	r, err := Train(ctx, Options{Config: load(t, writeHeadsRun(t, "quality, emotion, valence", headsLosses)),
		Factory: models.Open})
	if err != nil {
		t.Fatal(err)
	}
	v := r.Validation
	if v.By != "dimensions" || len(v.Dimensions) != 3 {
		t.Fatalf("got %+v, want three heads, by dimensions", v)
	}
	q, e := v.Dimensions["quality"], v.Dimensions["emotion"]
	if q.Rows+e.Rows != v.Rows || q.L1 == nil || q.Accuracy != nil || e.Accuracy == nil || e.L1 != nil ||
		v.Dimensions["valence"].Rows > e.Rows {
		t.Errorf("got quality %+v, emotion %+v of %d rows", q, e, v.Rows)
	}
	s, err := model.OpenScorer(r.Scorer, model.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d := s.Info().Dimensions; len(d) != 3 || len(d[0].Classes) != 3 {
		t.Errorf("got dimensions %+v, want emotion of three classes first", d)
	}
}

// TestUntrainedHead: a head that no loss trains is measured, but does not decide which scorer is best.
func TestUntrainedHead(t *testing.T) {
	c := &config.Config{
		Judge: &model.ScorerConfig{
			Heads: map[string]model.DimensionConfig{"quality": {}, "valence": {}, "arousal": {}},
			Score: &model.FusionConfig{Of: []string{"arousal"}},
		},
		Losses: []losses.Spec{{Kind: "mse", Dimension: "quality"}},
	}
	v := &validator{config: c, data: &dataset.Data{Validation: &dataset.Samples{}}}
	examples := []dataset.Example{{Annotations: data.Annotations{
		Labels: map[string]float64{"quality": 0.25, "valence": 0.5, "arousal": 1}}}}
	for _, step := range []struct {
		losses []losses.Spec
		want   float64 // mean error: every head says 0
	}{
		{c.Losses, 0.25},
		{append(c.Losses, losses.Spec{Kind: "mse", Fused: true}), 0.625},
		{[]losses.Spec{{Kind: "mse", Dimension: "valence", Weight: new(0.0)}}, math.NaN()},
	} {
		t.Run(fmt.Sprint(step.want), func(t *testing.T) {
			c.Losses = step.losses
			m := &records.ValidationMetrics{L1: records.None, Spearman: records.None, Dimensions: v.foreseen(examples)}
			got := m.Number(config.ByDimensions)
			if len(m.Dimensions) != 3 || got != step.want && !(math.IsNaN(got) && math.IsNaN(step.want)) {
				t.Errorf("got mean error %g of %d heads, want %g of 3", got, len(m.Dimensions), step.want)
			}
		})
	}
}

// TestClassesAlone: a scorer whose only head has unordered classes has no score.
func TestClassesAlone(t *testing.T) {
	long.Test(t)
	ctx := context.Background()
	r, err := Train(ctx, Options{Config: load(t, writeHeadsRun(t, "emotion",
		"losses: [{kind: classes, dimension: emotion}]\n")), Factory: models.Open})
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Validation; len(v.Dimensions) != 1 || v.Dimensions["emotion"].Accuracy == nil {
		t.Errorf("got %+v, want the accuracy of emotion", v)
	}
	s, err := model.OpenScorer(r.Scorer, model.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := edit.ScoreAll(ctx, s); err != nil {
		t.Error(err)
	}
}

// TestHeadsConfig: the error names what a head cannot learn.
func TestHeadsConfig(t *testing.T) {
	for want, text := range map[string]string{
		"the classes of heads.emotion have no order": strings.Replace(headsLosses, "classes", "l1", 1),
		"losses[0].fused: no head has a score":       "losses: [{kind: l1, fused: true}]\n",
	} {
		t.Run(want, func(t *testing.T) {
			heads := "quality, emotion, valence"
			if strings.Contains(text, "fused") {
				heads = "emotion"
			}
			_, err := config.Load(writeHeadsRun(t, heads, text))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
