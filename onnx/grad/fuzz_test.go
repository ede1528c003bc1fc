package grad

import (
	"os"
	"testing"

	"assay/onnx"
)

// FuzzAppend: whatever bytes come in, reading, checking and differentiating them ends with a result or an error.
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
		o := Options{Recompute: true}
		for _, v := range m.Outputs {
			o.Outputs = append(o.Outputs, v.Name)
		}
		for _, v := range m.Inputs {
			if v.Type.IsFloat() {
				o.Wrt = append(o.Wrt, v.Name)
			}
		}
		for _, w := range m.Initializers {
			if w.Type.IsFloat() {
				o.Wrt = append(o.Wrt, w.Name)
			}
		}
		if _, err := Append(m, o); err == nil {
			if _, err := m.Encode(); err != nil {
				t.Error(err)
			}
		}
	})
}
