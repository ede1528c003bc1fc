package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/internal/testfile"
)

// modelFixtures are computed by tools/oracle/metric_models.py with the Python originals, including preprocessing.
type modelFixtures struct {
	ArcFace []struct {
		Source, Edit     string
		Points           [2][][2]float64
		Floating, OpenCV float64
	}
	Emotion, VAD struct {
		Mean, Std []float64
		Size      []int
		Filter    string
		Classes   []string
		Cases     []struct {
			Edit, Emotion string
			VAD           [3]float64
		}
	}
	LongCLIP struct {
		Texts  map[string]string
		Tokens map[string]int
		Cases  []struct {
			Edit        string
			Long, Short float64
		}
		Direction struct {
			Source, Edit     string
			Raw, Unit, Image float64

			Boxes [2][4]float64
			Boxed float64
		}
	}
}

// openModels unpacks the models and reads their expected outputs.
func openModels(t *testing.T) (f modelFixtures, dir string) {
	t.Helper()
	testfile.ReadJSON(t, "testdata/models.json", &f)
	return f, packed.Unpack(t, "testdata/models.zip")
}

// openText opens a metric whose file is next to the models.
func openText(t *testing.T, dir, text string, o Options) *Metric {
	t.Helper()
	path := filepath.Join(dir, "metric.yaml")
	if err := os.WriteFile(path, []byte("format: 1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// shown is a sample of pictures of the fixtures by role.
func shown(t *testing.T, pictures map[string]string) *edit.Edit {
	t.Helper()
	e := &edit.Edit{ID: "s", Editor: "M"}
	for role, name := range pictures {
		raw, err := os.ReadFile(filepath.Join(oracle.Folders(t)[0], "images", name))
		if err != nil {
			t.Fatal(err)
		}
		e.Set(role, data.File{Image: data.Image{Bytes: raw}})
	}
	return e
}

// TestArcFace: faces are aligned and identities compared as insightface does. Its pixels, in OpenCV's fixed point,
// differ by a level here and there.
func TestArcFace(t *testing.T) {
	f, dir := openModels(t)
	for _, c := range f.ArcFace {
		var lines strings.Builder
		for k, role := range []string{"source", "edit"} {
			line, err := json.Marshal(map[string]any{"id": "s", "picture": role, "points": c.Points[k]})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&lines, "%s\n", line)
		}
		boxes := filepath.Join(t.TempDir(), "boxes.jsonl")
		if err := os.WriteFile(boxes, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		places, err := ReadPlaces(boxes)
		if err != nil {
			t.Fatal(err)
		}
		m := openText(t, dir, "name: id\nmodel: arcface.onnx\nof: [source, edit]\noutput: {range: [-1, 1]}\n"+
			"prepare: {points: five, size: [112, 112], mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}", Options{Places: places})
		v := measure(t, m, shown(t, map[string]string{"source": c.Source, "edit": c.Edit}))
		near(t, c.Source+" and "+c.Edit, v, c.Floating, 1e-4)
		near(t, c.Source+" and "+c.Edit+" by OpenCV", v, c.OpenCV, 5e-3)
	}
}

// TestEmotions: emotion classes, and valence, arousal and dominance, match transformers' models and image processors.
func TestEmotions(t *testing.T) {
	f, dir := openModels(t)
	e := f.Emotion
	prepare := func() string {
		return fmt.Sprintf("prepare: {size: [%d, %d], filter: %s, mean: [%v], std: [%v]}\n", e.Size[0], e.Size[1], e.Filter,
			list(e.Mean), list(e.Std))
	}
	m := openText(t, dir, "name: emotion\nmodel: emotion.onnx\nof: [edit]\n"+prepare()+
		"output: {classes: ["+strings.Join(e.Classes, ", ")+"]}", Options{})
	for _, c := range e.Cases {
		if v := measure(t, m, shown(t, map[string]string{"edit": c.Edit})); v != c.Emotion {
			t.Errorf("%s: %v, want %s", c.Edit, v, c.Emotion)
		}
	}
	e = f.VAD
	m = openText(t, dir, "name: vad\nmodel: vad.onnx\nof: [edit]\n"+prepare()+
		"output: {names: [valence, arousal, dominance], scale: [5, 4]}", Options{})
	want := []edit.DimensionInfo{{Name: "arousal"}, {Name: "dominance"}, {Name: "valence"}}
	if got := m.Info().Dimensions; !reflect.DeepEqual(got, want) {
		t.Errorf("got the dimensions %v, want %v", got, want)
	}
	for _, c := range e.Cases {
		v, ok := measure(t, m, shown(t, map[string]string{"edit": c.Edit})).(map[string]float64)
		if !ok {
			t.Fatalf("%s: no numbers by name", c.Edit)
		}
		for k, name := range []string{"valence", "arousal", "dominance"} {
			near(t, c.Edit+" "+name, v[name], c.VAD[k], 2e-5)
		}
	}
}

// list writes numbers with commas.
func list(v []float64) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(v)), ", "), "[]")
}

// TestLongCLIP: a checkpoint with 248 positions reads a text of more than CLIP's 77 tokens in full, as transformers
// does. Changes of pictures and captions are compared by both definitions.
func TestLongCLIP(t *testing.T) {
	f, dir := openModels(t)
	c := f.LongCLIP
	if n := c.Tokens["long"]; n <= 77 || n > 248 {
		t.Fatalf("the long text has %d tokens", n)
	}
	m := openText(t, dir, "name: clip_t\nencoder: longclip\nof: [edit, instruction]\noutput: {range: [-1, 1]}", Options{})
	for _, one := range c.Cases {
		s := shown(t, map[string]string{"edit": one.Edit})
		for name, want := range map[string]float64{"long": one.Long, "short": one.Short} {
			s.Instruction = c.Texts[name]
			near(t, one.Edit+", "+name, measure(t, m, s), want, 1e-5)
		}
	}
	d := c.Direction
	s := shown(t, map[string]string{"edit": d.Edit, "source": d.Source})
	s.Texts = map[string]string{"target_caption": c.Texts["after"], "source_caption": c.Texts["before"]}
	const of = "name: clip_dir\nencoder: longclip\nof: [edit, source, caption, source_caption]\n"
	near(t, "direction", measure(t, openText(t, dir, of, Options{}), s), d.Raw, 1e-5)
	unit := openText(t, dir, of+"unit: true", Options{})
	near(t, "direction of length 1", measure(t, unit, s), d.Unit, 1e-5)
	near(t, "source and edit", measure(t, openText(t, dir, "name: clip_im\nencoder: longclip\nof: [edit, source]",
		Options{}), s), d.Image, 1e-5)
	boxes := filepath.Join(t.TempDir(), "boxes.jsonl")
	lines := fmt.Sprintf(`{"id": "s", "picture": "source", "box": [%s]}`+"\n"+`{"id": "s", "model": "M", "box": [%s]}`,
		list(d.Boxes[0][:]), list(d.Boxes[1][:]))
	if err := os.WriteFile(boxes, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	places, err := ReadPlaces(boxes)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "direction within boxes", measure(t, openText(t, dir, of+"prepare: {box: true}", Options{Places: places}), s),
		d.Boxed, 1e-5)
	s.Output = s.Source()
	if v := measure(t, unit, s); v != 0.0 {
		t.Errorf("an unedited picture has the direction %v, want 0", v)
	}
	s.Texts["source_caption"] = s.Texts["target_caption"]
	if v, err := valueOf(t, unit, s); err == nil {
		t.Errorf("equal captions give the direction %v", v)
	}
	near(t, "distance from the source", measureDistance(t, "l1_source", s), 0, 0)
}

func measureDistance(t *testing.T, name string, e *edit.Edit) any {
	t.Helper()
	d, err := Open(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := measure(t, d, e)
	if x, ok := v.(float64); ok && math.Signbit(x) {
		t.Errorf("%s is %v", name, x)
	}
	return v
}
