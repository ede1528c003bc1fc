package reward

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/oracle"
	"assay/onnx"
	"assay/ort"
)

// tensors reads a safetensors file: its metadata, and the bytes of each tensor.
func tensors(t *testing.T, raw []byte) (facts map[string]string, values map[string][]byte) {
	t.Helper()
	n := binary.LittleEndian.Uint64(raw)
	var index map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+n], &index); err != nil {
		t.Fatal(err)
	}
	values = map[string][]byte{}
	for name, v := range index {
		if name == "__metadata__" {
			if err := json.Unmarshal(v, &facts); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var at struct {
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(v, &at); err != nil {
			t.Fatal(err)
		}
		values[name] = raw[8+n+at.Offsets[0] : 8+n+at.Offsets[1]]
	}
	return facts, values
}

// slowReader looks at a server while an answer is written to it.
type slowReader struct {
	*httptest.ResponseRecorder
	look func(bytes int)
}

func (w *slowReader) Write(p []byte) (int, error) {
	w.look(len(p))
	return w.ResponseRecorder.Write(p)
}

// TestAnswersTakeMemory: an answer takes its client's memory until it is sent, and the memory of gradients is not free
// before they are encoded.
func TestAnswersTakeMemory(t *testing.T) {
	s, _ := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	m := s.front.bodies.memory
	held := func() int64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.held("")
	}
	for _, id := range []string{"", "1"} {
		body, err := json.Marshal(object{"id": id, "source": png(t, 9, 8, 6), "edit": png(t, 51, 300, 200),
			"instruction": "x"})
		if err != nil {
			t.Fatal(err)
		}
		got := int64(0)
		w := &slowReader{httptest.NewRecorder(), func(n int) { got = held() - int64(n) }}
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/gradient", bytes.NewReader(body))
		s.ServeHTTP(w, r)
		if n := w.Body.Len(); w.Code != http.StatusOK || n < 300*200*12 || got < 0 {
			t.Errorf("id %q: status %d, an answer of %d bytes, held %d: want 200, gradients, and at least the answer held", id,
				w.Code, n, got+int64(n))
		}
		eventually(t, "the memory to be released", func() bool { return held() == 0 })
	}
	picture := &encodedPicture{raw: png(t, 51, 8, 6)}
	it := s.engine.scorers.by["a"].newItem(editInput{[]*encodedPicture{picture}, picture, "x", ""})
	done, err := s.engine.differentiate(t.Context(), it.scorer, []*item{it})
	if err != nil || it.gradient == nil {
		t.Fatalf("got %v, %v, want a gradient", it.gradient, err)
	}
	if s.engine.slots.TryAcquire(s.engine.slots.n) {
		t.Error("all memory is free before the gradient is encoded")
	}
	if done(); !s.engine.slots.TryAcquire(s.engine.slots.n) {
		t.Error("memory is not free after the gradient was encoded")
	}
}

// TestRuntimeFails: an error of the runtime, such as a GPU without memory, is not the edit's fault.
func TestRuntimeFails(t *testing.T) {
	_, runtime := ort.Open(&onnx.Model{}, ort.Options{Device: "cuda:99"})
	for err, bad := range map[error]bool{runtime: false, errors.New("no score token"): true} {
		if got := new(apiError); errors.As(asBadEdit(fmt.Errorf("run: %w", err)), &got) != bad {
			t.Errorf("%v: got a bad edit: %v, want %v", err, !bad, bad)
		}
	}
}

// unfit is an error about an edit's pictures.
type unfit struct{ error }

func (unfit) Unfit() bool { return true }

// TestUnfit: pictures that a judge cannot score are the request's fault.
func TestUnfit(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("lpips: %w", unfit{errors.New("too small")}): "422 bad_pair lpips: too small",
		errors.New("too small"):                                 "500 internal too small",
	} {
		f := toAPIError(err)
		if got := fmt.Sprint(f.Status, " ", f.Kind, " ", f.Message); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The pairs of one request share batches; a bad pair gets its own error.
func TestGradients(t *testing.T) {
	f := &fake{failing: 0.8}
	_, h := start(t, Options{Batch: 4}, map[string]edit.Judge{"a": f}, "a")
	a, b := png(t, 9, 8, 6), png(t, 10, 4, 4)
	edit := func(red byte) []byte { return png(t, red, 5, 3) }
	pair := func(source, edit any, instruction string) object {
		return object{"source": source, "edit": edit, "instruction": instruction}
	}
	code, header, raw := post(t, h.URL+"/v1/gradient", object{"pairs": []any{
		pair(
			a,
			edit(51),
			"x",
		), pair(b, edit(102), "y"), pair(a, edit(153)[:40], "x"), pair(a, edit(204), "x"), pair(a, edit(255), " "),
		pair("no.ne", edit(255), "x"), pair(a, edit(255), "x"), pair(a, edit(0), "x"),
	}})
	if code != 200 || header.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("%d %s", code, raw)
	}
	facts, values := tensors(t, raw)
	for i, score := range map[int]float64{0: 0.2, 1: 0.4, 6: 1, 7: 0} {
		if facts[fmt.Sprint("score01.", i)] != fmt.Sprint(score) ||
			facts[fmt.Sprint("score.", i)] != fmt.Sprint(10*score) ||
			len(values[fmt.Sprint("gradient.", i)]) != 4*5*3*3 {
			t.Errorf("pair %d: %v", i, facts)
		}
	}
	for i, why := range map[int]string{2: "truncated", 3: "a failing picture", 4: "instruction is missing",
		5: "source: a picture must be base64"} {
		if e := facts[fmt.Sprint("error.", i)]; !strings.Contains(e, why) ||
			values[fmt.Sprint("gradient.", i)] != nil ||
			facts[fmt.Sprint("score.", i)] != "" {
			t.Errorf("pair %d: %q, want %q and no number", i, e, why)
		}
	}
	if len(values) != 4 || facts["pairs"] != "8" || facts["pixel_unit"] != "8-bit level" {
		t.Errorf("%d tensors, %v", len(values), facts)
	}
	if got := fmt.Sprint(f.runs); len(f.runs) != 6 ||
		f.runs[0]+f.runs[5] != 5 { // the batch with the failing one is retried one by one
		t.Errorf("runs of %s pairs, want a batch of four, its four one by one, and the last", got)
	}
	for _, c := range []struct {
		name string
		body object
		code int
	}{
		{"nothing", object{"source": a, "instruction": "x"}, 422},
		{"both forms", object{"source": a, "instruction": "x", "pairs": []any{pair(a, b, "x")}}, 422},
		{"no edit", object{"pairs": []any{object{"source": a, "instruction": "x"}}}, 422},
		{"heat maps", object{"pairs": []any{pair(a, b, "x")}, "format": "png"}, 422},
		{"edit and edits", object{"source": a, "instruction": "x", "edit": b, "edits": []any{b}}, 422},
		{"only damaged ones", object{"pairs": []any{pair(a, b[:30], "x"), pair(a, b[:30], "x")}}, 422},
		{"many", object{"source": a, "instruction": "x", "edits": make([]string, 300)}, 413},
	} {
		if code, _, raw := post(t, h.URL+"/v1/gradient", c.body); code != c.code || decodeScores(t, raw).Error == nil {
			t.Errorf("%s: %d %s", c.name, code, raw)
		}
	}
	big := png(t, 1, 4000, 4000)
	code, _, raw = post(t, h.URL+"/v1/gradient", object{"source": a, "instruction": "x", "edits": []any{big, big}})
	if e := decodeScores(t, raw).Error; code != 413 || e.Kind != "too_many" {
		t.Errorf("384 MB of gradients: %d %s", code, raw)
	}
}

// unbounded is a scorer without a range.
type unbounded struct{ *fake }

func (unbounded) Info() edit.Info { return edit.Info{Range: edit.NoRange(), Sources: 1} }

func (u unbounded) Gradients(ctx context.Context, edits []*edit.Edit) ([]*edit.Gradient, error) {
	all, err := u.fake.Gradients(ctx, edits)
	for _, g := range all {
		g.Score = scaled(edit.NoRange(), []float64{g.Score01})[0]
	}
	return all, err
}

// TestUnboundedGradients: a scorer without a range has no score01, so no answer has one.
func TestUnboundedGradients(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"a": unbounded{&fake{}}}, "a")
	a, edit := png(t, 9, 8, 6), png(t, 51, 5, 3)
	for _, c := range []struct {
		field string
		value any
		score string
	}{{"edit", edit, "score"}, {"edits", []any{edit, edit}, "score.1"}} {
		code, header, raw := post(t, h.URL+"/v1/gradient", object{"source": a, "instruction": "x", c.field: c.value})
		if code != 200 {
			t.Fatalf("%s: %d %s", c.field, code, raw)
		}
		facts, _ := tensors(t, raw)
		if facts[c.score] != "0.2" || c.field == "edit" && header.Get("X-Score") != "0.2" {
			t.Errorf("%s: got %v and X-Score %q, want 0.2", c.field, facts, header.Get("X-Score"))
		}
		for name, value := range facts {
			if strings.HasPrefix(name, "score01") {
				t.Errorf("%s: got metadata %s %s, want none", c.field, name, value)
			}
		}
		if got := header.Values("X-Score01"); len(got) > 0 {
			t.Errorf("%s: got X-Score01 %v, want none", c.field, got)
		}
	}
}

// Gradients and scores in a batch equal those of each edit alone, bit for bit.
func TestOracleGradientsTogether(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		dir := filepath.Join(folder, "llavanext")
		_, h := start(t, Options{}, real(t, folder, "scorer"), "scorer")
		var pairs []any
		for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(dir, "cases.json")) {
			pairs = append(
				pairs,
				object{"source": read(t, dir, c.Source), "edit": read(t, dir, c.Edited), "instruction": c.Instruction},
			)
		}
		code, _, raw := post(t, h.URL+"/v1/gradient", object{"pairs": pairs})
		if code != http.StatusOK {
			t.Fatalf("%d %.300s", code, raw)
		}
		facts, together := tensors(t, raw)
		for i, p := range pairs {
			code, _, raw := post(t, h.URL+"/v1/gradient", p)
			if code != http.StatusOK {
				t.Fatalf("%d %.300s", code, raw)
			}
			one, alone := tensors(t, raw)
			if facts[fmt.Sprint("score01.", i)] != one["score01"] ||
				!bytes.Equal(together[fmt.Sprint("gradient.", i)], alone["gradient"]) {
				t.Errorf("pair %d: %v in a batch, %v alone", i, facts[fmt.Sprint("score01.", i)], one["score01"])
			}
		}
	})
}
