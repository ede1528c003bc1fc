package reward

import (
	"encoding/json"
	"math"
	"strings"
	"sync"
	"testing"

	"assay/edit"
	"assay/model"
)

// looking is a fake that records the pictures that it gets. Without a source it is a judge of one picture.
type looking struct {
	fake
	one bool

	mu      sync.Mutex
	sources map[edit.Picture]edit.Picture  // by output
	with    map[edit.Picture]*model.Shared // by output
}

func (l *looking) Info() edit.Info {
	info := l.fake.Info()
	if l.one {
		info.Sources = 0
	}
	return info
}

func (l *looking) Prepare(e *edit.Edit) (edit.Inputs, error) { return l.Sample(e, model.Ask{}) }

func (l *looking) Sample(e *edit.Edit, a model.Ask) (*model.Sample, error) {
	l.mu.Lock()
	if l.sources == nil {
		l.sources, l.with = map[edit.Picture]edit.Picture{}, map[edit.Picture]*model.Shared{}
	}
	l.sources[e.Output], l.with[e.Output] = e.Source(), a.Shared
	l.mu.Unlock()
	in, err := l.fake.Prepare(e)
	return in.(*model.Sample), err
}

// panelAnswer is the answer of /score.
type panelAnswer struct {
	Results []map[string]map[string]float64
	Errors  []map[string]string
}

func askPanel(t *testing.T, url string, requests ...any) (a panelAnswer) {
	t.Helper()
	code, _, raw := post(t, url+"/score", object{"requests": requests})
	if err := json.Unmarshal(raw, &a); err != nil || code != 200 || len(a.Results) != len(requests) {
		t.Fatalf("got %d %s, want an answer to %d requests", code, raw, len(requests))
	}
	return a
}

// TestPanelDecodesOnce: all scorers of a request get the same decoded pictures, in several batches, whether an edit
// is in one request or in two.
func TestPanelDecodesOnce(t *testing.T) {
	a, b := &looking{}, &looking{}
	_, h := start(t, Options{Batch: 4}, map[string]edit.Judge{"a": a, "b": b}, "a", "b")
	source := png(t, 9, 8, 6)
	var requests []any
	for i := range 10 {
		history := []any{object{"text": "x", "image_b64": source}, object{"text": "x", "image_b64": png(t, byte(20*i), 5, 5)}}
		if i%2 == 0 {
			requests = append(requests, object{"history": history, "required_rewards": []string{"a", "b"}})
			continue
		}
		requests = append(requests, object{"history": history, "required_rewards": []string{"a"}},
			object{"history": history, "required_rewards": []string{"b"}})
	}
	got := askPanel(t, h.URL, requests...)
	scores := map[string][]float64{}
	for i, r := range got.Results {
		for name, v := range r {
			scores[name] = append(scores[name], v["score"])
		}
		if len(got.Errors[i]) > 0 {
			t.Errorf("request %d: %v", i, got.Errors[i])
		}
	}
	for name, list := range scores {
		for i, v := range list {
			if want := 10 * float64(byte(20*i)) / 255; !(math.Abs(v-want) <= 1e-9) {
				t.Errorf("scorer %s, edit %d: got %g, want %g", name, i, v, want)
			}
		}
	}
	if len(a.sources) != 10 || len(b.sources) != 10 {
		t.Errorf("the scorers got %d and %d edits, want 10 each", len(a.sources), len(b.sources))
	}
	for output, source := range a.sources {
		if b.sources[output] != source {
			t.Error("the scorers got different copies of one picture")
			break
		}
		if a.with[output] == nil || a.with[output] != b.with[output] {
			t.Error("the scorers share no preparation")
			break
		}
	}
}

// TestOneTurn: a picture generated from text is a history of one turn, for scorers without a source. In a panel the
// other scorers return the reason for the missing score.
func TestOneTurn(t *testing.T) {
	picture, both := &looking{one: true}, &looking{}
	_, h := start(t, Options{}, map[string]edit.Judge{"both": both, "picture": picture}, "both", "picture")
	made, source := png(t, 51, 5, 5), png(t, 9, 8, 6)
	one := []any{object{"text": "a cup", "image_b64": made}}
	two := []any{object{"text": "a cup", "image_b64": source}, object{"text": "a cup", "image_b64": made}}
	names := []string{"both", "picture"}
	got := askPanel(t, h.URL, object{"history": one, "required_rewards": names}, object{"history": two,
		"required_rewards": names}, object{"history": []any{}, "required_rewards": names},
		object{"history": append(two, two...), "required_rewards": names})
	for i, want := range []map[string]float64{{"picture": 2}, {"picture": 2, "both": 2}, {}, {}} {
		for _, name := range names {
			score, ok := want[name]
			if ok && got.Results[i][name]["score"] != score || !ok && !strings.Contains(got.Errors[i][name], "two turns") {
				t.Errorf("request %d: %s: got %v, error %q, want %v", i, name, got.Results[i][name], got.Errors[i][name], want)
			}
		}
	}
	for output, source := range picture.sources {
		if source != output && both.sources[output] != source {
			t.Error("a picture without a source was decoded twice")
		}
	}

	// a damaged picture fails alone
	code, _, raw := post(t, h.URL+"/v1/score", object{"scorer": "picture", "instruction": "a cup",
		"edits": []any{made[:40], made, source}})
	if v := decodeScores(t, raw); code != 200 || v.Results[0].Error == nil || v.Results[1].Score == nil ||
		v.Results[2].Score == nil {
		t.Errorf("got %d %s, want two scores and an error", code, raw)
	}
}
