package encoders

import (
	"path/filepath"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/kernels"
	"assay/model/nn"
)

// Every node of the encoders' graphs, of embedding and of training, has a kernel on CUDA.
func TestCUDAKernels(t *testing.T) {
	for _, name := range []string{"clip", "dinov2"} {
		m, of, err := readCheckpoint(filepath.Join("../testdata/oracle", name, "model"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		images, texts, step := m.graph("images", of), m.graph("texts", of), (*nn.Graph)(nil)
		if _, _, err = of.images(images); err != nil {
			t.Fatal(err)
		}
		if of.texts != nil {
			if _, _, err = of.texts(texts); err != nil {
				t.Fatal(err)
			}
		}
		m.trained = map[string]*tensor.Dense{}
		if step, err = (&Tuner{Model: m}).stepGraph(of); err != nil {
			t.Fatal(err)
		}
		for _, g := range []*nn.Graph{images, texts, step} {
			lacking, err := kernels.Lacking(g.M)
			if err != nil || g.Err() != nil {
				t.Fatal(err, g.Err())
			}
			for _, l := range lacking {
				if !l.Sizes {
					t.Errorf("%s, %s: %v", name, g.M.Name, l)
				}
			}
		}
	}
}
