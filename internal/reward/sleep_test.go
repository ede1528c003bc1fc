package reward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/edit"
	"assay/internal/long"
	"assay/model"
	"assay/model/fresh"
	"assay/ort"
)

// heavy opens copies and counts those that are loaded.
type heavy struct {
	loaded  atomic.Int64 // open copies
	failing atomic.Pointer[error]
	print   atomic.Pointer[string]
	gate    chan struct{}
}

// loaded is a copy of heavy.
type loaded struct {
	frail
	of    *heavy
	print string
}

func (l *loaded) Fingerprint() (string, error) { return l.print, nil }

func (l *loaded) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	if l.of.gate != nil {
		<-l.of.gate
	}
	return l.frail.Score(ctx, inputs)
}

func (l *loaded) Close() error {
	l.of.loaded.Add(-1)
	return nil
}

func (h *heavy) open(int) (edit.Judge, error) {
	if err := h.failing.Load(); err != nil {
		return nil, *err
	}
	l := &loaded{of: h, print: "p1"}
	if print := h.print.Load(); print != nil {
		l.print = *print
	}
	h.loaded.Add(1)
	return l, nil
}

// startHeavy serves two copies as "a".
func startHeavy(t *testing.T, o Options) (*heavy, string) {
	t.Helper()
	h := &heavy{}
	v, err := Replicate(2, 0, h.open)
	if err != nil {
		t.Fatal(err)
	}
	s, server := start(t, o, map[string]edit.Judge{"a": v}, "a")
	t.Cleanup(func() { v.Close() })
	if err := s.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Fingerprint(); err != nil {
		t.Fatal(err)
	}
	return h, server.URL
}

// two is the score of the edit in scoreOf.
const two = 10 * float64(float32(0.2))

// scoreOf scores one edit.
func scoreOf(t *testing.T, url string) (code int, header http.Header, score float64, body string) {
	t.Helper()
	picture := png(t, 51, 5, 5)
	code, header, got, body := ask(t, url, object{"source": picture, "instruction": "x", "edits": []any{picture}})
	if code != 200 {
		return code, header, math.NaN(), body
	}
	return code, header, value(got.Results[0].Score), body
}

func postTo(t *testing.T, url string) (int, string) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", url, nil)
	code, _, body := send(t, r)
	return code, body
}

// TestSleep: asleep no copy is open, and requests wait or get Retry-After; awake again, scores are as before.
func TestSleep(t *testing.T) {
	h, url := startHeavy(t, Options{SleepWait: 50 * time.Millisecond})
	expect := func(what, path string, code int, want string, copies int64) {
		t.Helper()
		got, body := postTo(t, url+path)
		if got != code || !strings.Contains(body, want) || h.loaded.Load() != copies {
			t.Errorf("%s: got %d %s with %d copies, want %d, %q, %d", what, got, body, h.loaded.Load(), code, want, copies)
		}
	}
	expect("sleep", "/v1/sleep", 200, `"state":"asleep"`, 0)
	expect("asleep already", "/v1/sleep", 200, `"state":"asleep"`, 0)
	if code, body := get(t, url+"/health"); code != 200 || !strings.Contains(body, `"asleep":true`) {
		t.Errorf("/health: got %d %s", code, body)
	}
	if code, body := get(t, url+"/readyz"); code != 200 || !strings.Contains(body, `"asleep"`) {
		t.Errorf("/readyz: got %d %s", code, body)
	}
	if code, header, _, body := scoreOf(t, url); code != 503 || header.Get("Retry-After") != "10" ||
		!strings.Contains(body, `"asleep"`) {
		t.Errorf("a request meanwhile: got %d %s", code, body)
	}

	lost := errors.New("no memory is left on the device")
	h.failing.Store(&lost)
	expect("waking in vain", "/v1/wake", 503, lost.Error(), 0)
	h.failing.Store(nil)
	other := "p2"
	h.print.Store(&other)
	expect("waking to another judge", "/v1/wake", 503, "its fingerprint is p2, and was p1", 0)
	h.print.Store(nil)
	expect("wake", "/v1/wake", 200, `"state":"awake"`, 2)
	expect("awake already", "/v1/wake", 200, `"state":"awake"`, 2)
	if code, _, score, body := scoreOf(t, url); code != 200 || score != two {
		t.Errorf("awake: got %d %s, want the score 2", code, body)
	}
	_, metrics := get(t, url+"/metrics")
	for _, want := range []string{"assay_asleep 0", `assay_sleep_memory_bytes{memory="resident",when="after"}`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

// TestWaitingForWake: a request that arrives while the scorers are asleep is answered when they wake.
func TestWaitingForWake(t *testing.T) {
	_, url := startHeavy(t, Options{})
	postTo(t, url+"/v1/sleep")
	got := make(chan float64)
	go func() {
		_, _, score, _ := scoreOf(t, url)
		got <- score
	}()
	select {
	case score := <-got:
		t.Fatalf("got %v from sleeping scorers", score)
	case <-time.After(50 * time.Millisecond):
	}
	postTo(t, url+"/v1/wake")
	if score := <-got; score != two {
		t.Errorf("got %v, want 2", score)
	}
}

// TestSleepWaitsForWork: the work in progress is finished first.
func TestSleepWaitsForWork(t *testing.T) {
	h := &heavy{gate: make(chan struct{})}
	v, err := Replicate(1, 0, h.open)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	s, server := start(t, Options{}, map[string]edit.Judge{"a": v}, "a")
	got := make(chan float64)
	go func() {
		_, _, score, _ := scoreOf(t, server.URL)
		got <- score
	}()
	for s.engine.queue.idle() {
		time.Sleep(time.Millisecond)
	}
	asleep := make(chan string)
	go func() {
		_, body := postTo(t, server.URL+"/v1/sleep")
		asleep <- body
	}()
	select {
	case body := <-asleep:
		t.Fatalf("got %s while a run is in progress", body)
	case <-time.After(50 * time.Millisecond):
	}
	close(h.gate)
	if score := <-got; score != two {
		t.Errorf("got %v, want 2", score)
	}
	if body := <-asleep; !strings.Contains(body, "asleep") || h.loaded.Load() != 0 {
		t.Errorf("got %s with %d copies", body, h.loaded.Load())
	}
}

// TestPerCall: the weights are only loaded during requests, and are unloaded before their answers.
func TestPerCall(t *testing.T) {
	h, url := startHeavy(t, Options{PerCall: true})
	if h.loaded.Load() != 0 {
		t.Errorf("got %d copies before the first request, want none", h.loaded.Load())
	}
	for range 2 {
		if code, _, score, body := scoreOf(t, url); code != 200 || score != two || h.loaded.Load() != 0 {
			t.Errorf("got %d %s with %d copies left, want the score 2 and none", code, body, h.loaded.Load())
		}
	}
	done := make(chan float64)
	const ranks = 8
	for range ranks {
		go func() {
			_, _, score, _ := scoreOf(t, url)
			done <- score
		}()
	}
	for range ranks {
		if score := <-done; score != two {
			t.Errorf("together: got %v, want 2", score)
		}
	}
	if h.loaded.Load() != 0 {
		t.Errorf("got %d copies left, want none", h.loaded.Load())
	}
}

// TestNothingSleeps: judges without weights on this server do not sleep, and the answer says so.
func TestNothingSleeps(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	if code, body := postTo(t, h.URL+"/v1/sleep"); code != 422 ||
		!strings.Contains(body, "no judge of this server has weights to unload") {
		t.Errorf("got %d %s", code, body)
	}
}

// largeScorer writes a scorer of about 50 million parameters.
func largeScorer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("blur it"), 0o666); err != nil {
		t.Fatal(err)
	}
	sizes, err := fresh.Defaults(fresh.LlavaNext)
	if err != nil {
		t.Fatal(err)
	}
	sizes.Hidden, sizes.Intermediate, sizes.Layers, sizes.Heads, sizes.KVHeads = 1024, 3072, 4, 8, 8
	sizes.VisionHidden, sizes.VisionIntermediate, sizes.VisionLayers, sizes.VisionHeads = 32, 64, 2, 2
	sizes.ImageSize, sizes.Patch, sizes.Grid = 52, 4, [][]int{{1, 1}}
	backbone, scorer := filepath.Join(dir, "backbone"), filepath.Join(dir, "scorer")
	if _, err := fresh.Create(backbone, sizes, []string{text}, 1); err != nil {
		t.Fatal(err)
	}
	p, err := model.NewScorerState((&model.OnePassConfig{Backbone: backbone, Pair: model.Sequence,
		Question: model.InstructionMark, Answer: "[SCORE]", Head: model.HeadConfig{Hidden: []int{16}}}).Scorer(), nil, 1)
	if err == nil {
		err = os.Mkdir(scorer, 0o777)
	}
	if err == nil {
		err = p.Save(scorer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return scorer
}

// TestSleepFreesMemory: while a scorer is asleep its weights are not in the process's memory, and afterwards its
// scores are the same bit for bit.
func TestSleepFreesMemory(t *testing.T) {
	long.Test(t)
	t.Setenv(ort.KeepEnv, "") // it would keep the sessions
	dir := largeScorer(t)
	v, err := Replicate(1, 0, func(int) (edit.Judge, error) { return model.OpenScorer(dir, model.Options{Threads: 1}) })
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	_, h := start(t, Options{}, map[string]edit.Judge{"a": v}, "a")
	request := object{"source": png(t, 9, 60, 50), "instruction": "blur it",
		"edits": []any{png(t, 51, 60, 50), png(t, 200, 60, 50)}}
	score := func() string {
		code, _, got, body := ask(t, h.URL, request)
		if code != 200 {
			t.Fatalf("got %d %s", code, body)
		}
		return fmt.Sprint(*got.Results[0].Score, *got.Results[1].Score)
	}
	before := score()
	for range 2 {
		_, body := postTo(t, h.URL+"/v1/sleep")
		var state struct{ Memory map[string]int64 }
		if err := json.NewDecoder(bytes.NewReader([]byte(body))).Decode(&state); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		awake, asleep := state.Memory["resident_before"]>>20, state.Memory["resident_after"]>>20
		t.Logf("%d MiB awake, %d MiB asleep", awake, asleep)
		if awake-asleep < 150 {
			t.Errorf("got %d MiB awake and %d asleep, want at least 150 MiB less", awake, asleep)
		}
		postTo(t, h.URL+"/v1/wake")
		if after := score(); after != before {
			t.Errorf("got the scores %s, want %s as before", after, before)
		}
	}
}

// TestOverwrittenWeights: weights whose file is overwritten while it is mapped yield no scores and no gradients.
func TestOverwrittenWeights(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tiny", "tiny-scorer"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("..", "..", "backbones", name))); err != nil {
			t.Fatal(err)
		}
	}
	v, err := Replicate(1, 0, func(int) (edit.Judge, error) {
		return model.OpenScorer(filepath.Join(dir, "tiny-scorer"), model.Options{Threads: 1})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	s, h := start(t, Options{}, map[string]edit.Judge{"a": v}, "a")
	if err := s.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	request := object{"source": png(t, 9, 60, 50), "instruction": "blur it", "edits": []any{png(t, 51, 60, 50)}}
	if code, _, _, body := ask(t, h.URL, request); code != http.StatusOK {
		t.Fatalf("got %d %s, want a score", code, body)
	}
	f, err := os.OpenFile(filepath.Join(dir, "tiny", "model.safetensors"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, st.Size()/2), st.Size()/2); err != nil {
		t.Fatal(err)
	}
	if code, _, _, body := ask(t, h.URL, request); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "model.safetensors") {
		t.Errorf("got %d %s, want 503 and the file", code, body)
	}
	if code, _, body := post(t, h.URL+"/v1/gradient", request); code != http.StatusServiceUnavailable {
		t.Errorf("got %d %s, want 503 instead of a gradient", code, body)
	}
}

// TestSleepBesideAFailure: a failed copy is not reopened while the scorers are asleep, but once they are awake.
func TestSleepBesideAFailure(t *testing.T) {
	l, s, url := startFleet(t, 1, Options{})
	l.fail(errors.New("the device is lost"))
	l.copy(0).become("panic")
	if code, _, _, body := scoreOf(t, url); code != 503 {
		t.Fatalf("got %d %s from a failed copy", code, body)
	}
	if code, body := postTo(t, url+"/v1/sleep"); code != 200 {
		t.Fatalf("got %d %s", code, body)
	}
	time.Sleep(3 * firstPause)
	if v := s.engine.scorers.by["a"]; v.replica(0) != nil {
		t.Error("a copy was opened while the scorers are asleep")
	}
	r, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/wake", nil)
	code, header, body := send(t, r)
	if code != 503 || header.Get("Retry-After") != "1" || !strings.Contains(body, "copy 0: ") {
		t.Fatalf("waking while the copy is being reopened: got %d %s, want 503, Retry-After and the copy", code, body)
	}
	l.fail(nil)
	eventually(t, "all copies", func() bool {
		code, _ := postTo(t, url+"/v1/wake")
		return code == 200
	})
	if code, _, score, body := scoreOf(t, url); code != 200 || score != two {
		t.Errorf("awake: got %d %s, want the score 2", code, body)
	}
}

// TestPerCallOfOne: a request for one scorer of two loads only the weights of that one.
func TestPerCallOfOne(t *testing.T) {
	a, b := &heavy{}, &heavy{}
	judges := map[string]edit.Judge{}
	for name, h := range map[string]*heavy{"a": a, "b": b} {
		v, err := Replicate(1, 0, h.open)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		judges[name] = v
	}
	s, server := start(t, Options{PerCall: true}, judges, "a", "b")
	if err := s.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := errors.New("b must not be loaded")
	b.failing.Store(&lost)
	if code, _, score, body := scoreOf(t, server.URL); code != 200 || score != two {
		t.Errorf("of a: got %d %s, want the score 2", code, body)
	}
	picture := png(t, 51, 5, 5)
	code, _, _, body := ask(t, server.URL,
		object{"scorer": "b", "source": picture, "instruction": "x", "edits": []any{picture}})
	if code != 503 || !strings.Contains(body, lost.Error()) {
		t.Errorf("of b: got %d %s, want 503", code, body)
	}
}

// TestSleepWaitsForClose: a copy that a run still holds is closed by that run, and sleep waits until it is closed: the
// trainer then takes the memory.
func TestSleepWaitsForClose(t *testing.T) {
	closing, closed := make(chan struct{}), make(chan struct{})
	v, err := Replicate(1, 0, func(int) (edit.Judge, error) { return &slowClose{closing: closing, closed: closed}, nil })
	if err != nil {
		t.Fatal(err)
	}
	run := v.take(0)
	asleep := make(chan struct{})
	go func() {
		v.sleep()
		close(asleep)
	}()
	eventually(t, "no copy", func() bool { return v.replica(0) == nil })
	go run.release()
	<-closing
	select {
	case <-asleep:
		t.Error("asleep while a copy is being closed")
	case <-time.After(50 * time.Millisecond):
	}
	close(closed)
	<-asleep
}

// slowClose is a copy whose Close takes until closed is closed.
type slowClose struct {
	frail
	closing, closed chan struct{}
}

func (s *slowClose) Close() error {
	close(s.closing)
	<-s.closed
	return nil
}
