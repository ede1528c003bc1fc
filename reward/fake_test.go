package reward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"assay/data"
	"assay/model"
)

// fake is a scorer whose score01 is the mean red of the edit / 255. Its runs wait at gate, if there is one.
type fake struct {
	gate chan struct{}

	mu      sync.Mutex
	red     map[*model.Sample]float64
	runs    []int // items of each run
	failing float64
}

func (f *fake) Config() model.ScorerConfig {
	return model.ScorerConfig{ScoreRange: [2]float64{0, 10}}
}

func red(p *data.Picture) (sum float64) {
	for i := 0; i < len(p.Pix); i += 3 {
		sum += float64(p.Pix[i])
	}
	return sum / float64(p.Width*p.Height) / 255
}

func (f *fake) Prepare(p model.Pair) (*model.Sample, error) {
	s := &model.Sample{}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.red == nil {
		f.red = map[*model.Sample]float64{}
	}
	f.red[s] = red(p.Edit)
	return s, nil
}

func (f *fake) Score(_ context.Context, samples []*model.Sample) ([]float64, error) {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs = append(f.runs, len(samples))
	var out []float64
	for _, s := range samples {
		if f.failing != 0 && f.red[s] == f.failing {
			return nil, errors.New("a failing picture")
		}
		out = append(out, f.red[s])
	}
	return out, nil
}

func (f *fake) Gradients(_ context.Context, pairs []model.Pair) (all []*model.PixelGradients, err error) {
	if f.gate != nil {
		<-f.gate
	}
	f.mu.Lock()
	f.runs = append(f.runs, len(pairs))
	f.mu.Unlock()
	for _, p := range pairs {
		s := &model.PixelGradients{
			Score01: red(p.Edit),
			Source:  data.NewGradient(p.Source.Width, p.Source.Height),
			Edit:    data.NewGradient(p.Edit.Width, p.Edit.Height),
		}
		if f.failing != 0 && s.Score01 == f.failing {
			return nil, errors.New("a failing picture")
		}
		for i := 0; i < len(s.Edit.Values); i += 3 {
			s.Edit.Values[i] = float32(i+1) + float32(s.Score01)
		}
		all = append(all, s)
	}
	return all, nil
}

// start serves fakes by name.
func start(t testing.TB, o Options, scorers map[string]Scorer, names ...string) (*Server, *httptest.Server) {
	t.Helper()
	var list []Scorer
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

// png is a picture of one colour.
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

type object = map[string]any
