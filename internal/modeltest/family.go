// Package modeltest is the test suite of backbone families. It compares a family with reference fixtures: inputs,
// scores, losses, gradients, a training trace, exports, and the spellings of checkpoints. It also requires that a
// variant of a computation (in a batch, with a shared prefix, in blocks, fused, recomputed) agrees with the plain
// one. A family's own tests call [Family.Run].
package modeltest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
)

// Family describes a family's fixtures: where they are and how they lay out pixels.
type Family struct {
	Folder string
	Cases  [][2]string // case files, each with its file of tensors
	Trace  Trace       // optional
	// Split splits the reference's pixel_values of a case (or their gradient) into one part per picture.
	Split func(all []float32, pictures []*backbone.Picture) [][]float32
}

// InTurn is a Split for pixels that are stored one picture after another.
func InTurn(all []float32, pictures []*backbone.Picture) (parts [][]float32) {
	for _, p := range pictures {
		parts, all = append(parts, all[:len(p.Pixels)]), all[len(p.Pixels):]
	}
	return parts
}

// Trace names the files of a training trace.
type Trace struct{ Steps, Cases, Final string }

// Run is the whole suite.
func (f Family) Run(t *testing.T) {
	t.Run("inputs", f.inputs)
	for name, open := range map[string]opener{"": openScorer, ", in blocks": openInBlocks, ", fused": openFused} {
		for what, test := range map[string]func(*testing.T, opener){
			"score":          f.score,
			"batch":          f.batch,
			"pixel gradient": f.pixelGradient,
		} {
			t.Run(what+name, func(t *testing.T) { longIf(name == ", in blocks", t); test(t, open) })
		}
	}
	t.Run("before", f.before)
	t.Run("shared", f.shared)
	t.Run("several", f.several)
	t.Run("export", f.export)
	t.Run("spellings", f.spellings)
	t.Run("parameters", f.parameters)
	for _, o := range []model.TuneOptions{
		{},
		{Recompute: true},
		{Fixed: true},
		{Options: model.Options{Blocks: blockRows}},
		{Options: model.Options{Blocks: blockRows}, Recompute: true},
		{Options: model.Options{Pieces: 1}},
		{Options: model.Options{Pieces: 1}, Recompute: true},
		{Options: model.Options{LossRows: lossRows}},
		{Options: fused},
		{Options: fused, Recompute: true},
	} {
		name := fmt.Sprintf("gradients,recompute=%v,fixed=%v,blocks=%d,pieces=%d,chunks=%d,%s", o.Recompute, o.Fixed,
			o.Blocks, o.Pieces, o.LossRows, o.Kernels)
		variant := o.Recompute || o.Fixed || o.Blocks > 0 || o.Pieces > 0
		t.Run(name, func(t *testing.T) { longIf(variant, t); f.gradients(t, o) })
	}
	t.Run("vision", f.vision)
	t.Run("fused repeats", f.fusedRepeats)
	for name, o := range map[string]model.Options{"": {}, ", fused": fused} {
		t.Run("peft"+name, func(t *testing.T) { f.peft(t, o) })
		if f.Trace != (Trace{}) {
			t.Run("trace"+name, func(t *testing.T) { f.trace(t, o) })
		}
	}
}

// longIf skips a subtest under -short if it is a variant of another.
func longIf(variant bool, t *testing.T) {
	t.Helper()
	if variant {
		long.Test(t)
	}
}

// reference is a case with its expected tensors.
type reference struct {
	oracle.Case
	family string // folder of the case file, which its paths are relative to
	expect map[string]*tensor.Dense
}

// name is the prefix of the case's tensors.
func (r *reference) name(tensor string) string { return fmt.Sprintf("case%d.%s", r.ID, tensor) }

func (r *reference) floats(t *testing.T, tensor string) []float32 {
	t.Helper()
	return oracle.Floats(t, r.expect, r.name(tensor))
}

// features returns the image features of the case, each row followed by its deepstack features, row by row.
func (r *reference) features(t *testing.T) []float32 {
	t.Helper()
	blocks := [][]float32{r.floats(t, "image_features")}
	for k := 0; r.expect[r.name(fmt.Sprint("deepstack_features.", k))] != nil; k++ {
		blocks = append(blocks, r.floats(t, fmt.Sprint("deepstack_features.", k)))
	}
	width := r.expect[r.name("image_features")].Shape()[1]
	var all []float32
	for at := 0; at < len(blocks[0]); at += width {
		for _, b := range blocks {
			all = append(all, b[at:at+width]...)
		}
	}
	return all
}

// scorer returns the case's scorer directory.
func (r *reference) scorer() string { return filepath.Join(r.family, r.Scorer) }

func (r *reference) edit(t *testing.T) *edit.Edit {
	t.Helper()
	e := &edit.Edit{Output: picture(t, filepath.Join(r.family, r.Edited)), Instruction: r.Instruction}
	for _, path := range r.sources() {
		e.Sources = append(e.Sources, picture(t, filepath.Join(r.family, path)))
	}
	return e
}

// sources returns the paths of the source pictures.
func (r *reference) sources() []string {
	if r.Source != "" {
		return []string{r.Source}
	}
	return r.Sources
}

// decoded returns the two pictures of an edit.
func decoded(e *edit.Edit) (source, output *data.Picture) {
	return e.Source().(*data.Picture), e.Output.(*data.Picture)
}

func picture(t *testing.T, path string) *data.Picture {
	t.Helper()
	p, err := data.Open(path, data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// preparer is a Scorer or a Tuner.
type preparer interface {
	Sample(*edit.Edit, model.Ask) (*batch.Sample, error)
}

func (r *reference) sample(t *testing.T, p preparer) *batch.Sample {
	t.Helper()
	s, err := p.Sample(r.edit(t), model.Ask{Pixels: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eachFile calls do with the references of each case file, for all case files in all fixture folders.
func (f Family) eachFile(t *testing.T, do func(t *testing.T, rs []*reference)) {
	oracle.Each(t, func(t *testing.T, folder string) {
		family := filepath.Join(folder, f.Folder)
		for _, file := range f.Cases {
			expect := oracle.Tensors(t, filepath.Join(family, file[1]))
			var rs []*reference
			for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(family, file[0])) {
				rs = append(rs, &reference{c, family, expect})
			}
			do(t, rs)
		}
	})
}

// each calls do as a subtest for every reference. open is called once per scorer.
func each[T any](
	t *testing.T, f Family, open func(t *testing.T, dir string) T, do func(t *testing.T, r *reference, opened T),
) {
	f.eachFile(t, func(t *testing.T, rs []*reference) {
		opened := map[string]T{}
		for _, r := range rs {
			if _, ok := opened[r.Scorer]; !ok {
				opened[r.Scorer] = open(t, r.scorer())
			}
			t.Run(fmt.Sprintf("%s/%d", r.Scorer, r.ID), func(t *testing.T) { do(t, r, opened[r.Scorer]) })
		}
	})
}

type opener = func(t *testing.T, dir string) *model.Scorer

func openScorer(t *testing.T, dir string) *model.Scorer { return openWith(t, dir, model.Options{}) }

// lossRows is the number of rows per chunk of the text loss, so that the fixtures' answers have several chunks.
const lossRows = 4

// blockRows is the number of rows per block, so that the fixtures' sequences and pictures have several blocks.
const blockRows = 12

// fused are the options for fused operators.
var fused = model.Options{Kernels: "fused"}

func openFused(t *testing.T, dir string) *model.Scorer { return openWith(t, dir, fused) }

func openInBlocks(t *testing.T, dir string) *model.Scorer {
	return openWith(t, dir, model.Options{Blocks: blockRows})
}

func openWith(t *testing.T, dir string, o model.Options) *model.Scorer {
	t.Helper()
	s, err := model.OpenScorer(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// trained lists the tensors whose gradients are in the fixtures.
func (r *reference) trained() []string {
	var names []string
	for n := range r.expect {
		if name, ok := strings.CutPrefix(n, r.name("grad.")); ok {
			names = append(names, name)
		}
	}
	return names
}
