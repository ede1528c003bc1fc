package benchmarks

import (
	"fmt"
	"strings"
	"testing"
)

// A file that answers some pairs and scores others is refused, since either rule would take half of it for missing.
func TestAnswersAndScoresMixed(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
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
	_, err := s.Read(write(t, "mixed.jsonl", mixed.String()))
	for _, want := range []string{"mixed.jsonl:1: the pair 0 has an answer and no scores", "and 20 more problems"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r := must[Predictions](t)(s.Read(write(t, "both.jsonl", both.String()))).Result()
	if r.N != 40 || len(r.Numbers) != 4 {
		t.Errorf("%d pairs, numbers %v", r.N, r.Numbers)
	}
}

// No answer is missing, an unknown one is told; the official rule counts both as wrong.
func TestAnswersThatAreNone(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	var lines strings.Builder
	for i := range 40 {
		answer := []string{"null", `"perhaps"`, `"A>B"`, `"B>A"`}[min(i, 2+i%2)]
		fmt.Fprintf(&lines, `{"id": %d, "answer": %s}`+"\n", i, answer)
	}
	r := must[Predictions](t)(s.Read(write(t, "a.jsonl", lines.String()))).Result()
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"official: 1 of 40 pairs have no answer, which counts as wrong",
		`official: 1 answers are unreadable and count as wrong: "perhaps"`} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q, want %s", notes, want)
		}
	}
	lab := loadSet(t, editRewardBench, Options{Data: "testdata/tiger.parquet"})
	id := lab.(*tiger).ids[0]
	r = must[Predictions](t)(lab.Read(write(t, "t.jsonl", fmt.Sprintf(`{"id": %q, "answer": null}`, id)))).Result()
	if r.N != 0 {
		t.Errorf("a comparison without an answer is counted: %d", r.N)
	}
	r = must[Predictions](t)(lab.Read(write(t, "t.jsonl", fmt.Sprintf(`{"id": %q, "answer": "no idea"}`, id)))).Result()
	notes = strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, `1 answers are unreadable and count as wrong: "noidea"`) {
		t.Errorf("notes %q", notes)
	}
}

// What the data cannot mean is refused by name.
func TestRefusedValues(t *testing.T) {
	fedLine := `{"sample": "a", "id": 0.5, "bg_rmse": 1, "pq": 5, "sc": 5, "gta": 5, "lpips_src_trg": 0.1, ` +
		`"lpips_src_gt": 0.1, %s}`
	fedRead := func(tag string) error {
		s := loadSet(t, fedBench, Options{BGNorm: "exp:2", Sigma: 0.5})
		_, err := s.Read(write(t, "c.jsonl", fmt.Sprintf(fedLine, tag)))
		return err
	}
	human := func(text string) error {
		s := loadSet(t, fedBench, Options{BGNorm: "exp:2", Sigma: 0.5, Human: write(t, "h.jsonl", text)})
		p, err := s.Read(write(t, "c.jsonl", fmt.Sprintf(fedLine, `"score": 1`)))
		if err != nil {
			return err
		}
		return fmt.Errorf("%v", p.Result().Failed)
	}
	load := func(b *Benchmark, name, text string) error {
		_, err := b.Load(Options{Data: write(t, name, text)})
		return err
	}
	means := func(rows string) error {
		_, err := aimMeans(write(t, "m.csv", "method,clip_t,sc,aesthetic,pq,s_gtc,acc,f1,d_vad\n"+rows))
		return err
	}
	const point = `{"input": "i", "gen": "g", "prompt": "p", "model": "m", "score": %s}`
	for want, err := range map[string]error{
		`the instructions are "Dense ": one of dense, simple`: fedRead(`"instructions": "Dense "`),
		`the instructions are "x": one of dense, simple`:      fedRead(`"model": "m/x"`),
		`the expression is "hapy": one of angry, disgust`:     fedRead(`"expression": "hapy"`),
		`h.jsonl:1: quality is "good": a finite number`:       human(`{"sample": "a", "quality": "good"}`),
		`h.jsonl holds no ratings of these samples`:           human(`{"sample": "a", "expression": "sad"}`),
		`score is 3: a number from 0 to 2`:                    load(auroraPoint, "a.json", fmt.Sprintf(point, "3")),
		`score is -1: a number from 0 to 2`:                   load(auroraPoint, "a.json", fmt.Sprintf(point, "-1")),
		`both models are called "x"`: load(auroraPair, "a.json", `{"input": "i", "gens": ["a", "b"], "prompt": "p", `+
			`"winner": "x", "models": ["x", "x"]}`),
		`m.csv:2: sc is "NaN": a finite number`:              means("A,0.2,NaN,5,7,7,50,50,2.5"),
		`m.csv:3: a second row of "A" (the first is line 2)`: means("A,0.2,7,5,7,7,50,50,2.5\nA,0.2,7,5,7,7,50,50,2.5"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
