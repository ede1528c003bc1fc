package score

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/internal/testfile"
)

// publishedFixtures are the results of the benchmark authors' programs for made-up answers
// (tools/oracle/published.py).
type publishedFixtures struct {
	RISE struct {
		Data, Lines []map[string]any
		Judges      map[string]map[string]any
		Expect      map[string]float64
	}
	KRIS struct {
		Annotations map[string]map[string]map[string]any
		Results     map[string]map[string]map[string]any
		Expect      map[string]float64
	}
	Compass struct {
		Data    []map[string]any
		Scores  [][2]float64
		Expect  map[string]float64
		Correct int
	}
}

func readPublished(t *testing.T) (f publishedFixtures) {
	t.Helper()
	testfile.ReadJSON(t, "../../../internal/benchmarks/testdata/published.json", &f)
	return f
}

// jsonLines encodes values as JSON lines.
func jsonLines[T any](t *testing.T, list []T) []byte {
	t.Helper()
	var out []byte
	for _, v := range list {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, raw...), '\n')
	}
	return out
}

// TestRISEAsPublished: the means and accuracies equal those of the authors' current program, and answers that are not
// required do not count as missing.
func TestRISEAsPublished(t *testing.T) {
	f, dir := readPublished(t).RISE, t.TempDir()
	put(t, dir, "datav2_total_w_subtask.json", f.Data)
	put(t, dir, "c.jsonl", jsonLines(t, f.Lines))
	v := benchJSON(t, "rise-bench", "--ratings", dir, "--components", filepath.Join(dir, "c.jsonl"), "--resamples", "20")
	expectNumbers(t, numbersOf(v), f.Expect, 1e-9)
	if n, missing := v["n"].(float64), v["missing"].([]any); int(n) != len(f.Lines) || len(missing) != 0 {
		t.Errorf("n %v, missing %v: no number is absent that is asked for", n, missing)
	}
	put(t, dir, "less.jsonl", jsonLines(t, f.Lines[1:]))
	v = benchJSON(t, "rise-bench", "--ratings", dir, "--components", filepath.Join(dir, "less.jsonl"), "--resamples", "20")
	if missing := v["missing"].([]any); len(missing) != 1 {
		t.Errorf("missing %v, want one sample", missing)
	}
}

// krisFolders writes KRIS-Bench's folders and an editor's results.
func krisFolders(t *testing.T, f publishedFixtures, dir string) {
	t.Helper()
	for category, entries := range f.KRIS.Annotations {
		put(t, dir, "KRIS_Bench/"+category+"/annotation.json", entries)
		put(t, dir, "M/"+category+"/metrics.json", f.KRIS.Results[category])
	}
}

// TestKRIS: the files that the authors' programs wrote for an editor result in the published means.
func TestKRIS(t *testing.T) {
	f, dir := readPublished(t), t.TempDir()
	krisFolders(t, f, dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	v := benchJSON(t, "kris-bench", "--ratings", in("KRIS_Bench"), "--editors", in("M"), "--resamples", "20")
	got := numbersOf(v)
	for name, x := range got { // two numbers are absent, so the coverage of some is in their names
		base, _, _ := strings.Cut(name, " (")
		got[base] = x
	}
	expectNumbers(t, got, f.KRIS.Expect, 1e-9)
	if missing := fmt.Sprint(v["missing"]); !strings.Contains(missing, "biology/1") ||
		!strings.Contains(missing, "physics/2") || strings.Count(missing, "id:") != 2 {
		t.Errorf("missing %s", missing)
	}
	for row, want := range map[string]string{
		`{"id": "color_change/1", "model": "M", "knowledge": 3}`: "color_change/1 has no KP",
		`{"id": "biology/1", "model": "M", "quality": 0}`:        "VQ is 0",
		`{"id": "biology/99", "model": "M", "quality": 1}`:       `"biology/99" is not a sample`,
	} {
		put(t, dir, "bad.jsonl", []byte(row))
		code, stdout, stderr := bench("kris-bench", "--ratings", in("KRIS_Bench"), "--components", in("bad.jsonl"))
		if code == 0 || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit code %d, %s%s, want %q", row, code, stdout, stderr, want)
		}
	}
}

// TestEditRewardCompass: the accuracies equal those of the authors' program.
func TestEditRewardCompass(t *testing.T) {
	f, dir := readPublished(t).Compass, t.TempDir()
	put(t, dir, "reward_eval.json", f.Data)
	var lines []map[string]any
	for i, s := range f.Scores {
		lines = append(lines, map[string]any{"id": fmt.Sprint(i), "left": s[0], "right": s[1]})
	}
	put(t, dir, "p.jsonl", jsonLines(t, lines))
	v := benchJSON(t, "editreward-compass", "--ratings", dir, "--predictions", filepath.Join(dir, "p.jsonl"),
		"--resamples", "20")
	f.Expect["all"] = float64(f.Correct) / float64(len(f.Data))
	expectNumbers(t, numbersOf(v), f.Expect, 1e-12)
	put(t, dir, "half.jsonl", jsonLines(t, lines[:30]))
	v = benchJSON(t, "editreward-compass", "--ratings", dir, "--predictions", filepath.Join(dir, "half.jsonl"),
		"--resamples", "20")
	for name := range numbersOf(v) {
		if !strings.Contains(name, "% of") {
			t.Errorf("%q does not tell that it covers half of the pairs", name)
		}
	}
}

// TestPublishedQuestions: the judges with the authors' own questions ask what belongs to a sample's kind, and read
// the answers in the format of these questions.
func TestPublishedQuestions(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	picture, err := os.ReadFile(filepath.Join(oracle.Folders(t)[0], "images", "coffee.png"))
	if err != nil {
		t.Fatal(err)
	}
	copyOf := func(prompts string) []byte { // a missing copy of the code: name:marks
		text := ""
		for _, p := range strings.Fields(prompts) {
			name, marks, _ := strings.Cut(p, ":")
			text += "prompt_" + name + ` = "prompt_` + name
			for _, m := range strings.FieldsFunc(marks, func(r rune) bool { return r == ',' }) {
				text += " {" + m + "}"
			}
			text += "\"\n"
		}
		return []byte(text)
	}
	judged := func(args ...string) map[string]any {
		return benchJSON(t, append(args, "--model", "m", "--store", in("answers"), "--resamples", "20")...)
	}
	put(t, dir, "img/basic_edit.json", map[string]any{
		"1": map[string]string{"id": "a.png", "prompt": "one", "edit_type": "add"},
		"2": map[string]string{"id": "a.png", "prompt": "two", "edit_type": "style"}})
	put(t, dir, "img/original_images/a.png", picture)
	put(t, dir, "img/M/1.png", picture)
	put(t, dir, "img/M/2.png", picture)
	prompts := map[string]string{}
	for _, kind := range strings.Fields("action add adjust background compose extract remove replace style") {
		prompts[kind] = "kind " + kind + ": <edit_prompt>"
	}
	put(t, dir, "ImgEdit/Benchmark/Basic/prompts.json", prompts)
	url := answering(t, func(body string) string {
		switch {
		case strings.Contains(body, "kind add: one"):
			return "Brief reasoning: so.\nPrompt Compliance: 5\nVisual Naturalness: 4\nPhysical Detail: 4"
		case strings.Contains(body, "kind style: two"):
			return "Style Fidelity: 2\nContent Preservation: 1\nRendering Quality: 1\n"
		}
		return "?"
	})
	v := judged("imgedit-bench", "--url", url, "--ratings", in("img"), "--editors", in("img/M"), "--judge",
		"imgedit/published", "--prompts", in("ImgEdit"), "--out", in("img/run"))
	expectNumbers(t, numbersOf(v), map[string]float64{"published: all": (4.33 + 1.33) / 2,
		"score: all": (13.0/3 + 4.0/3) / 2}, 1e-9)

	put(t, dir, "RISE/utils.py", copyOf(`consist:instruct spatial_cons:instruct logical_cons_ans:instruct,reference
		logical_cons:instruct reasoning:instruct,reference reasoning_w_input:instruct,reference
		spatial_ref:instruct,reference spatial_ref_w_input:instruct,reference spatial_ref_img:instruct
		logical_txt:reference logical_img:instruct logical_img_wo_q: generation: spatial_qual:`))
	sample := func(category string, n int, more map[string]any) map[string]any {
		out := map[string]any{"index": fmt.Sprintf("%s_%d", category, n), "category": category,
			"instruction": fmt.Sprint("do ", n), "image": "a.png"}
		maps.Copy(out, more)
		return out
	}
	samples := []map[string]any{
		sample("temporal_reasoning", 1, map[string]any{"reference": "rot"}),
		sample("causal_reasoning", 2, map[string]any{"reference": "wet", "reasoning_img": 1, "consistency_free": true}),
		sample("spatial_reasoning", 3, map[string]any{"reference_img": "a.png"}),
		sample("logical_reasoning", 4, map[string]any{"reference_txt": "seven"}),
		sample("logical_reasoning", 5, map[string]any{"reference_img": "a.png"}),
	}
	put(t, dir, "rise/datav2_total_w_subtask.json", samples)
	put(t, dir, "rise/a.png", picture)
	for _, s := range samples {
		put(t, dir, fmt.Sprintf("rise/M/images/%s/%s.png", s["category"], s["index"]), picture)
	}
	url = answering(t, func(body string) string {
		for said, words := range map[string]string{ // each is asked once, with the pictures that it shows
			"4": "prompt_consist do 1|2", "3": "prompt_reasoning do 1 rot|1", "2": "prompt_generation|1",
			"1": "prompt_reasoning_w_input do 2 wet|2", "5": "prompt_spatial_cons do 3|2",
			"**5**": "prompt_spatial_ref_img do 3|2", "** 4": "prompt_spatial_qual|1",
			"1.":    "prompt_logical_cons_ans do 4 seven|2",
			"**1**": "prompt_logical_txt seven|1", "0": "prompt_logical_cons do 5|2", "**0**": "prompt_logical_img do 5|2",
		} {
			text, pictures, _ := strings.Cut(words, "|")
			if strings.Contains(body, `"`+text+`"`) && fmt.Sprint(strings.Count(body, "image_url\":{")) == pictures {
				return "Step by step.\n**Final Score:** " + said
			}
		}
		return "? " + body[:min(len(body), 300)]
	})
	v = judged("rise-bench", "--ratings", in("rise"), "--editors", in("rise/M"), "--judge", "rise", "--prompts",
		in("RISE"), "--out", in("rise/run"), "--url", url)
	rise := func(s float64) float64 { return 25 * (s - 1) }
	expectNumbers(t, numbersOf(v), map[string]float64{
		"rise: temporal": rise(0.3*4 + 0.5*3 + 0.2*2), "rise: causal": rise(max(1, (0.2*2+0.8*1)/2)),
		"rise: spatial": rise(0.3*5 + 0.5*5 + 0.2*4), "rise: logical": (rise(5) + rise(1)) / 2,
		"reasoning: logical": 3, "accuracy since 2026-04: logical": 50}, 1e-9)

	put(t, dir, "Bagel/eval/gen/kris/prompts.py", copyOf(`consist:instruct instruction_following:instruct
		view_instruction_following:instruct dual_evaluation:instruct,explanation quality:`))
	entry := map[string]any{
		"1": map[string]string{"ori_img": "a.png", "gt_img": "a.png", "ins_en": "do", "explain_en": "so"},
	}
	for _, category := range []string{"color_change", "viewpoint_change", "biology"} {
		put(t, dir, "kris/"+category+"/annotation.json", entry)
		put(t, dir, "kris/"+category+"/a.png", picture)
		put(t, dir, "kris/M/"+category+"/1.png", picture)
	}
	url = answering(t, func(body string) string {
		edited, truth := strings.Contains(body, "This is the edited image:"), strings.Contains(body, "ground truth image:")
		switch {
		case strings.Contains(body, `"prompt_consist do"`) && edited && !truth:
			return `{"consistency_score": 5, "reasoning": "so",}`
		case strings.Contains(body, `"prompt_instruction_following do"`) && !truth:
			return `{"instruction_score": 4}`
		case strings.Contains(body, `"prompt_view_instruction_following do"`) && truth:
			return `{"instruction_score": 3}`
		case strings.Contains(body, `"prompt_dual_evaluation do so"`):
			return `{"instruction_score": 2, "knowledge_score": 1}`
		case strings.Contains(body, `"prompt_quality"`) && !strings.Contains(body, "original image:"):
			return `{"quality_score": 5}`
		}
		return "?"
	})
	v = judged("kris-bench", "--ratings", in("kris"), "--editors", in("kris/M"), "--judge", "kris", "--prompts",
		in("Bagel"), "--out", in("kris/run"), "--url", url)
	expectNumbers(t, numbersOf(v), map[string]float64{"kris: attribute perception": 275.0 / 3,
		"kris: spatial perception": 250.0 / 3, "kris: natural science": 225.0 / 4, "KP: overall": 0,
		"kris: overall": 750.0 / 10}, 1e-9)
	code, stdout, stderr := bench("kris-bench", "--ratings", in("kris"), "--editors", in("kris/M"), "--judge", "kris",
		"--url", url, "--model", "m")
	if code != 2 || !strings.Contains(stdout+stderr, "its prompt is only in the authors' code") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// TestEmuEdit: similarities of the published tables' pictures, Emu Edit's own outputs and an editor's, equal those of
// transformers' CLIP (metrics/testdata/models.json), and l1_source is computed from the pixels.
func TestEmuEdit(t *testing.T) {
	var f struct {
		LongCLIP struct {
			Texts     map[string]string
			Direction struct{ Unit, Image float64 }
		}
	}
	testfile.ReadJSON(t, "../../../metrics/testdata/models.json", &f)
	clip := filepath.Join(packed.Unpack(t, "../../../metrics/testdata/models.zip"), "longclip")
	images, dir := filepath.Join(oracle.Folders(t)[0], "images"), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	row := map[string]any{
		"instruction":    "make it purple",
		"image":          "astronaut.png",
		"task":           "global",
		"split":          "test",
		"idx":            7,
		"hash":           "x",
		"input_caption":  f.LongCLIP.Texts["before"],
		"output_caption": f.LongCLIP.Texts["after"],
		"edited_image":   "astronaut_purple.png",
		"model":          "emu",
	}
	other := maps.Clone(row)
	other["model"], other["edited_image"] = "still", "astronaut.png"
	put(t, dir, "data.jsonl", jsonLines(t, []map[string]any{row, other})) // a row for each model
	unedited, err := os.ReadFile(filepath.Join(images, "astronaut.png"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "Lazy/test/7.png", unedited)
	for name, of := range map[string]string{"clip_im": "[edit, source]",
		"clip_dir": "[edit, source, caption, source_caption]\nunit: true"} {
		put(t, dir, name+".yaml", []byte("format: 1\nname: "+name+"\nencoder: "+clip+"\nof: "+of+"\n"))
	}
	v := benchJSON(
		t,
		"emu-edit",
		"--ratings",
		in("data.jsonl"),
		"--images",
		images,
		"--editors",
		in("Lazy"),
		"--component",
		"l1_source,"+in("clip_im.yaml")+","+in("clip_dir.yaml"),
		"--out",
		in("run"),
		"--resamples",
		"20",
	)
	systems := map[string]map[string]float64{}
	for _, s := range v["systems"].([]any) {
		one := s.(map[string]any)
		systems[one["name"].(string)] = numbersOf(one)
	}
	expectNumbers(t, systems["emu"], map[string]float64{"clip_im: test": f.LongCLIP.Direction.Image,
		"clip_dir: test": f.LongCLIP.Direction.Unit}, 1e-5)
	expectNumbers(
		t,
		systems["Lazy"],
		map[string]float64{"clip_im: test": 1, "clip_dir: test": 0, "l1_source: test": 0},
		1e-6,
	)
	expectNumbers(t, systems["still"], systems["Lazy"], 0)
	if l1 := systems["emu"]["l1_source: test"]; !(l1 > 0 && l1 < 1) {
		t.Errorf("l1_source is %v", l1)
	}
}

// TestRPMModify: FED-Bench's RPM-Modify is the directional similarity of the pictures in their boxes and the
// triplet's captions. It equals that of transformers if the boxes cover everything, and otherwise uses only what they
// cover.
func TestRPMModify(t *testing.T) {
	var f struct {
		LongCLIP struct {
			Texts     map[string]string
			Direction struct{ Raw float64 }
		}
	}
	raw, err := os.ReadFile("../../../metrics/testdata/models.json")
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil || f.LongCLIP.Direction.Raw == 0 {
		t.Fatal(err, f)
	}
	clip := filepath.Join(packed.Unpack(t, "../../../metrics/testdata/models.zip"), "longclip")
	images, dir := filepath.Join(oracle.Folders(t)[0], "images"), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	put(t, dir, "triplets.jsonl", map[string]any{
		"sample":            "s",
		"source":            "astronaut.png",
		"gt":                "astronaut.png",
		"dense_instruction": "make it purple",
		"source_caption":    f.LongCLIP.Texts["before"],
		"caption":           f.LongCLIP.Texts["after"],
	})
	edited, err := os.ReadFile(filepath.Join(images, "astronaut_purple.png"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "M/dense/s.png", edited)
	put(t, dir, "rpm.yaml", []byte("format: 1\nname: rpm_modify\nencoder: "+clip+
		"\nof: [edit, source, caption, source_caption]\nprepare: {box: true}\n"))
	put(t, dir, "judged.jsonl", map[string]any{"sample": "s", "method": "M", "instructions": "dense", "pq": 5})
	measure := func(box string) float64 {
		t.Helper()
		put(t, dir, "boxes.jsonl", []byte(`{"id": "s", "picture": "source", "box": `+box+`}`+"\n"+
			`{"id": "s", "model": "M/dense", "box": `+box+`}`))
		benchJSON(t, "fed-bench", "--ratings", in("triplets.jsonl"), "--images", images, "--editors", in("M"), "--boxes",
			in("boxes.jsonl"), "--component", in("rpm.yaml"), "--components", in("judged.jsonl"), "--out", in("run"+box),
			"--resamples", "0")
		var line struct {
			Value float64 `json:"rpm_modify"`
		}
		testfile.ReadJSON(t, in("run"+box+"/component-rpm_modify.jsonl"), &line)
		return line.Value
	}
	whole, part := measure("[0, 0, 99999, 99999]"), measure("[0, 0, 60, 60]")
	if !(math.Abs(whole-f.LongCLIP.Direction.Raw) <= 1e-5) || !(math.Abs(part-whole) >= 1e-4) {
		t.Errorf("%v, want %v; of a part %v", whole, f.LongCLIP.Direction.Raw, part)
	}
}
