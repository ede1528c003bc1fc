package heuristics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Similarity is the similarity of two embeddings or directions: measured, undefined or unknown. Undefined: the
// measurement has no result, such as CLIP-D of two equal captions. Unknown: it was not measured. The zero Similarity
// is unknown. In JSON the states are a number, "undefined" and null.
type Similarity struct {
	state similarityState
	value float64
}

type similarityState uint8

const (
	unknown similarityState = iota
	undefined
	measured
)

// Measured returns the result of a measurement; NaN makes it undefined.
func Measured(x float64) Similarity {
	if math.IsNaN(x) {
		return Similarity{state: undefined}
	}
	return Similarity{measured, x}
}

// SimilarityOf converts a table cell: nil is unknown, NaN undefined.
func SimilarityOf(x *float64) Similarity {
	if x == nil {
		return Similarity{}
	}
	return Measured(*x)
}

// Value returns the number, and false if there is none.
func (s Similarity) Value() (x float64, ok bool) { return s.value, s.state == measured }

// Unknown reports whether it was not measured.
func (s Similarity) Unknown() bool { return s.state == unknown }

// Undefined reports whether the measurement has no result.
func (s Similarity) Undefined() bool { return s.state == undefined }

// Cell is the table cell: nil for unknown, NaN for undefined.
func (s Similarity) Cell() *float64 {
	switch s.state {
	case measured:
		return &s.value
	case undefined:
		nan := math.NaN()
		return &nan
	}
	return nil
}

// atMost reports whether it was measured and is at most the threshold; always false for a threshold of NaN (off).
func (s Similarity) atMost(threshold float64) bool {
	return s.state == measured && s.value <= threshold
}

func (s Similarity) String() string {
	switch s.state {
	case measured:
		return fmt.Sprint(s.value)
	case undefined:
		return "undefined"
	}
	return "unknown"
}

// MarshalJSON writes a number, "undefined" or null.
func (s Similarity) MarshalJSON() ([]byte, error) {
	switch s.state {
	case measured:
		return json.Marshal(s.value)
	case undefined:
		return []byte(`"undefined"`), nil
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Similarity) UnmarshalJSON(raw []byte) error {
	*s = Similarity{}
	switch {
	case bytes.Equal(raw, []byte("null")):
		return nil
	case bytes.Equal(raw, []byte(`"undefined"`)):
		s.state = undefined
		return nil
	}
	s.state = measured
	return json.Unmarshal(raw, &s.value)
}

// Cosine is <a, b> / (|a| |b|) of two vectors of equal dimension, in float64. It is NaN if undefined: a vector is
// zero, or the dimensions differ. CLIP-I, CLIP-T and DINO-I are cosines of embeddings:
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

// Direction is a definition of CLIP-D, the directional similarity of an edit. It is the cosine of e(edit) - e(source)
// and e(after) - e(before), for CLIP embeddings e of the pictures and of the captions before and after the edit.
type Direction string

// The definitions differ in e. Norms of CLIP embeddings differ by a tenth and more, so the two numbers differ: about
// two of every hundred edits have a different sign.
const (
	// DirectionRaw subtracts embeddings as the model returns them: section 3.1 of the ADIEE paper, and its code.
	DirectionRaw Direction = "raw"
	// DirectionUnit normalises them first, as the metric in diffusers and most benchmarks do.
	DirectionUnit Direction = "unit"
)

// Of computes CLIP-D. It is 0 if the pictures are the same (section 3.1), and NaN (undefined) if the captions are the
// same.
func (d Direction) Of(source, edit, before, after []float32) float64 {
	n := len(source)
	if len(edit) != n || len(before) != n || len(after) != n {
		return math.NaN()
	}
	if equal(before, after) { // rounding must not turn equal captions into a direction
		return math.NaN()
	}
	if equal(source, edit) {
		return 0
	}
	ls, le, lb, la := 1., 1., 1., 1.
	switch d {
	case DirectionUnit:
		ls, le, lb, la = length(source), length(edit), length(before), length(after)
	case DirectionRaw:
	default:
		return math.NaN()
	}
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

// ClipDirection is CLIP-D of unit-length embeddings.
func ClipDirection(source, edit, before, after []float32) float64 {
	return DirectionUnit.Of(source, edit, before, after)
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
