package lora

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The parts of a vision-language model that adapters may be restricted to.
const (
	Language  = "language"  // the language model with its embedding tables
	Vision    = "vision"    // the vision tower
	Projector = "projector" // maps the tower's output to input embeddings of the language model
)

// Parts lists all parts.
func Parts() []string { return []string{Language, Vision, Projector} }

// Part returns the part of a model that a module or parameter belongs to, by its path in transformers 5.
func Part(path string) string {
	begins := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
	}
	switch {
	case begins("model.multi_modal_projector.", "model.visual.merger.", "model.image_newline"):
		return Projector
	case begins("model.vision_tower.", "model.visual."):
		return Vision
	}
	return Language
}

// partModules are expressions for the modules of each part, in the spelling of any version of transformers.
var partModules = map[string]string{
	Language:  `(.*\.)?language_model\..*|model\.layers\..*|lm_head`,
	Vision:    `(.*\.)?(vision_tower|visual(?!\.merger))\..*`,
	Projector: `(.*\.)?(multi_modal_projector|visual\.merger)\..*`,
}

// Within extends exclude_modules so that nothing outside the given parts is adapted. A list of target modules, or
// all-linear, matches every part of the model ("q_proj" is also in CLIP's tower). PEFT has no other way to restrict
// it.
func (exclude Names) Within(parts []string) Names {
	var out []string
	for _, p := range Parts() {
		if !slices.Contains(parts, p) {
			out = append(out, partModules[p])
		}
	}
	if len(out) == 0 {
		return exclude
	}
	return exclude.And(strings.Join(out, "|"))
}

// And also excludes what an expression for whole names matches.
func (exclude Names) And(expression string) Names {
	switch {
	case len(exclude.List) > 0:
		ends := make([]string, len(exclude.List))
		for i, name := range exclude.List {
			ends[i] = regexp.QuoteMeta(name)
		}
		expression = `(.*\.)?(` + strings.Join(ends, "|") + ")|" + expression
	case exclude.Regex != "":
		flags := globalFlags.FindString(exclude.Regex) // Python requires them at the start
		expression = flags + "(" + exclude.Regex[len(flags):] + ")|" + expression
	}
	return Names{Regex: expression}
}

var globalFlags = regexp.MustCompile(`^\(\?[aimsux]+\)`)

// Outside is the inverse of Within if nothing else is excluded: it returns the parts that such an exclude_modules
// allows, and no other exclusions. Any other exclude_modules allows all parts, and is returned.
func (exclude Names) Outside() (parts []string, rest Names) {
	all := Parts()
	for set := 1; set < 1<<len(all)-1; set++ {
		var some []string
		for i, p := range all {
			if set&(1<<i) != 0 {
				some = append(some, p)
			}
		}
		if exclude.Regex != "" && exclude.Regex == (Names{}).Within(some).Regex {
			return some, Names{}
		}
	}
	return all, exclude
}

// Cover returns the paths of the smallest set of modules that contain the wanted parameters and no others. A
// parameter for which there is no such module (LLaVA-NeXT's image_newline is next to all modules) is left out.
func Cover(parameters []string, wanted func(path string) bool) []string {
	inside, all := map[string]int{}, map[string]int{} // by module: wanted parameters, all
	for _, path := range parameters {
		for p := parent(path); p != ""; p = parent(p) {
			all[p]++
			if wanted(path) {
				inside[p]++
			}
		}
	}
	names := map[string]bool{}
	for _, path := range parameters {
		best := ""
		for p := parent(path); p != "" && inside[p] == all[p]; p = parent(p) {
			best = p
		}
		if best != "" {
			names[best] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
