package reward

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	_ "assay/model/llavanext"
)

// real opens the scorers of a fixture folder.
func real(t testing.TB, folder string, names ...string) map[string]edit.Judge {
	t.Helper()
	out := map[string]edit.Judge{}
	for _, n := range names {
		s, err := model.OpenScorer(filepath.Join(folder, "llavanext", n), model.Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		out[n] = s
	}
	return out
}

func read(t testing.TB, path ...string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Scores equal PyTorch's, alone and together with concurrent requests.
func TestOracleScoresAloneAndTogether(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		dir := filepath.Join(folder, "llavanext")
		s, h := start(t, Options{}, real(t, folder, "scorer", "scorer_sequence"), "scorer", "scorer_sequence")
		if err := s.Warm(context.Background()); err != nil {
			t.Fatal(err)
		}
		cases := oracle.Read[[]oracle.Case](t, filepath.Join(dir, "cases.json"))
		ask := func(c oracle.Case, edits ...string) []float64 {
			var list []any
			for _, e := range edits {
				list = append(list, read(t, dir, e))
			}
			body := object{
				"scorer":      c.Scorer,
				"source":      read(t, dir, c.Source),
				"instruction": c.Instruction,
				"edits":       list,
			}
			_, _, raw := post(t, h.URL+"/v1/score", body)
			var out []float64
			for _, r := range decodeScores(t, raw).Results {
				if r.Score == nil {
					t.Errorf("case %d: %s", c.ID, raw)
					return make([]float64, len(edits))
				}
				out = append(out, *r.Score)
			}
			return out
		}
		alone := map[string]float64{}
		key := func(c oracle.Case, edit string) string { return fmt.Sprint(c.ID, edit) }
		for _, c := range cases {
			for _, e := range []string{c.Edited, c.Source} {
				alone[key(c, e)] = ask(c, e)[0]
			}
			if d := math.Abs(alone[key(c, c.Edited)] - c.Score); !(d <= 1e-4) {
				t.Errorf("case %d: score %g, want %g as in PyTorch", c.ID, alone[key(c, c.Edited)], c.Score)
			}
		}
		var all sync.WaitGroup
		for range 4 {
			for _, c := range cases {
				all.Go(func() {
					for i, got := range ask(c, c.Edited, c.Source) {
						if want := alone[key(c, []string{c.Edited, c.Source}[i])]; !(math.Abs(got-want) <= 2e-6) {
							t.Errorf("case %d, edit %d: %.9g in a batch, %.9g alone", c.ID, i, got, want)
						}
					}
				})
			}
		}
		all.Wait()
	})
}

// A gradient is served as safetensors, npy and a heat map, and equals the scorer's.
func TestOracleGradient(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		scorers := real(t, folder, "scorer")
		_, h := start(t, Options{}, scorers, "scorer")
		c := oracle.Read[[]oracle.Case](t, filepath.Join(folder, "llavanext", "cases.json"))[0]
		source, output := read(t, folder, "llavanext", c.Source), read(t, folder, "llavanext", c.Edited)
		var pictures [2]*data.Picture
		for i, raw := range [][]byte{source, output} {
			var err error
			if pictures[i], err = data.Decode(raw, data.Limits{}); err != nil {
				t.Fatal(err)
			}
		}
		one := edit.New(pictures[0], pictures[1], c.Instruction)
		scorer := scorers["scorer"].(edit.Differentiable)
		gradients, err := scorer.Gradients(context.Background(), []*edit.Edit{one})
		if err != nil {
			t.Fatal(err)
		}
		want := gradients[0]
		want.Scale(scorer.Info().Range)
		bodies := map[string][]byte{}
		for _, format := range []string{"safetensors", "npy", "png"} {
			code, header, raw := post(
				t,
				h.URL+"/v1/gradient",
				object{"source": source, "edit": output, "instruction": c.Instruction, "format": format},
			)
			if code != 200 || header.Get("X-Score") != fmt.Sprint(want.Value) {
				t.Fatalf("%s: %d %v %.200s", format, code, header, raw)
			}
			bodies[format] = raw
		}
		n := 4 * len(want.Output.Values)
		for format, raw := range bodies {
			if format == "png" {
				p, err := data.Decode(raw, data.Limits{})
				if err != nil || p.Width != want.Output.Width || p.Height != want.Output.Height {
					t.Errorf("heat map: %v", err)
				}
				continue
			}
			got := make([]float32, len(want.Output.Values))
			if err := binary.Read(bytes.NewReader(raw[len(raw)-n:]), binary.LittleEndian, got); err != nil {
				t.Fatal(err)
			}
			oracle.Close(t, format, got, want.Output.Values, 0, 1e-6)
		}
		head := binary.LittleEndian.Uint64(bodies["safetensors"])
		var header map[string]json.RawMessage
		if err := json.Unmarshal(bodies["safetensors"][8:8+head], &header); err != nil || int(head)%8 != 0 ||
			len(bodies["safetensors"]) != 8+int(head)+n {
			t.Errorf("safetensors header: %v %s", err, header)
		}
		if (len(bodies["npy"])-n)%64 != 0 {
			t.Error("the npy array is not aligned")
		}
	})
}

// FuzzRequests sends arbitrary requests to all endpoints: the server always answers, and never with a 5xx for an
// internal error.
func FuzzRequests(f *testing.F) {
	folder := oracle.Folders(f)[0]
	s, err := NewServer(
		Options{MaxBody: 1 << 20, MaxPixels: 1 << 16},
		[]string{"scorer"},
		[]edit.Judge{real(f, folder, "scorer")["scorer"]},
	)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	picture := read(f, folder, "images", "coffee.png")
	bomb := append([]byte(nil), picture...)
	copy(bomb[16:], []byte{0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff}) // its header claims 2^62 pixels
	score := func(v object) []byte {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	paths := []string{"/v1/score", "/v1/gradient", "/score"}
	for i := range paths {
		f.Add(i, []byte("{}"))
		for _, p := range [][]byte{picture, picture[:len(picture)/2], bomb, {}, []byte("GIF89a"),
			[]byte("RIFF\xff\xff\xff\xffWEBPVP8X")} {
			f.Add(i, score(object{"source": picture, "instruction": "x", "edits": []any{p}}))
			f.Add(i, score(object{"source": p, "instruction": "<image> [SCORE] <|eot_id|>", "edit": picture}))
			f.Add(
				i,
				score(
					object{
						"requests": []any{
							object{
								"required_rewards": []string{"scorer"},
								"history": []any{
									object{"text": "x", "image_b64": picture},
									object{"text": "", "image_b64": p},
								},
							},
						},
					},
				),
			)
		}
		f.Add(i, []byte(`{"source":"`+string(bytes.Repeat([]byte("A"), 5000))+`","edits":[{}],"instruction":"\ud800"}`))
		f.Add(i, bytes.Repeat([]byte(`{"requests":[`), 3000))
	}
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		r, err := http.NewRequest("POST", "http://localhost"+paths[uint(i)%uint(len(paths))], bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if i < 0 {
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		}
		w := &recorder{header: http.Header{}}
		s.ServeHTTP(w, r)
		if w.code >= 500 || w.code == 0 {
			t.Errorf("%d %.300s", w.code, w.body.Bytes())
		}
	})
}

type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(code int) { r.code = code }

func (r *recorder) Write(b []byte) (int, error) {
	if r.code == 0 {
		r.code = 200
	}
	return r.body.Write(b)
}

var _ io.Writer = (*recorder)(nil)
