package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// mayDiffer are the keys that may change when a run resumes: they are paths, or do not affect the results. The files
// at the paths are compared by content.
var mayDiffer = []string{"out", "backbone", "init", "data.train", "data.validation", "data.skip", "checkpoint", "cache",
	"device_options.memory_limit", "validate.benchmark.ratings", "validate.benchmark.images",
	"validate.benchmark.votes", "validate.benchmark.targets", "report_to"}

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

// Values returns the values of all keys in a configuration's YAML, as text, by dotted key.
func Values(text []byte) (map[string]string, error) {
	var tree map[string]any
	err := yaml.Unmarshal(text, &tree)
	out := flatten("", tree)
	var ordered struct {
		Lora struct {
			Ranks  yaml.MapSlice `yaml:"rank_pattern"`
			Alphas yaml.MapSlice `yaml:"alpha_pattern"`
		} `yaml:"lora"`
	}
	err = errors.Join(err, yaml.Unmarshal(text, &ordered))
	for key, patterns := range map[string]yaml.MapSlice{
		"lora.rank_pattern": ordered.Lora.Ranks, "lora.alpha_pattern": ordered.Lora.Alphas} {
		if len(patterns) > 1 { // the first that matches counts
			var names []string
			for _, x := range patterns {
				names = append(names, fmt.Sprint(x.Key))
			}
			out[key] = fmt.Sprintf("%q", names)
		}
	}
	return out, err
}

// values returns the values of all keys.
func (c *Config) values() map[string]string {
	text, err := c.YAML()
	if err != nil {
		return nil
	}
	values, _ := Values(text) // it was just written
	return values
}

// sameValue reports whether a key has the same value, or the same values below it, in two configurations.
func sameValue(a, b map[string]string, key string) bool {
	below := func(name string, _ string) bool { return name != key && !strings.HasPrefix(name, key+".") }
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, below)
	maps.DeleteFunc(b, below)
	return maps.Equal(a, b)
}

// Changed lists the keys whose values differ, except keys of the configuration (prefix "") that may differ.
func Changed(prefix string, was, is map[string]string) []string {
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
		if a == b && hadA == hadB || prefix == "" && Moved(n, a, b) {
			continue
		}
		if !hadA {
			a = "absent"
		}
		if !hadB {
			b = "absent"
		}
		out = append(out, fmt.Sprintf("%s%s: %s in the checkpoint, %s now", prefix, n, Short(a), Short(b)))
	}
	return out
}

// Moved reports whether a key may differ when a run resumes. data.validation may differ as a path, not as a fraction.
func Moved(name, a, b string) bool {
	if name == "data.validation" {
		return !number01(a) && !number01(b)
	}
	return slices.ContainsFunc(mayDiffer, func(k string) bool { return name == k || strings.HasPrefix(name, k+".") })
}

func number01(s string) bool {
	return strings.HasPrefix(s, "0") && strings.Trim(s, "0123456789.e-") == ""
}

// Short truncates a long text.
func Short(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
