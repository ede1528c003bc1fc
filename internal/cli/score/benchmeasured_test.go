package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/oracle"
	"assay/metrics"
)

// measured is AIM-Bench's layout with two samples and an editor M, what says each component of it, and a server whose
// model answers by the prompt and the instruction.
type measured struct {
	dir      string
	requests atomic.Int64
	broken   atomic.Bool // sc of the second sample cannot be read
	judges   string      // --component
}

func (m *measured) in(name string) string { return filepath.Join(m.dir, name) }

// answer returns the model's answer. Numbers are chosen so that Overall can be computed by hand.
func (m *measured) answer(body string) string {
	m.requests.Add(1)
	second := strings.Contains(body, "dim the light")
	switch {
	case strings.Contains(body, "Fidelity."):
		if second && m.broken.Load() {
			return "no idea"
		}
		if second {
			return `{"scores": [6, 10], "reason": "so"}`
		}
		return `{"scores": [8, 9], "reason": "so"}`
	case strings.Contains(body, "Cleanness."):
		return `{"scores": [9, 7], "reason": "so"}`
	case strings.Contains(body, "Ground-truth image"):
		if second {
			return `{"scores": [9, 8], "reason": "so"}`
		}
		return `{"scores": [7, 8], "reason": "so"}`
	case strings.Contains(body, "contentment"):
		return `{"emotion": "awe", "reasoning": "so"}`
	}
	return `{"valence": 6, "arousal": 5, "dominance": 5, "reasoning": "so"}`
}

func newMeasured(t *testing.T) (m *measured, url string) {
	t.Helper()
	m = &measured{dir: t.TempDir()}
	var data []map[string]any
	for i, s := range []struct {
		emotion, prompt, source, output string
		vad                             [3]float64
	}{{"awe", "raise the sky", "astronaut.png", "astronaut_purple.png", [3]float64{6, 5, 7}},
		{"fear", "dim the light", "coffee.png", "coffee_blur.png", [3]float64{9, 5, 5}}} {
		data = append(data, map[string]any{"original_image": fmt.Sprintf("s%d.jpg", i), "edit_type": "add_object",
			"edited_image": fmt.Sprintf("s%d_%s_instruction_1.png", i, s.emotion), "edit_prompt": s.prompt,
			"target_emotion": map[string]any{"emotion": s.emotion, "VAD": s.vad}})
		for from, to := range map[string][]string{
			s.source: {fmt.Sprintf("benchmark/s%d.jpg", i)},
			s.output: {fmt.Sprintf("benchmark/s%d_%s_instruction_1.png", i, s.emotion),
				fmt.Sprintf("M/edited_output/s%d_edited_%s.png", i, s.emotion)},
		} {
			raw, err := os.ReadFile(filepath.Join(oracle.Folders(t)[0], "images", from))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range to {
				put(t, m.dir, name, raw)
			}
		}
	}
	put(t, m.dir, "Instructions.json", data)
	put(t, m.dir, "c.jsonl", []byte(`{"id": 0, "method": "M", "clip_t": 0.24, "by": {"clip_t": "longclip"}}
{"id": 1, "method": "M", "clip_t": 0.28, "by": {"clip_t": "longclip"}}
`))
	clip, err := filepath.Abs(filepath.Join(oracle.Folders(t)[0], "clip", "model"))
	if err != nil {
		t.Fatal(err)
	}
	head := map[string]*tensor.Dense{
		"weight": tensor.New(tensor.WithShape(1, clipWidth(t, clip)), tensor.Of(tensor.Float32)),
		"bias":   tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{5.5}))}
	if err := checkpoints.WriteFile(m.in("head.safetensors"), head, nil); err != nil {
		t.Fatal(err)
	}
	e := metrics.Export{Kind: "aesthetic", Weights: m.in("head.safetensors"), Encoder: clip, Out: m.in("aesthetic")}
	if err := e.Write(); err != nil {
		t.Fatal(err)
	}
	m.judges = "aim/sc,aim/pq,aim/gtc,aim/emotion,aim/vad," + m.in("aesthetic/metric.yaml")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		var asked struct{ Model string }
		if _, err := body.ReadFrom(r.Body); err != nil || json.Unmarshal(body.Bytes(), &asked) != nil {
			t.Errorf("got the request %s (%v)", body.Bytes(), err)
		}
		answer := map[string]any{"model": asked.Model, "usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 5},
			"choices": []any{map[string]any{"finish_reason": "stop",
				"message": map[string]string{"role": "assistant", "content": m.answer(body.String())}}}}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return m, s.URL
}

// run runs score bench aim-bench with components from judges, a metric and a file.
func (m *measured) run(url, model, out string, more ...string) (code int, stdout, stderr string) {
	return bench(append([]string{"aim-bench", "--ratings", m.dir, "--editors", m.in("M"), "--component", m.judges,
		"--components", m.in("c.jsonl"), "--url", url, "--model", model, "--concurrency", "1",
		"--store", m.in(out + "-kept"), "--out", m.in(out), "--resamples", "20"}, more...)...)
}

type benchNumbers struct {
	Numbers []struct {
		Rule, Judge string
		Value       *float64
		Coverage    struct{ Used, Of int }
	}
}

func decoded(t *testing.T, stdout string) (v benchNumbers) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return v
}

// TestComponentsByJudges: one command goes from published files and a folder of outputs to AIM-Bench's Overall, each
// component from a VLM judge, a metric or a file. It stops at a cap, resumes, and asks nothing twice.
func TestComponentsByJudges(t *testing.T) {
	m, url := newMeasured(t)
	code, stdout, stderr := m.run(url, "m", "run", "--token-cap", "40")
	if code != 3 || !strings.Contains(stderr, "the cap is reached") || !strings.Contains(stderr, "same command resumes") {
		t.Fatalf("at a cap: got exit code %d, want 3: %s%s", code, stdout, stderr)
	}
	if got := m.requests.Load(); got == 0 || got >= 10 {
		t.Errorf("%d requests before the cap, want some of 10", got)
	}
	code, stdout, stderr = m.run(url, "m", "run", "--json")
	v := decoded(t, stdout)
	if code != 0 || m.requests.Load() != 10 {
		t.Fatalf("resumed: got exit code %d after %d requests, want 0 after 10: %s%s", code, m.requests.Load(), stdout,
			stderr)
	}
	// Table 1's columns, and the mean of their values normalised to their bounds
	for _, want := range []struct {
		rule, judge string
		value       float64
	}{
		{"clip_t", "longclip", 0.26}, {"sc", "aim-bench sc by m, own prompts ", 7}, {"aesthetic", "aesthetic (", 5.5},
		{"pq", "aim-bench pq by m, own prompts ", 7}, {"s_gtc", "aim-bench gtc by m, own prompts ", 7.5},
		{"acc", "aim-bench emotion by m, own prompts ", 50},
		{"f1", "aim-bench emotion by m, own prompts ", 100 * 2. / 3 / 8},
		{"d_vad", "aim-bench vad by m, own prompts ", 2.5},
		{"overall", "longclip; aim-bench sc by m",
			100 * (0.6 + 0.4 + 0.55 + 0.4 + 0.5 + 0.5 + 2./3/8 + 0.5) / 8},
	} {
		t.Run(want.rule, func(t *testing.T) {
			for _, n := range v.Numbers {
				if n.Rule == want.rule && math.Abs(*n.Value-want.value) < 1e-9 && strings.HasPrefix(n.Judge, want.judge) {
					return
				}
			}
			t.Errorf("got %s, want %v by %q", stdout, want.value, want.judge)
		})
	}
	// measurements are in separate files, and are not asked again
	if code, _, stderr := m.run(url, "m", "run", "--store", m.in("others")); code != 0 || m.requests.Load() != 10 {
		t.Errorf("again: got exit code %d after %d requests, want 0 after 10: %s", code, m.requests.Load(), stderr)
	}
}

// TestComponentIncomplete: an unreadable answer excludes its sample from that component, by name; the next run tries
// it again (a model is not asked again if its answer is stored).
func TestComponentIncomplete(t *testing.T) {
	m, url := newMeasured(t)
	m.broken.Store(true)
	code, stdout, _ := m.run(url, "m", "run")
	for _, want := range []string{`sc of s1_fear_instruction_1.png of M could not be measured`, "no idea", "sc (50% of 2)",
		"overall (93% of 14 values)"} {
		if code != 1 || !strings.Contains(stdout, want) {
			t.Errorf("got exit code %d, want 1 and %q in\n%s", code, want, stdout)
		}
	}
	m.broken.Store(false)
	asked := m.requests.Load()
	code, stdout, stderr := m.run(url, "m", "run", "--store", m.in("others"))
	if code != 0 || strings.Contains(stdout, "% of") || m.requests.Load() != asked+1 {
		t.Errorf("repaired: got exit code %d after %d more requests, want 0 after 1 and whole columns: %s%s", code,
			m.requests.Load()-asked, stdout, stderr)
	}
}

// TestComponentMeasurers: two models' numbers do not share a column, nor do those of two prompts.
func TestComponentMeasurers(t *testing.T) {
	m, url := newMeasured(t)
	m.judges = "aim/sc"
	for _, model := range []string{"m", "n"} {
		if code, stdout, stderr := m.run(url, model, model); code != 0 {
			t.Fatalf("%s: exit code %d: %s%s", model, code, stdout, stderr)
		}
	}
	raw, err := os.ReadFile(m.in("n/component-sc.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, m.dir, "n.jsonl", []byte(strings.ReplaceAll(string(raw), `"model":"M"`, `"model":"N"`)))
	_, stdout, stderr := bench("aim-bench", "--ratings", m.dir, "--resamples", "20", "--components",
		m.in("m/component-sc.jsonl")+","+m.in("n.jsonl"))
	if !strings.Contains(stdout, "its judge is aim-bench sc by n, own prompts") {
		t.Errorf("two models share a column:\n%s%s", stdout, stderr)
	}
	if code, _, stderr := m.run(url, "n", "m"); code == 0 || !strings.Contains(stderr, "component-sc.jsonl.progress") {
		t.Errorf("a second model in the same folder: got exit code %d: %s", code, stderr)
	}
}

// TestFEDComponents: a judge with several numbers fills the components with their names, and a scorer's score may be
// one.
func TestFEDComponents(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for from, to := range map[string]string{"astronaut.png": "source.png", "coffee.png": "gt.png",
		"astronaut_purple.png": "E/dense/one.png"} {
		raw, err := os.ReadFile(filepath.Join(oracle.Folders(t)[0], "images", from))
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, to, raw)
	}
	put(t, dir, "triplets.jsonl", []byte(`{"sample": "one", "source": "source.png", "gt": "gt.png", "expression": `+
		`"happy", "dense_instruction": "smile widely"}`))
	put(t, dir, "rest.jsonl", []byte(`{"sample": "one", "model": "E/dense", "id": 0.6, "bg_rmse": 51, "lpips_src_trg": `+
		`0.12, "lpips_src_gt": 0.1, "by": {"lpips_src_trg": "vgg", "lpips_src_gt": "vgg"}}`))
	put(t, dir, "own/ask.jinja", []byte("How well? {{ instruction }}"))
	put(t, dir, "own/judge.yaml", []byte(`format: 1
kind: text
name: own
rule: own
questions:
  - name: all
    pictures: [reference, edit]
    prompt: ask.jinja
    answer:
      object:
        sc: {number: sc, range: [0, 10]}
        gta: {number: gta, range: [0, 10]}
        other: {number: other, range: [0, 1]}
score: {by: mean, of: [sc, gta]}
score_range: [0, 10]
`))
	url := answering(t, func(string) string { return `{"sc": 8, "gta": 6, "other": 1}` })
	args := []string{"fed-bench", "--ratings", in("triplets.jsonl"), "--images", dir, "--editors", in("E"), "--components",
		in("rest.jsonl"), "--url", url, "--model", "m", "--store", in("kept"), "--out", in("run"), "--resamples", "20"}
	code, stdout, stderr := bench(append(args, "--component", in("own")+",pq=../../../backbones/tiny-scorer", "--json")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	pq := lines(t, in("run/component-pq.jsonl"))[0]["pq"].(float64)
	d := 0.12/0.1 - 1
	want := (0.6 + (1 - 51./255) + pq/10) / 3 * (8. + 6) / 20 * math.Exp(-d*d/(2*0.5*0.5))
	for _, n := range decoded(t, stdout).Numbers {
		if n.Rule == "fed_score" && (!(math.Abs(*n.Value-want) <= 1e-9) || !strings.Contains(n.Judge, "tiny-scorer (")) {
			t.Errorf("got fed_score %v by %q, want %v", *n.Value, n.Judge, want)
		}
		if n.Rule == "reg" && n.Judge != "vgg" {
			t.Errorf("got reg by %q, want vgg", n.Judge)
		}
	}
	_, stdout, stderr = bench(append(args, "--judge", in("own"), "--out", in("scored"))...)
	if !strings.Contains(stdout, "its numbers gta, sc are components: --component "+in("own")+" instead of --judge") {
		t.Errorf("as a scorer: got\n%s%s", stdout, stderr)
	}
	put(t, dir, "five/judge.yaml", []byte("format: 1\nkind: text\nname: five\nrule: five\nquestions:\n  - {name: a, "+
		"pictures: [edit], prompt: ask.jinja, answer: {value: {number: x, range: [1, 5]}}}\nscore: {by: mean, of: [x]}\n"+
		"score_range: [1, 5]\n"))
	put(t, dir, "five/ask.jinja", []byte("a"))
	for _, c := range []struct{ component, want string }{
		{"nothing=fed/sc", `there is no component "nothing"; there are bg_rmse, gta, id,`},
		{"sc=" + in("five"), "it scores on 1 to 5, but sc is on 0 to 10"},
		{in("five"), "NAME=" + in("five") + " is needed"},
		{"aim/emotion", `measures "emotion", which is not a component here`},
		{"../../../backbones/tiny-scorer", "NAME=../../../backbones/tiny-scorer is needed"},
		{"id=../../../backbones/tiny-scorer", "it scores on 0 to 10, but id is on -1 to 1"},
	} {
		t.Run(c.component, func(t *testing.T) {
			code, stdout, stderr := bench(append(args, "--component", c.component)...)
			if code != 2 || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("got exit code %d, want 2 and %q: %s%s", code, c.want, stdout, stderr)
			}
		})
	}
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	args[10] = broken.URL
	code, stdout, stderr = bench(append(args, "--component", "fed/sc", "--store", in("none"), "--out", in("broken"))...)
	if code == 0 || code == 2 {
		t.Errorf("a server that fails: got exit code %d: %s%s", code, stdout, stderr)
	}
}
