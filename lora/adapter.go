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
	Tensors map[string]*tensor.Dense // float32, by the names that NameA, NameB, NameM and NameParameter return
	Whole   []string                 // full parameters (modules_to_save, bias), by path in transformers 5, sorted

	// InitOffset holds A0 and B0 of a PiSSA or OLoRA start, by the names of A and B: the layer computes with W - s B0
	// A0. Lengths are the squared row norms of a DoRA layer's W, by module. Bind fills them in.
	InitOffset map[string]*tensor.Dense
	Lengths    map[string][]float32

	Branches map[string][]Branch // of joined adapters, by module: see Join; nil: a single adapter

	spelled map[string]string // name of a module or parameter in the files, if it differs from its path
	fresh   bool              // Bind initializes the tensors

	tables map[string]*tensor.Dense // of the vocabulary, copies in the file, by path: see checkTables
}

const tensorPrefix = "base_model.model."

// NameA returns the name of a module's matrix A [r, in] in adapter_model.safetensors.
func NameA(module string) string { return tensorPrefix + module + ".lora_A.weight" }

// NameB returns the name of a module's matrix B [out, r].
func NameB(module string) string { return tensorPrefix + module + ".lora_B.weight" }

// NameM returns the name of a DoRA layer's magnitudes m [out].
func NameM(module string) string { return tensorPrefix + module + ".lora_magnitude_vector" }

// NameParameter returns the name of a full parameter of the backbone in the adapter.
func NameParameter(path string) string { return tensorPrefix + path }

// New creates an adapter, initialised as in PEFT: B is zero, A is uniform in +-1/sqrt(in) (kaiming_uniform with a =
// sqrt 5). The same seed gives the same values; the values of a module do not depend on which other modules are
// adapted. [Adapter.Bind] fills in what depends on the backbone's weights (DoRA, other starts, parameters that are
// trained in full).
func New(c *Config, modules []Module, seed uint64) (*Adapter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Start != StartUsual && !c.Start.changesBase() {
		return nil, fmt.Errorf("init_lora_weights is %q; new adapters support true, pissa and olora", c.Start)
	}
	targets, err := c.MatchModules(modules)
	if err != nil {
		return nil, err
	}
	byName := index(modules)
	a := &Adapter{Config: c, Targets: sorted(targets), Tensors: map[string]*tensor.Dense{}, fresh: true}
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
		if c.DoRA {
			a.Tensors[NameM(t.Module)] = tensor.New(tensor.WithShape(int(m.Out)), tensor.Of(tensor.Float32))
		}
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

// Load reads an adapter saved by PEFT. Half-precision matrices become float32. The module names may be from
// transformers 5 or from versions before 4.52; Target.Module is always from transformers 5. Use Check to compare the
// adapter with a backbone. An error that is [fs.ErrNotExist] means that dir contains no adapter.
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

// take sorts a file's tensors into pairs of A and B, magnitudes, and full parameters.
func (a *Adapter) take(tensors map[string]*tensor.Dense) error {
	m, err := newMatcher(a.Config)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		n, err := a.parse(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		d, path := tensors[name], Canonical(n.of)
		if err := n.kind.check(name, d); err != nil {
			errs = append(errs, err)
			continue
		}
		if n.kind == kindTable {
			a.addTable(path, d)
			continue
		}
		canonical := n.kind.name(path)
		if a.Tensors[canonical] != nil {
			errs = append(errs, fmt.Errorf("tensor %q: %s already has its %s, under another spelling", name, path, n.kind))
			continue
		}
		a.Tensors[canonical] = d
		if n.of != path {
			a.spelled[path] = n.of
		}
		switch n.kind {
		case kindA:
			t, err := m.target(n.of) // patterns use the file's spelling
			if err != nil {
				return err
			}
			t.Module = path
			a.Targets = append(a.Targets, t)
		case kindWhole:
			a.Whole = append(a.Whole, path)
		}
	}
	a.Targets = sorted(a.Targets)
	slices.Sort(a.Whole)
	for _, t := range a.Targets {
		errs = append(errs, a.checkPair(t))
	}
	errs = append(errs, a.checkAlone())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(a.Targets) == 0 {
		return errors.New("it has no tensors")
	}
	return nil
}

// checkAlone finds matrices B and magnitudes whose matrix A is missing.
func (a *Adapter) checkAlone() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a.Tensors)) {
		if module, kind, err := parseName(name); err == nil && kind != kindA && a.Tensors[NameA(module)] == nil {
			errs = append(errs, fmt.Errorf("tensor %q exists, but %q is missing", name, NameA(module)))
		}
	}
	return errors.Join(errs...)
}

func (a *Adapter) checkPair(t Target) error {
	nameA, nameB := NameA(t.Module), NameB(t.Module)
	matA, matB := a.Tensors[nameA], a.Tensors[nameB]
	if matB == nil {
		return fmt.Errorf("tensor %q exists, but %q is missing", nameA, nameB)
	}
	if got := matA.Shape()[0]; got != t.Rank {
		return fmt.Errorf("tensor %q: shape %v, but %s says rank %d", nameA, matA.Shape(), ConfigFile, t.Rank)
	}
	if got := matB.Shape()[1]; got != t.Rank {
		return fmt.Errorf("tensor %q: shape %v, but %s says rank %d", nameB, matB.Shape(), ConfigFile, t.Rank)
	}
	if !a.Config.DoRA {
		return nil
	}
	m := a.Tensors[NameM(t.Module)]
	if m == nil {
		return fmt.Errorf("tensor %q exists, but %q is missing: %s has use_dora", nameA, NameM(t.Module), ConfigFile)
	}
	if got := m.Shape(); len(got) != 1 || got[0] != matB.Shape()[0] {
		return fmt.Errorf("tensor %q: shape %v, want [%d]", NameM(t.Module), got, matB.Shape()[0])
	}
	return nil
}

// Check compares the adapter with the modules of a backbone. Each module of the adapter must exist with matching
// shapes, and the adapter must have tensors for exactly the modules that its configuration selects.
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

// Select is [Config.MatchModules] for a configuration that uses this adapter's spelling of the modules; the targets
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

// shorten joins errors: the first ten, and the number of the others.
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

// Save writes adapter_config.json and adapter_model.safetensors into the folder, as PEFT does. Modules keep the
// spelling they were read with, because the configuration's expressions use it. An adapter that subtracts its start
// from the base weights is converted to one that does not, as in PEFT: it has twice the rank, with A0 and -B0
// appended to A and B.
func (a *Adapter) Save(dir string) error {
	if len(a.InitOffset) > 0 {
		plain, err := a.plain()
		if err != nil {
			return err
		}
		return plain.Save(dir)
	}
	out := make(map[string]*tensor.Dense, len(a.Tensors))
	for name, d := range a.Tensors {
		out[a.fileName(name)] = d
	}
	if err := checkpoints.WriteFile(filepath.Join(dir, WeightsFile), out, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	return a.Config.Save(dir)
}

// fileName returns the name of a tensor in the file: in the spelling that was read, and with the biases of adapted
// layers under base_layer, as in PEFT's wrapped layers.
func (a *Adapter) fileName(name string) string {
	n, err := a.parse(name)
	if err != nil {
		return name
	}
	of := n.of
	if s, ok := a.spelled[of]; ok {
		of = s
	}
	if n.kind != kindWhole {
		return n.kind.name(of)
	}
	if module, ok := strings.CutSuffix(of, ".bias"); ok {
		if _, adapted := a.Target(strings.TrimSuffix(n.of, ".bias")); adapted {
			of = module + ".base_layer.bias"
		}
	}
	return kindWhole.name(of)
}
