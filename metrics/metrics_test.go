package metrics

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/internal/testfile"
	"assay/onnx"
)

// fixtures are computed by tools/oracle/metrics.py with the Python originals.
type fixtures struct {
	LPIPS map[string][]struct {
		Height, Width  int
		Distance, Same float64
	}
	Aesthetic []struct {
		Embedding []float32
		Score     float64
	}
	Alignment []struct {
		Points [][2]float64
		Matrix [2][3]float64
	}
}

func readFixtures(t *testing.T) (f fixtures) {
	t.Helper()
	testfile.ReadJSON(t, "testdata/metrics.json", &f)
	return f
}

// value is the function of the same name in tools/oracle/metrics.py.
func value(name string, n int, scale, shift float64) []float32 {
	out := make([]float32, n)
	seed := uint64(crc32.ChecksumIEEE([]byte(name))) * 40503
	for i := range out {
		u := (uint64(i+1)*2654435761 + seed) % (1 << 32)
		out[i] = float32((float64(u>>8)/(1<<24)-0.5)*scale + shift)
	}
	return out
}

// trunk writes the weights of a trunk under torchvision's names.
func trunk(t *testing.T, kind, path string) {
	t.Helper()
	shapes := map[string][][]int{
		"alex": {{0, 64, 3, 11}, {3, 192, 64, 5}, {6, 384, 192, 3}, {8, 256, 384, 3}, {10, 256, 256, 3}},
		"vgg": {{0, 64, 3, 3}, {2, 64, 64, 3}, {5, 128, 64, 3}, {7, 128, 128, 3}, {10, 256, 128, 3}, {12, 256, 256, 3},
			{14, 256, 256, 3}, {17, 512, 256, 3}, {19, 512, 512, 3}, {21, 512, 512, 3}, {24, 512, 512, 3}, {26, 512, 512, 3},
			{28, 512, 512, 3}},
	}
	tensors := map[string]*tensor.Dense{}
	for _, s := range shapes[kind] {
		name := "features." + string(rune('0'+s[0]/10)) + string(rune('0'+s[0]%10))
		if s[0] < 10 {
			name = "features." + string(rune('0'+s[0]))
		}
		fan := s[2] * s[3] * s[3]
		tensors[name+".weight"] = tensor.New(tensor.WithShape(s[1], s[2], s[3], s[3]), tensor.WithBacking(
			value(kind+"."+name+".weight", s[1]*fan, 4/math.Sqrt(float64(fan)), 0)))
		tensors[name+".bias"] = tensor.New(tensor.WithShape(s[1]), tensor.WithBacking(
			value(kind+"."+name+".bias", s[1], 0.2, 0)))
	}
	if err := checkpoints.WriteFile(path, tensors, nil); err != nil {
		t.Fatal(err)
	}
}

// pictures are the two pictures of a case.
func pictures(h, w int) (first, second *data.Picture) {
	levels := func(name string) []float32 {
		v := value(name, 3*h*w, 1, 0)
		for i := range v {
			v[i] = float32(math.RoundToEven(float64((v[i] + 0.5) * 255)))
		}
		return v
	}
	size := map[int]string{64: "64", 67: "67"}[h]
	a, b, mask := levels("first."+size), levels("second."+size), value("mask."+size, 3*h*w, 1, 0)
	first, second = data.NewPicture(w, h), data.NewPicture(w, h)
	for c := range 3 {
		for i := range h * w {
			k := c*h*w + i
			first.Pix[3*i+c], second.Pix[3*i+c] = byte(a[k]), byte(a[k])
			if mask[k] > 0.2 {
				second.Pix[3*i+c] = byte(b[k])
			}
		}
	}
	return first, second
}

// valueOf is the plain score of an edit.
func valueOf(t *testing.T, m *Metric, e *edit.Edit) (any, error) {
	t.Helper()
	scores, errs, err := edit.ScoreAll(t.Context(), m, e)
	if err != nil {
		t.Fatal(err)
	}
	return scores[0].Plain(), errs[0]
}

func measure(t *testing.T, m *Metric, e *edit.Edit) any {
	t.Helper()
	v, err := valueOf(t, m, e)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func near(t *testing.T, what string, got any, want, tolerance float64) {
	t.Helper()
	if v, ok := got.(float64); !ok || !(math.Abs(v-want) <= tolerance*max(1, math.Abs(want))) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestLPIPS: the exported graph equals the package lpips on random weights, read from safetensors and from both of
// torch's own formats.
func TestLPIPS(t *testing.T) {
	long.Test(t)
	for kind, cases := range readFixtures(t).LPIPS {
		dir := t.TempDir()
		weights := filepath.Join(dir, "trunk.safetensors")
		trunk(t, kind, weights)
		for i, lin := range []string{"testdata/lin-" + kind + ".pth", "testdata/lin-" + kind + "-legacy.pth"} {
			out := filepath.Join(dir, "metric")
			e := Export{Kind: "lpips-" + kind, Weights: weights, Lin: lin, Out: out}
			if err := e.Write(); err != nil {
				t.Fatal(err)
			}
			m, err := Open(filepath.Join(out, "metric.yaml"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cases[:len(cases)-i] {
				a, b := pictures(c.Height, c.Width)
				s := edit.New(a, b, "")
				near(t, e.Kind, measure(t, m, s), c.Distance, 1e-5)
				s.Output = a
				near(t, e.Kind+" of equal pictures", measure(t, m, s), c.Same, 0)
			}
			s := edit.New(data.NewPicture(64, 64), data.NewPicture(65, 64), "")
			if v, err := valueOf(t, m, s); err == nil {
				t.Errorf("pictures of two sizes: %v", v)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAesthetic: the exported head equals the layers of the published one in torch.
func TestAesthetic(t *testing.T) {
	out := filepath.Join(t.TempDir(), "metric")
	e := Export{Kind: "aesthetic", Weights: "testdata/aesthetic.pth", Encoder: "clip", Out: out}
	if err := e.Write(); err != nil {
		t.Fatal(err)
	}
	c, err := readConfig(filepath.Join(out, "metric.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if here, _ := filepath.Abs("clip"); filepath.Clean(c.Encoder) != here {
		t.Errorf("encoder %s, want %s", c.Encoder, here)
	}
	m := &network{Config: *c}
	if _, err := m.openModel(Options{}); err != nil {
		t.Fatal(err)
	}
	defer m.close()
	for _, c := range readFixtures(t).Aesthetic {
		x := tensor.New(tensor.WithShape(1, len(c.Embedding)), tensor.WithBacking(unit(c.Embedding)))
		out, err := m.run(context.Background(), map[string]*tensor.Dense{"embedding": x})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "score", float64(out[0]), c.Score, 1e-5)
	}
}

// TestAlignment: the five points are mapped as by scikit-image's similarity transform.
func TestAlignment(t *testing.T) {
	for _, c := range readFixtures(t).Alignment {
		s, err := fitSimilarity(c.Points, arcFacePoints[:])
		if err != nil {
			t.Fatal(err)
		}
		got := [2][3]float64{{s.a, -s.b, s.tx}, {s.b, s.a, s.ty}}
		for i := range got {
			for k := range got[i] {
				near(t, "matrix", got[i][k], c.Matrix[i][k], 1e-6)
			}
		}
		x, y := s.inverse(s.a*3-s.b*4+s.tx, s.b*3+s.a*4+s.ty)
		near(t, "inverse", x, 3, 1e-9)
		near(t, "inverse", y, 4, 1e-9)
	}
	same := make([][2]float64, 5)
	if _, err := fitSimilarity(same, arcFacePoints[:]); err == nil {
		t.Error("points in one place were aligned")
	}
	p := data.NewPicture(112, 112)
	for i := range p.Pix {
		p.Pix[i] = byte(i * 7)
	}
	q, err := alignFace(p, arcFacePoints[:])
	if err != nil || string(q.Pix) != string(p.Pix) {
		t.Errorf("a face in its place is moved (%v)", err)
	}
}

// TestConfig: all problems of a metric's file are reported at once.
func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.yaml")
	for _, c := range [][2]string{
		{"format: 1\nname: a\nmodel: m.onnx\nof: [edit, caption]",
			"as the second of an encoder's"},
		{"format: 2\nname: a b\nof: [edit]",
			"want a model"},
		{"format: 1\nname: a\nmodel: m.onnx\nof: [edit]\ninputs: {x: edit}",
			"want either of (one item"},
		{"format: 1\nname: a\nmodel: m.onnx\nof: [edit]\nprepare: {points: five}",
			"with size [112, 112]"},
		{"format: 1\nname: a\nencoder: d\nof: [edit, source]\nprepare: {box: true, order: bgr}",
			"its own preprocessing"},
		{"format: 1\nname: a\nmodel: m.onnx\nof: [edit]\noutput: {classes: [a, b], range: [0, 1]}",
			"cannot have scale or range"},
		{"format: 1\nname: a\nmodel: m.onnx\nof: [edit]\nprepare: {std: [1, 0, 1], filter: x, sizes: [1]}",
			"prepare.std"},
	} {
		if err := os.WriteFile(path, []byte(c[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(path); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%q: %v, want %q", c[0], err, c[1])
		}
	}
}

// TestBoxes: a picture is cropped to its box before the model sees it, and a picture without a box is an error.
func TestBoxes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "boxes.jsonl")
	lines := `{"id": "a", "model": "M", "box": [10.4, 5, 41.6, 37]}` + "\n" +
		`{"id": "a", "picture": "source", "box": [0, 0, 8, 8]}`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	places, err := ReadPlaces(path)
	if err != nil {
		t.Fatal(err)
	}
	m := &network{places: places, Config: Config{Prepare: Prepare{Box: true}}}
	s := &edit.Views{Edit: &edit.Edit{ID: "a", Editor: "M"},
		ByRole: map[string]*data.Picture{"edit": data.NewPicture(64, 48),
			"source": data.NewPicture(64, 48), "target": data.NewPicture(64, 48)}}
	for role, want := range map[string][]int{"edit": {1, 3, 32, 32}, "source": {1, 3, 8, 8}} {
		x, err := m.pixels(s, role)
		if err != nil || !x.Shape().Eq(tensor.Shape(want)) {
			t.Errorf("%s: %v, want %v", role, x, want)
		}
	}
	if _, err := m.pixels(s, "target"); err == nil || !strings.Contains(err.Error(), `no line for the picture "target"`) {
		t.Error(err)
	}
	for line, want := range map[string]string{
		`{"id": "a", "box": [1, 2, 1, 4]}`: "left, top, right, bottom", `{"id": "a"}`: "want box",
		`{"box": [0, 0, 1, 1]}`:           "id is missing",
		`{"id": "a", "points": [[1, 2]]}`: "want five", `{"id": "a", "bbox": [0, 0, 1, 1]}`: "bbox",
		`{"id": "a", "box": [0, 0, 1, 1]} {"id": "b", "box": [0, 0, 1, 1]}`: "more than one object on a line",
		`{"id": "a", "box": [0, 0, 1, 1], "picture": "edited"}`:             `picture "edited": want source, edit, target`,
	} {
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPlaces(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// TestOutputShapes: the output of a graph may be a scalar, as from torch's x.mean(); other types are refused by name.
func TestOutputShapes(t *testing.T) {
	grey := data.NewPicture(3, 2)
	for i := range grey.Pix {
		grey.Pix[i] = 51
	}
	for name, c := range map[string]struct {
		build func(b *onnx.Builder, x string) string
		dtype onnx.DType
		shape []onnx.Dim
		want  string
	}{
		"scalar": {func(b *onnx.Builder, x string) string {
			return b.OpA("ReduceMean", onnx.Attrs{"keepdims": 0}, x)
		}, onnx.Float, nil, "0.2"},
		"one number of four axes": {func(b *onnx.Builder, x string) string {
			return b.OpA("ReduceMean", onnx.Attrs{"keepdims": 1}, x)
		}, onnx.Float, onnx.Dims(1, 1, 1, 1), "0.2"},
		"float64": {func(b *onnx.Builder, x string) string {
			mean := b.OpA("ReduceMean", onnx.Attrs{"keepdims": 0}, x)
			return b.OpA("Cast", onnx.Attrs{"to": int64(onnx.Double)}, mean)
		}, onnx.Double, nil, "output y is of type float64, want float32"},
	} {
		t.Run(name, func(t *testing.T) {
			b := onnx.NewBuilder("mean", 17)
			x := b.Input("x", onnx.Float, onnx.Dims(1, 3, "height", "width"))
			b.Output("y", c.build(b, x), c.dtype, c.shape)
			raw, err := b.M.Encode()
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "mean.onnx"), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			m := openText(t, dir, "name: mean\nmodel: mean.onnx\nof: [edit]\n", Options{})
			scores, errs, err := edit.ScoreAll(t.Context(), m, &edit.Edit{Output: grey})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%.6g", scores[0].Value)
			if errs[0] != nil {
				got = errs[0].Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestSizesOfBoxes: a graph of two pictures refuses boxes of two sizes, even if its stride makes them equal.
func TestSizesOfBoxes(t *testing.T) {
	b := onnx.NewBuilder("distance", 17)
	var pooled []string
	for _, name := range []string{"first", "second"} {
		x := b.Input(name, onnx.Float, onnx.Dims(1, 3, "height", "width"))
		pooled = append(pooled, b.OpA("AveragePool", onnx.Attrs{"kernel_shape": []int64{4, 4}, "strides": []int64{4, 4}}, x))
	}
	b.Output("y", b.OpA("ReduceMean", onnx.Attrs{"keepdims": 0}, b.Op("Sub", pooled...)), onnx.Float, nil)
	raw, err := b.M.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for edited, want := range map[string]string{"[8, 8, 24, 24]": "", "[8, 8, 24, 27]": "needs equal sizes"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "model.onnx"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		lines := `{"id": "a", "picture": "source", "box": [0, 0, 16, 16]}` + "\n" + `{"id": "a", "box": ` + edited + `}`
		places, err := ReadPlaces(testfile.Write(t, "boxes.jsonl", lines))
		if err != nil {
			t.Fatal(err)
		}
		m := openText(t, dir, "name: d\nmodel: model.onnx\ninputs: {first: source, second: edit}\nprepare: {box: true}\n",
			Options{Places: places})
		e := edit.New(data.NewPicture(32, 32), data.NewPicture(32, 32), "")
		e.ID = "a"
		switch v, err := valueOf(t, m, e); {
		case want == "" && err != nil:
			t.Errorf("boxes of one size: got %v, want no error", err)
		case want != "" && (!edit.Unfit(err) || !strings.Contains(err.Error(), want)):
			t.Errorf("boxes of two sizes: got %v, %v, want an error with %q", v, err, want)
		}
	}
}

// TestSmallPictures: where torch says that the output is too small, a picture is an error of its edit. ONNX Runtime
// would end the process. torch takes LPIPS' AlexNet from 31 pixels; ONNX Runtime took 30.
func TestSmallPictures(t *testing.T) {
	dir := t.TempDir()
	weights := filepath.Join(dir, "trunk.safetensors")
	trunk(t, "alex", weights)
	e := Export{Kind: "lpips-alex", Weights: weights, Lin: "testdata/lin-alex.pth", Out: filepath.Join(dir, "metric")}
	if err := e.Write(); err != nil {
		t.Fatal(err)
	}
	m, err := Open(filepath.Join(e.Out, "metric.yaml"), Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, c := range []struct {
		width, height int
		want          bool
	}{{31, 31, true}, {30, 31, false}, {31, 7, false}, {40, 20, false}, {3, 3, false}, {1, 1, false}} {
		p := data.NewPicture(c.width, c.height)
		v, err := valueOf(t, m, edit.New(p, p, ""))
		refused := fmt.Sprintf("%d x %d pixels is too small", c.width, c.height)
		if c.want && (err != nil || v != 0.0) || !c.want && (!edit.Unfit(err) || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%d x %d: got %v, %v, want a distance of 0: %t", c.width, c.height, v, err, c.want)
		}
	}
}

// TestWeightsOutside: the fingerprint covers weights in other files than the graph's, as torch.onnx.export writes them.
func TestWeightsOutside(t *testing.T) {
	b := onnx.NewBuilder("scaled", 17)
	x := b.Input("x", onnx.Float, onnx.Dims(1, 3, "height", "width"))
	w := b.Weight(&onnx.Tensor{Name: "w", Type: onnx.Float, Shape: []int64{1},
		External: &onnx.External{Location: "model.onnx.data", Length: 4}})
	b.Output("y", b.Op("Mul", b.OpA("ReduceMean", onnx.Attrs{"keepdims": 0}, x), w), onnx.Float, onnx.Dims(1))
	raw, err := b.M.Encode()
	if err != nil {
		t.Fatal(err)
	}
	white := data.NewPicture(2, 2)
	for i := range white.Pix {
		white.Pix[i] = 255
	}
	prints := map[string]float32{}
	for _, factor := range []float32{2, 3} {
		dir := t.TempDir()
		for name, content := range map[string][]byte{"model.onnx": raw,
			"model.onnx.data": onnx.Float32Bytes([]float32{factor})} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m := openText(t, dir, "name: s\nmodel: model.onnx\nof: [edit]\n", Options{})
		near(t, "score", measure(t, m, &edit.Edit{Output: white}), float64(factor), 1e-6)
		print, err := m.Fingerprint()
		if other, same := prints[print]; err != nil || same {
			t.Errorf("factors %g and %g: got one fingerprint %s (%v), want two", factor, other, print, err)
		}
		prints[print] = factor
	}
}

// TestOutputs: classes, several numbers, scale and range.
func TestOutputs(t *testing.T) {
	o := Output{Classes: []string{"awe", "fear"}}
	if v, err := o.value([]float32{1, 2}); err != nil || v.Plain() != "fear" {
		t.Error(v, err)
	}
	o = Output{Names: []string{"valence", "arousal"}, Scale: []float64{5, 4}, Range: []float64{1, 9}}
	v, err := o.value([]float32{0.5, -1})
	if m, ok := v.Plain().(map[string]float64); err != nil || !ok || m["valence"] != 7 || m["arousal"] != 1 {
		t.Error(v, err)
	}
	for _, bad := range [][]float32{{2, 0}, {float32(math.NaN()), 0}, {0}} {
		if v, err := o.value(bad); err == nil {
			t.Errorf("%v: %v", bad, v)
		}
	}
}
