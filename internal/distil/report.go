package distil

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/jsonfile"
	"assay/internal/scoring"
	"assay/internal/stats"
)

// Apart is the difference in truth above which two edits of one instruction are a pair whose order counts, as in
// `miniature evaluate`.
const Apart = 0.15

// rounding is the largest difference of two means that are equal except for the order of summation.
const rounding = 1e-6

// Report compares a student with its teacher, and both with the truth, on edits of held-out photographs.
type Report struct {
	Teacher string  `json:"teacher"`
	Passes  int     `json:"passes"`
	Asked   any     `json:"asked,omitempty"` // counts of this run
	Scorer  string  `json:"scorer"`
	Labels  int     `json:"labels"`   // edits that the student was trained on
	Failed  int     `json:"failed"`   // edits of both tables that the teacher did not rate
	Rows    int     `json:"held_out"` // held-out edits with both scores
	Spread  float64 `json:"spread"`   // mean standard deviation of the held-out edits' ratings
	Speed   Speed   `json:"seconds_per_score"`
	Faster  float64 `json:"faster,omitempty"` // the teacher's time over the student's

	Fidelity Agreement `json:"fidelity"` // student against the teacher's means
	Truth    *Truth    `json:"truth,omitempty"`
}

// Agreement measures how alike two scores order edits.
type Agreement struct {
	Rows         int      `json:"rows"`
	Spearman     *float64 `json:"spearman"`
	Pairs        int      `json:"pairs"` // pairs of edits of one instruction that differ
	PairAccuracy *float64 `json:"pair_accuracy"`
}

// Truth compares teacher and student with the truth.
type Truth struct {
	Teacher Agreement `json:"teacher"`
	Student Agreement `json:"student"`

	// Pairs on whose order the teacher's passes agree, and the others. In an Order, One is a single pass of the
	// teacher, on average.
	Agreed   Order `json:"agreed"`
	Disputed Order `json:"disputed"`

	By []Part `json:"by,omitempty"`
}

// Order holds shares of pairs in the right order.
type Order struct {
	Pairs   int      `json:"pairs"`
	Teacher *float64 `json:"teacher"`
	One     *float64 `json:"one_pass"`
	Student *float64 `json:"student"`
}

// Part is the result on the held-out edits with one value of a column.
type Part struct {
	Column   string    `json:"column"`
	Value    string    `json:"value"`
	Teacher  Agreement `json:"teacher"` // against the truth
	Student  Agreement `json:"student"` // against the truth
	Fidelity Agreement `json:"fidelity"`
}

// row is a held-out edit with its ratings, scores and truth.
type row struct {
	group   string
	ratings []float64
	teacher float64
	student float64
	truth   float64 // NaN: unknown
	of      map[string]string
}

// report scores the held-out edits with the student.
func (r *run) report(ctx context.Context, held *data.Table, scorer string, taught, rated []Rated) (*Report, error) {
	s, err := r.Open(scorer)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r.Note("scoring the held-out edits with the student")
	var scores scoring.Scores
	seconds, err := timed(held.Len(), func() (err error) {
		scores, err = scoring.Rows(ctx, s, held, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &Report{Teacher: r.teacher.Name(), Passes: r.teacher.Passes(), Asked: r.teacher.Asked(), Scorer: scorer,
		Speed: r.speed(seconds)}
	if out.Speed.Teacher > 0 {
		out.Faster = out.Speed.Teacher / out.Speed.Student
	}
	for i := range taught {
		if taught[i].Err != nil {
			out.Failed++
		} else {
			out.Labels++
		}
	}
	var rows []row
	spread := 0.0
	for i := range rated {
		if rated[i].Err != nil {
			out.Failed++
			continue
		}
		edit, err := held.Read(i)
		if err == nil {
			err = scores.Err(i)
		}
		if err != nil {
			r.Warn(fmt.Sprintf("row %d of %s: %v", i+1, held.Path(), err))
			continue
		}
		one := row{group: edit.SourcesKey() + "\x00" + edit.Instruction, ratings: rated[i].Ratings,
			teacher: rated[i].Mean(), student: scores.Lines[i].Value.Score01, truth: math.NaN()}
		if t, ok := r.truths[edit.ID]; ok {
			one.truth, one.of = t.degree, t.of
		}
		spread += rated[i].Spread()
		rows = append(rows, one)
	}
	out.Rows, out.Spread = len(rows), spread/float64(max(1, len(rows)))
	out.Fidelity = agreement(rows, func(x *row) float64 { return x.student }, teacherOf, rounding)
	if r.Truth != "" {
		if out.Truth, err = r.against(rows); err != nil {
			return nil, err
		}
	}
	return out, jsonfile.Write(r.path(reportFile), out)
}

// speed returns the student's speed, and the teacher's if it was measured for this teacher.
func (r *run) speed(student float64) Speed {
	s := Speed{Student: student}
	if r.state.Timed == r.print {
		s.Teacher = r.state.Speed.Teacher
	}
	return s
}

func teacherOf(x *row) float64 { return x.teacher }
func studentOf(x *row) float64 { return x.student }
func truthOf(x *row) float64   { return x.truth }

// truth is a row of the truth table.
type truth struct {
	degree float64
	of     map[string]string
}

// readTruths reads the truth of the held-out edits, whose ids must be unique.
func (r *run) readTruths(held *data.Table) error {
	if r.Truth == "" {
		return nil
	}
	t, err := data.OpenTable(r.Truth, data.WithRequired())
	if err != nil {
		return exit.Usage(err)
	}
	defer t.Close()
	if r.truths, err = r.truthsOf(t); err != nil {
		return exit.Usage(err)
	}
	seen, any := map[string]bool{}, false
	for i := range held.Len() {
		row, err := held.Read(i)
		if _, known := r.truths[row.ID]; err != nil || !known {
			continue
		}
		if seen[row.ID] {
			return exit.Usage(held.At(i, fmt.Errorf("duplicate id %q: which row does its truth belong to?", row.ID)))
		}
		seen[row.ID], any = true, true
	}
	if !any {
		return exit.Usagef("%s has no truth for any held-out edit (matched by id)", r.Truth)
	}
	return nil
}

// truthsOf reads a truth table.
func (r *run) truthsOf(t *data.Table) (map[string]truth, error) {
	out, found := map[string]truth{}, map[string]bool{}
	for i := range t.Len() {
		rec, err := t.Record(i)
		if err != nil {
			return nil, err
		}
		id, _ := rec.Get("id")
		name, err := data.Text(id)
		if err != nil || name == "" {
			return nil, t.At(i, fmt.Errorf("want the id of the edit"))
		}
		v, ok := rec.Get(r.Column)
		x, err := data.Finite(v)
		switch {
		case !ok:
			return nil, t.At(i, fmt.Errorf("no column %q (--truth-column)", r.Column))
		case err != nil:
			return nil, t.At(i, err)
		case x == nil:
			continue
		case *x < 0 || *x > 1:
			return nil, t.At(i, fmt.Errorf("%s must be a number from 0 to 1, not %v", r.Column, *x))
		}
		if _, twice := out[name]; twice {
			return nil, t.At(i, fmt.Errorf("duplicate id %q", name))
		}
		one := truth{*x, map[string]string{}}
		for _, column := range r.By {
			v, ok := rec.Get(column)
			found[column] = found[column] || ok
			if one.of[column], err = data.Text(v); err != nil {
				return nil, t.At(i, err)
			}
		}
		out[name] = one
	}
	for _, column := range r.By {
		if !found[column] {
			return nil, fmt.Errorf("%s has no column %q (--by)", t.Path(), column)
		}
	}
	return out, nil
}

// against compares teacher and student with the truth.
func (r *run) against(all []row) (*Truth, error) {
	rows := slices.DeleteFunc(slices.Clone(all), func(x row) bool { return math.IsNaN(x.truth) })
	if len(rows) == 0 {
		return nil, exit.Usagef("%s has no truth for any held-out edit (matched by id)", r.Truth)
	}
	t := &Truth{Teacher: agreement(rows, teacherOf, truthOf, Apart), Student: agreement(rows, studentOf, truthOf, Apart)}
	t.Agreed, t.Disputed = disputes(rows)
	for _, column := range r.By {
		parts := map[string][]row{}
		for _, x := range rows {
			parts[x.of[column]] = append(parts[x.of[column]], x)
		}
		for _, value := range slices.Sorted(maps.Keys(parts)) {
			p := parts[value]
			t.By = append(t.By, Part{column, value, agreement(p, teacherOf, truthOf, Apart),
				agreement(p, studentOf, truthOf, Apart), agreement(p, studentOf, teacherOf, rounding)})
		}
	}
	return t, nil
}

// pairs calls f for every two edits of a group that differ by more than apart; b is the better one.
func pairs(rows []row, of func(*row) float64, apart float64, f func(a, b *row)) {
	groups := map[string][]*row{}
	for i := range rows {
		groups[rows[i].group] = append(groups[rows[i].group], &rows[i])
	}
	for _, g := range groups {
		for i, a := range g {
			for _, b := range g[i+1:] {
				switch d := of(b) - of(a); {
				case d > apart:
					f(a, b)
				case -d > apart:
					f(b, a)
				}
			}
		}
	}
}

// right returns 1 if a pair is in the right order, 1/2 if its scores are equal up to rounding, and otherwise 0.
func right(a, b float64) float64 {
	switch d := b - a; {
	case math.Abs(d) <= rounding:
		return 0.5
	case d > 0:
		return 1
	}
	return 0
}

func agreement(rows []row, score, want func(*row) float64, apart float64) (a Agreement) {
	x, y := make([]float64, len(rows)), make([]float64, len(rows))
	for i := range rows {
		x[i], y[i] = score(&rows[i]), want(&rows[i])
	}
	a.Rows = len(rows)
	if len(rows) > 1 {
		a.Spearman = number(stats.Spearman(x, y))
	}
	sum := 0.0
	pairs(rows, want, apart, func(worse, better *row) {
		a.Pairs++
		sum += right(score(worse), score(better))
	})
	a.PairAccuracy = share(sum, a.Pairs)
	return a
}

// disputes divides the pairs by whether all passes order them the same way.
func disputes(rows []row) (agreed, disputed Order) {
	sums := map[*Order]*[3]float64{&agreed: {}, &disputed: {}}
	pairs(rows, truthOf, Apart, func(a, b *row) {
		n := min(len(a.ratings), len(b.ratings))
		inOrder := 0.0
		for k := range n {
			inOrder += right(a.ratings[k], b.ratings[k])
		}
		o := &disputed
		if inOrder == 0 || inOrder == float64(n) {
			o = &agreed
		}
		o.Pairs++
		s := sums[o]
		s[0] += right(a.teacher, b.teacher)
		s[1] += inOrder / float64(n)
		s[2] += right(a.student, b.student)
	})
	for o, s := range sums {
		o.Teacher, o.One, o.Student = share(s[0], o.Pairs), share(s[1], o.Pairs), share(s[2], o.Pairs)
	}
	return agreed, disputed
}

func share(sum float64, n int) *float64 {
	if n == 0 {
		return nil
	}
	return new(sum / float64(n))
}

func number(x float64) *float64 {
	if math.IsNaN(x) {
		return nil
	}
	return &x
}

// Print writes a report as text.
func (p *Report) Print(w io.Writer) {
	passes := ""
	if p.Passes > 0 {
		passes = fmt.Sprintf(", %d passes", p.Passes)
	}
	fmt.Fprintf(w, "%s%s, taught %d edits; %d it did not rate\n", p.Teacher, passes, p.Labels, p.Failed)
	if p.Asked != nil {
		fmt.Fprintf(w, "%v\n", p.Asked)
	}
	if p.Faster > 0 {
		fmt.Fprintf(w, "seconds a score: teacher %.4g, student %.4g: %.0f times as fast\n", p.Speed.Teacher, p.Speed.Student,
			p.Faster)
	} else {
		fmt.Fprintf(w, "seconds a score: student %.4g (the teacher was not timed in one go)\n", p.Speed.Student)
	}
	fmt.Fprintf(w, "\n%d held-out edits; ratings of one have a mean standard deviation of %.3f\n\n", p.Rows, p.Spread)
	fmt.Fprintf(w, "| | edits | Spearman | pairs | in the right order |\n|---|---|---|---|---|\n")
	line := func(name string, a Agreement) {
		fmt.Fprintf(w, "| %s | %d | %s | %d | %s |\n", name, a.Rows, words(a.Spearman), a.Pairs, words(a.PairAccuracy))
	}
	line("student to teacher", p.Fidelity)
	t := p.Truth
	if t == nil {
		fmt.Fprintf(w, "\nscorer: %s\n", p.Scorer)
		return
	}
	line("teacher to truth", t.Teacher)
	line("student to truth", t.Student)
	fmt.Fprintf(w, "\n| pairs | n | teacher | one pass | student |\n|---|---|---|---|---|\n")
	for i, o := range []Order{t.Agreed, t.Disputed} {
		fmt.Fprintf(w, "| the passes %s | %d | %s | %s | %s |\n", []string{"agree", "disagree"}[i], o.Pairs, words(o.Teacher),
			words(o.One), words(o.Student))
	}
	if len(t.By) > 0 {
		fmt.Fprintf(w, "\n| | edits | teacher to truth | student to truth | student to teacher |\n|---|---|---|---|---|\n")
	}
	for _, b := range t.By {
		fmt.Fprintf(w, "| %s %s | %d | %s | %s | %s |\n", b.Column, b.Value, b.Teacher.Rows, words(b.Teacher.Spearman),
			words(b.Student.Spearman), words(b.Fidelity.Spearman))
	}
	fmt.Fprintf(w, "\nscorer: %s\n", p.Scorer)
}

func words(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *x)
}
