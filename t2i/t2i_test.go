package t2i

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/calibration"
	"assay/internal/long"
	"assay/internal/packed"
	"assay/internal/testfile"
)

// folder contains the fixtures written by tools/oracle/t2i.py.
var folder string

func TestMain(m *testing.M) { packed.Main(m, &folder, "testdata/t2i.zip") }

// fixtures are what the authors' code computed.
type fixtures struct {
	Cases map[string][]struct {
		Picture, Text string
		Score         float64
		Gradient      bool
	}
	Clean   map[string]string
	Garbled []string
}

func readFixtures(t *testing.T) (f fixtures) {
	t.Helper()
	testfile.ReadJSON(t, filepath.Join(folder, "cases.json"), &f)
	return f
}

// sources returns how each reward is imported.
func sources() map[string]Source {
	at := func(names ...string) string { return filepath.Join(append([]string{folder}, names...)...) }
	hps := Source{Base: at("clip"), Config: at("hpsv2.json")}
	of := func(s Source, weights string) Source { s.Weights = at(weights); return s }
	plain := of(hps, "HPS_v2_compressed.pt")
	plain.Preprocessing = "tensor_no_alias"
	return map[string]Source{
		"clip":                  {Base: at("clip")},
		"pickscore":             {Base: at("pickscore")},
		"aesthetic":             {Base: at("clip"), Weights: at("aesthetic.pth")},
		"hpsv2":                 of(hps, "HPS_v2_compressed.pt"),
		"hpsv2.1":               of(hps, "HPS_v2.1.safetensors"),
		"hpsv2-tensor_no_alias": plain,
		"imagereward":           {Base: at("bert"), Weights: at("ImageReward.pt"), Config: at("med_config.json")},
	}
}

// imported imports and opens a reward.
func imported(t *testing.T, name string) *Judge {
	t.Helper()
	s := sources()[name]
	s.Out = filepath.Join(t.TempDir(), "judge")
	kind, _, _ := strings.Cut(strings.TrimSuffix(name, ".1"), "-")
	if _, err := Import(kind, s); err != nil {
		t.Fatal(err)
	}
	return opened(t, s.Out)
}

func opened(t *testing.T, dir string) *Judge {
	t.Helper()
	j, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// editOf returns an edit whose output is a picture of the fixtures.
func editOf(t *testing.T, picture, text string) *edit.Edit {
	t.Helper()
	p, err := data.Open(filepath.Join(folder, picture), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &edit.Edit{Output: p, Instruction: text}
}

// TestAsTheirs: scores are within 1e-4 of the authors' code, and pixel gradients within 1e-4 of their largest value,
// for several sizes of pictures and texts that are long, empty, or not ASCII.
func TestAsTheirs(t *testing.T) {
	f := readFixtures(t)
	all, err := checkpoints.OpenFile(filepath.Join(folder, "gradients.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	for name := range sources() {
		t.Run(name, func(t *testing.T) {
			if strings.ContainsAny(name, ".-") { // the same with other files or preprocessing
				long.Test(t)
			}
			j := imported(t, name)
			cases := strings.TrimSuffix(name, ".1")
			worst, worstGradient := 0.0, 0.0
			for i, c := range f.Cases[cases] {
				e := editOf(t, c.Picture, c.Text)
				scores, errs, err := edit.ScoreAll(t.Context(), j, e)
				if err != nil || errs[0] != nil {
					t.Fatal(err, errs)
				}
				off := math.Abs(scores[0].Value - c.Score)
				if worst = max(worst, off); !(off < 1e-4) {
					t.Errorf("%s, %.40q: got %.6f, want %.6f", c.Picture, c.Text, scores[0].Value, c.Score)
				}
				if !c.Gradient {
					continue
				}
				want, err := all.Dense(fmt.Sprint(cases, ".", i))
				if err != nil {
					t.Fatal(err)
				}
				got, err := j.Gradients(t.Context(), []*edit.Edit{e})
				if err != nil {
					t.Fatal(err)
				}
				if off := math.Abs(got[0].Value - c.Score); !(off < 1e-4) {
					t.Errorf("%s, %.40q: got the score %.6f with the gradient, want %.6f", c.Picture, c.Text, got[0].Value, c.Score)
				}
				far := distance(t, got[0].Output, want)
				if worstGradient = max(worstGradient, far); !(far < 1e-4) {
					t.Errorf("%s, %.40q: the gradient is off by %.3g of its largest value, want less than 1e-4", c.Picture, c.Text,
						far)
				}
			}
			t.Logf("%s, %d cases: scores within %.2g, gradients within %.2g of their largest value", name,
				len(f.Cases[cases]), worst, worstGradient)
		})
	}
}

// distance returns the largest difference of two gradients, relative to the largest value of the second.
func distance(t *testing.T, got *data.Gradient, want *tensor.Dense) float64 {
	t.Helper()
	if s := want.Shape(); s[0] != got.Height || s[1] != got.Width || s[2] != 3 {
		t.Fatalf("got a gradient of %d x %d, want %v", got.Height, got.Width, s)
	}
	far, largest := 0.0, 0.0
	for i, v := range want.Float32s() {
		far = max(far, math.Abs(float64(v)-float64(got.Values[i])))
		largest = max(largest, math.Abs(float64(v)))
	}
	return far / largest
}

// TestClean: texts are cleaned as by HPSv2's tokenizer, and texts whose original it would guess are refused.
func TestClean(t *testing.T) {
	f := readFixtures(t)
	for text, want := range f.Clean {
		t.Run(text, func(t *testing.T) {
			if got, err := clean(text); err != nil || got != want {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
		})
	}
	others := []string{"ÄŒeÅ¡tina", "Ð¼Ð¸Ñ€", "ÎºÎ±Î¹", "Ø³Ù„Ø§Ù…", "æ—¥æœ¬", "à¹„à¸—à¸¢", "Viá»‡t Nam", "ï»¿a cup"}
	for _, text := range append(others, f.Garbled...) {
		if got, err := clean(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
	for _, text := range []string{"a sign «ÎLE»", "El NIÑO…", "voilà…»", "Øst–Vest", "MALMÖ™ 5 Ω"} {
		if got, err := clean(text); err != nil || got != text {
			t.Errorf("%q: got %q (%v), want the same", text, got, err)
		}
	}
}

// TestTogether: edits scored and differentiated together have the same numbers as alone, to the last bit, and on
// devices where several share a run to 1e-5.
func TestTogether(t *testing.T) {
	for _, name := range []string{"pickscore", "imagereward"} {
		t.Run(name, func(t *testing.T) {
			j := imported(t, name)
			var edits []*edit.Edit
			for _, p := range []string{"wide.png", "tall.png", "small.png"} {
				edits = append(edits, editOf(t, p, "a cup"), editOf(t, p, "a photo of a table"))
			}
			var alone []float64
			var gradients []*edit.Gradient
			for _, e := range edits {
				scores, _, err := edit.ScoreAll(t.Context(), j, e)
				g, wrong := j.Gradients(t.Context(), []*edit.Edit{e})
				if err != nil || wrong != nil {
					t.Fatal(err, wrong)
				}
				alone, gradients = append(alone, scores[0].Value), append(gradients, g[0])
			}
			for _, together := range []int{1, 4} {
				j.together = together
				scores, _, err := edit.ScoreAll(t.Context(), j, edits...)
				if err != nil {
					t.Fatal(err)
				}
				all, err := j.Gradients(t.Context(), edits)
				if err != nil {
					t.Fatal(err)
				}
				tolerance := 0.0
				if together > 1 {
					tolerance = 1e-5
				}
				for i, s := range scores {
					if !(math.Abs(s.Value-alone[i]) <= tolerance) {
						t.Errorf("%d together, edit %d: got %v, want %v", together, i, s.Value, alone[i])
					}
					for k, v := range all[i].Output.Values {
						if !(math.Abs(float64(v-gradients[i].Output.Values[k])) <= tolerance) {
							t.Fatalf("%d together, edit %d: got the gradient %v at %d, want %v", together, i, v, k,
								gradients[i].Output.Values[k])
						}
					}
				}
			}
		})
	}
}

// TestScale: a scale of reward.yaml applies to score and gradient, and changes the fingerprint.
func TestScale(t *testing.T) {
	s := sources()["pickscore"]
	s.Out, s.Copy = filepath.Join(t.TempDir(), "judge"), true
	if _, err := Import("pickscore", s); err != nil {
		t.Fatal(err)
	}
	plain := opened(t, s.Out)
	file := filepath.Join(s.Out, ConfigFile)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(raw, "scale: [1, 0.5]\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	scaled, e := opened(t, s.Out), editOf(t, "wide.png", "a cup")
	a, err := plain.Gradients(t.Context(), []*edit.Edit{e})
	b, wrong := scaled.Gradients(t.Context(), []*edit.Edit{e})
	if err != nil || wrong != nil {
		t.Fatal(err, wrong)
	}
	if got, want := b[0].Value, 1+a[0].Value/2; got != want {
		t.Errorf("got the score %v, want %v", got, want)
	}
	if got, want := b[0].Output.Values[5], a[0].Output.Values[5]/2; got != want {
		t.Errorf("got the gradient %v, want %v", got, want)
	}
	first, _ := plain.Fingerprint()
	if second, _ := scaled.Fingerprint(); second == first {
		t.Error("a judge with a scale has the fingerprint of one without")
	}
}

// TestChanged: weights that changed since the import are refused.
func TestChanged(t *testing.T) {
	s := sources()["aesthetic"]
	s.Out = filepath.Join(t.TempDir(), "judge")
	if _, err := Import("aesthetic", s); err != nil {
		t.Fatal(err)
	}
	head := filepath.Join(s.Out, "head.safetensors")
	raw, err := os.ReadFile(head)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(head, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.Out, Options{}); err == nil || !strings.Contains(err.Error(), "import it again") {
		t.Errorf("got %v, want an error about changed weights", err)
	}
}

// TestReplacedWhileOpen: a file that is replaced after a judge was opened, and before its first score, is an error:
// sessions open the files by their names, and the scores would be another judge's.
func TestReplacedWhileOpen(t *testing.T) {
	for name, file := range map[string]string{"imagereward": "model.safetensors", "hpsv2": "model.safetensors",
		"aesthetic": "head.safetensors"} {
		j := imported(t, name)
		path := filepath.Join(filepath.Dir(cmp.Or(j.config.Head, j.config.Weights, filepath.Join(j.config.Model, "-"))), file)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)-1] ^= 1
		if err := errors.Join(os.WriteFile(path+".new", raw, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
		want := path + " was changed while in use"
		scores, _, err := edit.ScoreAll(t.Context(), j, editOf(t, "wide.png", "a cup"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got scores %v, error %v, want an error with %q", name, scores, err, want)
		}
	}
}

// TestRefused: errors name what is missing or does not fit, and no folder is left behind.
func TestRefused(t *testing.T) {
	all := sources()
	other := func(name string, change func(s *Source)) Source {
		s := all[name]
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		kind   string
		source Source
		want   string
	}{
		"kind":          {"hpsv4", all["clip"], "want one of"},
		"no base":       {"clip", Source{}, "--base is needed"},
		"no weights":    {"hpsv2", Source{Base: "x"}, "--weights is needed"},
		"config":        {"clip", other("clip", func(s *Source) { s.Config = "x" }), "--config does not apply to clip"},
		"preprocessing": {"clip", other("clip", func(s *Source) { s.Preprocessing = "x" }), "preprocessing"},
		"other weights": {"hpsv2", other("hpsv2", func(s *Source) { s.Weights = filepath.Join(folder, "ImageReward.pt") }),
			"is not part of a CLIP of open_clip"},
		"other weights of imagereward": {"imagereward", other("imagereward", func(s *Source) {
			s.Weights = filepath.Join(folder, "HPS_v2_compressed.pt")
		}), "is not part of ImageReward"},
		"other weights of aesthetic": {"aesthetic", other("aesthetic", func(s *Source) {
			s.Weights = filepath.Join(folder, "ImageReward.pt")
		}), "is not part of the aesthetic predictor"},
		"published sizes": {"hpsv2", other("hpsv2", func(s *Source) { s.Config = "" }), "shape"},
		"no tokenizer":    {"imagereward", other("imagereward", func(s *Source) { s.Base = t.TempDir() }), "tokenizer.json"},
		"no checkpoint":   {"pickscore", Source{Base: t.TempDir()}, "config.json"},
	} {
		t.Run(name, func(t *testing.T) {
			c.source.Out = filepath.Join(t.TempDir(), "judge")
			if _, err := Import(c.kind, c.source); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := os.Stat(c.source.Out); err == nil {
				t.Errorf("%s was left behind", c.source.Out)
			}
		})
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), ConfigFile) {
		t.Errorf("got %v, want an error about a missing %s", err, ConfigFile)
	}
}

// TestImageRewardTensors: the authors' class has all tensors of their file and no others. A missing layer or bias must
// not be left out of the score.
func TestImageRewardTensors(t *testing.T) {
	s := sources()["imagereward"]
	f, err := checkpoints.OpenTensors(s.Weights)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const vision, text = "blip.visual_encoder.blocks.", "blip.text_encoder.encoder.layer."
	for _, c := range []struct{ name, becomes, want string }{ // becomes "": it is missing
		{vision + "0.norm1.weight", "", "vision_model.encoder.layers.0.layer_norm1.weight is missing"},
		{vision + "1.attn.proj.bias", "", "vision_model.encoder.layers.1.self_attn.out_proj.bias is missing"},
		{text + "1.crossattention.self.query.bias", "", "layer.1.crossattention.self.query.bias is missing"},
		{text + "0.output.LayerNorm.bias", text + "0.output.LayerNorm.beta", "layer.0.output.LayerNorm.bias is missing"},
		{text + "1.output.dense.bias", text + "2.output.dense.bias", "layer.1.output.dense.bias is missing"},
		{"blip.text_encoder.embeddings.LayerNorm.bias", "", "text_model.embeddings.LayerNorm.bias is missing"},
		{"", text + "0.lora_A", "text_model.encoder.layer.0.lora_A is not part of ImageReward"},
		{"", vision + "0.ls1.gamma", "vision_model.encoder.layers.0.ls1.gamma is not part of ImageReward"},
		{"", text + "2.output.dense.bias", "layer.2.output.dense.bias is not part of ImageReward with 2 text layers"},
	} {
		t.Run(c.want, func(t *testing.T) {
			to := Source{Base: s.Base, Config: s.Config, Weights: filepath.Join(t.TempDir(), "w.safetensors"),
				Out: filepath.Join(t.TempDir(), "judge")}
			err := convert(f, to.Weights, func(name string) ([]piece, error) {
				all := []piece{{name: name}}
				switch {
				case name == c.name && c.becomes == "":
					return nil, nil
				case name == c.name:
					all[0].name = c.becomes
				case c.name == "" && name == text+"0.output.dense.bias":
					all = append(all, piece{name: c.becomes})
				}
				return all, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Import("imagereward", to); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestCalibrated: a calibration's map applies to score and gradient, is part of the fingerprint, and belongs to one
// reward.yaml.
func TestCalibrated(t *testing.T) {
	s := sources()["pickscore"]
	s.Out = filepath.Join(t.TempDir(), "judge")
	if _, err := Import("pickscore", s); err != nil {
		t.Fatal(err)
	}
	raw, e := opened(t, s.Out), editOf(t, "wide.png", "a cup")
	m := calibration.Map{Method: calibration.Platt, A: -0.05, B: 0.2,
		Interval: &calibration.Interval{Coverage: 0.9, HalfWidth: 0.1, Rows: 20}}
	if err := raw.InstallCalibration(s.Out, m); err != nil {
		t.Fatal(err)
	}
	j := opened(t, s.Out)
	if r := j.Info().Range; r != (edit.Range{0, 1}) {
		t.Errorf("got the range %v, want 0 to 1", r)
	}
	a, err := raw.Gradients(t.Context(), []*edit.Edit{e})
	b, wrong := j.Gradients(t.Context(), []*edit.Edit{e})
	if err != nil || wrong != nil {
		t.Fatal(err, wrong)
	}
	want, slope := m.At(a[0].Value)
	got := b[0].Score
	if got.Value != want || got.Score01 != want || got.Unbounded || *got.Raw01 != a[0].Value ||
		!(math.Abs(got.Interval.High-want-0.1) <= 1e-12) {
		t.Errorf("got %+v, want %v of %v", got, want, a[0].Value)
	}
	for i, v := range a[0].Output.Values {
		if want := v * float32(slope); b[0].Output.Values[i] != want {
			t.Fatalf("got the gradient %v at %d, want %v", b[0].Output.Values[i], i, want)
		}
	}
	first, _ := raw.Fingerprint()
	if second, _ := j.Fingerprint(); second == first {
		t.Error("a calibrated judge has the fingerprint of one that is not")
	}
	again, err := Open(s.Out, Options{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if third, _ := again.Fingerprint(); third != first || again.Info().Range.Bounded() {
		t.Error("raw: got a calibrated judge, want one that is not")
	}
	file := filepath.Join(s.Out, ConfigFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "scale: [0, 2]\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.Out, Options{}); err == nil || !strings.Contains(err.Error(), "refit it with") {
		t.Errorf("another scale: got %v, want an error about the calibration", err)
	}
}
