package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/encoders"
	"assay/internal/benchmarks/protocol"
	"assay/internal/table"
	"assay/model"
	"assay/t2i"
	"assay/textjudge"
)

// Judge is a judge of edits, or of pairs, that is run on a benchmark.
type Judge struct {
	Name        string
	Fingerprint string // of all that scores depend on
	Settings    string // for readers: question, preprocessing
	Prompts     string // digest of the prompts of a text judge

	info     edit.Info
	judge    edit.Judge    // nil: comparer
	comparer edit.Comparer // of left and right
	together int           // items per batch regardless of groups; 0: batches are groups
	words    bool          // the judge's text is its answer to a question
	close    func() error
}

// NewJudge returns a judge under its own name. Edits of one group are scored together.
func NewJudge(j edit.Judge, fingerprint string) *Judge {
	info := j.Info()
	return &Judge{Name: info.Name, Fingerprint: fingerprint, info: info, judge: j, close: j.Close}
}

// newJudge returns an opened judge, and closes it if its fingerprint cannot be computed.
func newJudge(j edit.Judge, name, settings string) (*Judge, error) {
	fingerprint, err := j.Fingerprint()
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	out := NewJudge(j, fingerprint)
	out.Name, out.Settings = name, settings
	return out, nil
}

// OpenScorer opens a scorer directory, or a reward of package t2i.
func OpenScorer(dir string, o model.Options) (*Judge, error) {
	if t2i.Is(dir) {
		return openReward(dir, o)
	}
	m, err := model.OpenScorer(dir, o)
	if err != nil {
		return nil, err
	}
	cfg := m.Config()
	return newJudge(m, filepath.Clean(dir), settings(&cfg, o.Dimension))
}

func openReward(dir string, o model.Options) (*Judge, error) {
	if o.Dimension != "" || o.Backbone != "" {
		return nil, fmt.Errorf("%s is a reward of one number without a backbone: --dimension, --backbone do not apply", dir)
	}
	r, err := t2i.Open(dir, t2i.Options{Device: o.Device, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	return newJudge(r, filepath.Clean(dir), r.Info().Name+" of the edit and its text; without bounds")
}

// OpenSimilarity opens an encoder for a similarity. The judge's name states the encoder and the definition.
func OpenSimilarity(kind encoders.SimilarityKind, encoder string, o encoders.Options) (*Judge, error) {
	s, err := encoders.OpenSimilarity(kind, encoder, o)
	if err != nil {
		return nil, err
	}
	return newJudge(s, s.Info().Name, "10 times the cosine of embeddings")
}

// OpenJudge returns a text judge that is asked about workers edits at a time. An item whose answer cannot be read fails
// without failing the others. A judge of pairs is asked about left and right in both orders; the preferred one scores
// 10, the other one 0, and both 5 if it has no preference. closer is called by Close.
func OpenJudge(t *textjudge.Judge, workers int, closer func() error) (*Judge, error) {
	own := *t
	own.Workers = max(workers, 1)
	fingerprint, err := t.Fingerprint()
	if err != nil {
		return nil, err
	}
	j, c := NewJudge(&own, fingerprint), &t.Config
	if !c.Scores() {
		return nil, fmt.Errorf("the judge %s outputs no score: it measures a component (--component)", c.Name)
	}
	j.close, j.together = closer, 4*own.Workers
	j.words = !c.Pair && len(c.Questions) == 1 && c.Passes == 1
	if c.Pair {
		if j.judge, j.comparer = nil, &own; len(j.info.Pictures) > 0 || several(&j.info) {
			return nil, fmt.Errorf("the judge %s shows %s: only source, edit and edit2 are available", c.Name,
				strings.Join(t.Roles(), ", "))
		}
	}
	j.Name = fmt.Sprintf("%s (%s)", c.Name, c.Rule) // judges of one name differ in their rules
	j.Settings, j.Prompts = t.Words(), t.Prompts()
	return j, nil
}

// settings describes for readers what a scorer is asked.
func settings(c *model.ScorerConfig, dimension string) string {
	if c.AddsToken() {
		f := c.OnePass()
		return fmt.Sprintf("question %q, answer %q, pair %s, pair_size %v, range %v",
			f.Question, f.Answer, f.Pair, f.PairSize, f.ScoreRange)
	}
	var passes []string
	for _, q := range c.Passes {
		passes = append(passes, fmt.Sprintf("%s of %s", q.Name, strings.Join(q.Pictures, " and ")))
	}
	text := fmt.Sprintf("passes %s; the score is the %s of %s, %s", strings.Join(passes, ", "), c.Score.Fusion,
		strings.Join(c.Score.Of, ", "), c.ScoreRange.Words())
	if dimension != "" {
		text += "; the dimension " + dimension + " alone"
	}
	return text
}

// several reports whether a judge uses more than one source.
func several(info *edit.Info) bool { return info.Sources > 1 || info.Sources == edit.Any }

// Items returns the items of a set that the judge can be run on.
func (j *Judge) Items(set protocol.Scorable) ([]*edit.Edit, error) {
	if all, ok := set.(protocol.SeveralSources); ok && several(&j.info) {
		return all.ItemsOfSeveral()
	}
	return set.Items()
}

// Components returns the components of a set that have the same name as one of the judge's numbers.
func (j *Judge) Components(set protocol.Composed) (names []string) {
	for _, d := range j.info.Dimensions {
		if _, ok := set.Components()[d.Name]; ok && j.info.Words {
			names = append(names, d.Name)
		}
	}
	return names
}

// Close closes the judge.
func (j *Judge) Close() error {
	if j.close == nil {
		return nil
	}
	return j.close()
}

// middle returns the middle of the score range; NaN if it has no bounds.
func (j *Judge) middle() float64 {
	if r := j.info.Range; j.comparer == nil && r.Bounded() {
		return (r[0] + r[1]) / 2
	}
	return math.NaN()
}

// preparePair decodes the pictures of a pair.
func preparePair(pair edit.Pair) (edit.Inputs, error) {
	source, err := edit.Decode(pair[0].Source())
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	for i, e := range pair {
		output, err := edit.Decode(e.Output)
		if err != nil {
			return nil, fmt.Errorf("edit: %w", err)
		}
		decoded := *e
		decoded.Sources, decoded.Output = []edit.Picture{source}, output
		pair[i] = &decoded
	}
	return pair, nil
}

// score returns a prediction or an error for each of some items.
func (j *Judge) score(ctx context.Context, tasks []table.Task[*edit.Edit]) ([]Prediction, []error, error) {
	if j.comparer != nil {
		return j.compare(ctx, tasks)
	}
	scores, errs, err := j.judge.Score(ctx, table.Inputs(tasks))
	if err != nil {
		return nil, nil, err
	}
	out := make([]Prediction, len(tasks))
	for i, s := range scores {
		out[i].said = s.Answer
		if errs[i] != nil {
			continue
		}
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			errs[i] = fmt.Errorf("the score is %v", s.Value)
		}
		out[i].Score = s.Value
		if !j.info.Words {
			continue
		}
		for _, d := range s.Dimensions {
			if out[i].Dimensions == nil {
				out[i].Dimensions = map[string]float64{}
			}
			out[i].Dimensions[d.Name] = d.Value
		}
	}
	return out, errs, nil
}

// compare asks about the pairs of some items, of which both left and right are given.
func (j *Judge) compare(ctx context.Context, tasks []table.Task[*edit.Edit]) ([]Prediction, []error, error) {
	var pairs []edit.Pair
	place := map[string]int{}
	for _, t := range tasks {
		if _, again := place[t.Row.ID]; !again {
			place[t.Row.ID], pairs = len(pairs), append(pairs, t.Inputs.(edit.Pair))
		}
	}
	preferences, failed, err := j.comparer.Compare(ctx, pairs)
	if err != nil {
		return nil, nil, err
	}
	out, errs := make([]Prediction, len(tasks)), make([]error, len(tasks))
	for i, t := range tasks {
		k := place[t.Row.ID]
		p := preferences[k]
		if errs[i] = failed[k]; errs[i] != nil {
			continue
		}
		if out[i] = (Prediction{Score: 10 * p.Value, Orders: p.Orders}); t.Row.Editor == protocol.Right {
			out[i].Score = 10 - 10*p.Value
		}
	}
	return out, errs, nil
}

// checkPairs refuses groups that are not pairs of left and right.
func (j *Judge) checkPairs(groups [][]*edit.Edit) error {
	sides := []string{protocol.Left, protocol.Right}
	for _, g := range groups {
		if len(g) != 2 || !slices.Equal([]string{g[0].Editor, g[1].Editor}, sides) {
			return fmt.Errorf("the judge %s compares two edits, but %v is not a pair of left and right: this "+
				"benchmark needs a judge of single edits", j.info.Name, protocol.ItemKey(g[0]))
		}
	}
	return nil
}
