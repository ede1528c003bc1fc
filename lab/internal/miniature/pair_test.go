package miniature

import (
	"strings"
	"testing"

	"assay/internal/long"
)

// Questions about one pair contradict each other, so none can be answered without the pictures; the answer is yes
// only if nothing is missing and nothing is extra.
func TestPairs(t *testing.T) {
	w := testWorld(t, true)
	kinds, answers := map[Kind]int{}, map[bool]int{}
	for i := range 600 {
		p, err := w.Pair(generator(5, EditsTable, i), 3)
		if err != nil {
			t.Fatal(err)
		}
		kinds[p.Kind]++
		if len(p.Questions) != 3 || p.Difference == "" || p.SourceCaption == "" ||
			(p.EditCaption == "") != (p.Kind == Corrupt || p.Kind == Foreign) {
			t.Fatalf("%+v", p)
		}
		for k, q := range p.Questions {
			if q.Instruction == "" || q.Degree < 0 || q.Degree > 1 || k == 0 && q.Yes() != (p.Kind == Perfect) {
				t.Errorf("%s: %+v", p.Kind, q)
			}
			answers[q.Yes()]++
		}
	}
	if len(kinds) != len(Kinds) {
		t.Errorf("kinds %v", kinds)
	}
	if share := float64(answers[true]) / 1800; !(share >= 0.15) || share > 0.5 {
		t.Errorf("%.2f of all answers are yes", share)
	}
	seen := map[string]bool{}
	for i := range 50 {
		p, text, err := w.Captioned(generator(6, EditsTable, i))
		if err != nil || p.Width != w.Size || !strings.HasPrefix(text, "a photo of ") {
			t.Fatalf("%q %v", text, err)
		}
		seen[text] = true
	}
	if len(seen) < 40 {
		t.Errorf("only %d captions in 50", len(seen))
	}
}

// The kinds of one editor occur as in its mixture.
func TestEditors(t *testing.T) {
	w := testWorld(t, true)
	mean := map[string]float64{}
	for i := range 400 {
		rng := generator(7, EditsTable, i)
		task, err := w.Task(rng, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range task.outputs(rng) {
			mean[o.editor] += o.Degree / 400
		}
	}
	for _, e := range Editors {
		if e.Weak && mean[e.Name] > 0.3 || e.Strong && !(mean[e.Name] >= 0.55) {
			t.Errorf("%s is right by %.2f", e.Name, mean[e.Name])
		}
	}
}

// The vocabulary of the world is small: a tiny tokenizer learns all of it.
func TestVocabulary(t *testing.T) {
	long.Test(t)
	w := testWorld(t, true)
	words := map[string]bool{}
	wordings := map[string]bool{}
	for i := range 3000 {
		rng := generator(8, EditsTable, i)
		asked := []Edit{}
		_, s, err := w.scene(rng, 2)
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := drawEdit(rng, Families[i%14], s, nil); ok {
			asked = append(asked, e)
		}
		text := Instruction(rng, asked)
		wordings[text] = true
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
			words[word] = true
		}
	}
	if len(words) > 150 || len(words) < 80 || len(wordings) < 500 {
		t.Errorf("%d words in %d wordings: %v", len(words), len(wordings), words)
	}
}

func BenchmarkPair(b *testing.B) {
	w := testWorld(b, true)
	i := 0
	for b.Loop() {
		if _, err := w.Pair(generator(1, EditsTable, i), 3); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
