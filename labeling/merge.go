package labeling

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/heuristics"
	"assay/internal/atomicfile"
	"assay/internal/filelock"
)

// Files that Merge writes into the output folder.
const (
	TableFile       = "table.parquet"
	ReportFile      = "report.json"
	PageFile        = "report.html"
	SkippedFile     = "skipped.jsonl"     // what could not be used, and what was left out on purpose
	PreferencesFile = "preferences.jsonl" // votes between two rows, if the data have any
)

// MissingError says that parts are still to be measured.
type MissingError struct{ Parts, Of int }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%d of %d parts are not measured yet, or something has changed since: run the other shards, or "+
		"give their output folders", e.Parts, e.Of)
}

// BadError says that too many rows cannot be used.
type BadError struct {
	Bad, Rows int
	Share     float64
	First     string // the first of them, and why
	List      string // where they are listed
}

func (e *BadError) Error() string {
	return fmt.Sprintf("%d of %d rows cannot be used, more than max_bad, %v of them. The first: %s. See %s", e.Bad, e.Rows,
		e.Share, e.First, e.List)
}

// allGiven says why a threshold that cannot be computed is none.
const allGiven = "every output came with its label: the thresholds that are percentiles of the sources' similarities " +
	"are not needed, and are off"

// outcome is what the first pass decided for a row.
type outcome struct {
	scene   int32
	foreign int32 // scene of a foreign picture, -1: it has none
	drop    bool
}

// sampleID is a sample of a source.
type sampleID struct{ source, sample int }

// givenKey tells rows that came with similarities: their source, and the profile that measured them.
type givenKey struct {
	source int
	by     string
}

func sortedGiven(given map[givenKey]int) []givenKey {
	return slices.SortedFunc(maps.Keys(given), func(a, b givenKey) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.by, b.by))
	})
}

// merger holds what the passes over the parts need of every row: 16 bytes while they are compared, and then an outcome.
// Of pictures, scenes, votes and names that come more than once it holds more.
type merger struct {
	job          *Job
	guard        *guard
	scenes       *scenes
	near         *nearIndex
	indexed      int32           // nodes below it are pictures with a thumbnail
	alike        []int32         // of each of these the one that is in the index: it has the same thumbnail
	leaked       map[int32]leak  // pictures that show a benchmark's, by node
	blank        map[string]leak // pictures of benchmarks that have no thumbnail, by pixels
	outcomes     []outcome
	perScene     map[int32]*scene // by root
	clipI, dinoI []float64        // of the sources shown as results
	rowCount     int
	unlabelled   int                 // outputs that are kept and came without a label
	edits        *repeats            // rows' edits
	kept         map[[16]byte]said   // the first row's, of edits that may come again
	names        *repeats            // rows' ids
	ids          map[string]sampleID // of rows that are kept and whose id may come again
	votes        bool                // there are votes between rows
	renamed      map[string]string   // id of a row that was dropped -> the one that stands for it; "": none; for votes
	ledger       *ledger
	given        map[givenKey]int // rows that came with similarities
	splits       map[int32]string
	labeler      *heuristics.Labeler
	report       *Report
	firstBad     string
	skipped      *json.Encoder
}

// Merge writes the table and the reports from the parts of all shards. With too many bad rows it writes their list
// only, and the error is a *BadError; with parts missing it is a *MissingError. One process at a time merges in a
// folder, so that table and report are of the same rules.
func (j *Job) Merge(ctx context.Context) (*Report, error) {
	out := j.Config.Out
	lock, err := filelock.Take(filepath.Join(out, ".merge.lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("another process writes the table of %s: wait for it, or choose another out", out)
	} else if err != nil {
		return nil, err
	}
	defer lock.Close()
	lacking, err := j.lacking(ctx)
	if err != nil {
		return nil, err
	}
	if len(lacking) > 0 {
		all := 0
		for range j.plan.parts() {
			all++
		}
		return nil, &MissingError{len(lacking), all}
	}
	m, err := j.merger(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.compare(ctx); err != nil {
		return nil, err
	}
	err = atomicfile.Write(filepath.Join(out, SkippedFile), func(w io.Writer) error {
		m.skipped = json.NewEncoder(w)
		return m.survey(ctx)
	})
	if err != nil {
		return nil, err
	}
	r := m.report
	if total := r.Bad + r.Rows; float64(r.Bad) > j.Config.MaxBad*float64(total) {
		return nil, &BadError{r.Bad, total, j.Config.MaxBad, m.firstBad, filepath.Join(out, SkippedFile)}
	}
	m.labeler, err = j.Config.Rules.Labeler(m.clipI, m.dinoI)
	given, ok := j.Config.Rules.AllGiven()
	unasked := err != nil && ok && m.unlabelled == 0
	if unasked {
		m.labeler, err = given.Labeler(nil, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if err := m.write(ctx); err != nil {
		return nil, err
	}
	r.Samples = m.ledger.account()
	if err := errors.Join(r.Samples.check("samples"), r.Candidates.check("rows")); err != nil {
		return nil, err
	}
	if r.finish(m.labeler, m.given); unasked {
		r.warn(allGiven)
	}
	return r, r.save(out)
}

// merger opens the guard's pictures; nothing is read of the parts yet.
func (j *Job) merger(ctx context.Context) (*merger, error) {
	m := &merger{
		job:      j,
		near:     &nearIndex{},
		scenes:   newScenes(),
		leaked:   map[int32]leak{},
		blank:    map[string]leak{},
		perScene: map[int32]*scene{},
		edits:    newRepeats(),
		kept:     map[[16]byte]said{},
		names:    newRepeats(),
		ids:      map[string]sampleID{},
		renamed:  map[string]string{},
		report:   newReport(j),
		ledger:   newLedger(j.plan),
		given:    map[givenKey]int{},
	}
	var err error
	if m.guard, err = openGuard(ctx, j.Config.Guard, func(name string, err error) {
		m.report.Guard.unreadable(name, err)
	}); err != nil {
		return nil, err
	}
	m.report.Guard.Pictures = len(m.guard.pictures)
	return m, nil
}

// skip lists what does not come into the table.
func (m *merger) skip(source int, sample int, id, kind, reason string) error {
	m.report.skip(kind, reason, id)
	return m.skipped.Encode(map[string]any{"dataset": m.job.plan.Sources[source].Name, "sample": sample, "id": id,
		"kind": kind, "reason": reason})
}

// became notes what became of a row.
func (m *merger) became(e entry, s state) {
	m.report.Candidates.add(s)
	rest := e.Row != nil && e.Row.Chain == "" && e.Row.Kind != heuristics.Output
	m.ledger.note(e.source, e.Sample, rest, s)
}

// bad lists a row, or what should have been one, that cannot be used.
func (m *merger) bad(e entry, id, reason string) error {
	if m.report.Bad++; m.report.Bad == 1 {
		m.firstBad = fmt.Sprintf("%s: %s", orElse(id, fmt.Sprintf("sample %d", e.Sample)), reason)
	}
	m.became(e, state{stateSkipped, "bad"})
	return m.skip(e.source, e.Sample, id, "bad", reason)
}

// survey is the first pass: what is dropped, which pictures belong together, and the similarities of the sources.
func (m *merger) survey(ctx context.Context) error {
	m.outcomes = make([]outcome, 0, m.rowCount)
	for e, err := range readParts(m.job.Config.Out, m.job.plan) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		switch {
		case e.Bad != nil:
			m.report.Candidates.Total++
			err = m.bad(e, e.Bad.ID, e.Bad.Reason)
		case e.Left != "":
			m.report.Candidates.Total++
			m.became(e, state{stateSkipped, "left out"})
			err = m.skip(e.source, e.Sample, "", "left out", e.Left)
		case e.Row != nil:
			m.report.Rows++
			m.report.Candidates.Total++
			err = m.row(e)
		}
		if err != nil {
			return err
		}
	}
	// Only now it is known which scenes are one.
	for i, f := range m.outcomes {
		if f.drop {
			continue
		}
		root := m.scenes.root(f.scene)
		m.outcomes[i].scene = root
		if f.foreign >= 0 {
			m.outcomes[i].foreign = m.scenes.root(f.foreign)
		}
		sc := m.perScene[root]
		if sc == nil {
			sc = &scene{}
			m.perScene[root] = sc
		}
		sc.rows++
		m.report.LargestScene = max(m.report.LargestScene, sc.rows)
	}
	m.report.Scenes = len(m.perScene)
	return m.applyWantedSplits(ctx)
}

// applyWantedSplits gives scenes the splits that data sets ask for, if any does.
func (m *merger) applyWantedSplits(ctx context.Context) error {
	any, foreign := false, slices.ContainsFunc(m.outcomes, func(f outcome) bool { return f.foreign >= 0 })
	for _, s := range m.job.Config.Sources {
		any = any || s.Split != ""
	}
	if any {
		err := m.rows(ctx, func(i int, e entry) error {
			if want := m.wantedSplit(e); want != "" {
				sc := m.perScene[m.outcomes[i].scene]
				// Held-out data stay whole: what is also in them leaves the training data, not the other way round.
				if sc.fixed == "" || sc.fixed == splitTrain || want != splitTrain && want < sc.fixed {
					sc.fixed = want
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	m.splits = m.scenes.assign(m.perScene, m.job.Config.Split.Validation, m.job.Config.Seed)
	if !any && !foreign {
		return nil
	}
	return m.rows(ctx, func(i int, e entry) error {
		f := m.outcomes[i]
		have, other := m.splits[f.scene], ""
		if f.foreign >= 0 {
			other = m.splits[f.foreign]
		}
		var reason string
		if want := m.wantedSplit(e); want != "" && want != have {
			reason = "a picture of its scene is in split " + have
		} else if other != "" && other != have {
			reason = "its foreign picture is in split " + other + ", and its scene in " + have
		} else {
			return nil
		}
		m.outcomes[i].drop = true
		m.rename(e.Row.ID, "")
		m.became(e, state{stateSkipped, "split"})
		return m.skip(e.source, e.Sample, e.Row.ID, "split", reason)
	})
}

// wantedSplit is the split that a row's data set asks for, "" if it leaves that to the program.
func (m *merger) wantedSplit(e entry) string {
	s := m.job.Config.Sources[e.source].Split
	if s == splitOwn {
		return e.Row.Split
	}
	return s
}

// rows calls f for each row that is kept, with its number among all rows.
func (m *merger) rows(ctx context.Context, f func(i int, e entry) error) error {
	i := -1
	for e, err := range readParts(m.job.Config.Out, m.job.plan) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && e.Row != nil {
			if i++; i < len(m.outcomes) && !m.outcomes[i].drop {
				err = f(i, e)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// row decides about one row in the first pass.
func (m *merger) row(e entry) error {
	r := e.Row
	f := outcome{foreign: -1, drop: true}
	defer func() { m.outcomes = append(m.outcomes, f) }()
	if want := m.wantedSplit(e); m.job.Config.Sources[e.source].Split == splitOwn && want != "" &&
		!slices.Contains(splitNames, want) {
		m.report.Rows--
		return m.bad(e, r.ID, fmt.Sprintf("split %q is none of %v: map another column, or name the split of all its rows",
			want, splitNames))
	}
	if reason := m.leak(r); reason != "" {
		m.rename(r.ID, "")
		m.report.Guard.Rows++
		m.became(e, state{stateSkipped, "guard"})
		return m.skip(e.source, e.Sample, r.ID, "guard", reason)
	}
	// The same output of the same editor may come with several rows (pairs), the source and target with each output.
	key := r.key()
	if first, ok := m.kept[key]; ok {
		return m.again(e, &first)
	}
	if first, ok := m.ids[r.ID]; ok {
		if r.Kind == heuristics.Foreign { // asked twice, for two rows of one sample
			m.report.Duplicates++
			m.became(e, state{class: stateDuplicate})
			return nil
		}
		m.report.Rows--
		return m.bad(e, r.ID, fmt.Sprintf("sample %d of source %q has the same id and is another edit: ids must be "+
			"unique, or no column id be named",
			first.sample, m.job.plan.Sources[first.source].Name))
	}
	if m.names.has(r.ID) {
		m.ids[r.ID] = sampleID{e.source, e.Sample}
	}
	f.drop = false
	if r.Kind == heuristics.Output && r.Given == nil {
		m.unlabelled++
	}
	if m.edits.has(string(key[:])) {
		m.kept[key] = saidOf(r)
	}
	if r.By != "" {
		m.given[givenKey{e.source, r.By}]++
	}
	f.scene, f.foreign = m.joinPictures(r)
	if r.Session != "" {
		m.scenes.join(f.scene, m.scenes.node("session "+m.job.plan.Sources[e.source].Name+"/"+r.Session))
	}
	if r.Kind == heuristics.Source && r.Chain == "" {
		m.note(&m.clipI, r.ClipI)
		m.note(&m.dinoI, r.DinoI)
	}
	return nil
}

// again decides about a row of an edit that a row before it is of.
func (m *merger) again(e entry, first *said) error {
	r := e.Row
	if first.id != r.ID {
		m.rename(r.ID, first.id)
	}
	if what := first.contradicts(r); what != "" {
		m.report.Rows--
		return m.bad(e, r.ID, fmt.Sprintf("the same edit as %s, with another %s: one of both is wrong", first.id, what))
	}
	m.report.Duplicates++
	m.became(e, state{class: stateDuplicate})
	return nil
}

// key tells edits apart: rows with one key are the same.
func (r *row) key() [16]byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.group(), strconv.Itoa(int(r.Kind)), r.Editor, r.Edit.Pixels,
		r.Chain}, "\x00")))
	return [16]byte(sum[:16])
}

// rename notes which row stands for one that is dropped, "" for none, if there are votes that may name it.
func (m *merger) rename(id, first string) {
	if m.votes {
		m.renamed[id] = first
	}
}

func (m *merger) note(to *[]float64, s heuristics.Similarity) {
	if x, ok := s.Value(); ok {
		*to = append(*to, x)
	}
}
