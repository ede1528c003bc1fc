package reward

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"assay/internal/atomicfile"
)

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
