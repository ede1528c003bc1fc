package miniature

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/long"
)

func testWorld(t testing.TB, augment bool) *World {
	t.Helper()
	photos, err := OpenPhotos("../../../examples/photos", DefaultSize, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(photos, DefaultSize, augment)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// far returns the mean absolute difference of two pictures, 0 to 255.
func far(a, b *data.Picture) float64 {
	sum := 0.0
	for i := range a.Pix {
		sum += math.Abs(float64(a.Pix[i]) - float64(b.Pix[i]))
	}
	return sum / float64(len(a.Pix))
}

// Every family changes the picture and the caption, and has a known truth by construction. A perfect output is better
// than half of one, which is better than none.
func TestFamilies(t *testing.T) {
	long.Test(t)
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
			for k, want := range map[Kind]float64{Perfect: 1, Over: 0.6, Damaged: 0.6, WrongFamily: 0, Noop: 0, Corrupt: 0,
				Foreign: 0} {
				if have, ok := degrees[k]; ok && !(math.Abs(have-want) <= 1e-12) {
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
		if got := Degree(c.asked, c.done, c.damaged); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
}

// Every picture of a chain differs from the one before it. Its true degree agrees with ADIEE's label where the label
// is exact: 0 up to the source, fractions up to the target.
func TestChains(t *testing.T) {
	w := testWorld(t, true)
	for i := range 40 {
		n := 1 + i%MaxTurns
		c, err := w.Chain(generator(3, ChainsTable, i), n)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Pictures) != n+1 || len(c.Captions) != n+1 || len(c.Instructions) != n || len(c.Edits) != n {
			t.Fatalf(
				"%d pictures, %d captions, %d instructions of %d turns",
				len(c.Pictures),
				len(c.Captions),
				len(c.Instructions),
				n,
			)
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
					if got := c.Degree(j, to, k); !(math.Abs(got-want) <= 1e-12) {
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

// Changing a scene does not affect its other shapes, and captions follow turns.
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
	if got := caption(
		&Photo{Caption: "a cat"},
		turned,
	); got != "a photo of a cat with a red circle at the top right, flipped left to right" {
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

// Effects on one colour, computed by hand; a uniform picture does not change under blur, sharpening and blocks.
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
			if !(math.Abs(float64(v)-e.want[i]) <= 1e-4) {
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
