package reward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/model"
)

// fake is a scorer whose score01 is the mean red of the edit / 255. If gate is not nil, runs wait for it.
type fake struct {
	gate chan struct{}

	mu      sync.Mutex
	red     map[*model.Sample]float64
	runs    []int // number of items of each run
	failing float64
}

func (f *fake) Info() edit.Info              { return edit.Info{Range: edit.Range{0, 10}, Sources: 1} }
func (f *fake) Fingerprint() (string, error) { return "", nil }
func (f *fake) Close() error                 { return nil }

// pixels returns the decoded picture.
func pixels(p edit.Picture) *data.Picture {
	decoded, err := p.Decode()
	if err != nil {
		panic(err)
	}
	return decoded
}

func red(p *data.Picture) (sum float64) {
	for i := 0; i < len(p.Pix); i += 3 {
		sum += float64(p.Pix[i])
	}
	return sum / float64(p.Width*p.Height) / 255
}

func (f *fake) Prepare(e *edit.Edit) (edit.Inputs, error) {
	s := &model.Sample{}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.red == nil {
		f.red = map[*model.Sample]float64{}
	}
	f.red[s] = red(pixels(e.Output))
	return s, nil
}

// scaled converts scores on 0 to 1 to a range.
func scaled(r edit.Range, scores01 []float64) []edit.Score {
	scores := make([]edit.Score, len(scores01))
	for i, v := range scores01 {
		scores[i].Value = v
		r.Scale(&scores[i])
	}
	return scores
}

func (f *fake) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	return f.on(ctx, f.Info().Range, inputs)
}

// on is Score on a range.
func (f *fake) on(ctx context.Context, r edit.Range, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	return edit.Each(ctx, inputs, func(ctx context.Context, part []edit.Inputs) ([]edit.Score, error) {
		scores, err := f.score(part)
		return scaled(r, scores), err
	})
}

func (f *fake) score(inputs []edit.Inputs) ([]float64, error) {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs = append(f.runs, len(inputs))
	var out []float64
	for _, in := range inputs {
		s := in.(*model.Sample)
		if f.failing != 0 && f.red[s] == f.failing {
			return nil, errors.New("a failing picture")
		}
		out = append(out, f.red[s])
	}
	return out, nil
}

func (f *fake) Gradients(_ context.Context, edits []*edit.Edit) (all []*edit.Gradient, err error) {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	f.runs = append(f.runs, len(edits))
	f.mu.Unlock()
	for _, e := range edits {
		source, output := pixels(e.Source()), pixels(e.Output)
		s := &edit.Gradient{
			Score:   scaled(f.Info().Range, []float64{red(output)})[0],
			Sources: []*data.Gradient{data.NewGradient(source.Width, source.Height)},
			Output:  data.NewGradient(output.Width, output.Height),
		}
		if f.failing != 0 && s.Score01 == f.failing {
			return nil, errors.New("a failing picture")
		}
		for i := 0; i < len(s.Output.Values); i += 3 {
			s.Output.Values[i] = float32(i+1) + float32(s.Score01)
		}
		all = append(all, s)
	}
	return all, nil
}

// start serves fakes by name.
func start(t testing.TB, o Options, scorers map[string]edit.Judge, names ...string) (*Server, *httptest.Server) {
	t.Helper()
	var list []edit.Judge
	for _, n := range names {
		list = append(list, scorers[n])
	}
	s, err := NewServer(o, names, list)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return s, h
}

// png returns a picture of one colour.
func png(t testing.TB, red byte, width, height int) []byte {
	t.Helper()
	p := data.NewPicture(width, height)
	for i := 0; i < len(p.Pix); i += 3 {
		p.Pix[i] = red
	}
	var b bytes.Buffer
	if err := p.EncodePNG(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func post(t testing.TB, url string, body any) (int, http.Header, []byte) {
	t.Helper()
	raw, ok := body.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.Post(url, "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	out, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header, out
}

// scores is the answer of /v1/score.
type scores struct {
	Scorer  string
	Results []struct {
		Score, Score01 *float64
		Error          *struct{ Kind, Message string }
	}
	Error *struct{ Kind, Message string }
}

func decodeScores(t testing.TB, raw []byte) scores {
	t.Helper()
	var s scores
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return s
}

type object map[string]any

// send sends a request and reads the answer.
func send(t testing.TB, r *http.Request) (int, http.Header, string) {
	t.Helper()
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(raw)
}

// postForm posts a form with names and values.
func postForm(t testing.TB, url string, parts ...any) (int, string) {
	t.Helper()
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for i := 0; i < len(parts); i += 2 {
		w, err := m.CreateFormField(parts[i].(string))
		if err != nil {
			t.Fatal(err)
		}
		w.Write(parts[i+1].([]byte))
	}
	m.Close()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", url, &body)
	r.Header.Set("Content-Type", m.FormDataContentType())
	code, _, text := send(t, r)
	return code, text
}
