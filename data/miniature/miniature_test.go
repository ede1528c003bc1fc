package miniature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
)

func testWorld(t testing.TB, augment bool) *World {
	t.Helper()
	photos, err := OpenPhotos("../../examples/photos", DefaultSize, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(photos, DefaultSize, augment)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// far is the mean absolute difference of two pictures, of 255.
func far(a, b *data.Picture) float64 {
	sum := 0.0
	for i := range a.Pix {
		sum += math.Abs(float64(a.Pix[i]) - float64(b.Pix[i]))
	}
	return sum / float64(len(a.Pix))
}

// Every family changes the picture, says so in the caption, and has a truth by construction: a perfect output is better
// than half of one, and that is better than none.
func TestFamilies(t *testing.T) {
	w := testWorld(t, false)
	for _, f := range Families {
		gradual := 0
		for i := range 24 {
			rng := rand.New(rand.NewPCG(uint64(i), 9))
			task, err := w.Task(rng, f)
			if err != nil {
				t.Fatal(err)
			}
			degrees := map[Kind]float64{}
			for _, k := range Kinds {
				c, ok := task.Candidate(rng, k)
				if !ok {
					continue
				}
				degrees[k] = c.Degree
				if changed := far(task.Source, c.Picture); changed > 0 != (k != Noop) {
					t.Errorf("%s: %s: the picture differs by %v from the source", task.Instruction, k, changed)
				}
			}
			if half, ok := degrees[Half]; ok {
				gradual++
				if half != 0.5 {
					t.Errorf("%s: half has degree %v", task.Instruction, half)
				}
			}
			for k, want := range map[Kind]float64{Perfect: 1, Over: 0.6, Damaged: 0.6, WrongFamily: 0, Noop: 0, Corrupt: 0, Foreign: 0} {
				if have, ok := degrees[k]; ok && math.Abs(have-want) > 1e-12 {
					t.Errorf("%s: %s has degree %v, want %v", task.Instruction, k, have, want)
				}
			}
			if degrees[WrongAttribute] > 0.7 {
				t.Errorf("%s: a wrong attribute has degree %v", task.Instruction, degrees[WrongAttribute])
			}
			target := task.Target(rng)
			if far(task.Source, target.Picture) < 255*visible/2 {
				t.Errorf("%s: the target looks like the source", task.Instruction)
			}
			if task.SourceCaption() == task.Caption(target) {
				t.Errorf("%s: source and target are both %q", task.Instruction, task.SourceCaption())
			}
			if strings.ContainsAny(task.Instruction+task.Caption(target)+describe(target), "{}|") {
				t.Errorf("%q, %q, %q", task.Instruction, task.Caption(target), describe(target))
			}
		}
		if gradual == 0 {
			t.Errorf("%s: nothing was done by half", f)
		}
	}
}

func TestDegree(t *testing.T) {
	grey, warm := Edit{Family: Grey}, Edit{Family: Temperature, Variant: "warmer"}
	add := Edit{Family: Add, Shape: "circle", Colour: "red", Place: "center"}
	move := Edit{Family: Move, Shape: "cross", Place: "top left"}
	with := func(e Edit, change func(*Edit)) Edit { change(&e); return e }
	done := func(edits ...Edit) []Step {
		var s []Step
		for _, e := range edits {
			s = append(s, Step{e, 1})
		}
		return s
	}
	for i, c := range []struct {
		asked   []Edit
		done    []Step
		damaged bool
		want    float64
	}{
		{[]Edit{grey}, done(grey), false, 1},
		{[]Edit{grey}, []Step{{grey, 0.92}}, false, 1},
		{[]Edit{grey}, []Step{{grey, 0.45}}, false, 0.5},
		{[]Edit{grey}, nil, false, 0},
		{[]Edit{grey}, done(grey), true, 0.6},
		{[]Edit{grey}, done(grey, add), false, 0.6},
		{[]Edit{grey, add}, done(grey), false, 0.5},
		{[]Edit{grey, add}, done(add, grey), false, 1},
		{[]Edit{warm}, done(Edit{Family: Temperature, Variant: "cooler"}), false, 0},
		{[]Edit{add}, done(with(add, func(e *Edit) { e.Colour = "blue" })), false, 0.3},
		{[]Edit{add}, done(with(add, func(e *Edit) { e.Colour, e.Shape = "blue", "square" })), false, 0.2},
		{[]Edit{add}, done(Edit{Add, "", "square", "blue", "top left"}), false, 0},
		{[]Edit{move}, done(with(move, func(e *Edit) { e.Place = "center" })), false, 0.25},
		{[]Edit{move}, done(with(move, func(e *Edit) { e.Shape = "circle" })), false, 0},
		{[]Edit{grey, move}, done(grey, with(move, func(e *Edit) { e.Place = "center" })), false, 0.625},
		{[]Edit{{Family: Border, Colour: "red"}}, done(Edit{Family: Border, Colour: "blue"}), false, 0.3},
		{[]Edit{grey, warm}, []Step{{grey, 1}, {add, 1}}, false, 0.3},
	} {
		if got := Degree(c.asked, c.done, c.damaged); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
}

// Every picture of a chain differs from the one before it, and its true degree agrees with ADIEE's label where that
// claims to be exact: 0 up to the source, parts of the whole up to the target.
func TestChains(t *testing.T) {
	w := testWorld(t, true)
	for i := range 40 {
		n := 1 + i%MaxTurns
		c, err := w.Chain(generator(3, ChainsTable, i), n)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Pictures) != n+1 || len(c.Captions) != n+1 || len(c.Instructions) != n || len(c.Edits) != n {
			t.Fatalf("%d pictures, %d captions, %d instructions of %d turns", len(c.Pictures), len(c.Captions), len(c.Instructions), n)
		}
		for j := range n {
			if far(c.Pictures[j], c.Pictures[j+1]) < 255*visible/2 || c.Captions[j] == c.Captions[j+1] {
				t.Errorf("%s: %q, then %q", c.Instructions[j], c.Captions[j], c.Captions[j+1])
			}
			for to := j + 1; to <= n; to++ {
				for k := range n + 1 {
					want := 0.6
					if k <= to {
						want = max(0, float64(k-j)/float64(to-j))
					}
					if got := c.Degree(j, to, k); math.Abs(got-want) > 1e-12 {
						t.Errorf("degree of %d for %d to %d: %v, want %v", k, j, to, got, want)
					}
				}
			}
		}
	}
	for _, n := range []int{0, MaxTurns + 1} {
		if _, err := w.Chain(generator(3, ChainsTable, 0), n); err == nil {
			t.Errorf("a chain of %d turns is no error", n)
		}
	}
}

// A scene that is changed is drawn as if the other shapes had never been touched, and captions follow turns.
func TestScene(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	_, s, err := testWorld(t, false).scene(rng, 0)
	if err != nil {
		t.Fatal(err)
	}
	plain := s.render()
	add := Step{Edit{Family: Add, Shape: "circle", Colour: "red", Place: "top left"}, 1}
	flip, gone := Step{Edit{Family: Flip, Variant: "horizontally"}, 1}, Step{Edit{Family: Remove, Shape: "circle"}, 1}
	with := s.after(rng, []Step{add})
	if back := with.after(rng, []Step{gone}).render(); difference(plain, back) != 0 {
		t.Error("adding and removing a shape leaves a trace")
	}
	turned := with.after(rng, []Step{flip})
	if got, want := turned.render().picture(), with.render().picture().FlipHorizontal(); far(got, want) != 0 {
		t.Error("the flipped scene is not the flipped picture")
	}
	if got := caption(&Photo{Caption: "a cat"}, turned); got != "a photo of a cat with a red circle at the top right, flipped left to right" {
		t.Error(got)
	}
	for variant, turns := range map[string]int{"clockwise": 3, "counterclockwise": 1, "half": 2} {
		if far(plain.turn(Edit{Variant: variant}).picture(), plain.picture().Rotate90(turns)) != 0 {
			t.Errorf("turned %s", variant)
		}
	}
	if s.render(); difference(plain, s.render()) != 0 {
		t.Error("the scene was changed by its copies")
	}
}

// Effects on one colour, worked out by hand; a uniform picture stays as it is under blur, sharpening and blocks.
func TestEffects(t *testing.T) {
	c := newCanvas(32)
	c.fill(0, 0, 32, 32, [3]float32{0.8, 0.4, 0.2})
	for _, e := range []struct {
		step Step
		want [3]float64
	}{
		{Step{Edit{Family: Grey}, 1}, [3]float64{0.498, 0.498, 0.498}},
		{Step{Edit{Family: Grey}, 0.45}, [3]float64{0.6641, 0.4441, 0.3341}},
		{Step{Edit{Family: Sepia}, 1}, [3]float64{0.6598, 0.5872, 0.4574}},
		{Step{Edit{Family: Invert}, 1}, [3]float64{0.2, 0.6, 0.8}},
		{Step{Edit{Family: Temperature, Variant: "warmer"}, 1}, [3]float64{0.96, 0.4192, 0.04}},
		{Step{Edit{Family: Temperature, Variant: "cooler"}, 1}, [3]float64{0.64, 0.3808, 0.36}},
		{Step{Edit{Family: Light, Variant: "brighter"}, 1}, [3]float64{1, 0.68, 0.39}},
		{Step{Edit{Family: Light, Variant: "darker"}, 1}, [3]float64{0.4, 0.2, 0.1}},
		{Step{Edit{Family: Focus, Variant: "blur"}, 1}, [3]float64{0.8, 0.4, 0.2}},
		{Step{Edit{Family: Focus, Variant: "sharpen"}, 1}, [3]float64{0.8, 0.4, 0.2}},
		{Step{Edit{Family: Pixelate}, 1}, [3]float64{0.8, 0.4, 0.2}},
		{Step{Edit{Family: Border, Colour: "green"}, 1}, [3]float64{0.8, 0.4, 0.2}},
	} {
		out := apply(c, e.step)
		for i, v := range out.at(13, 20) {
			if math.Abs(float64(v)-e.want[i]) > 1e-4 {
				t.Errorf("%v: %v, want %v", e.step, out.at(13, 20), e.want)
				break
			}
		}
	}
	frame := apply(c, Step{Edit{Family: Border, Colour: "blue"}, 1})
	for x, want := range map[int]float32{0: 0.9, 1: 0.9, 2: 0.2, 29: 0.2, 30: 0.9} {
		if got := frame.at(x, 16)[2]; got != want {
			t.Errorf("border at column %d: %v, want %v", x, got, want)
		}
	}
}

// Questions about one pair contradict each other, so that none can be answered without the pictures; the answer is yes
// only if nothing is missing and nothing is too much.
func TestPairs(t *testing.T) {
	w := testWorld(t, true)
	kinds, answers := map[Kind]int{}, map[bool]int{}
	for i := range 600 {
		p, err := w.Pair(generator(5, EditsTable, i), 3)
		if err != nil {
			t.Fatal(err)
		}
		kinds[p.Kind]++
		if len(p.Questions) != 3 || p.Difference == "" || p.SourceCaption == "" || (p.EditCaption == "") != (p.Kind == Corrupt || p.Kind == Foreign) {
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
	if share := float64(answers[true]) / 1800; share < 0.15 || share > 0.5 {
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

// The kinds of one editor come out as its mixture says.
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
		if e.Weak && mean[e.Name] > 0.3 || e.Strong && mean[e.Name] < 0.55 {
			t.Errorf("%s is right by %.2f", e.Name, mean[e.Name])
		}
	}
}

// The words that the world knows are few: a tiny tokenizer learns them all.
func TestVocabulary(t *testing.T) {
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

func TestBadWorlds(t *testing.T) {
	w := testWorld(t, false)
	if _, err := New(nil, 64, false); err == nil {
		t.Error("a world without photographs")
	}
	if _, err := New(w.Photos, 60, false); err == nil {
		t.Error("60 pixels")
	}
	if _, err := New([]Photo{{"dot", "a dot", data.NewPicture(8, 8)}}, 64, false); err == nil {
		t.Error("a photograph of 8 pixels")
	}
	black, err := New([]Photo{{"night", "the night", data.NewPicture(99, 77)}}, 64, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := black.Task(generator(1, EditsTable, 0), Grey); err == nil || !strings.Contains(err.Error(), "uniform") {
		t.Errorf("a black photograph: %v", err)
	}
	grey := w.Photos[0].Picture.Crop(0, 0, 200, 200)
	for i := range grey.Pix {
		grey.Pix[i] = grey.Pix[i/3*3]
	}
	old, err := New([]Photo{{"old", "an old photo", grey}}, 32, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // only scenes with colourful shapes can lose their colour
		task, err := old.Task(generator(1, EditsTable, i), Grey)
		if err != nil {
			t.Fatal(err)
		}
		if far(task.Source, task.Target(generator(1, EditsTable, i)).Picture) < 1 {
			t.Error("a grey picture was to be made grey")
		}
	}
	for _, s := range []Selection{{Held: []string{"nobody"}}, {Only: []string{"nobody"}}} {
		if _, err := OpenPhotos("../../examples/photos", DefaultSize, s); err == nil || !strings.Contains(err.Error(), `no photograph named "nobody"`) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// A folder of photographs: captions from text files or names, and no more pixels than pictures need.
func TestPhotos(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b_old-house.txt": "", "a.txt": " a cat\n", "notes.md": "no photograph"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, p := range map[string]*data.Picture{"b_old-house.png": data.NewPicture(90, 40), "a.png": data.NewPicture(1000, 640)} {
		if err := p.WritePNG(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	photos, err := OpenPhotos(dir, 32, Selection{})
	if err != nil || len(photos) != 2 {
		t.Fatalf("%d photographs: %v", len(photos), err)
	}
	a, b := photos[0], photos[1]
	if a.Name != "a" || a.Caption != "a cat" || a.Picture.Width != 300 || a.Picture.Height != 192 {
		t.Errorf("%s, %q, %d x %d", a.Name, a.Caption, a.Picture.Width, a.Picture.Height)
	}
	if b.Name != "b_old-house" || b.Caption != "b old house" || b.Picture.Width != 90 {
		t.Errorf("%s, %q, %d x %d", b.Name, b.Caption, b.Picture.Width, b.Picture.Height)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.png"), []byte("no picture"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPhotos(dir, 32, Selection{}); err == nil || !strings.Contains(err.Error(), "c.png") {
		t.Errorf("a broken photograph: %v", err)
	}
	if _, err := OpenPhotos(dir, 32, Selection{Only: []string{"b_old-house"}}); err != nil {
		t.Errorf("it is read though it is not selected: %v", err)
	}
}

// The world of one seed, to the last pixel. If it is changed on purpose, every figure that was measured on it is void.
func TestGolden(t *testing.T) {
	photos, err := OpenPhotos("../../examples/photos", DefaultSize, Selection{Only: []string{"chelsea", "coffee"}})
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]string{
		64: "3b724a92650f6ec0ffe1b958e5336930b33ac3389a971c8ce4d461a1efea27b8",
		96: "937a476a17ca82e682a62f77136b787ebc85f2fbecd20440e98157a6c3b56b56",
	} {
		w, err := New(photos, size, true)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		for i := range len(Families) {
			rng := generator(1, EditsTable, i)
			task, err := w.Task(rng, Families[i])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(h, task.Instruction, task.SourceCaption())
			h.Write(task.Source.Pix)
			for _, o := range slices.Concat(task.outputs(rng), task.examined(rng)) {
				fmt.Fprintln(h, o.editor, o.Kind, o.Degree, describe(o.Candidate), task.Caption(o.Candidate))
				h.Write(o.Picture.Pix)
			}
			c, err := w.Chain(generator(1, ChainsTable, i), 3)
			if err != nil {
				t.Fatal(err)
			}
			for j, p := range c.Pictures {
				fmt.Fprintln(h, c.Captions[j], append(c.Instructions, "")[j])
				h.Write(p.Pix)
			}
		}
		if d := cmp.Diff(want, hex.EncodeToString(h.Sum(nil))); d != "" {
			t.Errorf("size %d: %s", size, d)
		}
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
