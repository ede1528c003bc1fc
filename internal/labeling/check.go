package labeling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"assay/data"
	"assay/data/readers"
	"assay/encoders"
	"assay/heuristics"
)

// CheckReport is the result of Check.
type CheckReport struct {
	Profile string        `json:"profile"`
	ClipD   string        `json:"clip_d"`
	Sources []SourceCheck `json:"sources"`
	Mixes   []string      `json:"warnings"` // mixed profiles
	// Problems are the reasons why the run would fail: thresholds that nothing measures, encoders that cannot be
	// opened.
	Problems []string `json:"problems,omitempty"`
	// OK means that there are no problems, every source opens, and the share of bad samples among those read is at
	// most max_bad and less than 1.
	OK bool `json:"ok"`

	readable bool // OK except for Problems
}

// Err summarizes why the run would fail; nil if it is OK.
func (r *CheckReport) Err() error {
	switch {
	case r.OK:
		return nil
	case !r.readable:
		return errors.New("not every data set can be labelled")
	}
	return fmt.Errorf("the run would fail: %s", strings.Join(r.Problems, "; "))
}

// SourceCheck is the result for one data set.
type SourceCheck struct {
	Name     string              `json:"name"`
	Layout   string              `json:"layout"`
	Error    string              `json:"error,omitempty"` // why it cannot be opened
	Samples  int                 `json:"samples"`
	Columns  []readers.ColumnUse `json:"columns,omitempty"`
	Read     int                 `json:"read"`                // samples read, spread over the data set
	Left     int                 `json:"left_out"`            // of those, left out on purpose
	Bad      int                 `json:"bad"`                 // of those, unusable
	Reasons  []string            `json:"reasons,omitempty"`   // of some bad samples
	Nulls    map[string]int      `json:"nulls,omitempty"`     // field -> samples without a value
	Outputs  int                 `json:"outputs"`             // pictures to be labelled, in the samples read
	Known    map[string]int      `json:"known,omitempty"`     // similarity -> outputs that came with one
	Not      map[string]int      `json:"undefined,omitempty"` // similarity -> outputs for which it is undefined
	Pictures map[string]int      `json:"pictures,omitempty"`  // format -> count

	targets    int // samples with a source and a target, of those read
	unlabelled int // outputs without a label, of those read
}

// shownReasons is the number of bad samples that a check describes.
const shownReasons = 5

// Check inspects the data sets of a configuration without measuring or writing anything (except for pictures in
// archives, which are unpacked). It opens each, resolves its columns, and reads up to rows samples of each with their
// pictures. Its error is the error of ctx.
func Check(ctx context.Context, c *Config, rows int) (*CheckReport, error) {
	report := &CheckReport{Profile: c.profileName(), ClipD: string(c.Encoders.ClipD), Mixes: c.Mixes(), OK: true}
	given := map[givenKey]int{}
	for i := range c.Sources {
		s := &c.Sources[i]
		found := SourceCheck{
			Name:     s.Name,
			Layout:   s.Layout,
			Nulls:    map[string]int{},
			Known:    map[string]int{},
			Not:      map[string]int{},
			Pictures: map[string]int{},
		}
		r, err := readers.Open(ctx, s.Layout, s.options(c.Out))
		if err == nil {
			err = found.read(ctx, r, rows, func(by string) { given[givenKey{i, by}]++ })
			err = errors.Join(err, r.Close())
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			found.Error = err.Error()
		}
		none := found.Read > 0 && found.Bad == found.Read
		if found.Error != "" || none || float64(found.Bad) > c.MaxBad*float64(found.Read) {
			report.OK = false
		}
		report.Sources = append(report.Sources, found)
	}
	report.Problems = c.unmeasured(report.Sources)
	if len(report.Problems) > 0 && c.allGiven(report.Sources) {
		report.Problems, report.Mixes = nil, append(report.Mixes, allGiven)
	}
	report.Problems = append(report.Problems, c.unopened()...)
	report.readable, report.OK = report.OK, report.OK && len(report.Problems) == 0
	if c.Encoders.Given == "keep" {
		report.Mixes = append(report.Mixes, c.givenMixes(given)...)
	}
	return report, nil
}

// unmeasured lists the thresholds that are percentiles of the sources' similarities although there will be none: no
// encoder measures them, or no source has a target.
func (c *Config) unmeasured(sources []SourceCheck) []string {
	if !slices.Contains(c.Rules.Order, heuristics.RuleDissimilar) {
		return nil
	}
	targets := 0
	for _, s := range sources {
		targets += s.targets
	}
	var out []string
	for _, t := range []struct {
		of           heuristics.Threshold
		key, encoder string
		path         string
	}{{c.Rules.ClipI, "rules.clip_i", "encoders.clip", c.Encoders.Clip}, {c.Rules.DinoI, "rules.dino_i", "encoders.dino",
		c.Encoders.Dino}} {
		switch {
		case !t.of.Percentile:
		case t.path == "":
			out = append(out, fmt.Sprintf("%s is a percentile of the sources, but no encoder measures it: set %s, or use a "+
				"fixed threshold or off", t.key, t.encoder))
		case targets == 0:
			out = append(out, t.key+" is a percentile of the sources' similarities to their targets, but no sample that was "+
				"read has a target: "+
				"use a fixed threshold or off")
		}
	}
	return out
}

// allGiven reports whether every output that was read came with a label, and no rule with thresholds comes before the
// rule for given labels.
func (c *Config) allGiven(sources []SourceCheck) bool {
	outputs := 0
	for _, s := range sources {
		if outputs += s.Outputs; s.unlabelled > 0 || s.Error != "" {
			return false
		}
	}
	_, ok := c.Rules.AllGiven()
	return ok && outputs > 0
}

// unopened opens the encoders and lists the failures.
func (c *Config) unopened() (out []string) {
	for _, e := range []struct{ key, kind, path string }{
		{"encoders.clip", encoders.CLIP, c.Encoders.Clip}, {"encoders.dino", encoders.DINO, c.Encoders.Dino},
	} {
		if e.path == "" {
			continue
		}
		m, err := encoders.Open(e.path, c.Encoders.options(e.kind))
		if err == nil {
			err = m.Close()
		}
		if err != nil {
			out = append(out, fmt.Sprintf("%s: %v", e.key, err))
		}
	}
	return out
}

// read reads samples spread over the data set.
func (f *SourceCheck) read(ctx context.Context, r readers.Reader, rows int, given func(by string)) error {
	f.Samples, f.Columns = r.Len(), readers.Columns(f.Layout, r)
	if f.Samples == 0 {
		return errEmpty
	}
	n := min(rows, f.Samples)
	for k := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		i := k * f.Samples / n
		f.Read++
		if cells, err := readers.Cells(r, i); err == nil {
			for field, v := range cells {
				if data.IsNull(v) {
					f.Nulls[field]++
				}
			}
		}
		s, err := r.Read(i)
		var left readers.Left
		switch {
		case errors.As(err, &left):
			f.Left++
		case err != nil:
			f.bad(err)
		default:
			f.sample(s, given)
		}
	}
	return nil
}

func (f *SourceCheck) bad(err error) {
	f.Bad++
	if len(f.Reasons) < shownReasons {
		f.Reasons = append(f.Reasons, err.Error())
	}
}

func (f *SourceCheck) sample(s *readers.Sample, given func(by string)) {
	type named struct {
		name string
		data.Image
	}
	pictures := []named{{"source", s.Source}, {"target", s.Target}}
	if s.Chain == nil && !s.Source.IsZero() && !s.Target.IsZero() {
		f.targets++
	}
	if s.Chain != nil {
		pictures = nil
		for i, p := range s.Chain.Pictures {
			pictures = append(pictures, named{fmt.Sprintf("picture %d of the chain", i), p})
		}
	}
	for i, o := range s.Outputs {
		if f.Outputs++; o.Given == nil {
			f.unlabelled++
		}
		pictures = append(pictures, named{fmt.Sprintf("edit %d", i+1), o.Picture})
		for name, v := range o.Similarities() {
			switch {
			case v.Undefined():
				f.Not[name]++
			case !v.Unknown():
				f.Known[name]++
			}
		}
		if o.Measured() {
			given(cmp.Or(measuredWith(o.Profile), unsaid))
		}
	}
	var errs []string
	for _, p := range pictures {
		if p.IsZero() {
			continue
		}
		kind, err := formatOf(p.Image)
		if err != nil {
			errs = append(errs, p.name+": "+err.Error())
			continue
		}
		f.Pictures[kind]++
	}
	if errs != nil {
		f.bad(fmt.Errorf("%s: %s", s.ID, strings.Join(errs, "; ")))
	}
}

// formatOf decodes a picture and returns its format.
func formatOf(m data.Image) (string, error) {
	raw, err := m.Read("", data.Limits{})
	if err != nil {
		return "", err
	}
	if _, err := m.Decode("", raw, data.Limits{}); err != nil {
		return "", err
	}
	if kind, ok := strings.CutPrefix(http.DetectContentType(raw), "image/"); ok {
		return kind, nil
	}
	return "another format", nil
}
