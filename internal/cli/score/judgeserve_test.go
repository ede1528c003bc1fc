package score

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/oracle"
)

// TestServeJudge: the server returns the scores of a VLM judge; an unreadable answer is a separate kind of error, and
// there are no gradients.
func TestServeJudge(t *testing.T) {
	long.Test(t)
	url := answering(t, func(body string) string {
		if strings.Contains(body, "do nonsense") {
			return "no idea"
		}
		return `{"score": [8, 6], "reasoning": "so"}`
	})
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int)
	go func() {
		var stderr strings.Builder
		ended <- App.Run(ctx, []string{"serve", "--judge", "viescore", "--url", url, "--model", "m", "--store", t.TempDir(),
			"--addr", "127.0.0.1:0", "--json"}, in, &stderr)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct {
		Address string
		Scorers []string
	}
	e := json.Unmarshal(line, &ready)
	if err != nil || e != nil || len(ready.Scorers) != 1 || ready.Scorers[0] != "viescore" {
		t.Fatalf("%s: %v", line, err)
	}
	encoded := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(oracle.Folders(t)[0], "images", name))
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	post := func(path, instruction string) (int, string) {
		body, _ := json.Marshal(map[string]any{"source": encoded("coffee.png"), "edits": []string{encoded("coffee_blur.png")},
			"instruction": instruction})
		r, err := http.Post(ready.Address+path, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	if code, text := post("/v1/score", "blur it"); code != 200 || !strings.Contains(text, `"score":6,`) ||
		!strings.Contains(text, `"semantic":{"score":6`) {
		t.Errorf("%d: %s", code, text)
	}
	if code, text := post("/v1/score", "do nonsense"); code != http.StatusBadGateway ||
		!strings.Contains(text, `"kind":"unreadable"`) || !strings.Contains(text, "no idea") {
		t.Errorf("%d: %s", code, text)
	}
	if code, text := post("/v1/gradient", "blur it"); code != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "no_gradient") {
		t.Errorf("%d: %s", code, text)
	}
	stop()
	<-ended
}
