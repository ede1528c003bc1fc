package score

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/oracle"
	"assay/metrics"
)

// TestComponentsByMetrics: metrics measure the components of AIM-Bench's editors. A cosine equals that of the
// baseline with the same name, and nothing is measured twice. A number that is not a component is refused first.
func TestComponentsByMetrics(t *testing.T) {
	dir := auroraFolder(t) // pictures
	clip, err := filepath.Abs(filepath.Join(oracle.Folders(t)[0], "clip", "model"))
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	data := `[{"original_image": "coffee.png", "edited_image": "coffee_awe.png", "edit_type": "add_object", ` +
		`"edit_prompt": "a red cup", "target_emotion": {"emotion": "awe", "VAD": [5, 5, 5]}}]`
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(in(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("Instructions.json", data)
	for from, to := range map[string]string{"coffee.png": "benchmark/coffee.png",
		"coffee_blur.png": "M/edited_output/coffee_edited_awe.png"} {
		raw, err := os.ReadFile(in(from))
		if err != nil {
			t.Fatal(err)
		}
		put(to, string(raw))
	}
	put("clip_t.yaml", "format: 1\nname: clip_t\nencoder: "+clip+"\nof: [edit, instruction]\noutput: {range: [-1, 1]}\n")
	width := clipWidth(t, clip)
	head := map[string]*tensor.Dense{"weight": tensor.New(tensor.WithShape(1, width), tensor.Of(tensor.Float32)),
		"bias": tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{5.5}))}
	if err := checkpoints.WriteFile(in("head.safetensors"), head, nil); err != nil {
		t.Fatal(err)
	}
	e := metrics.Export{Kind: "aesthetic", Weights: in("head.safetensors"), Encoder: clip, Out: in("aesthetic")}
	if err := e.Write(); err != nil {
		t.Fatal(err)
	}
	put("emotion.yaml", "format: 1\nname: emotion\nmodel: aesthetic/model.onnx\nencoder: "+clip+
		"\nof: [edit]\noutput: {classes: [awe]}\n")
	args := []string{"aim-bench", "--ratings", dir, "--editors", in("M"), "--component",
		strings.Join([]string{in("clip_t.yaml"), in("aesthetic/metric.yaml"), in("emotion.yaml")}, ","), "--out", in("run"),
		"--resamples", "20"}
	var first string
	for range 2 {
		code, stdout, stderr := bench(append(args, "--json")...)
		var v struct {
			Numbers []struct {
				Rule, Judge string
				Value       float64
			}
		}
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 {
			t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
		}
		got := map[string]float64{}
		for _, n := range v.Numbers {
			got[n.Rule] = n.Value
			if n.Rule == "clip_t" && !strings.HasPrefix(n.Judge, "clip_t (") {
				t.Errorf("clip_t is measured by %q", n.Judge)
			}
		}
		if got["aesthetic"] != 5.5 || got["acc"] != 100 {
			t.Errorf("%v", got)
		}
		baseline(t, args, clip, in("baseline"), got["clip_t"])
		raw, err := os.ReadFile(in("run/component-clip_t.jsonl.progress"))
		if err != nil || first != "" && string(raw) != first {
			t.Errorf("measured again: %v", err)
		}
		first = string(raw)
	}
	put("faces.yaml", "format: 1\nname: id\nmodel: aesthetic/model.onnx\nof: [source, edit]\n"+
		"prepare: {points: five, size: [112, 112]}\n")
	args[6] = in("faces.yaml")
	if code, stdout, stderr := bench(args...); code != 2 || !strings.Contains(stdout+stderr, "needs a boxes file") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	put("light.yaml", "format: 1\nname: brightness\nencoder: "+clip+
		"\nof: [edit, instruction]\noutput: {range: [-1, 1]}\n")
	args[6] = in("light.yaml")
	if code, stdout, stderr := bench(args...); code != 2 || !strings.Contains(stdout+stderr, `no component "brightness"`) {
		t.Errorf("got exit code %d, want 2 and no component \"brightness\": %s%s", code, stdout, stderr)
	}
}

// baseline compares a cosine with the baseline, which is ten times as large.
func baseline(t *testing.T, args []string, clip, out string, want float64) {
	t.Helper()
	code, stdout, stderr := bench(append(args[:5:5], "--baseline", "clip_t_instruction", "--clip", clip, "--out", out,
		"--resamples", "20")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	for _, row := range lines(t, filepath.Join(out, "predictions.jsonl")) {
		if v := row["score"].(float64) / 10; !(math.Abs(v-want) <= 1e-6) {
			t.Errorf("clip_t %v, the baseline has %v", want, v)
		}
	}
}

// clipWidth is the width of a checkpoint's embeddings.
func clipWidth(t *testing.T, dir string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Width int `json:"projection_dim"`
	}
	if err := json.Unmarshal(raw, &c); err != nil || c.Width == 0 {
		t.Fatal(fmt.Sprint(err, c))
	}
	return c.Width
}
