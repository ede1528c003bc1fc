package lora

import (
	"fmt"
	"strings"

	"gorgonia.org/tensor"
)

// kind is what a tensor of adapter_model.safetensors is.
type kind string

const (
	kindA     kind = "matrix A"
	kindB     kind = "matrix B"
	kindM     kind = "magnitude vector"
	kindWhole kind = "parameter" // of the backbone
	kindTable kind = "table"     // of the backbone, saved without being trained
)

// endings are the name suffixes of tensors that belong to a module. Files of some tools include the adapter's name.
var endings = []struct {
	end string
	is  kind
}{
	{".lora_A.weight", kindA},
	{".lora_A.default.weight", kindA},
	{".lora_B.weight", kindB},
	{".lora_B.default.weight", kindB},
	{".lora_magnitude_vector", kindM},
	{".lora_magnitude_vector.default.weight", kindM},
	{".lora_magnitude_vector.weight", kindM},
}

// tensorName is a parsed tensor name: its kind, and its module or (kindWhole) parameter.
type tensorName struct {
	kind kind
	of   string
}

// name returns the name of a tensor of a module or parameter.
func (k kind) name(of string) string {
	switch k {
	case kindA:
		return NameA(of)
	case kindB:
		return NameB(of)
	case kindM:
		return NameM(of)
	}
	return NameParameter(of)
}

// check checks a tensor's type and number of dimensions.
func (k kind) check(name string, d *tensor.Dense) error {
	switch {
	case d.Dtype() != tensor.Float32 || (k == kindA || k == kindB) && d.Dims() != 2:
		return fmt.Errorf("tensor %q: shape %v of %v, want a matrix of floating-point numbers", name, d.Shape(), d.Dtype())
	case k == kindM && d.Dims() != 1:
		return fmt.Errorf("tensor %q: shape %v, want a magnitude vector", name, d.Shape())
	}
	return nil
}

// parseName splits the name of a tensor that belongs to a module.
func parseName(name string) (module string, is kind, err error) {
	module, ok := strings.CutPrefix(name, tensorPrefix)
	for _, e := range endings {
		if m, found := strings.CutSuffix(module, e.end); found && ok {
			return m, e.is, nil
		}
	}
	return "", "", fmt.Errorf("unexpected tensor %q; an adapter only has %s<module>.lora_A.weight and .lora_B.weight",
		name, tensorPrefix)
}

// parse parses a tensor's name. A tensor that belongs to no module is a full parameter, if the configuration has any.
func (a *Adapter) parse(name string) (tensorName, error) {
	module, is, err := parseName(name)
	if err == nil && is == kindM && !a.Config.DoRA {
		return tensorName{}, fmt.Errorf("unexpected tensor %q: %s does not have use_dora", name, ConfigFile)
	}
	if err == nil {
		return tensorName{is, module}, nil
	}
	path, ok := strings.CutPrefix(name, tensorPrefix)
	own := strings.Replace(path, ".base_layer.", ".", 1)
	switch {
	case ok && a.Config.copiesTable(own):
		return tensorName{kindTable, own}, nil
	case !ok, strings.Contains(path, ".lora_"), !a.Config.bringsParameters():
		return tensorName{}, err
	}
	if strings.Contains(path, ".modules_to_save.") || strings.Contains(path, ".original_module.") {
		return tensorName{}, fmt.Errorf("unexpected tensor %q: save the adapter with PEFT's save_pretrained", name)
	}
	return tensorName{kindWhole, own}, nil
}

// bringsParameters reports whether the adapter includes full parameters of the backbone.
func (c *Config) bringsParameters() bool {
	return len(c.ModulesToSave) > 0 || c.Bias != "" && c.Bias != BiasNone
}

// ModuleOf returns the path of the module that a tensor of adapter_model.safetensors belongs to; ok is false for other
// tensors.
func ModuleOf(tensor string) (path string, ok bool) {
	name, _, err := parseName(tensor)
	return Canonical(name), err == nil
}

// ParameterOf returns the path in transformers 5 of the backbone parameter that a tensor of adapter_model.safetensors
// replaces; ok is false for other tensors.
func ParameterOf(tensor string) (path string, ok bool) {
	path, ok = strings.CutPrefix(tensor, tensorPrefix)
	if _, _, err := parseName(tensor); err == nil || !ok {
		return "", false
	}
	return Canonical(strings.Replace(path, ".base_layer.", ".", 1)), true
}

// IsB reports whether a tensor of adapter_model.safetensors is a matrix B.
func IsB(tensor string) bool {
	_, is, err := parseName(tensor)
	return err == nil && is == kindB
}
