package score

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/metrics"
	"assay/model"
)

func TestServeDimensions(t *testing.T) {
	scorers := []string{"a=DIR", "runs/b"}
	for flags, want := range map[string]string{
		"":                    "map[a: b:]",
		"quality":             "map[a:quality b:quality]",
		"a=quality":           "map[a:quality b:]",
		"quality b=following": "map[a:quality b:following]",
		"quality following":   "SCORER=DIMENSION",
		"c=quality":           "SCORER=DIMENSION",
		"a=":                  "SCORER=DIMENSION",
	} {
		f := serveFlags{scorers: scorers, dimension: strings.Fields(flags)}
		got, err := f.byScorer("dimension", f.dimension)
		if text := fmt.Sprint(got, err); !strings.Contains(text, want) {
			t.Errorf("%q: %s, want %s", flags, text, want)
		}
	}
}

// TestServeReplicas: an implausible number of copies is refused before any is opened.
func TestServeReplicas(t *testing.T) {
	c := newServeCommand()
	c.SetArgs([]string{"--scorer", "nowhere", "--replicas", "100000"})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--replicas 100000: at most 64") {
		t.Errorf("100,000 copies: %v", err)
	}
}

// TestServeMixedDevices: copies of a scorer that would compute in two types are refused.
func TestServeMixedDevices(t *testing.T) {
	for devices, want := range map[string]map[string]bool{ // whether the dtype is refused
		"cpu":           {"float32": false, "bfloat16": false},
		"cuda:0,cuda:1": {"float32": false, "bfloat16": false},
		"cpu,cuda:0":    {"float32": false, "bfloat16": true},
		"cuda:1,cpu":    {"float32": false, "bfloat16": true},
	} {
		for dtype, refused := range want {
			if err := oneType(strings.Split(devices, ","), dtype); (err != nil) != refused {
				t.Errorf("%s, %s: got error %v, want one: %t", devices, dtype, err, refused)
			}
		}
	}
}

// TestServeShortToken: a token that can be guessed is refused before anything is opened.
func TestServeShortToken(t *testing.T) {
	t.Setenv("ASSAY_TOKEN", "x")
	code, _, stderr := run(t, "serve", "--scorer", "nowhere")
	if want := "the bearer token: want a token of at least 8 characters"; code != 2 || !strings.Contains(stderr, want) {
		t.Errorf("got exit code %d, %s; want 2, %s", code, stderr, want)
	}
}

// TestServeMetrics: the server serves metrics and similarities as judges next to scorers, and one request asks them
// all.
func TestServeMetrics(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan string)
	go func() {
		var stderr strings.Builder
		App.Run(ctx, []string{"serve", "--scorer", "tiny=" + filepath.Join(root, "backbones", "tiny-scorer"),
			"--scorer", "clip=metric:clip_t_instruction:" + filepath.Join(root, "backbones", "tiny-clip"),
			"--scorer", "metric:dino_i_source:" + filepath.Join(root, "backbones", "tiny-dino"), "--scorer", "metric:l1_source",
			"--mode", "per_call", "--addr", "127.0.0.1:0", "--json"}, in, &stderr)
		in.Close()
		ended <- stderr.String()
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct {
		Address string
		Scorers []string
	}
	if e := json.Unmarshal(line, &ready); err != nil || e != nil {
		stop()
		t.Fatalf("%s: %v: %s", line, err, <-ended)
	}
	defer func() {
		stop()
		<-ended
	}()
	if want := []string{"tiny", "clip", "dino_i_source", "l1_source"}; !slices.Equal(ready.Scorers, want) {
		t.Errorf("got the scorers %v, want %v", ready.Scorers, want)
	}
	picture := func(name string) (*data.Picture, string) {
		path := filepath.Join(oracle.Folders(t)[0], "images", name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := data.Open(path, data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return p, base64.StdEncoding.EncodeToString(raw)
	}
	before, source := picture("coffee.png")
	after, output := picture("coffee_blur.png")
	var rewards []any
	for _, name := range ready.Scorers {
		rewards = append(rewards, map[string]any{"name": name, "weight": 1})
	}
	body, _ := json.Marshal(map[string]any{"source": source, "edits": []string{output}, "instruction": "blur it",
		"rewards": rewards})
	r, err := http.Post(ready.Address+"/v1/score", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var got struct {
		Results []struct {
			Reward  float64
			Rewards []struct {
				Score float64
				Error any
			}
		}
	}
	err = json.NewDecoder(r.Body).Decode(&got)
	if err != nil || len(got.Results) != 1 || len(got.Results[0].Rewards) != 4 {
		t.Fatalf("got %+v, %v", got, err)
	}
	backbones := filepath.Join(root, "backbones")
	sum := 0.0
	for i, open := range []func() (edit.Judge, error){
		func() (edit.Judge, error) {
			return model.OpenScorer(filepath.Join(backbones, "tiny-scorer"), model.Options{Device: "cpu"})
		},
		func() (edit.Judge, error) {
			return openMetric("clip_t_instruction:"+filepath.Join(backbones, "tiny-clip"), metrics.Options{Device: "cpu"})
		},
		func() (edit.Judge, error) {
			return openMetric("dino_i_source:"+filepath.Join(backbones, "tiny-dino"), metrics.Options{Device: "cpu"})
		},
		func() (edit.Judge, error) { return openMetric("l1_source", metrics.Options{Device: "cpu"}) },
	} {
		j, err := open()
		if err != nil {
			t.Fatal(err)
		}
		scores, errs, err := edit.ScoreAll(t.Context(), j, edit.New(before, after, "blur it"))
		if err := errors.Join(err, errs[0], j.Close()); err != nil {
			t.Fatal(err)
		}
		if one := got.Results[0].Rewards[i]; one.Error != nil || !(math.Abs(one.Score-scores[0].Value) <= 1e-6) {
			t.Errorf("%s: got %v (%v), want %v", ready.Scorers[i], one.Score, one.Error, scores[0].Value)
		}
		sum += scores[0].Value
	}
	if !(math.Abs(got.Results[0].Reward-sum) <= 1e-5) {
		t.Errorf("got the sum %v, want %v", got.Results[0].Reward, sum)
	}
}

// TestServeMetricsRefused: metrics that need what no request has, and missing metrics.
func TestServeMetricsRefused(t *testing.T) {
	root := filepath.Join("..", "..", "..", "backbones")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--scorer", "metric:l1"}, `needs "target", which requests do not have`},
		{[]string{"--scorer", "metric:clip_i:" + filepath.Join(root, "tiny-clip")}, `needs "target"`},
		{[]string{"--scorer", "metric:cosine:" + filepath.Join(root, "tiny-clip")}, `no similarity "cosine"`},
		{[]string{"--scorer", "x=metric:nowhere.yaml"}, "nowhere.yaml"},
		{[]string{"--scorer", "x=metric:l1_source", "--dimension", "quality"}, "are for scorer directories"},
		{[]string{"--scorer", "metric:l1_source", "--mode", "lazy"}, "want resident or per_call"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			if code, _, stderr := run(t, append([]string{"serve", "--device", "cpu"}, c.args...)...); code != 2 ||
				!strings.Contains(stderr, c.want) {
				t.Errorf("got exit code %d, %s; want 2, %s", code, stderr, c.want)
			}
		})
	}
}

// TestServeChatSleeps: a chat model can sleep as well, and its answers are the same afterwards.
func TestServeChatSleeps(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan string)
	go func() {
		var stderr strings.Builder
		App.Run(ctx, []string{"serve", "--chat-backbone", "m=" + filepath.Join("..", "..", "..", "backbones", "tiny"),
			"--addr", "127.0.0.1:0", "--json"}, in, &stderr)
		in.Close()
		ended <- stderr.String()
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct{ Address string }
	if e := json.Unmarshal(line, &ready); err != nil || e != nil {
		stop()
		t.Fatalf("%s: %v: %s", line, err, <-ended)
	}
	defer func() {
		stop()
		<-ended
	}()
	post := func(path, body string) string {
		r, err := http.Post(ready.Address+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: got %d %s (%v)", path, r.StatusCode, raw, err)
		}
		return string(raw)
	}
	answer := func() string {
		body := post("/v1/chat/completions", `{"model": "m", "temperature": 0, "max_tokens": 6,
			"messages": [{"role": "user", "content": "What is this?"}]}`)
		_, choices, _ := strings.Cut(body, `"choices"`)
		return choices
	}
	before := answer()
	if body := post("/v1/sleep", ""); !strings.Contains(body, `"asleep"`) {
		t.Errorf("got %s", body)
	}
	later := make(chan string)
	go func() { later <- answer() }()
	time.Sleep(20 * time.Millisecond)
	post("/v1/wake", "")
	if after := <-later; after != before || before == "" {
		t.Errorf("got %s, want %s as before", after, before)
	}
}
