package reward

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"assay/data"
	"assay/model"
)

// postGradient answers POST /v1/gradient with d score / d pixel of the edited picture: float32 [H, W, 3], per 8-bit level of
// the picture as decoded (upright, over white).
func (s *Server) postGradient(w http.ResponseWriter, r *http.Request) error {
	if err := s.early(slope); err != nil {
		return err
	}
	raw, release, err := s.body(w, r)
	if err != nil {
		return err
	}
	defer release()
	var p pairs
	if err := parse(r, raw, &p, p.field); err != nil {
		return err
	}
	if p.Edit == nil && len(p.Edits) == 1 {
		p.Edit = &p.Edits[0]
	} else if p.Edit == nil || len(p.Edits) > 0 {
		return problem(http.StatusUnprocessableEntity, "bad_request", "edit is missing: one picture")
	}
	encode := encoders[p.Format]
	if encode == nil {
		return problem(http.StatusUnprocessableEntity, "bad_request", "format %q: safetensors, npy and png are served", p.Format)
	}
	v, err := s.check(&p)
	if err != nil {
		return err
	}
	if _, _, err := s.size(p.Edit); err != nil {
		return err
	}
	t, err := s.admit(demand{v.paces[slope]: 1})
	if err != nil {
		return err
	}
	defer t.release()
	var source, edit *data.Picture
	err = s.decoded(r.Context(), func() (err error) {
		if source, err = s.decode(p.Source); err == nil {
			edit, err = s.decode(p.Edit)
		}
		return err
	})
	if err != nil {
		return err
	}
	j := &job{kind: slope, scorer: v, pair: v.pair(source, edit, p.Instruction)}
	if err := t.run(r.Context(), j); err != nil {
		return err
	}
	if j.errs[0] != nil { // what the prompt or the pictures' shapes make impossible
		return problem(http.StatusUnprocessableEntity, "bad_pair", "%v", j.errs[0])
	}
	g := Gradient(v.Config(), j.slopes)
	body, kind, err := encode(g, edit)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	for name, value := range g.facts() {
		w.Header().Set("X-"+name, value)
	}
	w.Write(body)
	return nil
}

// ScoreGradient is a score with its derivative with respect to the pixels of the edited picture, on the scorer's range.
type ScoreGradient struct {
	Score, Score01 float64
	Edit           *data.Slope // d score / d level, [Height, Width, 3]
}

// Gradient puts slopes of score01 on the range that is reported.
func Gradient(c model.ScorerConfig, s *model.Slopes) *ScoreGradient {
	g := &ScoreGradient{Score: c.Range(s.Score01), Score01: s.Score01, Edit: data.NewSlope(s.Edit.Width, s.Edit.Height)}
	for i, v := range s.Edit.Values {
		g.Edit.Values[i] = float32(c.ScoreRange[1]-c.ScoreRange[0]) * v
	}
	return g
}

func (g *ScoreGradient) facts() map[string]string {
	return map[string]string{"Score": fmt.Sprint(g.Score), "Score01": fmt.Sprint(g.Score01), "Pixel-Unit": "8-bit level"}
}

// encoders write a gradient in the formats that are served; "" is the default one.
var encoders = map[string]func(*ScoreGradient, *data.Picture) (body []byte, kind string, err error){
	"": encodeSafetensors, "safetensors": encodeSafetensors, "npy": encodeNpy, "png": encodeHeatmap,
}

// Safetensors is the gradient as a safetensors file: the tensor gradient, with score, score01 and the unit as metadata.
func (g *ScoreGradient) Safetensors() ([]byte, error) {
	header, err := json.Marshal(map[string]any{
		"__metadata__": map[string]string{"score": fmt.Sprint(g.Score), "score01": fmt.Sprint(g.Score01), "pixel_unit": "8-bit level"},
		"gradient":     map[string]any{"dtype": "F32", "shape": []int{g.Edit.Height, g.Edit.Width, 3}, "data_offsets": []int{0, 4 * len(g.Edit.Values)}},
	})
	if err != nil {
		return nil, err
	}
	for len(header)%8 != 0 { // the tensors are aligned
		header = append(header, ' ')
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return appendFloats(append(out, header...), g.Edit.Values), nil
}

// Npy is the gradient as a NumPy file, format 1.0.
func (g *ScoreGradient) Npy() []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }", g.Edit.Height, g.Edit.Width)
	header += string(bytes.Repeat([]byte(" "), 63-(10+len(header))%64)) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return appendFloats(append(out, header...), g.Edit.Values)
}

func appendFloats(to []byte, values []float32) []byte {
	for _, v := range values {
		to = binary.LittleEndian.AppendUint32(to, math.Float32bits(v))
	}
	return to
}

func encodeSafetensors(g *ScoreGradient, _ *data.Picture) ([]byte, string, error) {
	b, err := g.Safetensors()
	return b, "application/octet-stream", err
}

func encodeNpy(g *ScoreGradient, _ *data.Picture) ([]byte, string, error) {
	return g.Npy(), "application/octet-stream", nil
}

func encodeHeatmap(g *ScoreGradient, edit *data.Picture) ([]byte, string, error) {
	var b bytes.Buffer
	err := Heatmap(edit, g.Edit).EncodePNG(&b)
	return b.Bytes(), "image/png", err
}
