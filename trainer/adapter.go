package trainer

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/exit"
	"assay/lora"
	"assay/model"
)

// wholePaths tells whether the targets are an expression that a whole module path must match.
func (t Targets) wholePaths() bool {
	return t.Pattern != "" && !strings.EqualFold(t.Pattern, "all-linear")
}

// loraConfig is the configuration of the adapter that a run asks for, as PEFT writes it.
func loraConfig(c *Config) *lora.Config {
	names := func(t Targets) lora.Names { return lora.Names{List: t.List, Regex: t.Pattern} }
	l := lora.NewConfig(c.Lora.R, c.Lora.Alpha, names(c.Lora.Targets))
	l.Dropout, l.RSLoRA, l.Base, l.LayersToTransform = c.Lora.Dropout, c.Lora.RSLora, c.Backbone, c.Lora.Layers
	l.DoRA, l.Start, l.ModulesToSave = c.Lora.DoRA, lora.Start(c.Lora.Start), slices.Clone(c.Lora.ModulesToSave)
	if c.Lora.Bias != "" {
		l.Bias = c.Lora.Bias
	}
	l.Exclude = names(c.Lora.Exclude).Within(c.Lora.Parts)
	for _, k := range slices.Sorted(maps.Keys(c.Lora.RankPattern)) {
		l.Ranks = append(l.Ranks, lora.Override{Key: k, Value: float64(c.Lora.RankPattern[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(c.Lora.AlphaPattern)) {
		l.Alphas = append(l.Alphas, lora.Override{Key: k, Value: c.Lora.AlphaPattern[k]})
	}
	return l
}

// loraOf is the inverse of loraConfig.
func loraOf(a *lora.Config) LoraConfig {
	parts, rest := a.Exclude.Outside()
	l := LoraConfig{
		R:            a.Rank,
		Alpha:        a.Alpha,
		Dropout:      a.Dropout,
		Targets:      Targets{List: a.Targets.List, Pattern: a.Targets.Regex},
		Parts:        parts,
		Exclude:      Targets{List: rest.List, Pattern: rest.Regex},
		RankPattern:  map[string]int{},
		AlphaPattern: map[string]float64{},
		RSLora:       a.RSLoRA,
		Layers:       a.LayersToTransform,
		DoRA:         a.DoRA,

		ModulesToSave: a.ModulesToSave,
	}
	if a.Bias != lora.BiasNone {
		l.Bias = a.Bias
	}
	if a.Start == lora.StartPiSSA || a.Start == lora.StartOLoRA {
		l.Start = string(a.Start)
	}
	for _, o := range a.Ranks {
		l.RankPattern[o.Key] = int(o.Value)
	}
	for _, o := range a.Alphas {
		l.AlphaPattern[o.Key] = o.Value
	}
	return l
}

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
func suggestParts(c *Config, err error) error {
	if err == nil || !c.adapts() || len(c.Lora.Parts) == len(lora.Parts()) {
		return err
	}
	all := *c
	all.Lora.Parts = lora.Parts()
	modules, open := backboneModules(c.Backbone)
	if open != nil {
		return err
	}
	if _, narrow := loraConfig(c).MatchModules(modules); narrow == nil {
		return err // of something else
	}
	if c.Train != nil {
		if ends := layerEnds(modules, c.Lora.Parts); len(ends) > 0 {
			return fmt.Errorf("%w\ntrain puts adapters on %v, whose linear layers are called %s: name some of them in "+
				"lora.targets", err, c.Lora.Parts, strings.Join(ends, ", "))
		}
		return err
	}
	found, none := loraConfig(&all).MatchModules(modules)
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
	b, err := model.DescribeBackbone(dir)
	if err != nil {
		return nil, nil, err
	}
	defer b.Close()
	for _, name := range b.Weights.Names() {
		parameters = append(parameters, lora.Canonical(name))
	}
	return lora.Modules(b.Weights), parameters, nil
}

// loadInit reads the scorer that training goes on from. Adapter, head and rows were made for its backbone, so another
// one is refused.
func loadInit(c *Config, plan bool) (*model.ScorerState, error) {
	p, err := model.LoadScorerState(c.Init)
	if err != nil {
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

// undigestedInit warns of a scorer that does not say what it was made of.
func (c *Config) undigestedInit() []string {
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
func checkSameBackbone(c *Config, own string) error {
	if filepath.Clean(own) == filepath.Clean(c.Backbone) {
		return nil
	}
	a, err := model.DescribeBackbone(own)
	if err != nil {
		return nil
	}
	defer a.Close()
	b, err := model.DescribeBackbone(c.Backbone)
	if err != nil {
		return err
	}
	defer b.Close()
	if a.Weights.Absent() || b.Weights.Absent() {
		return nil
	}
	x, errX := model.Fingerprint(own, a.Weights)
	y, errY := model.Fingerprint(c.Backbone, b.Weights)
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
func checkSameAdapter(c *Config, a *lora.Adapter) error {
	was := loraOf(a.Config)
	was.Dropout = c.Lora.Dropout
	x, errX := yaml.Marshal(was)
	y, errY := yaml.Marshal(c.Lora)
	if c.adapts() {
		a.Config.Dropout = c.Lora.Dropout // the file says what was trained with
	}
	if errX == nil && errY == nil && string(x) == string(y) {
		return c.checkBrought(a)
	}
	modules, err := backboneModules(c.Backbone)
	if err != nil {
		return err
	}
	if err := c.checkBrought(a); err != nil {
		return err
	}
	l := loraConfig(c)
	if l.DoRA != a.Config.DoRA || l.Start != a.Config.Start || l.Bias != a.Config.Bias ||
		!sameSet(l.ModulesToSave, a.Config.ModulesToSave) {
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
func (c *Config) checkBrought(a *lora.Adapter) error {
	if c.Train == nil || c.Mode != "lora" {
		return nil
	}
	for _, p := range c.Train.parts(whole) {
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

// counted says "24 adapters in the language model, 0 in vision, 0 in the projector".
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
