package registry

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/edit"
	"assay/encoders"
	"assay/internal/benchmarks/adiee"
	"assay/internal/benchmarks/aimbench"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/editors"
	"assay/internal/benchmarks/fedbench"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/report"
	"assay/internal/benchmarks/rewardbench"
	"assay/internal/benchmarks/runner"
)

// Published rows belong to benchmarks and numbers that exist, and those of AIM-Bench equal the golden ones.
func TestPublished(t *testing.T) {
	for _, b := range All() {
		for row := range strings.Lines(b.PublishedCSV) {
			name, _, _ := strings.Cut(row, ",")
			if of, err := Find(name); name != "benchmark" && (err != nil || len(of.Reported()) == 0) {
				t.Errorf("published.csv of %s: Find(%q) = %v, %v, want a benchmark with reported numbers", b.Name, name, of, err)
			}
		}
	}
	f := benchtest.Must[*os.File](t)(os.Open(benchtest.Golden + "aimbench/table1.csv"))
	defer f.Close()
	rows := benchtest.Must[[][]string](t)(csv.NewReader(f).ReadAll())
	if n := len(aimbench.Benchmark.Reported()); n != len(rows)-1 {
		t.Errorf("%d methods, want %d", n, len(rows)-1)
	}
	printedADIEE := map[string]float64{}
	for _, b := range []*protocol.Benchmark{adiee.ImagenHub, adiee.GenAIBench, adiee.AuroraPoint, adiee.AuroraPair} {
		i := slices.IndexFunc(b.Reported(), func(r protocol.Reported) bool { return r.Method == "ADIEE" })
		for _, n := range b.Reported()[i].Numbers {
			printedADIEE[b.Name] = n.Value
		}
	}
	for name, want := range map[string]float64{"imagenhub": 0.3450, "genaibench": 0.5996, "aurora-point": 0.4734,
		"aurora-pair": 0.5556} {
		benchtest.Near(t, name, printedADIEE[name], want, 0)
	}
}

// A component under two of its names is refused: one of the two would be ignored.
func TestComponentByTwoNames(t *testing.T) {
	set := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5})
	line := strings.Replace(benchtest.FedLines([]int{1}, 0), `"pq"`, `"PQ": 9, "pq"`, 1)
	if _, err := set.Read(benchtest.Write(t, "c.jsonl", line)); err == nil || !strings.Contains(err.Error(),
		"pq and PQ are both pq") {
		t.Error(err)
	}
	pair := `{"input": "i", "gens": ["a", "b"], "prompt": "p", "winner": "x", "models": ["x", null]}`
	if _, err := adiee.AuroraPair.Load(protocol.Options{Data: benchtest.Write(t, "a.json", pair)}); err == nil ||
		!strings.Contains(err.Error(),
			`models is ["x", null]: want a list of strings`) {
		t.Error(err)
	}
}

// A duplicate field, caption or file is refused: one of the two would be hidden, or count twice.
func TestSecondValues(t *testing.T) {
	edits := benchtest.LoadSet(t, aimbench.Benchmark, protocol.Options{Data: "../testdata"})
	for row, want := range map[string]string{
		`{"id": 0, "clip_t": 0.2, "clip_t": 0.9}`: `a second "clip_t"`,
		`{"id": 0, "clip_t": 0.2} {"id": 1}`:      "want a JSON object",
		`{"id": 0, "cilp_t": 0.2}`:                "it has no component",
		`["id"]`:                                  "want a JSON object",
	} {
		if _, err := edits.Read(benchtest.Write(t, "p.jsonl", row)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", row, err)
		}
	}
	items := []*edit.Edit{{ID: "a"}}
	protocol.SetCaptions(items[0], [2]string{"x", "y"})
	kind, _ := encoders.FindSimilarity("clip_t")
	for text, want := range map[string]string{
		`{"id": "a", "target_caption": "y"}` + "\n" + `{"id": "a", "target_caption": "z"}`: `second captions for "a"`,
		`{"id": "b", "target_caption": "y"}`:                                               `"b" is not an item of the data`,
	} {
		if err := runner.SetCaptions(kind, items, benchtest.Write(t, "c.jsonl", text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	raw := benchtest.Must[[]byte](t)(os.ReadFile("../testdata/editscore.parquet"))
	dir := t.TempDir()
	for _, name := range []string{"a.parquet", "b.parquet"} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rewardbench.EditRewardBench.Load(protocol.Options{Data: dir}); err == nil ||
		!strings.Contains(err.Error(), "are identical") {
		t.Errorf("a table and its copy: %v", err)
	}
}

// So is a duplicate field of a nested object, whose second value would hide the first.
func TestSecondNamesWithin(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("K/biology/annotation.json", `{"1": {"ori_img": "1.jpg", "ins_en": "a"}}`)
	put("I/basic_edit.json", `{"1": {"id": "a.png", "prompt": "p", "edit_type": "add"}}`)
	put("M/biology/metrics.json", `{"1": {"consistency_score": 5, "consistency_score": 1}}`)
	put("M/result.json", `{"1": "A: 1\nB: 1\nC: 1", "1": "A: 5\nB: 5\nC: 5"}`)
	put("K2/biology/annotation.json",
		`{"1": {"ori_img": "1.jpg", "ins_en": "a"}, "1": {"ori_img": "2.jpg", "ins_en": "b"}}`)
	put("I2/basic_edit.json", `{"1": {"id": "a.png", "prompt": "p", "edit_type": "add", "prompt": "q"}}`)
	put("R/data_total.json", `[{"index": "t1", "category": "causal_reasoning", "category": "temporal_reasoning"}]`)
	put("M/eval/aesthetic.json", `[{"name": "o0_edited_amusement.png", "score": 3, "score": 9}]`)
	put("N/eval/evaluation_scores.json", `[{"edited_filename": "o0_edited_amusement.png", "sc_scores": [8, null]}]`)
	in := func(name string) string { return filepath.Join(dir, name) }
	read := func(s protocol.Set, err error, path string) error {
		if err == nil {
			_, err = s.Read(path)
		}
		return err
	}
	kris, err1 := editors.KRISBench.Load(protocol.Options{Data: in("K")})
	edits, err2 := editors.ImgEditBench.Load(protocol.Options{Data: in("I")})
	aim, err3 := aimbench.Benchmark.Load(protocol.Options{Data: "../testdata"})
	_, err4 := editors.KRISBench.Load(protocol.Options{Data: in("K2")})
	_, err5 := editors.ImgEditBench.Load(protocol.Options{Data: in("I2")})
	_, err6 := editors.RISEBench.Load(protocol.Options{Data: in("R")})
	_, err7 := editors.RISEBench.Load(protocol.Options{Data: benchtest.Write(t, "data_total.json", `[{"index": 7}]`)})
	for want, err := range map[string]error{
		`metrics.json: a second "consistency_score"`:      read(kris, err1, in("M")),
		`result.json: a second "1"`:                       read(edits, err2, in("M")),
		`aesthetic.json: a second "score"`:                read(aim, err3, in("M")),
		`sub-scores contains null: want finite numbers`:   read(aim, err3, in("N")),
		`annotation.json: a second "1"`:                   err4,
		`basic_edit.json: a second "prompt"`:              err5,
		`data_total.json: a second "category"`:            err6,
		`Index is of type number: want [{index, category`: err7,
		`a second "valence"`: read(aim, err3, benchtest.Write(t, "c.jsonl",
			`{"id": 0, "vad": {"valence": 5, "arousal": 5, "dominance": 5, "valence": 1}}`)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A row that the data have twice counts twice, with a note. Values that are empty, or given for only some rows, are
// refused.
func TestRepeatedRows(t *testing.T) {
	const a = `{"input": "i", "prompt": "p", "gen": "g", "score": 2, "model": "m"}`
	other := func(old, new string) string { return strings.Replace(a, old, new, 1) }
	for text, want := range map[string]string{
		"[" + a + "," + a + "," + other(`"g"`, `"h"`) + "]": "",
		"[" + a + "," + other(`, "model": "m"`, "") + "]":   "d.json[1]: either this row or row 0 has a model",
		"[" + other(`"g"`, `""`) + "]":                      "d.json[0]: gen is empty",
		"[" + other(`"i"`, `" "`) + "]":                     "d.json[0]: input is empty",
	} {
		set, err := adiee.AuroraPoint.Load(protocol.Options{Data: benchtest.Write(t, "d.json", text)})
		if want != "" || err != nil {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		p := benchtest.Must[protocol.Predictions](t)(set.Read(benchtest.Write(t, "p.jsonl", `{"id": 0, "score": 1}`)))
		if notes := strings.Join(p.Result().Notes, "; "); !strings.Contains(notes,
			"1 of 3 rows of the data are duplicates") {
			t.Errorf("%s: notes %q", text, notes)
		}
	}
	const pair = `{"dimension": "IA", "source_image": "s", "prompt": "p", "winner": "w", "loser": "l", "label": "tie"}`
	set := benchtest.LoadSet(t, rewardbench.EditRewardCompass,
		protocol.Options{Data: benchtest.Write(t, "reward_eval.json", "["+pair+","+pair+"]")})
	p := benchtest.Must[protocol.Predictions](t)(set.Read(benchtest.Write(t, "p.jsonl",
		`{"id": 0, "left": 1, "right": 1}`)))
	if notes := strings.Join(p.Result().Notes, "; "); !strings.Contains(notes, "1 of 2 rows of the data") {
		t.Errorf("notes %q", notes)
	}
	fed := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5})
	line := strings.Replace(benchtest.FedLines([]int{1}, 0), `"pq"`, `"clip_i": "0.7", "pq"`, 1)
	if _, err := fed.Read(benchtest.Write(t, "c.jsonl", line)); err == nil ||
		!strings.Contains(err.Error(), `clip_i is "0.7"`) {
		t.Error(err)
	}
}

func TestEditorsOfOneName(t *testing.T) {
	for _, b := range []*protocol.Benchmark{fedbench.Benchmark, aimbench.Benchmark} {
		_, err := b.Load(protocol.Options{Data: "../testdata", BGNorm: "exp:2", Sigma: 0.5, Editors: []string{"ed/A",
			"ed2/A/"}})
		if err == nil || !strings.Contains(err.Error(), "--editors ed/A and ed2/A/ are both called A") {
			t.Errorf("%s: %v", b.Name, err)
		}
	}
}

// Values in another unit are refused with the measure's name.
func TestRanges(t *testing.T) {
	aimSet := benchtest.LoadSet(t, aimbench.Benchmark, protocol.Options{Data: "../testdata"})
	fedSet := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5})
	fed := func(field, value string) string {
		line := `{"sample": "s", "id": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
			`"lpips_src_gt": 0.1}`
		at := strings.Index(line, `"`+field+`":`) + len(field) + 4
		return line[:at] + value + line[at+strings.IndexAny(line[at:], ",}"):]
	}
	for _, tt := range []struct {
		s          protocol.Set
		line, want string
	}{
		{aimSet, `{"id": 0, "clip_t": 25}`, "c.jsonl:1: clip_t is 25: want a number from -1 to 1"},
		{aimSet, `{"id": 0, "sc": [80, 9]}`, "sc is 80: want a number from 0 to 10"},
		{aimSet, `{"id": 0, "s_sm": -1, "s_vs": 1}`, "s_sm is -1"},
		{aimSet, `{"id": 0, "vad": [0.5, 0.5, 0.5]}`, "valence is 0.5: want a number from 1 to 9"},
		{fedSet, fed("lpips_src_trg", "-3"), "lpips_src_trg is -3: want 0 or more"},
		{fedSet, fed("pq", "97"), "pq is 97: want a number from 0 to 10"},
		{fedSet, fed("id", "58"), "id is 58: want a number from -1 to 1"},
		{fedSet, fed("bg_rmse", "300"), "bg_rmse is 300"},
	} {
		if _, err := tt.s.Read(benchtest.Write(t, "c.jsonl", tt.line)); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n got %v\nwant %s", tt.line, err, tt.want)
		}
	}
	const means = "method,clip_t,sc,aesthetic,pq,s_gtc,acc,f1,d_vad\na,22,8,5,7,7,60,60,2.5\n"
	if _, err := aimbench.Benchmark.Means(benchtest.Write(t, "m.csv", means)); err == nil ||
		!strings.Contains(err.Error(), "m.csv:2: clip_t is 22") {
		t.Error(err)
	}
}

// Halves from two judges are not one judge's number, in any benchmark of editors or in a ranking.
func TestRunsDoNotMix(t *testing.T) {
	half := func(id, field string) string { return fmt.Sprintf(`{%q: %q, "model": "M", "score": 3}`, field, id) }
	brush := benchtest.LoadSet(t, editors.MagicBrush,
		protocol.Options{Data: benchtest.GradedFolder(t, 2)}).(protocol.Mixed)
	data := benchtest.Write(t, "t.jsonl", `{"sample": "s1", "source": "a.png", "gt": "a.png"}`+"\n"+
		`{"sample": "s2", "source": "a.png", "gt": "a.png"}`)
	fed := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{Data: data, BGNorm: "linear:255",
		Sigma: 0.5}).(protocol.Mixed)
	sets := map[string]struct {
		set   protocol.Mixed
		ids   [2]string
		field string
	}{"magicbrush": {brush, [2]string{"7/1", "7/2"}, "id"}, "fed-bench": {fed, [2]string{"s1", "s2"}, "sample"}}
	for name, tt := range sets {
		one, two := half(tt.ids[0], tt.field), half(tt.ids[1], tt.field)
		a := benchtest.RunFolder(t, "aaaaaaaaaaaa", one)
		for _, other := range []string{benchtest.RunFolder(t, "bbbbbbbbbbbb", two), benchtest.Write(t, "p.jsonl",
			two)} {
			if _, err := tt.set.ReadAll([]string{a, other}); err == nil || !strings.Contains(err.Error(),
				"from aaaaaaaa before: want one judge") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := tt.set.ReadAll([]string{a, benchtest.RunFolder(t, "aaaaaaaaaaaa", two)}); err != nil {
			t.Errorf("%s: two parts of one run: %v", name, err)
		}
	}
	rows := func(model string) string { return `{"id": "1", "model": "` + model + `", "score": 3}` }
	a, b := benchtest.RunFolder(t, "aaaaaaaaaaaa", rows("A")), benchtest.RunFolder(t, "bbbbbbbbbbbb", rows("B"))
	if _, err := report.ReadScores([]string{a, b}, "score", false); err == nil ||
		!strings.Contains(err.Error(), "one judge") {
		t.Error(err)
	}
	if _, err := report.ReadScores([]string{a, benchtest.RunFolder(t, "aaaaaaaaaaaa", rows("B"))}, "score",
		false); err != nil {
		t.Error(err)
	}
	by := func(model, metric string) string {
		return `{"id": "1", "model": "` + model + `", "score": 3, "by": {"score": "` + metric + `"}}`
	}
	if _, err := report.ReadScores([]string{benchtest.Write(t, "a.jsonl", by("A", "x")+"\n"+by("B", "y"))}, "score",
		false); err == nil {
		t.Error("two metrics in one ranking")
	}
}

// A stated number must be on its scale, and must not contradict the numbers that it is derived from.
func TestStatedNumbers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"gedit.jsonl": `{"task_type": "ps_human", "key": "k", "instruction": "x", "instruction_language": "en", ` +
			`"input_image_raw": "a.png"}`,
		"datav2_total_w_subtask.json": `[{"index": "i", "category": "causal_reasoning", ` +
			`"instruction": "x", "image": "a.png"}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	kris := t.TempDir()
	if err := os.MkdirAll(filepath.Join(kris, "biology"), 0o777); err != nil {
		t.Fatal(err)
	}
	annotation := filepath.Join(kris, "biology", "annotation.json")
	if err := os.WriteFile(annotation, []byte(`{"1": {"ori_img": "1.jpg", "ins_en": "x"}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	sets := map[string]protocol.Set{
		"gedit": benchtest.LoadSet(t, editors.GEditBench, protocol.Options{Data: filepath.Join(dir, "gedit.jsonl")}),
		"rise":  benchtest.LoadSet(t, editors.RISEBench, protocol.Options{Data: dir}), "kris": benchtest.LoadSet(t,
			editors.KRISBench, protocol.Options{Data: kris}),
		"brush": benchtest.LoadSet(t, editors.MagicBrush, protocol.Options{Data: benchtest.GradedFolder(t, 2)}),
		"fed":   benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{BGNorm: "linear:255", Sigma: 0.5}),
	}
	for _, tt := range []struct{ set, row, want string }{
		{"gedit", `{"id": "k", "score": 80}`, "score is 80"},
		{"gedit", `{"id": "k", "G_O": 75}`, "G_O is 75"},
		{"gedit", `{"id": "k", "semantic": 4, "perceptual": 9, "G_O": 8}`, "its other numbers imply 6"},
		{"gedit", `{"id": "k", "semantic": 4, "perceptual": 8, "G_O": 5.66}`, ""},
		{"rise", `{"id": "i", "score": 80}`, "score is 80"},
		{"rise", `{"id": "i", "rise": 101}`, "rise is 101"},
		{"rise", `{"id": "i", "reasoning": 5, "consistency": 5, "plausibility": 5, "rise": 50}`, "imply 100"},
		{"kris", `{"id": "biology/1", "kris": 50}`, "kris is computed from VC, VQ, IF, KP"},
		{"brush", `{"id": "7/1", "lpips": -3, "by": {"lpips": "v1"}}`, "lpips is -3"},
		{"brush", `{"id": "7/1", "dino_i": 25, "by": {"dino_i": "x"}}`, "dino_i is 25"},
		{"fed", strings.Replace(benchtest.FedLines([]int{1}, 0), "{", `{"clip_t": 25, `, 1), "clip_t is 25"},
		{"fed", strings.Replace(benchtest.FedLines([]int{1}, 0), "{", `{"lpips_face": -3, `, 1), "lpips_face is -3"},
	} {
		_, err := sets[tt.set].Read(benchtest.Write(t, "p.jsonl", tt.row))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %s: %v, want %q", tt.set, tt.row, err, tt.want)
		}
	}
}

// Values that the data cannot have are refused with their name.
func TestRefusedValues(t *testing.T) {
	fedLine := `{"sample": "a", "id": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
		`"lpips_src_gt": 0.1, %s}`
	fedRead := func(tag string) error {
		s := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{BGNorm: "exp:2", Sigma: 0.5})
		_, err := s.Read(benchtest.Write(t, "c.jsonl", fmt.Sprintf(fedLine, tag)))
		return err
	}
	human := func(text string) error {
		s := benchtest.LoadSet(t, fedbench.Benchmark, protocol.Options{BGNorm: "exp:2", Sigma: 0.5,
			Human: benchtest.Write(t, "h.jsonl", text)})
		p, err := s.Read(benchtest.Write(t, "c.jsonl", fmt.Sprintf(fedLine, `"score": 1`)))
		if err != nil {
			return err
		}
		return fmt.Errorf("%v", p.Result().Failed)
	}
	load := func(b *protocol.Benchmark, name, text string) error {
		_, err := b.Load(protocol.Options{Data: benchtest.Write(t, name, text)})
		return err
	}
	means := func(rows string) error {
		_, err := aimbench.Benchmark.Means(benchtest.Write(t, "m.csv",
			"method,clip_t,sc,aesthetic,pq,s_gtc,acc,f1,d_vad\n"+rows))
		return err
	}
	const point = `{"input": "i", "gen": "g", "prompt": "p", "model": "m", "score": %s}`
	for want, err := range map[string]error{
		`the instructions are "Dense ": want one of dense, simple`: fedRead(`"instructions": "Dense "`),
		`the instructions are "x": want one of dense, simple`:      fedRead(`"model": "m/x"`),
		`the expression is "hapy": want one of angry, disgust`:     fedRead(`"expression": "hapy"`),
		`h.jsonl:1: quality is "good": want a finite number`:       human(`{"sample": "a", "quality": "good"}`),
		`h.jsonl has no ratings of these samples`:                  human(`{"sample": "a", "expression": "sad"}`),
		`score is 3: want a number from 0 to 2`: load(adiee.AuroraPoint, "a.json",
			fmt.Sprintf(point, "3")),
		`score is -1: want a number from 0 to 2`: load(adiee.AuroraPoint, "a.json",
			fmt.Sprintf(point, "-1")),
		`both models are called "x"`: load(adiee.AuroraPair, "a.json",
			`{"input": "i", "gens": ["a", "b"], "prompt": "p", `+
				`"winner": "x", "models": ["x", "x"]}`),
		`m.csv:2: sc is "NaN": want a finite number`:         means("A,0.2,NaN,5,7,7,50,50,2.5"),
		`m.csv:3: a second row of "A" (the first is line 2)`: means("A,0.2,7,5,7,7,50,50,2.5\nA,0.2,7,5,7,7,50,50,2.5"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
