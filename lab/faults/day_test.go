package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestDay sends a part of a day to correct servers, and to faulty ones.
func TestDay(t *testing.T) {
	moods := map[string]struct {
		answer func(n int64, good bool, body []byte) (int, string)
		wrong  bool
	}{
		"well": {func(_ int64, good bool, body []byte) (int, string) {
			if !good {
				return 400, "{}"
			}
			return 200, fmt.Sprintf(`{"score": "%x"}`, sha256.Sum256(body))
		}, false},
		"other bytes when it is idle": {func(n int64, good bool, body []byte) (int, string) {
			if !good {
				return 400, "{}"
			}
			return 200, fmt.Sprintf(`{"score": "%x %d"}`, sha256.Sum256(body), n)
		}, true},
		"hostile requests are scored": {func(_ int64, good bool, body []byte) (int, string) {
			return 200, fmt.Sprintf(`{"score": "%x"}`, sha256.Sum256(body))
		}, true},
		"hostile requests are faults of its own": {func(_ int64, good bool, body []byte) (int, string) {
			if !good {
				return 500, "{}"
			}
			return 200, fmt.Sprintf(`{"score": "%x"}`, sha256.Sum256(body))
		}, true},
	}
	for name, mood := range moods {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				code, answer := mood.answer(n.Add(1), json.Valid(body), body)
				w.WriteHeader(code)
				io.WriteString(w, answer)
			}))
			defer server.Close()
			d := &day{storm: storm{url: server.URL, counts: map[string]int{}}, seed: 1, rate: 500, again: 5,
				given: map[int][]byte{}}
			if err := d.cut([]image.Image{gradient(64)}, 20); err != nil {
				t.Fatal(err)
			}
			d.hostile = [][]byte{[]byte("{"), nil}
			q := []byte(`{"asked": "before"}`)
			_, answer, err := post(d.url, q)
			if err != nil {
				t.Fatal(err)
			}
			d.questions = []question{{q, answer}}
			const all = 200
			samples := d.pass(t.Context(), all, func() map[string]float64 { return map[string]float64{"x": 1} })
			asked, err := d.askAgain(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if wrong := len(d.wrong) > 0; wrong != mood.wrong {
				t.Fatalf("wrong: %q", d.wrong)
			}
			if mood.wrong {
				return
			}
			n0 := d.counted()
			if sum := n0["answered"] + n0["vanished"] + n0["hostile"]; sum != all || asked < 5 || n0["vanished"] == 0 ||
				n0["hostile"] == 0 {
				t.Errorf("%d requests came to %v, asked again %d", all, n0, asked)
			}
			if len(samples) != 5 || samples[0].sent != 0 || samples[4].sent != all || samples[2].gauges["x"] != 1 {
				t.Errorf("samples: %v", samples)
			}
		})
	}
}

// TestQuestions: a number always has the same request, and different numbers have different ones.
func TestQuestions(t *testing.T) {
	d := &day{seed: 1}
	if err := d.cut([]image.Image{gradient(512)}, 40); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for k := range 30 {
		one, err1 := d.question(k)
		two, err2 := d.question(k)
		if err1 != nil || err2 != nil || string(one) != string(two) {
			t.Fatal(k, err1, err2)
		}
		var q struct {
			Source      []byte
			Instruction string
			Edits       [][]byte
		}
		if err := json.Unmarshal(one, &q); err != nil || len(q.Edits) < 1 || len(q.Edits) > 3 ||
			!strings.Contains(q.Instruction, fmt.Sprint("number ", k)) {
			t.Fatal(k, err, q.Instruction, len(q.Edits))
		}
		for _, picture := range append(q.Edits, q.Source) {
			if seen[string(picture)] {
				t.Errorf("a picture of %d came before", k)
			}
			seen[string(picture)] = true
			if _, _, err := image.Decode(bytes.NewReader(picture)); err != nil {
				t.Error(k, err)
			}
		}
	}
}

// TestFlat: growing gauges are found; fluctuating ones are accepted.
func TestFlat(t *testing.T) {
	of := func(gauge func(minute int) float64) (samples []sample) {
		for i := range 62 {
			samples = append(samples, sample{gauges: map[string]float64{residentGauge: gauge(i)}})
		}
		return samples
	}
	cases := map[string]struct {
		gauge func(minute int) float64
		grows bool
	}{
		"flat":          {func(int) float64 { return 150e6 }, false},
		"up and down":   {func(i int) float64 { return 150e6 + 40e6*float64(i%2) }, false},
		"warms up":      {func(i int) float64 { return 150e6 + 10e6*float64(min(i, 15)) }, false},
		"2 kB each":     {func(i int) float64 { return 150e6 + 2048*1440*float64(i) }, true},
		"is not told":   {func(int) float64 { return 0 }, true},
		"jumps at last": {func(i int) float64 { return 150e6 + 100e6*float64(i/45) }, true},
	}
	for name, c := range cases {
		if err := flat(of(c.gauge), residentGauge); (err != nil) != c.grows {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// gradient returns a picture in which no two parts are equal.
func gradient(side int) image.Image {
	p := image.NewRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			p.Set(x, y, color.RGBA{uint8(x), uint8(y), uint8(x * y / 16), 255})
		}
	}
	return p
}
