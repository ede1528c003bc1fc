package lora

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
)

// Adapter is a set of matrices for some linear layers of a backbone.
type Adapter struct {
	Config  *Config
	Targets []Target                 // sorted by module
	Tensors map[string]*tensor.Dense // float32, by the names that NameA and NameB give

	spelled map[string]string // module as the files call it, where that is not Target.Module
}

const tensorPrefix = "base_model.model."

// NameA returns the name of a module's matrix A [r, in] in adapter_model.safetensors.
func NameA(module string) string { return tensorPrefix + module + ".lora_A.weight" }

// NameB returns the name of a module's matrix B [out, r].
func NameB(module string) string { return tensorPrefix + module + ".lora_B.weight" }

// New makes a fresh adapter, initialised as PEFT does: B is zero, A is uniform in +-1/sqrt(in) (kaiming_uniform with
// a = sqrt 5). The same seed gives the same values; a module's do not depend on which others are adapted.
func New(c *Config, modules []Module, seed uint64) (*Adapter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if init, ok := c.fields["init_lora_weights"]; ok && init != true {
		return nil, fmt.Errorf("init_lora_weights is %v; new adapters are made with true only", init)
	}
	targets, err := c.MatchModules(modules)
	if err != nil {
		return nil, err
	}
	byName := index(modules)
	a := &Adapter{Config: c, Targets: sorted(targets), Tensors: map[string]*tensor.Dense{}}
	for _, t := range a.Targets {
		m := byName[t.Module]
		nameA, nameB := NameA(t.Module), NameB(t.Module)
		h := fnv.New64a()
		h.Write([]byte(t.Module))
		rng := rand.New(rand.NewPCG(seed, h.Sum64()))
		bound := 1 / math.Sqrt(float64(m.In))
		values := make([]float32, t.Rank*int(m.In))
		for i := range values {
			values[i] = float32((2*rng.Float64() - 1) * bound)
		}
		a.Tensors[nameA] = tensor.New(tensor.WithShape(t.Rank, int(m.In)), tensor.WithBacking(values))
		a.Tensors[nameB] = tensor.New(tensor.WithShape(int(m.Out), t.Rank),
			tensor.WithBacking(make([]float32, int(m.Out)*t.Rank)))
	}
	return a, nil
}

func index(modules []Module) map[string]Module {
	out := make(map[string]Module, len(modules))
	for _, m := range modules {
		out[m.Name] = m
	}
	return out
}

func sorted(targets []Target) []Target {
	return slices.SortedFunc(slices.Values(targets), func(a, b Target) int { return strings.Compare(a.Module, b.Module) })
}

// Load reads an adapter as PEFT saved it. Half-precision matrices become float32. The module names may be those of
// transformers 5 or of the versions before 4.52; Target.Module is always the former. Use Check to compare it with a
// backbone. An error that is [fs.ErrNotExist] says that dir holds no adapter.
func Load(dir string) (*Adapter, error) {
	path := filepath.Join(dir, WeightsFile)
	c, err := LoadConfig(dir)
	if _, e := os.Stat(path); e == nil && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has %s, but %s is missing", dir, WeightsFile, ConfigFile)
	}
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if _, e := os.Stat(filepath.Join(dir, "adapter_model.bin")); e == nil {
			return nil, fmt.Errorf("%s: adapter_model.bin is a Python pickle and is not read; load it in PEFT and save it "+
				"with save_pretrained (safe_serialization=True)",
				dir)
		}
		return nil, fmt.Errorf("%s has %s, but %s is missing", dir, ConfigFile, WeightsFile)
	}
	tensors, _, err := checkpoints.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a := &Adapter{Config: c, Tensors: map[string]*tensor.Dense{}, spelled: map[string]string{}}
	if err := a.take(tensors); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// take sorts a file's tensors into pairs of A and B.
func (a *Adapter) take(tensors map[string]*tensor.Dense) error {
	m, err := newMatcher(a.Config)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		module, which, err := parseName(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		d, path := tensors[name], Canonical(module)
		if d.Dtype() != tensor.Float32 || d.Dims() != 2 {
			errs = append(errs,
				fmt.Errorf("tensor %q: shape %v of %v, want a matrix of floating-point numbers", name, d.Shape(), d.Dtype()))
			continue
		}
		canonical := NameA(path)
		if which == 'B' {
			canonical = NameB(path)
		}
		if a.Tensors[canonical] != nil {
			errs = append(errs, fmt.Errorf("tensor %q: %s has its matrix %c already, under another spelling", name, path, which))
			continue
		}
		a.Tensors[canonical] = d
		if module != path {
			a.spelled[path] = module
		}
		if which == 'A' {
			t, err := m.target(module) // patterns are written for the file's own spelling
			if err != nil {
				return err
			}
			t.Module = path
			a.Targets = append(a.Targets, t)
		}
	}
	a.Targets = sorted(a.Targets)
	for _, t := range a.Targets {
		errs = append(errs, a.checkPair(t))
	}
	if len(a.Tensors) != 2*len(a.Targets) {
		for _, name := range slices.Sorted(maps.Keys(a.Tensors)) {
			other := strings.Replace(name, ".lora_B.", ".lora_A.", 1)
			if a.Tensors[other] == nil {
				errs = append(errs, fmt.Errorf("tensor %q is there, but %q is missing", name, other))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(a.Targets) == 0 {
		return errors.New("it holds no tensors")
	}
	return nil
}

func (a *Adapter) checkPair(t Target) error {
	nameA, nameB := NameA(t.Module), NameB(t.Module)
	matA, matB := a.Tensors[nameA], a.Tensors[nameB]
	if matB == nil {
		return fmt.Errorf("tensor %q is there, but %q is missing", nameA, nameB)
	}
	if got := matA.Shape()[0]; got != t.Rank {
		return fmt.Errorf("tensor %q: shape %v, but %s says rank %d", nameA, matA.Shape(), ConfigFile, t.Rank)
	}
	if got := matB.Shape()[1]; got != t.Rank {
		return fmt.Errorf("tensor %q: shape %v, but %s says rank %d", nameB, matB.Shape(), ConfigFile, t.Rank)
	}
	return nil
}

// parseName splits the name of a tensor into module and 'A' or 'B'.
func parseName(name string) (module string, which byte, err error) {
	module, ok := strings.CutPrefix(name, tensorPrefix)
	for _, w := range []byte("AB") {
		for _, end := range []string{".weight", ".default.weight"} {
			if m, found := strings.CutSuffix(module, ".lora_"+string(w)+end); found && ok {
				return m, w, nil
			}
		}
	}
	return "", 0, fmt.Errorf("unexpected tensor %q; an adapter holds %s<module>.lora_A.weight and .lora_B.weight only",
		name, tensorPrefix)
}

// Check compares the adapter with the modules of a backbone: each of its modules must be there with fitting shapes, and
// it must hold tensors for exactly those that its configuration selects.
func (a *Adapter) Check(modules []Module) error {
	var errs []error
	byName := index(modules)
	has := map[string]bool{}
	for _, t := range a.Targets {
		has[t.Module] = true
		nameA, nameB := NameA(t.Module), NameB(t.Module)
		m, ok := byName[t.Module]
		if !ok || !m.Linear {
			errs = append(errs, fmt.Errorf("unexpected tensor %q: the backbone has no linear layer %s", nameA, t.Module))
			continue
		}
		if got := a.Tensors[nameA].Shape(); int64(got[1]) != m.In {
			errs = append(
				errs,
				fmt.Errorf("tensor %q: shape %v, want (%d, %d) for the backbone's weight [%d, %d]", nameA, got, t.Rank, m.In, m.Out,
					m.In),
			)
		}
		if got := a.Tensors[nameB].Shape(); int64(got[0]) != m.Out {
			errs = append(
				errs,
				fmt.Errorf("tensor %q: shape %v, want (%d, %d) for the backbone's weight [%d, %d]", nameB, got, m.Out, t.Rank,
					m.Out, m.In),
			)
		}
	}
	selected, err := a.Select(a.Config, modules)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	wanted := map[string]bool{}
	for _, t := range selected {
		wanted[t.Module] = true
		if !has[t.Module] {
			errs = append(errs, fmt.Errorf("missing tensor %q: %s selects %s", NameA(t.Module), ConfigFile, t.Module))
		}
	}
	for _, t := range a.Targets {
		if _, ok := byName[t.Module]; ok && !wanted[t.Module] {
			errs = append(errs, fmt.Errorf("unexpected tensor %q: %s does not select %s", NameA(t.Module), ConfigFile, t.Module))
		}
	}
	return shorten(errs)
}

// Select is [Config.MatchModules] for a configuration that is written for this adapter's spelling of the modules; those
// that it returns have their paths in transformers 5.
func (a *Adapter) Select(c *Config, modules []Module) ([]Target, error) {
	spelled := slices.Clone(modules)
	back := map[string]string{}
	for i, m := range spelled {
		if s, ok := a.spelled[m.Name]; ok {
			spelled[i].Name = s
		}
		back[spelled[i].Name] = m.Name
	}
	selected, err := c.MatchModules(spelled)
	for i := range selected {
		selected[i].Module = back[selected[i].Module]
	}
	return selected, err
}

// shorten joins errors, the first ten in full.
func shorten(errs []error) error {
	if len(errs) > 10 {
		errs = append(errs[:10:10], fmt.Errorf("and %d more", len(errs)-10))
	}
	return errors.Join(errs...)
}

// Target returns how a module is adapted, if it is.
func (a *Adapter) Target(module string) (Target, bool) {
	i, ok := slices.BinarySearchFunc(a.Targets, module,
		func(t Target, name string) int { return strings.Compare(t.Module, name) })
	if !ok {
		return Target{}, false
	}
	return a.Targets[i], true
}

// Delta returns a module's matrices A [r, in] and B [out, r] and the factor s: the layer's weight changes by s B A.
func (a *Adapter) Delta(module string) (matA, matB *tensor.Dense, scale float64, ok bool) {
	t, ok := a.Target(module)
	return a.Tensors[NameA(module)], a.Tensors[NameB(module)], t.Scale, ok
}

// Save writes adapter_config.json and adapter_model.safetensors into the folder, as PEFT does. Modules
// keep the spelling they were read with, since the configuration's expressions are written for it.
func (a *Adapter) Save(dir string) error {
	out := make(map[string]*tensor.Dense, len(a.Tensors))
	for _, t := range a.Targets {
		module := t.Module
		if s, ok := a.spelled[module]; ok {
			module = s
		}
		out[NameA(module)], out[NameB(module)] = a.Tensors[NameA(t.Module)], a.Tensors[NameB(t.Module)]
	}
	if err := checkpoints.WriteFile(filepath.Join(dir, WeightsFile), out, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	return a.Config.Save(dir)
}
