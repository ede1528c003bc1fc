package trainer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// mayDiffer are the keys that a resumed run may have otherwise: they say where things lie, or change no number. What lies
// at the paths is compared by content.
var mayDiffer = []string{"out", "backbone", "init", "data.train", "data.validation", "data.skip", "checkpoint", "cache"}

// differences lists what is no longer as the checkpoint has it.
func differences(old, now *state) ([]string, error) {
	var was, is map[string]any
	if err := yaml.Unmarshal([]byte(old.Config), &was); err != nil {
		return nil, fmt.Errorf("the configuration of the checkpoint: %w", err)
	}
	if err := yaml.Unmarshal([]byte(now.Config), &is); err != nil {
		return nil, err
	}
	text, err := Default().YAML()
	if err != nil {
		return nil, err
	}
	var usual map[string]any
	if err := yaml.Unmarshal(text, &usual); err != nil {
		return nil, err
	}
	before, present := flatten("", usual), flatten("", is) // a checkpoint of an earlier version lacks newer keys: then they had their defaults
	past := flatten("", was)
	if _, ok := past["lora.parts"]; !ok { // but for this one, which had none: what is trained was compared already
		before["lora.parts"] = present["lora.parts"]
	}
	maps.Copy(before, past)
	out := changed("", before, present)
	out = append(out, changed("model: ", old.Model, now.Model)...)
	return append(out, changed("data: ", old.Data, now.Data)...), nil
}

func flatten(key string, tree map[string]any) map[string]string {
	out := map[string]string{}
	for name, v := range tree {
		if key != "" {
			name = key + "." + name
		}
		if sub, ok := v.(map[string]any); ok && len(sub) > 0 {
			maps.Copy(out, flatten(name, sub))
		} else {
			out[name] = fmt.Sprint(v)
		}
	}
	return out
}

func changed(prefix string, was, is map[string]string) []string {
	names := slices.Sorted(maps.Keys(was))
	for _, n := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[n]; !ok {
			names = append(names, n)
		}
	}
	var out []string
	for _, n := range names {
		a, hadA := was[n]
		b, hadB := is[n]
		if a == b && hadA == hadB || prefix == "" && moved(n, a, b) {
			continue
		}
		if !hadA {
			a = "absent"
		}
		if !hadB {
			b = "absent"
		}
		out = append(out, fmt.Sprintf("%s%s: %s in the checkpoint, %s now", prefix, n, short(a), short(b)))
	}
	return out
}

// moved tells whether a key may differ. data.validation may as a path, not as a fraction.
func moved(name, a, b string) bool {
	if name == "data.validation" {
		return !number01(a) && !number01(b)
	}
	return slices.ContainsFunc(mayDiffer, func(k string) bool { return name == k || strings.HasPrefix(name, k+".") })
}

func number01(s string) bool {
	return strings.HasPrefix(s, "0") && strings.Trim(s, "0123456789.e-") == ""
}

func short(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
