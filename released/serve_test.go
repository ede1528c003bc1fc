package released_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"assay"
	"assay/checkpoints"
	"assay/edit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/reward"
	"assay/released"
)

// TestServed: a server and the library return the fixtures' scores.
func TestServed(t *testing.T) {
	long.Test(t)
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		all := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json"))
		c := all.Cases[0]
		o := released.Options{
			Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"), Prompts: filepath.Join(dir, "prompts"),
			Config: filepath.Join(dir, c.Config), Out: filepath.Join(t.TempDir(), "scorer"),
		}
		if _, err := released.Import("editreward", o); err != nil {
			t.Fatal(err)
		}
		server, err := reward.NewServer(reward.Options{}, []string{"editreward"}, []edit.Judge{openDir(t, o.Out, "")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		if err := server.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		raw := func(path string) []byte {
			b, err := os.ReadFile(filepath.Join(s.folder, "images", filepath.Base(path)))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		var answer struct {
			Range   any `json:"score_range"`
			Results []struct {
				Score, Sigma float64
				Score01      *float64
				Dimensions   map[string]struct{ Score, Sigma float64 }
			}
		}
		question := map[string]any{"source": raw(c.Source), "instruction": c.Instruction, "edits": [][]byte{raw(c.Edited)}}
		if err := json.Unmarshal(post(t, server, "/v1/score", question), &answer); err != nil {
			t.Fatal(err)
		}
		r := answer.Results[0]
		near(t, "score", r.Score, c.Score)
		near(t, "log of sigma", math.Log(r.Sigma), c.Fused[c.Pooling][1])
		for _, p := range c.Passes {
			near(t, p.Name, r.Dimensions[p.Name].Score, p.Mu)
			near(t, "log of its sigma", math.Log(r.Dimensions[p.Name].Sigma), p.LogSigma)
		}
		if r.Score01 != nil || answer.Range != nil {
			t.Errorf("score01 %v, range %v: there is none", *r.Score01, answer.Range)
		}
		delete(question, "edits")
		question["edit"] = raw(c.Edited)
		path := filepath.Join(t.TempDir(), "gradient.safetensors")
		if err := os.WriteFile(path, post(t, server, "/v1/gradient", question), 0o666); err != nil {
			t.Fatal(err)
		}
		tensors, metadata, err := checkpoints.ReadFile(path)
		if err != nil || tensors["gradient"] == nil {
			t.Fatal(metadata, err)
		}
		if got := fmt.Sprint(r.Score); metadata["score"] != got {
			t.Errorf("gradient of %s, want %s", metadata["score"], got)
		}
		library(t, s, o.Out, c)
	})
}

func post(t *testing.T, h http.Handler, path string, question any) []byte {
	t.Helper()
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	q := httptest.NewRequest(http.MethodPost, "http://localhost"+path, bytes.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, q); w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// library scores with package assay.
func library(t *testing.T, s suite, dir string, c editCase) {
	t.Helper()
	scorer, err := assay.Open(t.Context(), dir, assay.Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer scorer.Close()
	asked := edit.New(s.picture(t, c.Source), s.picture(t, c.Edited), c.Instruction)
	score, err := scorer.Score(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "score", score.Value, c.Score)
	for _, p := range c.Passes {
		near(t, p.Name, score.ByName()[p.Name].Value, p.Mu)
	}
	g, err := scorer.Gradient(t.Context(), asked)
	if err != nil || g.Value != score.Value {
		t.Errorf("got a gradient of %v (%v), want %g", g, err, score.Value)
	}
	if worst, best := scorer.Range(); !math.IsInf(worst, -1) || !math.IsInf(best, 1) {
		t.Errorf("range %g to %g: there is none", worst, best)
	}
}
