package protocol

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Basis is what a number was computed on, and how. Numbers may be compared, and share a column of a table, if their
// bases are equal; [Basis.Differs] returns why two may not be.
type Basis struct {
	Benchmark string   `json:"benchmark"`
	Rule      string   `json:"rule"` // one of Benchmark.Rules, or a component
	Coverage  Coverage `json:"coverage"`
	Terms
}

// Terms are what a number depends on besides its rule and the items it covers.
type Terms struct {
	Subset        string `json:"subset,omitempty"`        // part of the benchmark or of its values; "" is the usual one
	Judge         string `json:"judge,omitempty"`         // if editors are ranked: what measured them
	Normalisation string `json:"normalisation,omitempty"` // if the rule leaves it open
	// Over: which correlations are averaged, if some are undefined; "": all.
	Over string `json:"over,omitempty"`
	// Counted: absent answers count as wrong, so the number covers all items.
	Counted bool `json:"absent_counts_as_wrong,omitempty"`
}

// Coverage is how many of the rated items a number is based on.
type Coverage struct {
	Used    int    `json:"used"`
	Of      int    `json:"of"`
	Without string `json:"without,omitempty"` // digest of the omitted items: two different halves differ
	// Values: Used and Of count single values of the items, for numbers that pool values or combine columns.
	Values bool `json:"values,omitempty"`
	// Items is a digest of the items, if no data list them and their number is not the papers'.
	Items string `json:"items,omitempty"`
}

// Whole reports whether nothing is left out.
func (c Coverage) Whole() bool { return c.Used == c.Of }

func (c Coverage) String() string {
	if c.Values {
		return fmt.Sprintf("%d of %d values", c.Used, c.Of)
	}
	return fmt.Sprintf("%d of %d items", c.Used, c.Of)
}

// CoverageOf returns the coverage of a result: the items with a prediction, out of all rated items.
func CoverageOf(r *Result) Coverage {
	return NewCoverage(r.N+len(r.Missing), r.Missing)
}

// NewCoverage returns the coverage of all items (of) except the missing ones.
func NewCoverage(of int, missing []Key) Coverage {
	c := Coverage{Used: of - len(missing), Of: of}
	if len(missing) > 0 {
		c.Without = KeysDigest(missing)
	}
	return c
}

// CoverageBy returns the coverage of a number over n items: key names item i, and reports whether the number needs it
// and whether it is present.
func CoverageBy(n int, key func(i int) (k Key, wanted, has bool)) *Coverage {
	var missing []Key
	of := 0
	for i := range n {
		k, wanted, has := key(i)
		if !wanted {
			continue
		}
		if of++; !has {
			missing = append(missing, k)
		}
	}
	c := NewCoverage(of, missing)
	return &c
}

// OfValues returns the coverage of a number computed from single values of items, where each key named an item and a
// value. If no value is missing, it is the coverage of all items.
func (c *Coverage) OfValues(items int) *Coverage {
	if c.Whole() {
		return &Coverage{Used: items, Of: items}
	}
	c.Values = true
	return c
}

// KeysDigest identifies a list of items.
func KeysDigest(keys []Key) string {
	h := sha256.New()
	for _, k := range keys {
		fmt.Fprintf(h, "%q %q\n", k.ID, k.Model)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Name returns the rule, and the coverage if items are left out: a number on half of the items has a different name.
func (b Basis) Name() string {
	if b.Coverage.Whole() {
		return b.Rule
	}
	percent := 100 * float64(b.Coverage.Used) / float64(b.Coverage.Of)
	what := ""
	if b.Coverage.Values {
		what = " values"
	}
	return fmt.Sprintf("%s (%s%% of %d%s)", b.Rule, percentDigits(percent), b.Coverage.Of, what)
}

// percentDigits prints a percentage below 100 with enough digits not to round to 100.
func percentDigits(v float64) string {
	for digits := 0; ; digits++ {
		if s := fmt.Sprintf("%.*f", digits, v); !strings.HasPrefix(s, "100") || digits > 6 {
			return s
		}
	}
}

// Differs returns why a number on b may not be compared with one on the other basis; "" if it may.
func (b Basis) Differs(other Basis) string {
	var why []string
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if b.Benchmark != other.Benchmark {
		add("it is of %s, not of %s", b.Benchmark, other.Benchmark)
	}
	if b.Rule != other.Rule {
		add("its rule is %s, not %s", b.Rule, other.Rule)
	}
	switch {
	case b.Coverage == other.Coverage:
	case b.Coverage.Of == 0:
		add("the number of items it is computed on is not stated")
	case b.Coverage.Whole() && other.Coverage.Whole() && b.Coverage.Of == other.Coverage.Of:
		add("it is computed on other samples: no data list them (--ratings)")
	case b.Coverage.Whole() && other.Coverage.Whole():
		add("it is computed on %d items, not on %d", b.Coverage.Of, other.Coverage.Of)
	case b.Coverage.Whole():
		add("it covers all %d items, not %s", b.Coverage.Of, other.Coverage)
	case b.Coverage.Used == other.Coverage.Used && b.Coverage.Of == other.Coverage.Of:
		add("it covers %s, but others of them", b.Coverage)
	default:
		add("it covers %s", b.Coverage)
	}
	for _, t := range []struct{ what, mine, its string }{
		{"part", b.Subset, other.Subset}, {"judge", b.Judge, other.Judge},
		{"normalisation", b.Normalisation, other.Normalisation},
	} {
		switch {
		case t.mine == t.its:
		case t.mine == "":
			add("its %s is not stated, the other's is %s", t.what, t.its)
		case t.its == "":
			add("its %s is %s, the other's is not stated", t.what, t.mine)
		default:
			add("its %s is %s, not %s", t.what, t.mine, t.its)
		}
	}
	if whole := "the mean over all"; b.Over != other.Over {
		add("it is %s, not %s", cmp.Or(b.Over, whole), cmp.Or(other.Over, whole))
	}
	if b.Counted != other.Counted {
		add("absent answers count as wrong in only one of them")
	}
	return strings.Join(why, "; ")
}

// Stated prints a term, which may be unknown.
func Stated(s string) string {
	return cmp.Or(s, "not stated")
}

// Bounds is the range of a measure; values outside it were computed differently, for instance as percentages.
type Bounds struct{ Low, High float64 }

// Bounds of common measures.
var (
	CosineBounds = Bounds{-1, 1}
	ScoreBounds  = Bounds{0, 10} // for files from other programs
)

// distances are name prefixes of metrics of which less is better, in every benchmark.
var distances = []string{"bg_rmse", "lpips", "l1", "l2"}

// isDistance reports whether less of a metric is better, by its name.
func isDistance(name string) bool {
	return slices.ContainsFunc(distances, func(d string) bool { return strings.HasPrefix(name, d) })
}

// BoundsOf returns the range of a metric that is known by its name; false for others.
func BoundsOf(name string) (Bounds, bool) {
	switch {
	case slices.Contains(strings.Fields("clip_t clip_i clip_d clip_dir clip_im clip_out dino dino_i"), name):
		return CosineBounds, true
	case name == "lpips" || strings.HasPrefix(name, "lpips_"):
		return Bounds{0, math.Inf(1)}, true
	}
	return Bounds{}, false
}

// Check refuses a value outside the bounds; the error names the measure. NaN passes.
func (b Bounds) Check(name string, v float64) error {
	if v >= b.Low && v <= b.High || v != v {
		return nil
	}
	if math.IsInf(b.High, 1) {
		return fmt.Errorf("%s is %v: want %v or more", name, v, b.Low)
	}
	return fmt.Errorf("%s is %v: want a number from %v to %v", name, v, b.Low, b.High)
}
