package encoders

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/internal/store"
	"assay/model/backbone"
)

// Fingerprint identifies what Open would open at a path by the content of its files, without opening it. That of an
// .onnx file covers the files beside it, and the JSON files one folder above, where its configuration may lie.
func Fingerprint(path string) (string, error) {
	if !strings.EqualFold(filepath.Ext(path), ".onnx") {
		w, err := checkpoints.OpenWeights(path)
		if err != nil {
			return "", err
		}
		defer w.Close()
		return backbone.Fingerprint(path, w)
	}
	parts := []string{filepath.Base(path)}
	for k, folder := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		files, err := os.ReadDir(folder) // sorted
		if err != nil {
			return "", err
		}
		for _, f := range slices.DeleteFunc(files, os.DirEntry.IsDir) {
			if k > 0 && filepath.Ext(f.Name()) != ".json" {
				continue
			}
			sum, err := store.FileDigest(filepath.Join(folder, f.Name()))
			if err != nil {
				return "", err
			}
			parts = append(parts, f.Name(), sum.String())
		}
	}
	return store.KeyOf(parts...).String()[:24], nil
}
