package grad

import (
	"os"
	"testing"

	"assay/onnx"
)

// FuzzAppend: reading, checking and differentiating arbitrary bytes ends with a result or an error.
func FuzzAppend(f *testing.F) {
	for _, path := range oracleModels(f) {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := onnx.Decode(data)
		if err != nil || onnx.Sort(m) != nil {
			return
		}
		onnx.Prune(m)
		if _, err := Append(m, ofAll(m, true)); err == nil {
			if _, err := m.Encode(); err != nil {
				t.Error(err)
			}
		}
	})
}
