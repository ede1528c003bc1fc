package reward

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
)

// pixelUnit is what a gradient is per.
const pixelUnit = "8-bit level"

// scoreTexts are the scores as texts by name: score, and score01 where the scorer has a range.
func scoreTexts(g *edit.Gradient) map[string]string {
	out := map[string]string{"score": fmt.Sprint(g.Value)}
	if !g.Unbounded {
		out["score01"] = fmt.Sprint(g.Score01)
	}
	return out
}

// encoders write the gradient of an edit's output in the formats that are served; "" is the default.
var encoders = map[string]func(*edit.Gradient, *data.Picture) (body []byte, kind string, err error){
	"": encodeSafetensors, "safetensors": encodeSafetensors, "npy": encodeNpy, "png": encodeHeatmap,
}

// safetensorsOf is the gradient as a safetensors file: the tensor gradient, with score, score01 (where the scorer has a
// range) and the unit as metadata.
func safetensorsOf(g *edit.Gradient) ([]byte, error) {
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

// npyOf is the gradient as a NumPy file, format 1.0.
func npyOf(g *edit.Gradient) []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }",
		g.Output.Height, g.Output.Width)
	header += string(bytes.Repeat([]byte(" "), 63-(10+len(header))%64)) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return appendFloats(append(out, header...), g.Output.Values)
}

func appendFloats(to []byte, values []float32) []byte {
	for _, v := range values {
		to = binary.LittleEndian.AppendUint32(to, math.Float32bits(v))
	}
	return to
}

func encodeSafetensors(g *edit.Gradient, _ *data.Picture) ([]byte, string, error) {
	b, err := safetensorsOf(g)
	return b, "application/octet-stream", err
}

func encodeNpy(g *edit.Gradient, _ *data.Picture) ([]byte, string, error) {
	return npyOf(g), "application/octet-stream", nil
}

func encodeHeatmap(g *edit.Gradient, output *data.Picture) ([]byte, string, error) {
	var b bytes.Buffer
	err := Heatmap(output, g.Output).EncodePNG(&b)
	return b.Bytes(), "image/png", err
}

// CheckGradientFile says whether [WriteGradient] knows the format of a file.
func CheckGradientFile(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors", ".npy":
		return nil
	}
	return fmt.Errorf("%s: .safetensors and .npy are written", path)
}

// WriteGradient writes the gradient by the pixels of the output, float32 [height, width, 3] per 8-bit level, as .safetensors (the tensor gradient) or
// .npy.
func WriteGradient(path string, g *edit.Gradient) error {
	if err := CheckGradientFile(path); err != nil {
		return err
	}
	raw := npyOf(g)
	if strings.EqualFold(filepath.Ext(path), ".safetensors") {
		var err error
		if raw, err = safetensorsOf(g); err != nil {
			return err
		}
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}
