package labeling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"assay/heuristics"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/filelock"
	"assay/internal/labeling/guard"
	"assay/internal/shards"
)

// Files that Merge writes into the output folder.
const (
	TableFile       = "table.parquet"
	ReportFile      = "report.json"
	PageFile        = "report.html"
	SkippedFile     = "skipped.jsonl"     // unusable rows, and rows left out on purpose
	PreferencesFile = "preferences.jsonl" // votes between two rows, if the data sets have any
)

// MissingError reports that parts still have to be measured.
type MissingError struct{ Parts, Of int }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%d of %d parts are not measured yet, or their inputs have changed: run the other shards, or "+
		"pass their output folders", e.Parts, e.Of)
}

// BadError reports that too many rows are unusable.
type BadError struct {
	Bad, Rows int
	Share     float64
	First     string // the first bad row, and the reason
	List      string // the file that lists them
}

func (e *BadError) Error() string {
	return fmt.Sprintf("%d of %d rows cannot be used, a larger share than max_bad (%v); the first: %s; see %s",
		e.Bad, e.Rows, e.Share, e.First, e.List)
}

// merger labels the rows of all parts, in passes over them: compare finds near copies and repeated edits and ids;
// survey decides which rows stay; write labels these. It holds 16 bytes per row during compare, and then an outcome
// per row.
type merger struct {
	job      *Job
	pictures *pictureGraph
	splits   splits
	repeats  *dedup
	votes    votes
	own      map[int]bool // by source with split: own: whether a row has a split
	labels   labels
	log      *mergeLog
	outcomes []outcome // by row.number
}

// outcome is the decision of survey about a row.
type outcome struct {
	scene   int32
	foreign int32 // scene of a foreign picture; -1: none
	want    split // that its data set requires, or that of a row that repeats it; noSplit: none
	drop    bool
}

// votes maps the ids of dropped rows to the rows that replace them, for the votes that refer to them.
type votes struct {
	any     bool              // whether there are votes between rows
	renamed map[string]string // "": no row replaces it
}

// rename records the row that replaces a dropped row; "" for none.
func (v *votes) rename(id, first string) {
	if v.any {
		v.renamed[id] = first
	}
}

// standsFor follows the replacements of dropped rows to a row that is in the table; "" if there is none.
func (v *votes) standsFor(id string) string {
	for {
		other, ok := v.renamed[id]
		if !ok {
			return id
		}
		id = other
	}
}

// Merge writes the table and the reports from the parts of all shards. With too many bad rows it only writes their
// list, and the error is a *BadError; with missing parts the error is a *MissingError. Only one process at a time
// merges in a folder, so that table and report come from the same rules.
func (j *Job) Merge(ctx context.Context) (*Report, error) {
	out := j.Config.Out
	lock, err := filelock.Take(filepath.Join(out, ".merge.lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("another process is writing the table in %s: wait for it, or use another out", out)
	} else if err != nil {
		return nil, err
	}
	defer lock.Close()
	files, err := j.partFiles(ctx, shards.Ref{})
	if err != nil {
		return nil, err
	}
	if lacking := len(files.parts) - files.count; lacking > 0 {
		return nil, &MissingError{lacking, len(files.parts)}
	}
	m, err := j.merger(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.compare(ctx); err != nil {
		return nil, err
	}
	err = atomicfile.Write(filepath.Join(out, SkippedFile), func(w io.Writer) error {
		m.log.skipped = json.NewEncoder(w)
		return m.survey(ctx)
	})
	if err != nil {
		return nil, err
	}
	if err := m.checkOwnSplits(); err != nil {
		return nil, err
	}
	r := m.log.report
	if total := r.Bad + r.Rows; float64(r.Bad) > j.Config.MaxBad*float64(total) {
		return nil, &BadError{r.Bad, total, j.Config.MaxBad, m.log.firstBad, filepath.Join(out, SkippedFile)}
	}
	if err := m.labels.open(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if err := m.write(ctx); err != nil {
		return nil, err
	}
	if err := m.log.finish(&m.labels); err != nil {
		return nil, err
	}
	return r, m.log.save(out)
}

// merger opens the pictures of the guard; it does not read the parts yet.
func (j *Job) merger(ctx context.Context) (*merger, error) {
	m := &merger{
		job:     j,
		repeats: newDedup(),
		own:     map[int]bool{},
		votes:   votes{renamed: map[string]string{}},
		labels:  labels{rules: j.Config.Rules, chains: j.Config.Chains},
		log:     newMergeLog(j),
	}
	guarded, err := guard.Pictures(ctx, j.Config.Guard.Folders, m.log.report.Guard.unreadable)
	if err != nil {
		return nil, err
	}
	m.log.report.Guard.Pictures = len(guarded)
	m.pictures = newPictureGraph(guarded, j.Config.Guard.Distance)
	return m, nil
}

// kept yields the edits that are not dropped.
func (m *merger) kept(ctx context.Context) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		for r, err := range m.job.rows(ctx) {
			if err == nil && (!r.isEdit() || m.outcomes[r.number].drop) {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// compare finds near copies among the pictures: it joins the scenes of pictures in the data, and records the pictures
// that show a picture of a benchmark. It also finds which edits and ids may occur more than once.
func (m *merger) compare(ctx context.Context) error {
	edits := 0
	for r, err := range m.job.rows(ctx) {
		if err != nil {
			return err
		}
		m.votes.any = m.votes.any || r.Vote != nil
		if !r.isEdit() {
			continue
		}
		edits++
		m.repeats.add(r)
		for p := range r.pictures() {
			m.pictures.add(p)
		}
	}
	m.outcomes = make([]outcome, 0, edits)
	m.repeats.found()
	var err error
	m.log.report.Crowded, err = m.pictures.compare(ctx)
	return err
}

// survey decides which rows stay, which scene each belongs to, and the split of each scene.
func (m *merger) survey(ctx context.Context) error {
	report := m.log.report
	for r, err := range m.job.rows(ctx) {
		if err != nil {
			return err
		}
		report.Candidates.Total++
		switch {
		case r.Bad != "":
			err = m.log.bad(r, r.Bad)
		case r.Left != "":
			err = m.log.skip(r, "left out", r.Left)
		default:
			report.Rows++
			err = m.row(r)
		}
		if err != nil {
			return err
		}
	}
	// Only now are all scenes joined.
	sizes := map[int32]int{}
	for i, f := range m.outcomes {
		if f.drop {
			continue
		}
		root := m.pictures.scenes.root(f.scene)
		m.outcomes[i].scene = root
		if f.foreign >= 0 {
			m.outcomes[i].foreign = m.pictures.scenes.root(f.foreign)
		}
		sizes[root]++
		report.LargestScene = max(report.LargestScene, sizes[root])
	}
	report.Scenes = len(sizes)
	return m.split(ctx, sizes)
}

// row decides about one row.
func (m *merger) row(r *row) error {
	f := outcome{foreign: -1, drop: true}
	defer func() { m.outcomes = append(m.outcomes, f) }()
	source := &m.job.Config.Sources[r.source]
	if source.Split == splitOwn {
		m.own[r.source] = m.own[r.source] || r.Split != ""
	}
	if want := source.wantedSplit(r); source.Split == splitOwn && want != "" && !slices.Contains(splitNames, want) {
		m.log.report.Rows--
		return m.log.bad(r, fmt.Sprintf("split %q is not one of %v: map another column, or set one split for all rows",
			want, splitNames))
	}
	if reason := m.pictures.leak(r); reason != "" {
		m.votes.rename(r.ID, "")
		m.log.report.Guard.Rows++
		return m.log.skip(r, "guard", reason)
	}
	// The same output of the same editor may occur in several rows (pairs), the source and target with every output.
	key := r.key()
	if first, ok := m.repeats.edits[key]; ok {
		return m.again(r, first)
	}
	if first, ok := m.repeats.ids[r.ID]; ok {
		if r.Kind == heuristics.Foreign { // paired twice, for two rows of one sample
			m.log.duplicate(r)
			return nil
		}
		m.log.report.Rows--
		return m.log.bad(r, fmt.Sprintf("sample %d of source %q has the same id but is another edit: ids must be "+
			"unique; otherwise do not map a column to id", first.Sample, m.job.plan.Sources[first.source].Name))
	}
	m.repeats.keep(r, key)
	f.drop, f.want = false, splitNamed(source.wantedSplit(r))
	m.labels.note(r)
	if r.By != "" {
		m.log.given[givenKey{r.source, r.By}]++
	}
	f.scene, f.foreign = m.join(r)
	return nil
}

// checkOwnSplits refuses a source with split: own of which no row has a split: its held-out rows would be trained on.
func (m *merger) checkOwnSplits() error {
	for i := range m.job.plan.Sources {
		if some, own := m.own[i]; own && !some {
			return exit.Usagef("source %q: split: own, but none of its rows has a split: map its column (columns: {split: "+
				"NAME}), or make a source of each file, with its split", m.job.plan.Sources[i].Name)
		}
	}
	return nil
}

// join joins the scenes of a row's pictures and of its session.
func (m *merger) join(r *row) (scene, foreign int32) {
	scene, foreign = m.pictures.join(r)
	if r.Session != "" {
		scenes := m.pictures.scenes
		scenes.join(scene, scenes.node("session "+m.job.plan.Sources[r.source].Name+"/"+r.Session))
	}
	return scene, foreign
}

// again decides about a row whose edit another row already has. The other one stays, also for the split and the session
// of this one.
func (m *merger) again(r, first *row) error {
	if first.ID != r.ID {
		m.votes.rename(r.ID, first.ID)
	}
	if what := first.contradicts(r); what != "" {
		m.log.report.Rows--
		why := fmt.Sprintf("the same edit as %s, with another %s: one of the two is wrong", first.ID, what)
		if what == "label" && first.Given == nil {
			why = fmt.Sprintf("the same edit as %s, which comes first and has no label: list the data set with labels "+
				"first in sources, or give both the label", first.ID)
		}
		return m.log.bad(r, why)
	}
	m.join(r)
	kept := &m.outcomes[first.number]
	kept.want = kept.want.or(splitNamed(m.job.Config.Sources[r.source].wantedSplit(r)))
	m.log.duplicate(r)
	return nil
}

// split assigns splits to scenes. Rows whose data set or foreign picture requires another split are dropped.
func (m *merger) split(ctx context.Context, sizes map[int32]int) error {
	wanted, err := m.wantedSplits(ctx)
	if err != nil {
		return err
	}
	m.splits = m.pictures.scenes.assign(sizes, wanted, m.job.Config.Split.Validation, m.job.Config.Seed)
	if wanted == nil && !slices.ContainsFunc(m.outcomes, func(f outcome) bool { return f.foreign >= 0 }) {
		return nil
	}
	for r, err := range m.kept(ctx) {
		if err != nil {
			return err
		}
		f := &m.outcomes[r.number]
		have, other := m.splits[f.scene], ""
		if f.foreign >= 0 {
			other = m.splits[f.foreign]
		}
		var reason string
		if want := f.want.String(); want != "" && want != have {
			reason = "a picture of its scene is in split " + have
		} else if other != "" && other != have {
			reason = "its foreign picture is in split " + other + ", and its scene in " + have
		} else {
			continue
		}
		f.drop = true
		m.votes.rename(r.ID, "")
		if err := m.log.skip(r, "split", reason); err != nil {
			return err
		}
	}
	return nil
}

// wantedSplits returns the splits that data sets require, by scene; nil if none does.
func (m *merger) wantedSplits(ctx context.Context) (splits, error) {
	if !slices.ContainsFunc(m.job.Config.Sources, func(s SourceConfig) bool { return s.Split != "" }) {
		return nil, nil
	}
	wanted := splits{}
	for r, err := range m.kept(ctx) {
		if err != nil {
			return nil, err
		}
		f := &m.outcomes[r.number]
		if want := splitNamed(wanted[f.scene]).or(f.want); want != noSplit {
			wanted[f.scene] = want.String()
		}
	}
	return wanted, nil
}
