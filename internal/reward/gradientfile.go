package reward

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
)

// pixelUnit is the unit of a gradient's denominator.
const pixelUnit = "8-bit level"

// scoreTexts formats score and, if the scorer has a range, score01.
func scoreTexts(g *edit.Gradient) map[string]string {
	out := map[string]string{"score": fmt.Sprint(g.Value)}
	if !g.Unbounded {
		out["score01"] = fmt.Sprint(g.Score01)
	}
	return out
}

const binaryType = "application/octet-stream"

// gradientFormat is a format in which the gradient by the pixels of an edit's output is written.
type gradientFormat struct {
	contentType string
	encode      func(g *edit.Gradient, output *data.Picture) ([]byte, error)
}

// gradientFormats are the served formats; "" is the default.
var gradientFormats = map[string]gradientFormat{
	"":            {binaryType, encodeSafetensors},
	"safetensors": {binaryType, encodeSafetensors},
	"npy":         {binaryType, encodeNpy},
	"png": {"image/png", func(g *edit.Gradient, output *data.Picture) ([]byte, error) {
		var b bytes.Buffer
		err := Heatmap(output, g.Output).EncodePNG(&b)
		return b.Bytes(), err
	}},
}

// encodeSafetensors writes the tensor gradient with score, score01 (if the scorer has a range) and the unit as
// metadata.
func encodeSafetensors(g *edit.Gradient, _ *data.Picture) ([]byte, error) {
	metadata := scoreTexts(g)
	metadata["pixel_unit"] = pixelUnit
	return safetensors(metadata, []string{"gradient"}, []*data.Gradient{g.Output})
}

// safetensors writes gradients as tensors float32 [H, W, 3].
func safetensors(metadata map[string]string, names []string, gradients []*data.Gradient) ([]byte, error) {
	tensors := map[string]*tensor.Dense{}
	for i, g := range gradients {
		tensors[names[i]] = tensor.New(tensor.WithShape(g.Height, g.Width, 3), tensor.WithBacking(g.Values))
	}
	return checkpoints.Marshal(tensors, metadata)
}

// encodeNpy writes a NumPy file, format 1.0.
func encodeNpy(g *edit.Gradient, _ *data.Picture) ([]byte, error) {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }",
		g.Output.Height, g.Output.Width)
	header += string(bytes.Repeat([]byte(" "), 63-(10+len(header))%64)) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	out = append(out, header...)
	for _, v := range g.Output.Values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out, nil
}

// CheckGradientFile refuses a file whose format [WriteGradient] does not write.
func CheckGradientFile(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors", ".npy":
		return nil
	}
	return fmt.Errorf("%s: .safetensors and .npy are written", path)
}

// WriteGradient writes the gradient by the pixels of the output, float32 [height, width, 3] per 8-bit level, as
// .safetensors (the tensor gradient) or .npy.
func WriteGradient(path string, g *edit.Gradient) error {
	if err := CheckGradientFile(path); err != nil {
		return err
	}
	raw, err := gradientFormats[strings.ToLower(filepath.Ext(path))[1:]].encode(g, nil)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, raw)
}

// Heatmap overlays the norm of the gradient at each pixel on the picture in pale grey, from transparent through yellow
// to red. It is smoothed over a fiftieth of the diagonal; full red is the 99th percentile.
func Heatmap(p *data.Picture, s *data.Gradient) *data.Picture {
	heat := make([]float64, p.Width*p.Height)
	for i := range heat {
		r, g, b := float64(s.Values[3*i]), float64(s.Values[3*i+1]), float64(s.Values[3*i+2])
		heat[i] = math.Sqrt(r*r + g*g + b*b)
	}
	radius := int(math.Hypot(float64(p.Width), float64(p.Height)) / 50)
	for range 3 { // three boxes are close to a Gaussian
		heat = boxBlurRows(heat, p.Width, radius)
		heat = transpose(boxBlurRows(transpose(heat, p.Width), p.Height, radius), p.Height)
	}
	sorted := slices.Sorted(slices.Values(heat))
	full := sorted[len(sorted)*99/100]
	if full == 0 {
		full = 1
	}
	out := data.NewPicture(p.Width, p.Height)
	for i, h := range heat {
		t := min(h/full, 1)
		grey := 0.5*255 + 0.5*(0.299*float64(p.Pix[3*i])+0.587*float64(p.Pix[3*i+1])+0.114*float64(p.Pix[3*i+2]))
		for c, hot := range [3]float64{230, 200 * (1 - t), 30 * (1 - t)} {
			out.Pix[3*i+c] = byte(grey*(1-0.85*t) + hot*0.85*t + 0.5)
		}
	}
	return out
}

// boxBlurRows averages each value with its neighbours in the row, as many as there are.
func boxBlurRows(v []float64, width, radius int) []float64 {
	out := make([]float64, len(v))
	sums := make([]float64, width+1)
	for y := 0; y < len(v); y += width {
		for x := range width {
			sums[x+1] = sums[x] + v[y+x]
		}
		for x := range width {
			lo, hi := max(x-radius, 0), min(x+radius+1, width)
			out[y+x] = (sums[hi] - sums[lo]) / float64(hi-lo)
		}
	}
	return out
}

func transpose(v []float64, width int) []float64 {
	height := len(v) / width
	out := make([]float64, len(v))
	for y := range height {
		for x := range width {
			out[x*height+y] = v[y*width+x]
		}
	}
	return out
}
