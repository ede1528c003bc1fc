package model

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/lora"
	"assay/model/batch"
	"assay/model/nn"
)

// An ensemble is a scorer directory with members: folders with a head and an adapter each, from several trainings of
// one configuration. All members read an edit in one pass, as branches of a batch over one backbone (nn/members.go).
// The score is the mean of the members' scores, and sigma the root of the sum of two variances: the variance of these
// scores (n - 1), and the mean of the heads' own variances.

// WriteEnsemble builds a scorer directory from several others, which must have the same configuration and backbone.
// backbone is the backbone's folder; "": as in their scorer.yaml. A member's calibration is left out: it was fitted to
// other scores.
func WriteEnsemble(dirs []string, backbone, out string) error {
	first, err := alikeMembers(dirs, backbone)
	if err != nil {
		return err
	}
	return atomicfile.WriteDir(out, func(to string) error {
		c := *first.Config
		c.Calibration = ""
		for i, dir := range dirs {
			name := fmt.Sprintf("member-%d", i+1)
			if err := os.Mkdir(filepath.Join(to, name), 0o777); err != nil {
				return err
			}
			for _, file := range memberFiles {
				err := atomicfile.Copy(filepath.Join(dir, file), filepath.Join(to, name, file))
				if err != nil && !errors.Is(err, fs.ErrNotExist) { // choices may have no rows of their own
					return err
				}
			}
			c.Members = append(c.Members, name)
		}
		if err := c.Normalize(); err != nil {
			return exit.Usage(err)
		}
		if err := (&ScorerState{Config: &c}).Save(to); err != nil {
			return err
		}
		s, err := OpenScorer(to, Options{Device: "cpu", Backbone: c.Backbone}) // refuses adapters that cannot be joined
		if err != nil {
			return exit.Usagef("%s", strings.TrimPrefix(err.Error(), to+": "))
		}
		return s.Close()
	})
}

// alikeMembers returns the first of several scorers, after checking that they differ only in what training changes.
func alikeMembers(dirs []string, backbone string) (first *ScorerState, err error) {
	if len(dirs) < 2 {
		return nil, exit.Usagef("an ensemble needs at least two scorers")
	}
	known := map[string]string{} // folders by digests
	for _, dir := range dirs {
		p, err := LoadScorerState(dir)
		if err != nil {
			return nil, exit.Named(err)
		}
		p = p.At(backbone)
		if _, err := p.CheckBackbone(); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if first == nil {
			first = p
		}
		switch a, b := first.Config.Digests, p.Config.Digests; {
		case len(p.Config.Members) > 0:
			return nil, exit.Usagef("%s is itself an ensemble: pass its members instead", dir)
		case p.Adapter == nil:
			return nil, exit.Usagef("%s has no adapter: members of an ensemble share a backbone and each need an adapter", dir)
		case p.Config.identity() != first.Config.identity():
			return nil, exit.Usagef("%s and %s ask or read in different ways: members of an ensemble share a configuration",
				dir, dirs[0])
		case a == nil || b == nil || fmt.Sprint(a.Weights, a.Backbone) != fmt.Sprint(b.Weights, b.Backbone):
			return nil, exit.Usagef("%s and %s have different backbones, or no digests of them", dir, dirs[0])
		case known[p.Digest()] != "":
			return nil, exit.Usagef("%s and %s are the same scorer, and would always agree: train each with its own seed",
				known[p.Digest()], dir)
		}
		known[p.Digest()] = dir
	}
	return first, nil
}

// memberFiles are the files of a scorer directory that training changes.
var memberFiles = []string{HeadFile, lora.ConfigFile, lora.WeightsFile}

// readMembers reads heads and adapters of an ensemble.
func readMembers(dir string, c *ScorerConfig) (own map[string]*tensor.Dense, adapters []*lora.Adapter, err error) {
	own = map[string]*tensor.Dense{}
	for i, name := range c.Members {
		folder := filepath.Join(dir, filepath.FromSlash(name))
		tensors, a, err := readTrained(folder, c)
		if err == nil && a == nil {
			err = fmt.Errorf("%s has no adapter", folder)
		}
		if err != nil {
			return nil, nil, err
		}
		for name, t := range tensors {
			own[nn.MemberPrefix(i)+name] = t
		}
		adapters = append(adapters, a)
	}
	return own, adapters, nil
}

// checkMembers reports problems with the members of an ensemble.
func (c *ScorerConfig) checkMembers(p *problems) {
	if len(c.Members) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(c.Members))
	p.wrong(len(sorted) < 2 || len(slices.Compact(sorted)) < len(c.Members),
		"members", "%q: need at least two, all different", c.Members)
	for _, name := range c.Members {
		p.wrong(!filepath.IsLocal(filepath.FromSlash(name)), "members", "%q is not a folder inside the scorer's", name)
	}
	p.wrong(c.Score != nil && c.Score.LowerBound > 0, "score.lower_bound",
		"not supported for an ensemble: subtract sigma from its score where it is used")
	for name, h := range c.Heads {
		p.wrong(h.Joint, "heads."+name, "an ensemble cannot have joint choices")
	}
}

// memberPrefixes are the name prefixes of each member's head and score token tensors; "" for a single scorer.
func (c *ScorerConfig) memberPrefixes() []string {
	if len(c.Members) == 0 {
		return []string{""}
	}
	out := make([]string, len(c.Members))
	for i := range out {
		out[i] = nn.MemberPrefix(i)
	}
	return out
}

// ofDimension reports whether a tensor belongs to the head of that dimension, or to no head.
func (c *ScorerConfig) ofDimension(tensor, dimension string) bool {
	for _, prefix := range c.memberPrefixes() {
		if rest, ok := strings.CutPrefix(tensor, prefix); ok && strings.HasPrefix(rest, "heads.") {
			return strings.HasPrefix(rest, headPrefix(dimension))
		}
	}
	return true
}

// NotAlone refuses an ensemble where a single scorer is needed.
func (c *ScorerConfig) NotAlone(what string) error {
	if len(c.Members) == 0 {
		return nil
	}
	return exit.Usagef("the scorer is an ensemble of %d, which cannot be %s: take one of its members "+
		"(train ensemble --help)", len(c.Members), what)
}

// ofMembers returns a copy of every sample for each member, the copies of a sample next to each other.
func (s *Scorer) ofMembers(samples []*batch.Sample) []*batch.Sample {
	n := len(s.config.Members)
	if n == 0 {
		return samples
	}
	out := make([]*batch.Sample, 0, n*len(samples))
	for _, sample := range samples {
		for m := range n {
			one := *sample
			one.Member, one.Rest = m, make([]*batch.Sample, len(sample.Rest))
			for k, r := range sample.Rest {
				rest := *r
				rest.Member, one.Rest[k] = m, &rest
			}
			out = append(out, &one)
		}
	}
	return out
}

// together is the ensemble's score from its members' scores.
func (s *Scorer) together(scores []edit.Score) edit.Score {
	out := scores[0]
	if len(scores) == 1 {
		return out
	}
	at := func(of func(x *edit.Score) (value, sigma float64)) (mean, deviation float64) {
		n, variance := float64(len(scores)), 0.0
		for i := range scores {
			value, sigma := of(&scores[i])
			mean, variance = mean+value/n, variance+sigma*sigma/n
		}
		for i := range scores {
			value, _ := of(&scores[i])
			variance += (value - mean) * (value - mean) / (n - 1)
		}
		return mean, math.Sqrt(variance)
	}
	out.Value, out.Sigma = at(func(x *edit.Score) (float64, float64) { return x.Value, x.Sigma })
	out.Dimensions = slices.Clone(out.Dimensions)
	for k := range out.Dimensions {
		d := &out.Dimensions[k]
		d.Probabilities = make([]float64, len(d.Probabilities))
		for i := range scores {
			for c, p := range scores[i].Dimensions[k].Probabilities {
				d.Probabilities[c] += p / float64(len(scores))
			}
		}
		if d.Class != "" {
			best := slices.Index(d.Probabilities, slices.Max(d.Probabilities))
			d.Class = s.config.Heads[d.Name].Names[best]
			continue
		}
		d.Value, d.Sigma = at(func(x *edit.Score) (float64, float64) {
			return x.Dimensions[k].Value, x.Dimensions[k].Sigma
		})
	}
	return out
}
