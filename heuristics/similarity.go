package heuristics

import "math"

// Cosine is <a, b> / (|a| |b|) of two vectors of one length, in float64. It is NaN where that is undefined: a vector is
// zero, or the lengths differ. CLIP-I, CLIP-T and DINO-I are cosines of embeddings:
//
//	CLIP-I = Cosine(clip(edit), clip(target))    DINO-I = Cosine(dino(edit), dino(target))
//	CLIP-T = Cosine(clip(edit), clip(target's caption))
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot += x * y
		aa += x * x
		bb += y * y
	}
	return dot / math.Sqrt(aa*bb)
}

// ClipDirection is CLIP-D, the directional similarity of an edit: the cosine of e(edit) - e(source) and e(after) -
// e(before), where e is a CLIP embedding divided by its length, of pictures and of the captions before and after the
// edit. It is 0 if the pictures are the same (section 3.1), and NaN, for it is undefined, if the captions are.
func ClipDirection(source, edit, before, after []float32) float64 {
	n := len(source)
	if len(edit) != n || len(before) != n || len(after) != n {
		return math.NaN()
	}
	if equal(before, after) { // rounding must not make a direction of nothing
		return math.NaN()
	}
	if equal(source, edit) {
		return 0
	}
	ls, le, lb, la := length(source), length(edit), length(before), length(after)
	var dot, pp, tt float64
	for i := range n {
		picture := float64(edit[i])/le - float64(source[i])/ls
		text := float64(after[i])/la - float64(before[i])/lb
		dot += picture * text
		pp += picture * picture
		tt += text * text
	}
	return dot / math.Sqrt(pp*tt)
}

func length(v []float32) float64 {
	var s float64
	for _, x := range v {
		s += float64(x) * float64(x)
	}
	return math.Sqrt(s)
}

func equal(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
