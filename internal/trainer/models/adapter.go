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

// freshAdapter refuses a section lora of which something selects nothing: PEFT would pass over it, and something else
// would train than was meant.
func freshAdapter(l *lora.Config, modules []lora.Module) error {
	problems, err := l.Unused(modules)
	if err != nil || len(problems) == 0 { // what selects nothing at all is told later, with what would
		return nil
	}
	return exit.Usage(fmt.Errorf("lora.%s", strings.Join(problems, "\nlora.")))
}

// suggestParts adds to an error about targets that match nothing where they would match.
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
		return err // of something else
	}
	if c.Train != nil {
		if ends := layerEnds(modules, c.Lora.Parts); len(ends) > 0 {
			return fmt.Errorf("%w\ntrain puts adapters on %v, whose linear layers are called %s: name some of them in "+
				"lora.targets", err, c.Lora.Parts, strings.Join(ends, ", "))
		}
		return err
	}
	found, none := config.PEFTConfig(&all).MatchModules(modules)
	if none != nil {
		return err
	}
	return fmt.Errorf("%w\nlora.parts is %v; they match %s: name these parts, too, if they are meant", err, c.Lora.Parts,
		adapters(found))
}

// layerEnds lists the last words of the names of the linear layers of some parts.
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

// loadInit reads the scorer of init. Adapter, head and rows were made for its backbone, so another
// one is refused.
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
	p.Dir = "" // it becomes another one
	return p, err
}

// UndigestedInit warns of a scorer that does not say what it was made of.
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

// checkSameBackbone is loadInit's comparison for scorers of earlier versions, which do not say what their backbone was
// made of. (Where the scorer's own is not there any more, nothing can be compared.)
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
		"begin without init",
		c.Backbone, own)
}

// difference says in what the first layer differs that is asked for otherwise than it is; "": in nothing.
func difference(brought, asked []lora.Target) string {
	has := map[string]lora.Target{}
	for _, t := range brought {
		has[t.Module] = t
	}
	for _, t := range asked {
		h, ok := has[t.Module]
		switch {
		case !ok:
			return t.Module + ", which it has not"
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

// checkSameAdapter compares the lora section with the adapter that init brings, which it trains further: they must
// select the same layers with the same ranks and scales. Dropout is the run's own.
func checkSameAdapter(c *config.Config, a *lora.Adapter) error {
	was := config.LoraConfigOf(a.Config)
	was.Dropout = c.Lora.Dropout
	x, errX := yaml.Marshal(was)
	y, errY := yaml.Marshal(c.Lora)
	if c.Adapts() {
		a.Config.Dropout = c.Lora.Dropout // the file says what was trained with
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
		return fmt.Errorf("lora: the adapter of init (%s) was made with other dora, start, bias or modules_to_save than the "+
			"lora section asks for: leave them out, or begin without init", c.Init)
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("lora (with what the adapter of init brings): %w", err)
	}
	asked, err := a.Select(l, modules)
	if err != nil {
		return err
	}
	differs := difference(a.Targets, asked)
	if differs == "" {
		return nil
	}
	return fmt.Errorf("lora: the adapter of init (%s) has %s; the lora section asks for %s, among them %s: leave the "+
		"section out, or begin without init",
		c.Init, adapters(a.Targets), adapters(asked), differs)
}

// checkBrought refuses to train a part whole that the adapter of init does not bring whole: nothing of it would.
func checkBrought(c *config.Config, a *lora.Adapter) error {
	if c.Train == nil || c.Mode != "lora" {
		return nil
	}
	for _, p := range c.Train.Parts(config.Whole) {
		if !slices.ContainsFunc(a.Whole, func(path string) bool { return lora.Part(path) == p }) {
			return fmt.Errorf(
				"train.%s: full, but the adapter of init brings nothing of it (modules_to_save): merge the scorer "+
					"first (train merge --scorer), or begin without init",
				p,
			)
		}
	}
	return nil
}

// adapters describes some for people: how many, where, of which ranks.
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

// partNames are the parts of a model as people call them.
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

// adapterConfig is the configuration of the adapter that a run asks for, as PEFT writes it; nil: none.
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
