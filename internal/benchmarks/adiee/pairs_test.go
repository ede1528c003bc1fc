package adiee

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/edit"
	"assay/encoders"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/report"
	"assay/internal/benchmarks/runner"
	"assay/internal/stats"
)

// A file that answers some pairs and scores others is refused, since either rule would treat half of it as missing.
func TestAnswersAndScoresMixed(t *testing.T) {
	s := benchtest.LoadSet(t, GenAIBench, protocol.Options{Data: "../testdata"})
	line := func(i int, answer, scores bool) string {
		text := fmt.Sprintf(`{"id": %d`, i)
		if answer {
			text += `, "answer": "A>B"`
		}
		if scores {
			text += `, "left": 7, "right": 3`
		}
		return text + "}\n"
	}
	var mixed, both strings.Builder
	for i := range 40 {
		mixed.WriteString(line(i, i < 20, i >= 20))
		both.WriteString(line(i, true, true))
	}
	_, err := s.Read(benchtest.Write(t, "mixed.jsonl", mixed.String()))
	for _, want := range []string{"mixed.jsonl:1: the pair 0 has an answer but no scores", "and 20 more problems"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "both.jsonl", both.String()))).Result()
	if r.N != 40 || len(r.Numbers) != 4 {
		t.Errorf("%d pairs, numbers %v", r.N, r.Numbers)
	}
}

// The benchmark's own count of right answers: 492 of 919, printed as 53.54.
func TestGenAIBenchGolden(t *testing.T) {
	path := benchtest.Golden + "genaibench/gpt4o.jsonl"
	s := benchtest.LoadSet(t, GenAIBench, protocol.Options{Votes: path})
	got := benchtest.ReadSet(t, s, path)
	benchtest.Near(t, "n", got["n"], 919, 0)
	benchtest.Near(t, "official", benchtest.At(got, "rules", "official", "accuracy"), 0.5353645266594124, 1e-12)
	benchtest.Near(t, "leftvotes", benchtest.At(got, "votes", "leftvote"), 240, 0)
	if benchtest.At(got, "rules", "adiee") != nil || benchtest.At(got, "rules", "threshold") != nil {
		t.Error("rules for scores apply to answers")
	}
	answers := map[string]float64{}
	for _, row := range benchtest.At(got, "rules", "official", "confusion").(map[string]any) {
		for a, n := range row.(map[string]any) {
			answers[a] += n.(float64)
		}
	}
	if d := cmp.Diff(map[string]float64{"A>B": 301, "B>A": 416, "A=B=Bad": 182, "A=B=Good": 20}, answers); d != "" {
		t.Error(d)
	}
}

func TestGenAIBenchParquet(t *testing.T) {
	want := benchtest.Expected(t, "genaibench")
	s := benchtest.LoadSet(t, GenAIBench, protocol.Options{Data: "../testdata"})
	for _, file := range []string{"../testdata/genaibench_scores.jsonl", "../testdata/genaibench_sides.jsonl"} {
		got := benchtest.ReadSet(t, s, file)
		benchtest.Same(t, got, want, [2]string{"rules.adiee.accuracy", "adiee"},
			[2]string{"rules.threshold.accuracy", "threshold.accuracy"}, [2]string{"rules.threshold.epsilon",
				"threshold.epsilon"})
		if benchtest.At(got, "rules", "threshold", "epsilon_from") != "test set" ||
			!strings.Contains(fmt.Sprint(got["notes"]), "chosen on the test set itself") {
			t.Error("the notes do not say that the margin was chosen on the test set")
		}
		for i, truth := range genAIVotes {
			for k, predicted := range genAIVotes {
				benchtest.Near(t, truth+" as "+predicted, benchtest.At(got, "rules", "adiee", "confusion", truth,
					predicted),
					want["adiee_confusion"].([]any)[i].([]any)[k].(float64), 0)
			}
		}
	}
	fixed := benchtest.LoadSet(t, GenAIBench, protocol.Options{Data: "../testdata", Epsilon: 0.5})
	got := benchtest.ReadSet(t, fixed, "../testdata/genaibench_scores.jsonl")
	if benchtest.Near(t, "epsilon", benchtest.At(got, "rules", "threshold", "epsilon"), 0.5, 0); benchtest.At(got,
		"rules", "threshold",
		"epsilon_from") != "option" {
		t.Error("a given margin is not distinguished from one chosen here")
	}
	items := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items())
	if len(items) != 80 || protocol.ItemKey(items[79]) != (protocol.Key{ID: "39", Model: "right"}) ||
		items[79].Instruction != "edit 39" {
		t.Fatalf("%d items, the last is %v", len(items), items[len(items)-1])
	}
	raw := benchtest.Must[[]byte](t)(protocol.PictureOf(items[79], "edit").Bytes())
	pic := benchtest.Must[*data.Picture](t)(data.Decode(raw, data.Limits{}))
	if want := byte(37 * 41 % 256); pic.Width != 6 || pic.Height != 4 || pic.Pix[0] != want {
		t.Errorf("the picture is %dx%d of %d, want 6x4 of %d", pic.Width, pic.Height, pic.Pix[0], want)
	}
}

func TestPairErrors(t *testing.T) {
	s := benchtest.LoadSet(t, GenAIBench, protocol.Options{Data: "../testdata"})
	tests := []struct{ file, want string }{
		{`{"id": 40, "left": 1, "right": 2}`, `p.jsonl:1: the id "40" is not one of the 40 pairs`},
		{`{"id": 1, "left": 1}`, `there is no "right"`},
		{`{"id": 1, "left": 1, "right": "x"}`, `right is "x": want a finite number`},
		{`{"id": 1}`, "no prediction: want \"answer\", \"left\" and \"right\""},
		{"{\"id\": 1, \"left\": 1, \"right\": 2}\n{\"id\": 1, \"model\": \"left\", \"score\": 2}",
			"p.jsonl:2: a second prediction for 1 of left (the first is in p.jsonl:1)"},
		{"{\"id\": 1, \"answer\": \"A>B\"}\n{\"id\": 1, \"answer\": \"A>B\"}", "a second answer for 1"},
		{`{"id": 1, "model": "top", "score": 2}`, `the model "top" is not a side`},
		{`{"left": 1, "right": 2}`, `there is no "id"`},
	}
	for _, tt := range tests {
		if _, err := s.Read(benchtest.Write(t, "p.jsonl", tt.file)); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.file, err, tt.want)
		}
	}
	got := benchtest.ReadSet(t, s, benchtest.Write(t, "p.jsonl",
		"{\"id\": 0, \"answer\": null}\n{\"id\": 1, \"answer\": \"[[A > B]]\"}"))
	benchtest.Near(t, "official counts every pair", benchtest.At(got, "rules", "official", "n"), 40, 0)
	benchtest.Near(t, "n", got["n"], 2, 0)
	if n := len(got["missing"].([]any)); n != 38 {
		t.Errorf("%d missing, want 38", n)
	}
	if _, err := GenAIBench.Load(protocol.Options{Votes: benchtest.Write(t, "v.jsonl",
		`{"id": 1, "vote_type": "up"}`)}); err == nil ||
		!strings.Contains(err.Error(), "v.jsonl:1: vote_type is \"up\"") {
		t.Error(err)
	}
	if _, err := GenAIBench.Load(protocol.Options{Data: "../testdata/tiger.parquet"}); err == nil ||
		!strings.Contains(err.Error(), `there is no column "vote_type"`) {
		t.Error(err)
	}
}

func TestAurora(t *testing.T) {
	want := benchtest.Expected(t, "aurora_point")
	point := benchtest.LoadSet(t, AuroraPoint, protocol.Options{Data: "../testdata"})
	got := benchtest.ReadSet(t, point, "../testdata/aurora_point.jsonl")
	benchtest.Same(t, got, want, [2]string{"global", "global"}, [2]string{"per_model_mean", "per_model_mean"},
		[2]string{"per_model.aurora", "per_model.aurora"})
	byPath := benchtest.ReadSet(t, point, benchtest.Write(t, "p.jsonl", `{"id": "out/3.png", "score": 4}`))
	if m := fmt.Sprint(byPath["missing"]); strings.Contains(m, "id:3]") || !strings.Contains(m, "id:4]") {
		t.Error("a prediction by path was not found")
	}
	want = benchtest.Expected(t, "aurora_pair")
	pair := benchtest.LoadSet(t, AuroraPair, protocol.Options{Data: "../testdata/human_ratings_pairwise.json"})
	got = benchtest.ReadSet(t, pair, "../testdata/aurora_pair.jsonl")
	benchtest.Same(t, got, want, [2]string{"rules.adiee.accuracy", "adiee"},
		[2]string{"rules.threshold.accuracy", "threshold.accuracy"}, [2]string{"rules.threshold.epsilon",
			"threshold.epsilon"})
	for _, tt := range []struct {
		b          *protocol.Benchmark
		data, want string
	}{
		{AuroraPair, `[{"input": "i", "prompt": "p", "gens": ["a", "b"], "models": ["x", "y"], "winner": "z"}]`,
			`d.json[0]: winner is "z": want "tie", "x" or "y"`},
		{AuroraPair, `[{"input": "i", "prompt": "p", "gens": ["a"], "models": ["x", "y"], "winner": "x"}]`,
			"1 gens and 2 models"},
		{AuroraPoint, `[{"input": "i", "prompt": "p", "gen": "g", "score": "2"}]`, `d.json[0]: score`},
		{AuroraPoint, `[{"input": "i", "prompt": "p", "score": 2}]`, `d.json[0]: there is no "gen"`},
	} {
		if _, err := tt.b.Load(protocol.Options{Data: benchtest.Write(t, "d.json", tt.data),
			Epsilon: math.NaN()}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.data, err, tt.want)
		}
	}
	if _, err := point.(protocol.Scorable).Items(); err == nil ||
		!strings.Contains(err.Error(), "in/0.png: the picture does not exist") {
		t.Error(err)
	}
}

// GenAI-Bench's captions are from its own columns, and its wanted results from ImagenHub, found by instruction and
// captions.
func TestGenAIBenchCaptionsAndTargets(t *testing.T) {
	const row = `{"vote_type": "leftvote", "instruct_prompt": "let it rain", "source_prompt": "a street", ` +
		`"target_prompt": "a street in rain", "source_image": "s.png", "left_output_image": "l.png", ` +
		`"right_output_image": "r.png"}`
	data := benchtest.Write(t, "test_v1.jsonl", row)
	hub := benchtest.Write(t, "dataset_lookup.json", `{"sample_1.jpg": {"instruction": "let it rain", `+
		`"source_global_caption": "a street", "target_global_caption": "a street in rain"}}`)
	s := benchtest.LoadSet(t, GenAIBench, protocol.Options{Data: data, Targets: filepath.Dir(hub)})
	items := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items())
	want := filepath.Join(filepath.Dir(hub), "GroundTruth", "sample_1.jpg")
	if len(items) != 2 || items[1].Texts[protocol.SourceCaption] != "a street" ||
		items[1].Texts[protocol.TargetCaption] != "a street in rain" ||
		protocol.PictureOf(items[1], "target").Path != want {
		t.Errorf("%+v", items)
	}
	clipT, _ := encoders.FindSimilarity("clip_t")
	if err := runner.SetCaptions(clipT, items, ""); err != nil {
		t.Error(err)
	}
	clipI, _ := encoders.FindSimilarity("clip_i")
	err := runner.SetCaptions(clipI, items, "")
	if err == nil || !strings.Contains(err.Error(), "sample_1.jpg: the picture does not exist") {
		t.Error(err)
	}
}

// Means over different methods have separate columns that name the methods, no difference, and no chance.
func TestMeansOverDifferentMethods(t *testing.T) {
	for _, tt := range []struct {
		b            *protocol.Benchmark
		o            protocol.Options
		number, what string
		model        func(s protocol.Set, i int) (protocol.Key, string)
	}{
		{ImagenHub, protocol.Options{Data: benchtest.Golden +
			"imagenhub"}, "published", "7 of 8 methods", func(s protocol.Set, i int) (protocol.Key, string) {
			k := s.(*hub).Keys[i]
			return k, k.Model
		}},
		{AuroraPoint, protocol.Options{Data: "../testdata"}, "per_model_mean", "of ",
			func(s protocol.Set, i int) (protocol.Key, string) {
				return s.(*aurora).Keys[i], s.(*aurora).Names[s.(*aurora).Group[i]]
			}},
	} {
		s := benchtest.LoadSet(t, tt.b, tt.o)
		var p *protocol.Ratings
		switch s := s.(type) {
		case *hub:
			p = &s.Ratings
		case *aurora:
			p = &s.Ratings
		}
		constant := func(model string) string { // is constant in one model
			var out strings.Builder
			for i := range p.Keys {
				key, m := tt.model(s, i)
				score := i * 37 % 11
				if m == model {
					score = 5
				}
				fmt.Fprintf(&out, "{\"id\": %q, \"model\": %q, \"score\": %d}\n", key.ID, key.Model, score)
			}
			return strings.ReplaceAll(out.String(), `, "model": ""`, "")
		}
		r := &report.Report{Benchmark: tt.b}
		for k, name := range []string{"a", "b"} {
			r.Add(name, benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, name+".jsonl",
				constant(p.Names[k])))))
		}
		r.Measure(s, 20, 1)
		if err := r.Compare(20, 1); err != nil {
			t.Fatal(err)
		}
		summary := r.Summary()
		for k := range 2 {
			at := slices.IndexFunc(summary.Columns, func(c string) bool {
				return strings.HasPrefix(c, tt.number+", the mean over ") && strings.Contains(c, tt.what) &&
					strings.HasSuffix(c, "(without "+p.Names[k]+")")
			})
			if at < 0 {
				t.Fatalf("%s: no column without %s: %q", tt.b.Name, p.Names[k], summary.Columns)
			}
			for _, row := range summary.Rows {
				if isIt := row.Name == []string{"a", "b"}[k]; math.IsNaN(row.Cells[at].Value) == isIt {
					t.Errorf("%s: %s in %s is %v", tt.b.Name, row.Name, summary.Columns[at], row.Cells[at].Value)
				}
			}
		}
		for _, d := range r.Comparison.Differences {
			if d.Number == tt.number {
				t.Errorf("%s: %+v", tt.b.Name, d)
			}
		}
	}
}

// TestAuroraInterval: four models that return the same edits add nothing to what is known of a judge, so its number and
// its interval stay. Resampled one by one, four times as many edits would make it half as wide.
func TestAuroraInterval(t *testing.T) {
	global := func(models int) (value float64, bounds stats.Interval) {
		var ratings []string
		var predictions strings.Builder
		for source := range 40 {
			for m := range models {
				ratings = append(ratings, fmt.Sprintf(`{"input": "in/%[1]d.png", "gen": "%[2]d/%[1]d.png", "prompt": "p", `+
					`"score": %[3]v, "model": "%[2]d"}`, source, m, float64(source*7%5)/2))
				fmt.Fprintf(&predictions, "{\"id\": \"%d/%d.png\", \"score\": %d}\n", m, source, (source*7%5+source*11%7)%10)
			}
		}
		data := benchtest.Write(t, "human_ratings_updated_prompt.json", "["+strings.Join(ratings, ", ")+"]")
		s := benchtest.LoadSet(t, AuroraPoint, protocol.Options{Data: filepath.Dir(data)})
		r := &report.Report{Benchmark: AuroraPoint}
		r.Add("judge", benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", predictions.String()))))
		r.Measure(s, 200, 1)
		summary := r.Summary()
		cell := summary.Rows[0].Cells[slices.Index(summary.Columns, "global")]
		return cell.Value, *cell.Bounds
	}
	one, want := global(1)
	four, got := global(4)
	if math.Abs(four-one) > 1e-9 || math.Abs(got.Low-want.Low) > 1e-9 || math.Abs(got.High-want.High) > 1e-9 {
		t.Errorf("four times the same edits: got %v [%v, %v], want %v [%v, %v] as once", four, got.Low, got.High, one,
			want.Low, want.High)
	}
}
