package labeling

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"assay/heuristics"
	"assay/internal/atomicfile"
	"assay/internal/labeling/nearcopy"
)

// mergeLog records what becomes of every sample and row while a table is merged, and builds the report.
type mergeLog struct {
	config     *Config
	report     *Report
	skipped    *json.Encoder // skipped.jsonl
	ledger     *ledger
	firstBad   string
	given      map[givenKey]int // rows that came with similarities
	unmeasured int              // outputs of prompt-guided editors with unknown CLIP-D
	sessions   sessionOrder
	shown      map[string][]example // rule -> examples
}

// givenKey is the origin of similarities that came with rows: their source, and the profile that they were measured
// with.
type givenKey struct {
	source int
	by     string
}

// sessionOrder finds sessions of MagicBrush's chains whose rows are apart, as in a shuffled table.
type sessionOrder struct {
	met   map[sessionKey]bool // whether it was met again, after another one
	last  sessionKey
	first string // of the sessions that are apart
	apart int
}

type sessionKey struct {
	source  int
	session string
}

func (o *sessionOrder) note(r *row) {
	k := sessionKey{r.source, r.Session}
	if k == o.last {
		return
	}
	o.last = k
	again, ok := o.met[k]
	if ok && !again {
		o.apart++
		o.first = cmp.Or(o.first, r.Session)
	}
	if o.met == nil {
		o.met = map[sessionKey]bool{}
	}
	o.met[k] = ok
}

func newMergeLog(j *Job) *mergeLog {
	return &mergeLog{
		config: j.Config,
		ledger: newLedger(j.plan),
		given:  map[givenKey]int{},
		shown:  map[string][]example{},
		report: &Report{
			Profile:    j.Config.profileName(),
			ClipD:      j.Config.Encoders.ClipD,
			Table:      TableFile,
			MaxBad:     j.Config.MaxBad,
			Candidates: newAccount(),
			Skipped:    map[string]int{},
			Rules:      map[string]int{},
			Labels:     map[string]int{},
			Editors:    map[string]map[string]int{},
			Datasets:   map[string]int{},
			Splits:     map[string]int{},
			Histograms: []*Histogram{{Similarity: similarities[0].name}, {Similarity: similarities[1].name},
				{Similarity: similarities[2].name}},
		},
	}
}

// became records what became of a row.
func (l *mergeLog) became(r *row, s state) {
	l.report.Candidates.add(s)
	rest := r.Chain == "" && r.Kind != heuristics.Output
	l.ledger.note(r.source, r.Sample, rest, s)
}

// skip lists a row that is left out of the table.
func (l *mergeLog) skip(r *row, kind, reason string) error {
	l.became(r, state{stateSkipped, kind})
	l.report.Skipped[kind]++
	if len(l.report.Examples) < skippedExamples {
		l.report.Examples = append(l.report.Examples, SkippedRow{kind, r.ID, reason})
	}
	return l.skipped.Encode(map[string]any{"dataset": l.config.Sources[r.source].Name, "sample": r.Sample, "id": r.ID,
		"kind": kind, "reason": reason})
}

// bad lists an unusable row or sample.
func (l *mergeLog) bad(r *row, reason string) error {
	if l.report.Bad++; l.report.Bad == 1 {
		l.firstBad = fmt.Sprintf("%s: %s", cmp.Or(r.ID, fmt.Sprintf("sample %d", r.Sample)), reason)
	}
	return l.skip(r, "bad", reason)
}

// duplicate records a row that repeats another.
func (l *mergeLog) duplicate(r *row) {
	l.report.Duplicates++
	l.became(r, state{class: stateDuplicate})
}

// unlabelled is the name in the report of the rule and label of unlabelled rows.
const unlabelled = "none"

// count counts a row that stays; label is nil if no rule applied. drop: the table leaves the row out nevertheless.
func (l *mergeLog) count(r *row, label *float64, rule string, drop bool, split string) {
	to := l.report
	if r.Chain != "" && l.config.Sources[r.source].Layout == "magicbrush" {
		l.sessions.note(r)
	}
	rule, name := cmp.Or(rule, unlabelled), unlabelled
	if label != nil {
		to.Labelled++
		name = strconv.FormatFloat(*label, 'g', 6, 64)
		to.Labels[name]++
	} else {
		to.Unlabelled++
	}
	to.Rules[rule]++
	editor := cmp.Or(r.method(), "unknown")
	if to.Editors[editor] == nil {
		to.Editors[editor] = map[string]int{}
	}
	to.Editors[editor][name]++
	for i, h := range to.Histograms {
		h.count(r, similarities[i].of(r))
	}
	l.example(rule, r, label)
	if drop {
		return
	}
	to.TableRows++
	to.Datasets[l.config.Sources[r.source].Name]++
	to.Splits[split]++
}

// example keeps the rows of each rule whose ids have the smallest hashes: arbitrary, but the same in every run.
func (l *mergeLog) example(rule string, r *row, label *float64) {
	h := fnv.New64a()
	h.Write([]byte(r.ID)) // never fails
	list := append(l.shown[rule], example{h.Sum64(), r, label})
	slices.SortFunc(list, func(a, b example) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.row.ID, b.row.ID))
	})
	l.shown[rule] = list[:min(len(list), examplesPerRule)]
}

// finish accounts for all rows, adds the thresholds to the report, and adds warnings.
func (l *mergeLog) finish(by *labels) error {
	r := l.report
	r.Samples = l.ledger.account()
	if err := errors.Join(r.Samples.check("samples"), r.Candidates.check("rows")); err != nil {
		return err
	}
	r.Warnings = append(l.config.Mixes(), l.config.givenMixes(l.given)...)
	clipI, dinoI := by.Thresholds()
	r.Thresholds = Thresholds{FailedClipD: by.FailedClipD, PartialClipD: by.PartialClipD, Join: by.Join}
	for _, t := range []struct {
		to **float64
		x  float64
	}{{&r.Thresholds.ClipI, clipI}, {&r.Thresholds.DinoI, dinoI}} {
		if !math.IsNaN(t.x) {
			*t.to = &t.x
		}
	}
	r.Histograms[0].marks = []float64{by.FailedClipD, by.PartialClipD}
	r.Histograms[1].marks = []float64{clipI}
	r.Histograms[2].marks = []float64{dinoI}
	slices.Sort(r.Guard.Unreadable)
	if n := len(r.Guard.Unreadable); n > 0 {
		r.warn("the guard could not search %d files, the first one %s: edits of pictures in them may be in the table",
			n, r.Guard.Unreadable[0])
	}
	if l.unmeasured > 0 {
		r.warn("CLIP-D of %d outputs of prompt-guided editors is unknown: rule %s only applies to those with equal "+
			"captions; set an encoder and captions",
			l.unmeasured, heuristics.RuleNoClipD)
	}
	if n := l.sessions.apart; n > 0 {
		r.warn("the rows of %d sessions are apart, the first one %s, so their chains are in pieces: sort the table by "+
			"session and turn", n, l.sessions.first)
	}
	if r.Scenes > 1 && 2*r.LargestScene > r.TableRows+1 && r.LargestScene > 100 {
		r.warn("the largest of %d scenes has %d rows: it may be a chain of pictures, each like the next",
			r.Scenes, r.LargestScene)
	}
	if r.Crowded > 0 {
		r.warn("%d pictures look like very many others, of which only the %d nearest in the index were "+
			"compared: a near copy may be on the other side of the split", r.Crowded, nearcopy.MaxCompared)
	}
	if r.TableRows == 0 {
		r.warn("the table is empty")
	}
	if l.config.Split.Validation > 0 && r.TableRows > 0 && len(r.Splits) == 1 && r.Splits[splitTrain] > 0 {
		r.warn("no row is held out for validation (%d scenes; a scene is never divided)", r.Scenes)
	}
	if by.allGiven {
		r.warn(allGiven)
	}
	return nil
}

// save writes report.json and the page.
func (l *mergeLog) save(out string) error {
	raw, err := json.MarshalIndent(l.report, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(out, ReportFile), append(raw, '\n')); err != nil {
		return err
	}
	page, err := l.page(func(p *picture) ([]byte, error) {
		return os.ReadFile(filepath.Join(out, filepath.FromSlash(p.Path)))
	})
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(out, PageFile), page)
}
