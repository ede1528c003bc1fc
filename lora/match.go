package lora

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// allLinear, in upper or lower case, is PEFT's word for every linear layer except the output layer.
const allLinear = "all-linear"

// Target is an adapted module.
type Target struct {
	Module string // path in transformers 5: model.language_model.layers.0.self_attn.q_proj
	Rank   int
	Alpha  float64
	Scale  float64 // alpha/r, or alpha/sqrt(r)
}

// Match returns the linear modules that the adapter applies to, in their order, by PEFT's rules (tuners_utils.py:
// check_target_module_exists; other.py: get_pattern_key). others are the modules that are not linear layers; it is an
// error if one of them matches.
func (c *Config) Match(linear []string, others ...string) ([]Target, error) {
	m, err := newMatcher(c)
	if err != nil {
		return nil, err
	}
	var out []Target
	excluded := 0
	for _, name := range linear {
		hit, barred, err := m.match(name)
		if err != nil {
			return nil, err
		}
		if barred {
			excluded++
		}
		if !hit {
			continue
		}
		t, err := m.target(name)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	for _, name := range others {
		if m.all {
			break
		}
		hit, _, err := m.match(name)
		if err != nil {
			return nil, err
		}
		if hit {
			return nil, fmt.Errorf("target_modules %v matches %s, which is not a linear layer; adapters only support "+
				"linear layers",
				c.Targets, name)
		}
	}
	if len(out) == 0 && len(c.ModulesToSave) > 0 {
		free := c.Clone()
		free.ModulesToSave = nil
		if t, err := free.Match(linear, others...); err == nil {
			return nil, fmt.Errorf("target_modules %v and modules_to_save %q collide: everything that target_modules matches "+
				"(%s, ...) is trained in full, without an adapter: leave it out of one of the two",
				c.Targets, []string(c.ModulesToSave), t[0].Module)
		}
	}
	if len(out) == 0 {
		hint := ""
		if len(linear) > 0 {
			hint = fmt.Sprintf(" (%s, ...)", linear[len(linear)/2])
		}
		return nil, fmt.Errorf("target_modules %v matches none of the model's %d linear layers%s; %d are excluded", c.Targets,
			len(linear), hint, excluded)
	}
	return out, nil
}

// String formats the selection as in the file.
func (n Names) String() string {
	if n.Regex != "" {
		return strconv.Quote(n.Regex)
	}
	return fmt.Sprintf("%q", n.List)
}

// matcher is a Config with its expressions compiled.
type matcher struct {
	c                *Config
	all              bool
	targets, exclude *regexp2.Regexp
	saved            []*regexp2.Regexp // modules_to_save
	layers           []*regexp2.Regexp
	ranks, alphas    []*regexp2.Regexp
}

func newMatcher(c *Config) (*matcher, error) {
	m := &matcher{c: c, all: strings.EqualFold(c.Targets.Regex, allLinear)}
	var err error
	if c.Targets.Regex != "" && !m.all {
		if m.targets, err = compile("target_modules", c.Targets.Regex, `\A(?:`, `)\z`); err != nil {
			return nil, err
		}
	}
	if c.Exclude.Regex != "" {
		if m.exclude, err = compile("exclude_modules", c.Exclude.Regex, `\A(?:`, `)\z`); err != nil {
			return nil, err
		}
	}
	for _, p := range c.ModulesToSave { // PEFT treats the names as expressions here
		re, err := compile("modules_to_save", p, `\A(?:^|.*\.)`, `(?:$|\..*)`)
		if err != nil {
			return nil, err
		}
		m.saved = append(m.saved, re)
	}
	if len(c.LayersPattern) == 0 { // the first number between dots
		m.layers = []*regexp2.Regexp{regexp2.MustCompile(`\A.*?\.[^.]*\.(?<idx>\d+)\.`, regexp2.None)}
	}
	for _, p := range c.LayersPattern {
		re, err := compile("layers_pattern", p, `\A(?:^|.*?\.)`, `\.(?<idx>\d+)\.`)
		if err != nil {
			return nil, err
		}
		m.layers = append(m.layers, re)
	}
	if m.ranks, err = compileOverrides("rank_pattern", c.Ranks); err != nil {
		return nil, err
	}
	m.alphas, err = compileOverrides("alpha_pattern", c.Alphas)
	return m, err
}

func compileOverrides(field string, list []Override) ([]*regexp2.Regexp, error) {
	out := make([]*regexp2.Regexp, len(list))
	for i, o := range list {
		var err error
		if out[i], err = compile(field, o.Key, `\A(.*\.)?(`, `)$`); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pythonOnly matches syntax that Python's re spells differently from .NET, which regexp2 follows; it also matches
// escapes, to skip them.
var pythonOnly = regexp.MustCompile(`\\.|\(\?P<|\(\?P=(\w+)\)`)

func compile(field, pattern, before, after string) (*regexp2.Regexp, error) {
	text := pythonOnly.ReplaceAllStringFunc(pattern, func(s string) string {
		switch {
		case s == `\Z`:
			return `\z`
		case s == `(?P<`:
			return `(?<`
		case strings.HasPrefix(s, `(?P=`):
			return `\k<` + s[4:len(s)-1] + `>`
		}
		return s
	})
	re, err := regexp2.Compile(before+text+after, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("%s: regular expression %q: %w", field, pattern, err)
	}
	re.MatchTimeout = 2 * time.Second // backtracking may take forever
	return re, nil
}

// match reports whether a module is adapted, and whether it is excluded explicitly.
func (m *matcher) match(name string) (hit, excluded bool, err error) {
	switch {
	case m.exclude != nil:
		if excluded, err = m.exclude.MatchString(name); excluded || err != nil {
			return false, excluded, err
		}
	case endsWith(name, m.c.Exclude.List):
		return false, true, nil
	}
	if i, err := firstMatch(m.saved, name); i >= 0 || err != nil {
		return false, true, err
	}
	switch {
	case m.all:
		return !isOutput(name), false, nil
	case m.targets != nil:
		hit, err = m.targets.MatchString(name)
		return hit, false, err
	case slices.Contains(m.c.Targets.List, name): // a full name counts in every layer
		return true, false, nil
	case !endsWith(name, m.c.Targets.List):
		return false, false, nil
	case len(m.c.LayersToTransform) == 0:
		return true, false, nil
	}
	for _, re := range m.layers {
		found, err := re.FindStringMatch(name)
		if err != nil {
			return false, false, err
		}
		if found == nil {
			continue
		}
		n, err := strconv.Atoi(found.GroupByName("idx").String())
		return err == nil && slices.Contains(m.c.LayersToTransform, n), false, nil
	}
	return false, false, nil
}

// endsWith reports whether name is in list, or ends with a dot and an element of list.
func endsWith(name string, list []string) bool {
	for _, s := range list {
		if name == s || strings.HasSuffix(name, "."+s) {
			return true
		}
	}
	return false
}

// isOutput reports whether a layer computes the logits, which "all-linear" leaves out.
func isOutput(name string) bool { return name == "lm_head" || name == "language_model.lm_head" }

func (m *matcher) target(name string) (Target, error) {
	t := Target{Module: name, Rank: m.c.Rank, Alpha: m.c.Alpha}
	if i, err := firstMatch(m.ranks, name); err != nil {
		return t, err
	} else if i >= 0 {
		t.Rank = int(m.c.Ranks[i].Value)
	}
	if i, err := firstMatch(m.alphas, name); err != nil {
		return t, err
	} else if i >= 0 {
		t.Alpha = m.c.Alphas[i].Value
	}
	t.Scale = t.Alpha / float64(t.Rank)
	if m.c.RSLoRA {
		t.Scale = t.Alpha / math.Sqrt(float64(t.Rank))
	}
	return t, nil
}

func firstMatch(list []*regexp2.Regexp, name string) (int, error) {
	for i, re := range list {
		if ok, err := re.MatchString(name); ok || err != nil {
			return i, err
		}
	}
	return -1, nil
}
