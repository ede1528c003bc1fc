package models

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/exit"
	"assay/internal/trainer/config"
	"assay/lora"
	"assay/model"
	"assay/model/backbone"
)

// freshAdapter refuses a lora section in which some setting selects nothing: PEFT would ignore it, and the run would
// not train what was intended.
func freshAdapter(l *lora.Config, modules []lora.Module) error {
	problems, err := l.Unused(modules)
	if err != nil || len(problems) == 0 { // if nothing at all is selected, a later error says what would match
		return nil
	}
	return exit.Usage(fmt.Errorf("lora.%s", strings.Join(problems, "\nlora.")))
}

// UnusedExclude returns a warning, as PEFT does, if lora.exclude of a new adapter matches nothing.
func UnusedExclude(c *config.Config) (warnings []string) {
	if !c.Adapts() || c.BringsAdapter() {
		return nil
	}
	modules, err := backboneModules(c.Backbone)
	if err != nil {
		return nil // opening the model has the error
	}
	unmatched, _ := lora.Names{List: c.Lora.Exclude.List, Regex: c.Lora.Exclude.Pattern}.Unmatched(modules)
	for _, name := range unmatched {
		warnings = append(warnings, fmt.Sprintf("lora.exclude: %s matches no module of the backbone", name))
	}
	return warnings
}

// suggestParts adds to an error about targets that match nothing which parts they would match.
func suggestParts(c *config.Config, err error) error {
	if err == nil || !c.Adapts() || len(c.Lora.Parts) == len(lora.Parts()) {
		return err
	}
	all := *c
	all.Lora.Parts = lora.Parts()
	modules, open := backboneModules(c.Backbone)
	if open != nil {
		return err
	}
	if _, narrow := config.PEFTConfig(c).MatchModules(modules); narrow == nil {
		return err // a different error
	}
	if c.Train != nil {
		if ends := layerEnds(modules, c.Lora.Parts); len(ends) > 0 {
			return fmt.Errorf("%w\ntrain puts adapters on %v, whose linear layers are named %s: add some of them to "+
				"lora.targets", err, c.Lora.Parts, strings.Join(ends, ", "))
		}
		return err
	}
	found, none := config.PEFTConfig(&all).MatchModules(modules)
	if none != nil {
		return err
	}
	return fmt.Errorf("%w\nlora.parts is %v; they match %s: add these parts if they are intended", err, c.Lora.Parts,
		adapters(found))
}

// layerEnds lists the last name components of the linear layers in some parts.
func layerEnds(modules []lora.Module, parts []string) []string {
	ends := map[string]bool{}
	for _, m := range modules {
		if m.Linear && slices.Contains(parts, lora.Part(m.Name)) {
			ends[m.Name[strings.LastIndexByte(m.Name, '.')+1:]] = true
		}
	}
	return slices.Sorted(maps.Keys(ends))
}

func backboneModules(dir string) ([]lora.Module, error) {
	modules, _, err := backboneParts(dir)
	return modules, err
}

// backboneParts lists the modules of a backbone and the paths of its parameters.
func backboneParts(dir string) (modules []lora.Module, parameters []string, err error) {
	b, err := backbone.DescribeBackbone(dir)
	if err != nil {
		return nil, nil, err
	}
	defer b.Close()
	for _, name := range b.Weights.Names() {
		parameters = append(parameters, lora.Canonical(name))
	}
	return lora.Modules(b.Weights), parameters, nil
}

// loadInit reads the scorer of init. Adapter, head and rows were trained on its backbone, so a different backbone is
// refused.
func loadInit(c *config.Config, plan bool) (*model.ScorerState, error) {
	p, err := model.LoadScorerState(c.Init)
	if err != nil {
		return nil, err
	}
	if err := p.Config.NotAlone("trained on"); err != nil {
		return nil, err
	}
	p.Plan = plan
	own, there := p.Config.Backbone, p
	if filepath.Clean(own) != filepath.Clean(c.Backbone) {
		there = p.At(c.Backbone)
	}
	known, err := there.CheckBackbone()
	if err != nil && there != p {
		err = fmt.Errorf("backbone: %s is not the backbone of the scorer of init: %w", c.Backbone, err)
	} else if err == nil && !known {
		err = checkSameBackbone(c, own)
	}
	p.Dir = "" // it becomes a different scorer
	return p, err
}

// UndigestedInit returns a warning if the scorer of init does not record the digests of its backbone.
func UndigestedInit(c *config.Config) []string {
	if c.Init == "" {
		return nil
	}
	was, err := model.ReadScorerConfig(filepath.Join(c.Init, model.ConfigFile))
	if err != nil { // a bare adapter
		return nil
	}
	if text := was.Undigested(c.Init); text != "" {
		return []string{text}
	}
	return nil
}

// checkSameBackbone is loadInit's comparison for scorers of earlier versions, which do not record their backbone's
// digests. (If the scorer's own backbone no longer exists, nothing can be compared.)
func checkSameBackbone(c *config.Config, own string) error {
	if filepath.Clean(own) == filepath.Clean(c.Backbone) {
		return nil
	}
	a, err := backbone.DescribeBackbone(own)
	if err != nil {
		return nil
	}
	defer a.Close()
	b, err := backbone.DescribeBackbone(c.Backbone)
	if err != nil {
		return err
	}
	defer b.Close()
	if a.Weights.Absent() || b.Weights.Absent() {
		return nil
	}
	x, errX := backbone.Fingerprint(own, a.Weights)
	y, errY := backbone.Fingerprint(c.Backbone, b.Weights)
	if err := errors.Join(errX, errY); err != nil || x == y {
		return err
	}
	return fmt.Errorf("backbone: %s is not the backbone of the scorer of init, which is %s: leave the key out, or "+
		"start without init",
		c.Backbone, own)
}

// difference describes the first layer whose requested adapter differs from the existing one; "": no difference.
func difference(brought, asked []lora.Target) string {
	has := map[string]lora.Target{}
	for _, t := range brought {
		has[t.Module] = t
	}
	for _, t := range asked {
		h, ok := has[t.Module]
		switch {
		case !ok:
			return t.Module + ", which it does not have"
		case h.Rank != t.Rank || h.Scale != t.Scale:
			return fmt.Sprintf("%s with rank %d and scale %.4g; there it has rank %d and scale %.4g", t.Module, t.Rank,
				t.Scale, h.Rank, h.Scale)
		}
		delete(has, t.Module)
	}
	for _, module := range slices.Sorted(maps.Keys(has)) {
		return "no " + module + ", which it has"
	}
	return ""
}

// checkSameAdapter compares the lora section with init's adapter, which the run continues to train: they must select
// the same layers with the same ranks and scales. Dropout may differ.
func checkSameAdapter(c *config.Config, a *lora.Adapter) error {
	was := config.LoraConfigOf(a.Config)
	was.Dropout = c.Lora.Dropout
	x, errX := yaml.Marshal(was)
	y, errY := yaml.Marshal(c.Lora)
	if c.Adapts() {
		a.Config.Dropout = c.Lora.Dropout // the file records the dropout of this run
	}
	if errX == nil && errY == nil && string(x) == string(y) {
		return checkBrought(c, a)
	}
	modules, err := backboneModules(c.Backbone)
	if err != nil {
		return err
	}
	if err := checkBrought(c, a); err != nil {
		return err
	}
	l := config.PEFTConfig(c)
	if l.DoRA != a.Config.DoRA || l.Start != a.Config.Start || l.Bias != a.Config.Bias ||
		!config.SameSet(l.ModulesToSave, a.Config.ModulesToSave) {
		return fmt.Errorf("lora: the adapter of init (%s) has a different dora, start, bias or modules_to_save than the "+
			"lora section: leave them out, or start without init", c.Init)
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("lora (with the settings of init's adapter): %w", err)
	}
	asked, err := a.Select(l, modules)
	if err != nil {
		return err
	}
	differs := difference(a.Targets, asked)
	if differs == "" {
		return nil
	}
	return fmt.Errorf("lora: the adapter of init (%s) has %s; the lora section asks for %s, including %s: leave the "+
		"section out, or start without init",
		c.Init, adapters(a.Targets), adapters(asked), differs)
}

// checkBrought refuses to train a part in full if init's adapter has no full tensors of it (modules_to_save): none
// would train.
func checkBrought(c *config.Config, a *lora.Adapter) error {
	if c.Train == nil || c.Mode != "lora" {
		return nil
	}
	for _, p := range c.Train.Parts(config.Whole) {
		if !slices.ContainsFunc(a.Whole, func(path string) bool { return lora.Part(path) == p }) {
			return fmt.Errorf(
				"train.%s: full, but the adapter of init has none of it in modules_to_save: merge the scorer "+
					"first (train merge --scorer), or start without init",
				p,
			)
		}
	}
	return nil
}

// adapters describes adapters in messages: how many, where, with which ranks.
func adapters(targets []lora.Target) string {
	count := map[string]int{}
	ranks := map[int]bool{}
	for _, t := range targets {
		count[lora.Part(t.Module)]++
		ranks[t.Rank] = true
	}
	var words []string
	for _, r := range slices.Sorted(maps.Keys(ranks)) {
		words = append(words, fmt.Sprint(r))
	}
	return fmt.Sprintf("%s, rank %s", counted(count, "adapter"), strings.Join(words, " and "))
}

// partNames are the names of the parts of a model in messages.
var partNames = map[string]string{
	lora.Language:  "the language model",
	lora.Vision:    "vision",
	lora.Projector: "the projector",
}

// counted writes "24 adapters in the language model, 0 in vision, 0 in the projector".
func counted(count map[string]int, what string) string {
	var words []string
	for i, p := range lora.Parts() {
		n := fmt.Sprint(count[p])
		if i == 0 {
			n += " " + what
			if count[p] != 1 {
				n += "s"
			}
		}
		words = append(words, n+" in "+partNames[p])
	}
	return strings.Join(words, ", ")
}

// adapterConfig returns the configuration of a run's adapter in PEFT's form; nil: none.
func adapterConfig(c *config.Config) (*lora.Config, error) {
	if !c.Adapts() {
		return nil, nil
	}
	l, brought := config.PEFTConfig(c), c.BringsAdapter()
	if c.Train == nil && brought {
		return l, nil
	}
	modules, parameters, err := backboneParts(c.Backbone)
	if err != nil {
		return nil, err
	}
	if c.Train != nil {
		if err := c.Train.Narrow(l, modules, parameters); err != nil {
			return nil, err
		}
	}
	if brought {
		return l, nil
	}
	return l, freshAdapter(l, modules)
}
