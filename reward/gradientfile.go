package reward

import (
	"assay/checkpoints"
	"assay/data"
	"assay/internal/atomicfile"
	"assay/model"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gorgonia.org/tensor"
)

// ScoreGradient is a score with its derivative with respect to the pixels of the edited picture, on the scorer's range.
type ScoreGradient struct {
	Score   float64
	Score01 *float64       // nil: the scores have no bounds
	Edit    *data.Gradient // d score / d level, [Height, Width, 3]
}

// Gradient puts gradients of score01 on the range that is reported.
func Gradient(c model.ScorerConfig, s *model.PixelGradients) *ScoreGradient {
	r := c.Report(model.Judgement{Score01: s.Score01})
	g := &ScoreGradient{Score: r.Score, Score01: r.Score01, Edit: data.NewGradient(s.Edit.Width, s.Edit.Height)}
	for i, v := range s.Edit.Values {
		g.Edit.Values[i] = float32(c.ScoreRange.Width()) * v
	}
	return g
}

// pixelUnit is what a gradient is per.
const pixelUnit = "8-bit level"

// scores are the scores as texts by name: score, and score01 where the scorer has a range.
func (g *ScoreGradient) scores() map[string]string {
	out := map[string]string{"score": fmt.Sprint(g.Score)}
	if g.Score01 != nil {
		out["score01"] = fmt.Sprint(*g.Score01)
	}
	return out
}

// encoders write a gradient in the formats that are served; "" is the default.
var encoders = map[string]func(*ScoreGradient, *data.Picture) (body []byte, kind string, err error){
	"": encodeSafetensors, "safetensors": encodeSafetensors, "npy": encodeNpy, "png": encodeHeatmap,
}

// Safetensors is the gradient as a safetensors file: the tensor gradient, with score, score01 (where the scorer has a
// range) and the unit as metadata.
func (g *ScoreGradient) Safetensors() ([]byte, error) {
	metadata := g.scores()
	metadata["pixel_unit"] = pixelUnit
	return safetensors(metadata, []string{"gradient"}, []*data.Gradient{g.Edit})
}

// safetensors writes gradients as tensors float32 [H, W, 3].
func safetensors(metadata map[string]string, names []string, gradients []*data.Gradient) ([]byte, error) {
	tensors := map[string]*tensor.Dense{}
	for i, g := range gradients {
		tensors[names[i]] = tensor.New(tensor.WithShape(g.Height, g.Width, 3), tensor.WithBacking(g.Values))
	}
	return checkpoints.Marshal(tensors, metadata)
}

// Npy is the gradient as a NumPy file, format 1.0.
func (g *ScoreGradient) Npy() []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }",
		g.Edit.Height, g.Edit.Width)
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

// CheckGradientFile says whether [ScoreGradient.WriteFile] knows the format of a file.
func CheckGradientFile(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors", ".npy":
		return nil
	}
	return fmt.Errorf("%s: .safetensors and .npy are written", path)
}

// WriteFile writes the gradient, float32 [height, width, 3] per 8-bit level, as .safetensors (the tensor gradient) or
// .npy.
func (g *ScoreGradient) WriteFile(path string) error {
	if err := CheckGradientFile(path); err != nil {
		return err
	}
	raw := g.Npy()
	if strings.EqualFold(filepath.Ext(path), ".safetensors") {
		var err error
		if raw, err = g.Safetensors(); err != nil {
			return err
		}
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}
