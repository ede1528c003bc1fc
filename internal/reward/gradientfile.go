package reward

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
)

// pixelUnit is the unit of the denominator of a gradient.
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

// gradientFormat is a file format of the gradient with respect to the output's pixels.
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
		err := g.Output.Heatmap(output).EncodePNG(&b)
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

// CheckGradientFile returns an error if [WriteGradient] cannot write the format of a file.
func CheckGradientFile(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors", ".npy":
		return nil
	}
	return fmt.Errorf("%s: want a name that ends in .safetensors or .npy", path)
}

// WriteGradient writes the gradient with respect to the pixels of the output, float32 [height, width, 3] per 8-bit
// level, as .safetensors (with one tensor, gradient) or .npy.
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
