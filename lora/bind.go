package lora

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/workers"
)

// Values are a backbone's parameters; *checkpoints.Weights implements it.
type Values interface {
	Checkpoint
	Dense(name string) (*tensor.Dense, error)
}

// Bind computes what the adapter needs from a backbone's weights: the row norms of DoRA layers, and the initial A and
// B of a PiSSA or OLoRA start. For a new adapter it also sets all initial values that are not random. It compares the
// tables of the vocabulary in an adapter's file with the backbone's. It has no effect on other adapters, or when it is
// called again. Each core reads one weight at a time.
func (a *Adapter) Bind(w Values) error {
	if err := errors.Join(a.checkTables(w), a.bringWhole(w, w.Dense)); err != nil {
		return err
	}
	needs := a.Config.DoRA && a.Lengths == nil || a.Config.Start.changesBase() && a.InitOffset == nil
	if !needs {
		return nil
	}
	lengths, taken := map[string][]float32{}, map[string]*tensor.Dense{}
	byName := index(Modules(w))
	var mu sync.Mutex
	err := workers.Each(len(a.Targets), runtime.GOMAXPROCS(0), func(i int) error {
		t := a.Targets[i]
		d, err := layerWeight(w, byName[t.Module])
		if err != nil {
			return err
		}
		if a.Config.DoRA {
			square := squares(d)
			mu.Lock()
			lengths[t.Module] = square
			mu.Unlock()
			return nil
		}
		matA, matB, err := a.Config.Start.begin(d.Float32s(), d.Shape()[0], d.Shape()[1], t, !a.fresh)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Module, err)
		}
		mu.Lock()
		defer mu.Unlock()
		taken[NameA(t.Module)], taken[NameB(t.Module)] = matA, matB
		return nil
	})
	if err != nil {
		return err
	}
	if a.Config.DoRA {
		a.Lengths = lengths
	} else {
		a.InitOffset = taken
	}
	if a.fresh {
		a.setFirst()
	}
	return nil
}

// setFirst sets the initial values of a new adapter's tensors. B is zero in a DoRA layer, so that m are the row norms
// of W; with a PiSSA or OLoRA start, A and B are InitOffset.
func (a *Adapter) setFirst() {
	for module, square := range a.Lengths {
		m := a.Tensors[NameM(module)].Float32s()
		for i, s := range square {
			m[i] = float32(math.Sqrt(float64(s)))
		}
	}
	for name, d := range a.InitOffset {
		copy(a.Tensors[name].Float32s(), d.Float32s())
	}
}

// layerWeight reads the weight of a linear layer [out, in].
func layerWeight(w Values, m Module) (*tensor.Dense, error) {
	key := m.Key
	if key == "" {
		return nil, fmt.Errorf("%s has no weight of its own: it shares the embedding's; adapt it without use_dora and "+
			"with the default init_lora_weights, or leave it out", m.Name)
	}
	return w.Dense(key)
}

// squares returns the squared norms of a matrix's rows.
func squares(d *tensor.Dense) []float32 {
	rows, cols, values := d.Shape()[0], d.Shape()[1], d.Float32s()
	out := make([]float32, rows)
	for i := range out {
		sum := 0.0
		for _, x := range values[i*cols : (i+1)*cols] {
			sum += float64(x) * float64(x)
		}
		out[i] = float32(sum)
	}
	return out
}

// selected returns the checkpoint keys of the backbone parameters that the configuration trains in full, by path: the
// parameters of modules whose names end with an element of modules_to_save, and biases (PEFT's other.py:
// _set_trainable; tuners_utils.py: _mark_only_adapters_as_trainable). Names are compared in the adapter's spelling.
func (a *Adapter) selected(w Checkpoint) (map[string]string, error) {
	c := a.Config
	if !c.bringsParameters() {
		return nil, nil
	}
	adapted := map[string]bool{}
	for _, t := range a.Targets {
		adapted[t.Module] = true
	}
	whole := a.saved(w)
	tied := !slices.ContainsFunc(w.Names(), func(k string) bool { return Canonical(k) == outputTable })
	if tied && whole["lm_head"] {
		return nil, errors.New("modules_to_save names lm_head, which shares the embedding's table: this is not supported. " +
			"Save the checkpoint with tie_word_embeddings false, which stores lm_head.weight")
	}
	out := map[string]string{}
	for _, key := range w.Names() {
		path := Canonical(key)
		module, isBias := strings.CutSuffix(path, ".bias")
		inside := false
		for p := parent(path); p != "" && !inside; p = parent(p) {
			inside = whole[p]
		}
		switch {
		case inside && adapted[parent(path)]:
			return nil, fmt.Errorf("modules_to_save names %s, which also has an adapter: leave it out of one of the two",
				parent(path))
		case inside && tied && strings.HasSuffix(path, "embed_tokens.weight"):
			return nil, fmt.Errorf("modules_to_save names %s, which the output layer shares: this is not supported", path)
		case inside, isBias && c.Bias == BiasAll, isBias && c.Bias == BiasLora && adapted[module]:
			out[path] = key
		}
	}
	if len(whole) == 0 && len(c.ModulesToSave) > 0 {
		return nil, fmt.Errorf("modules_to_save %q names no module of the backbone", []string(c.ModulesToSave))
	}
	return out, nil
}

// saved returns the modules whose names end with an element of modules_to_save.
func (a *Adapter) saved(w Checkpoint) map[string]bool {
	whole := map[string]bool{}
	for _, m := range Modules(w) {
		name := cmp.Or(a.spelled[m.Name], m.Name)
		if slices.ContainsFunc(a.Config.ModulesToSave, func(end string) bool { return strings.HasSuffix(name, end) }) {
			whole[m.Name] = true
		}
	}
	return whole
}

// Describe is Bind for a backbone whose weights are absent: the adapter gets all tensors, with meaningless values.
func (a *Adapter) Describe(w Checkpoint) error {
	return a.bringWhole(w, func(key string) (*tensor.Dense, error) {
		info, _ := w.Info(key)
		shape := make([]int, len(info.Shape))
		for i, d := range info.Shape {
			shape[i] = int(d)
		}
		return tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32)), nil
	})
}

// bringWhole copies the full parameters of a new adapter from the backbone.
func (a *Adapter) bringWhole(w Checkpoint, read func(key string) (*tensor.Dense, error)) error {
	if !a.fresh || a.Whole != nil {
		return nil
	}
	paths, err := a.selected(w)
	if err != nil {
		return err
	}
	a.Whole = slices.Sorted(maps.Keys(paths))
	for _, path := range a.Whole {
		d, err := read(paths[path])
		if err != nil {
			return err
		}
		if d.Dtype() != tensor.Float32 {
			return fmt.Errorf("%s is of type %v; only floating-point parameters are trained", path, d.Dtype())
		}
		a.Tensors[NameParameter(path)] = d.Clone().(*tensor.Dense)
	}
	return nil
}

// CheckWhole compares the adapter's full parameters with a backbone: they must be the ones that its configuration
// selects, with the same shapes.
func (a *Adapter) CheckWhole(w Checkpoint) error {
	paths, err := a.selected(w)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range a.Whole {
		key, ok := paths[path]
		if !ok {
			errs = append(errs, fmt.Errorf("unexpected tensor %q: %s does not select it, or the backbone lacks it",
				NameParameter(path), ConfigFile))
			continue
		}
		info, _ := w.Info(key)
		if got := a.Tensors[NameParameter(path)].Shape(); !slices.EqualFunc(got, info.Shape,
			func(a int, b int64) bool { return int64(a) == b }) {
			errs = append(errs, fmt.Errorf("tensor %q: shape %v, the backbone's is %v", NameParameter(path), got, info.Shape))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if !slices.Contains(a.Whole, path) {
			errs = append(errs, fmt.Errorf("missing tensor %q: %s selects it", NameParameter(path), ConfigFile))
		}
	}
	return shorten(errs)
}

// plain returns the same adapter without a subtracted start: of twice the rank, [A A0] and [B -B0], as with PEFT's
// path_initial_model_for_weight_conversion. All factors s stay the same.
func (a *Adapter) plain() (*Adapter, error) {
	c := a.Config.Clone()
	grow := 2.0
	if c.RSLoRA {
		grow = math.Sqrt2
	}
	c.Start, c.Rank, c.Alpha = StartUsual, 2*c.Rank, grow*c.Alpha
	for i := range c.Ranks {
		c.Ranks[i].Value *= 2
	}
	for i := range c.Alphas {
		c.Alphas[i].Value *= grow
	}
	out := &Adapter{Config: c, Tensors: maps.Clone(a.Tensors), Whole: a.Whole, spelled: a.spelled}
	for _, t := range a.Targets {
		matA, errA := a.Tensors[NameA(t.Module)].Concat(0, a.InitOffset[NameA(t.Module)])
		minus := a.InitOffset[NameB(t.Module)].Clone().(*tensor.Dense)
		for i, v := range minus.Float32s() {
			minus.Float32s()[i] = -v
		}
		matB, errB := a.Tensors[NameB(t.Module)].Concat(1, minus)
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		t.Rank, t.Alpha = 2*t.Rank, grow*t.Alpha
		out.Targets = append(out.Targets, t)
		out.Tensors[NameA(t.Module)], out.Tensors[NameB(t.Module)] = matA, matB
	}
	return out, nil
}

var _ Values = (*checkpoints.Weights)(nil)
