package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/remote"
	"assay/internal/shards"

	"github.com/google/go-cmp/cmp"
)

// TestErrorTexts: the texts of the errors of a run, what they wrap, and which of them is an interruption.
func TestErrorTexts(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err         error
		want        string
		cause       error
		interrupted bool
	}{
		{&InterruptedError{Done: 2, Rows: 5, Journal: "j", Err: cause},
			"cause: 2 of 5 rows are saved in j; rerun the same command to resume", cause, false},
		{&InterruptedError{Done: 2, Rows: 5, Err: cause},
			"cause: 2 of 5 rows are done; rerun the same command to resume", cause, false},
		{&InterruptedError{Done: 2, Rows: 5, Journal: "j", Err: context.Canceled},
			"2 of 5 rows are saved in j; rerun the same command to resume: " + exit.ErrInterrupted.Error(), context.Canceled,
			true},
		{&FailedError{Failed: 3, Max: 2, Row: 6, Err: cause}, "3 rows failed, and 2 end the run; row 7: cause", cause, false},
		{&BatchError{Row: 6, Err: cause}, "cause", cause, false},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := c.err.Error(); got != c.want || !errors.Is(c.err, c.cause) || errors.Is(c.err,
				exit.ErrInterrupted) != c.interrupted {
				t.Errorf("got %q, of %v %t, interrupted %t, want %+v", got, c.cause, errors.Is(c.err, c.cause),
					errors.Is(c.err, exit.ErrInterrupted), c)
			}
		})
	}
	for _, c := range []struct{ temporary, unreadable bool }{{true, false}, {false, true}} {
		err := fmt.Errorf("so: %w", &answerError{c.temporary, c.unreadable})
		if edit.Temporary(err) != c.temporary || edit.Unreadable(err) != c.unreadable {
			t.Errorf("%+v: got temporary %t, unreadable %t", err, edit.Temporary(err), edit.Unreadable(err))
		}
	}
	if edit.Temporary(cause) || edit.Unreadable(cause) {
		t.Errorf("another error: got temporary %t, unreadable %t, want neither", edit.Temporary(cause),
			edit.Unreadable(cause))
	}
}

// TestChunks: batches of n rows, the last one of the rest; no more rows are read than requested.
func TestChunks(t *testing.T) {
	rows := func(n int, asked *int) iter.Seq[int] {
		return func(yield func(int) bool) {
			for i := range n {
				if *asked++; !yield(i) {
					return
				}
			}
		}
	}
	for n, want := range map[int]string{0: "[]", 2: "[[0 1]]", 3: "[[0 1 2]]", 4: "[[0 1 2] [3]]",
		7: "[[0 1 2] [3 4 5] [6]]"} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			asked := 0
			if got := fmt.Sprint(slices.Collect(Chunks(3)(rows(n, &asked)))); got != want {
				t.Errorf("Chunks(3) of %d rows: got %s, want %s", n, got, want)
			}
		})
	}
	asked := 0
	for range Chunks(3)(rows(9, &asked)) {
		break
	}
	if asked != 3 {
		t.Errorf("a batch that is the last wanted: got %d rows asked for, want 3", asked)
	}
}

// follows are inputs that take no room after those of the previous number.
type follows int

func (n follows) Size(before edit.Inputs) int {
	if before == n-1 {
		return 0
	}
	return 10
}

// TestParts: a batch is split once the prepared inputs reach MaxSize, not before; failed and uncounted rows take no
// room, and joined rows are split at twice the size.
func TestParts(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		name   string
		change func(j *Job[int, value])
		want   int // rows of the largest part, of one core; 0: all
	}{
		{"exactly the size", func(j *Job[int, value]) { j.MaxSize = 10 * cores }, 1},
		{"less than a row", func(j *Job[int, value]) { j.MaxSize = 1 }, 1},
		{"no bound", func(j *Job[int, value]) { j.MaxSize = 0 }, 0},
		{"not counted", func(j *Job[int, value]) { j.Prepare, j.MaxSize = nil, 1 }, 0},
		{"failed rows", func(j *Job[int, value]) {
			j.MaxSize, j.Prepare = 1, func(int) (edit.Inputs, error) {
				return nil, errors.New("failed")
			}
		}, 0},
		{"twice the size", func(j *Job[int, value]) {
			j.MaxSize, j.Joined = 10, func(a, b int) bool { return b == a+1 }
		}, 2},
		{"not joined", func(j *Job[int, value]) {
			j.MaxSize, j.Joined = 10, func(a, b int) bool { return b != a+1 }
		}, 1},
		{"one at a time beyond the size", func(j *Job[int, value]) {
			j.MaxSize, j.Joined = 10*cores-5, func(a, b int) bool { return b == a+1 }
		}, 2*cores - 1},
		{"rows behind another take no room", func(j *Job[int, value]) {
			j.MaxSize, j.Prepare = 20, func(n int) (edit.Inputs, error) { return follows(n), nil }
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 193
			d := &doubling{numbers: numbers(n)}
			j := d.job("")
			j.Batches, j.Prepare = Chunks(n), prepareTen
			c.change(j)
			r := &run[int, value]{Job: j, results: NewMemory[value](), to: n}
			most, all := 0, 0
			r.readBatches(t.Context(), func(part []Task[int]) bool {
				if len(part) == 0 {
					t.Error("got a part without rows, want none")
				}
				most, all = max(most, len(part)), all+len(part)
				return true
			})
			want := n
			if c.want > 0 { // one row per core is prepared at a time
				want = max(cores, c.want)
			}
			if most != want || all != n {
				t.Errorf("got parts of at most %d rows, %d in all, want %d and %d", most, all, want, n)
			}
		})
	}
}

// TestFewFailed: MaxFailed failed rows end a run, including those in the journal; one fewer does not.
func TestFewFailed(t *testing.T) {
	failing := map[int]error{2: errors.New("two"), 4: errors.New("four"), 5: errors.New("five")}
	for most, want := range map[int]string{0: "", 1: "1 rows failed, and 1 end the run; row 2: two",
		3: "3 rows failed, and 3 end the run; row 5: five", 4: ""} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			d := &doubling{numbers: numbers(6), fails: failing}
			j := d.job("")
			j.MaxFailed = most
			m, err := j.InMemory(t.Context())
			if got := fmt.Sprint(cmpOr(err, errors.New(""))); got != want {
				t.Errorf("InMemory: got error %q, want %q", got, want)
			}
			if want == "" && m.Len() != 6 {
				t.Errorf("got %d results, want 6", m.Len())
			}
			if most == 1 { // again, with the results so far
				if err := j.Run(t.Context(), m, 0, 6); fmt.Sprint(err) != want || m.Len() != 2 {
					t.Errorf("Run again: got error %v, %d results, want %q and 2", err, m.Len(), want)
				}
			}
		})
	}
}

// brokenResults cannot be written to, or read.
type brokenResults struct {
	Memory[value]
	add, line error
}

func (b brokenResults) Add(lines ...Line[value]) error {
	if b.add != nil {
		return b.add
	}
	return b.Memory.Add(lines...)
}

func (b brokenResults) Line(row int) (Line[value], error) {
	l, _ := b.Memory.Line(row)
	return l, b.line
}

// TestBrokenResults: results that cannot be saved, or read if failures count, end the run.
func TestBrokenResults(t *testing.T) {
	full := errors.New("the disk is full")
	d := &doubling{numbers: numbers(3)}
	j := d.job("")
	if err := j.Run(t.Context(), brokenResults{NewMemory[value](), full, nil}, 0, 3); !errors.Is(err, full) {
		t.Errorf("Run: got error %v, want %v", err, full)
	}
	r := brokenResults{NewMemory[value](), nil, full}
	if err := r.Add(Line[value]{Row: 1}); err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context(), r, 0, 3); err != nil {
		t.Errorf("Run without a bound of failures: got error %v, want none", err)
	}
	j.MaxFailed = 2
	if err := j.Run(t.Context(), r, 0, 3); !errors.Is(err, full) {
		t.Errorf("Run with a bound of failures: got error %v, want %v", err, full)
	}
}

// TestRange: a run does the rows of a half-open range, and counts only those.
func TestRange(t *testing.T) {
	d := &doubling{numbers: numbers(9)}
	j := d.job("")
	var told []string
	j.Progress = func(done, total int) { told = append(told, fmt.Sprint(done, "/", total)) }
	j.Skip = func(i int) bool { return i == 4 }
	m := NewMemory[value]()
	if err := errors.Join(m.Add(Line[value]{Row: 3}), j.Run(t.Context(), m, 2, 6)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int{3, 6}, d.done); d != "" {
		t.Errorf("numbers that were done (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"1/3", "2/3", "3/3"}, told); d != "" {
		t.Errorf("progress (-want +got):\n%s", d)
	}
}

// TestRewrite: each row of a table gets its line's columns; a line that cannot be read, and a file name without a
// known format, are errors.
func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	if err := os.WriteFile(in, []byte("{\"id\":\"a\",\"double\":9,\"z\":1}\n{\"id\":\"b\",\"z\":2}\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	table, err := data.OpenTable(in, data.WithOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	columns := []data.Column{{Name: "double", Kind: data.KindInteger}}
	set := func(l *Line[value], rec *data.Record) error {
		if l.Error != "" {
			Clear(rec, columns)
			return nil
		}
		rec.Set("double", l.Value.Double)
		return nil
	}
	d := &doubling{numbers: numbers(2), fails: map[int]error{1: errors.New("one")}}
	j := d.job(out)
	if err := j.Do(t.Context(), j.Rewrite(t.Context(), table, columns, set)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(out)
	if want := "{\"id\":\"a\",\"double\":null,\"z\":1}\n{\"id\":\"b\",\"z\":2,\"double\":4}\n"; err != nil ||
		string(raw) != want {
		t.Errorf("rewritten: got %s, %v, want %s", raw, err, want)
	}
	if _, err := os.Stat(out + ".progress"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("journal: got %v, want it gone", err)
	}
	broken := errors.New("broken")
	get := func(int) (Line[value], error) { return Line[value]{}, broken }
	if err := j.Rewrite(t.Context(), table, columns, set)(get); !errors.Is(err, broken) {
		t.Errorf("lines that cannot be read: got error %v, want %v", err, broken)
	}
	j.Out = filepath.Join(dir, "out.xyz")
	if err := j.Rewrite(t.Context(), table, columns, set)(get); err == nil || errors.Is(err, broken) {
		t.Errorf("a name of no format: got error %v, want one about it", err)
	}
}

// TestDoFails: an error of write is Do's error, and the journal stays; a journal without a folder is an error.
func TestDoFails(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	d := &doubling{numbers: numbers(3)}
	j := d.job(out)
	broken := errors.New("broken")
	if err := j.Do(t.Context(), func(Get[value]) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("Do: got error %v, want %v", err, broken)
	}
	if _, err := os.Stat(out + ".progress"); err != nil {
		t.Errorf("journal: got %v, want it kept", err)
	}
	k, err := j.Resume(t.Context(), out+".progress")
	if err != nil {
		t.Fatal(err)
	}
	if l, err := k.Line(1); l.Row != 1 || l.Value.Double != 4 || err != nil {
		t.Errorf("Line(1): got %+v, %v, want 4", l, err)
	}
	k.Close()
	j.Out = filepath.Join(out+".progress", "out.jsonl")
	if err := j.Do(t.Context(), func(Get[value]) error { return nil }); err == nil {
		t.Errorf("Do below a file: got error %v, want one", err)
	}
}

// TestPlanOfShards: the plan has its own head, and splits rows by weight; messages of a merge contain the row's name.
func TestPlanOfShards(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	d := &doubling{numbers: numbers(4)}
	j := d.job(out)
	broken := errors.New("broken")
	j.Plan = func() (any, error) { return nil, broken }
	j.Options.Shard = shards.Ref{Count: 2}
	if _, err := j.Shard(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a plan that cannot be made: got error %v, want %v", err, broken)
	}
	j.Plan = func() (any, error) { return "planned", nil }
	j.Weigh = func(i int) (int64, bool) { return map[int]int64{0: 1000}[i], true }
	if r, err := j.Shard(t.Context()); err != nil || r.Rows != 4 {
		t.Fatalf("Shard: got %+v, %v, want 4 rows", r, err)
	}
	raw, err := os.ReadFile(filepath.Join(shards.Folder(out), "plan.json"))
	if text := strings.Join(strings.Fields(string(raw)), ""); err != nil || !strings.Contains(text, `"head":"planned"`) ||
		!strings.Contains(text, `"cuts":[0,1,4]`) {
		t.Errorf("plan: got %s, %v, want its head, and a cut after the heavy row", text, err)
	}
	j.Merge = true
	j.Name = func(i int) string { return fmt.Sprint("number ", d.numbers[i]) }
	d.numbers[2] = 30 // since it was done
	var got string
	if err = j.Do(t.Context(), text(4, &got)); err == nil || !strings.HasPrefix(err.Error(), "number 30 has changed") {
		t.Errorf("Merge of a changed row: got error %v, want one that names it", err)
	}
	j.Unchanged = true
	if err := j.Do(t.Context(), text(4, &got)); err != nil || got != "0: 2 \n1: 4 \n2: 6 \n3: 8 \n" {
		t.Errorf("Merge of rows as they were done: got %q, %v, want them", got, err)
	}
	j.Plan = func() (any, error) { return "other", nil }
	if err := j.Do(t.Context(), text(4, &got)); err == nil || !strings.Contains(err.Error(), "belongs to other work") {
		t.Errorf("Merge of other work: got error %v, want one", err)
	}
}

// TestContent: a digest of texts and pictures by their bytes; a missing picture counts as a text like any other.
func TestContent(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ASSAY_STORE", dir)
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("same"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	digest := func(parts ...any) string {
		t.Helper()
		d, err := Content(dir, parts...)
		if err != nil {
			t.Errorf("Content(%v): got error %v, want none", parts, err)
		}
		return d
	}
	a := digest("x", data.Image{Path: "a"}, nil)
	for name, b := range map[string]string{"another file of the same bytes": digest("x", data.Image{Path: "b"}, nil),
		"the bytes": digest("x", data.Image{Bytes: []byte("same")}, nil)} {
		if a != b {
			t.Errorf("%s: got %s, want %s", name, b, a)
		}
	}
	for name, b := range map[string]string{
		"text": digest("y", data.Image{Path: "a"}, nil), "bytes": digest("x", data.Image{Bytes: []byte("others")}, nil),
		"error": digest("x", data.Image{Path: "a"}, errors.New("e")), "order": digest(data.Image{Path: "a"}, "x", nil),
		"no file": digest("x", data.Image{Path: "none"}, nil), "no picture": digest("x", data.Image{}, nil),
	} {
		if a == b {
			t.Errorf("another %s: got the same digest %s, want another", name, b)
		}
	}
	if _, err := Content(dir, data.Image{Path: "."}, data.Image{Path: "a"}); err == nil {
		t.Errorf("a folder: got error %v, want one", err)
	}
}

// TestNothingToWorkOn: Work is not called for a batch without a readable row.
func TestNothingToWorkOn(t *testing.T) {
	d := &doubling{numbers: numbers(4)}
	j := d.job("")
	j.Batches = Chunks(2)
	j.Read = func(i int) (int, error) {
		if i < 2 {
			return 0, errors.New("cannot be read")
		}
		return d.numbers[i], nil
	}
	work := j.Work
	j.Work = func(ctx context.Context, rows []Task[int]) ([]value, []error, error) {
		if len(rows) != 2 {
			t.Errorf("Work of %v, want two rows", rows)
		}
		return work(ctx, rows)
	}
	m, err := j.InMemory(t.Context())
	if err != nil || m.Len() != 4 {
		t.Errorf("InMemory: got %d results, %v, want 4", m.Len(), err)
	}
}

// storageError is an error of object storage as package remote recognises it.
type storageError struct{}

func (storageError) Error() string        { return "no answer" }
func (storageError) Is(target error) bool { return target.Error() == "object storage failed" }

// TestStorageFails: a row for which storage fails ends the run with its number, wherever it fails, and is not among
// the results; the other rows of its batch are.
func TestStorageFails(t *testing.T) {
	for name, change := range map[string]func(d *doubling, j *Job[int, value]){
		"working": func(d *doubling, j *Job[int, value]) { d.fails = map[int]error{2: storageError{}} },
		"the content": func(d *doubling, j *Job[int, value]) {
			j.Content = func(n int, err error) (string, error) {
				if n == 2 {
					return "", storageError{}
				}
				return "", err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doubling{numbers: numbers(4)}
			j := d.job("")
			j.Batches = Chunks(4)
			change(d, j)
			m, err := j.InMemory(t.Context())
			const want = "row 2: no answer; rerun the same command to resume"
			if fmt.Sprint(err) != want || !remote.Failed(err) {
				t.Errorf("InMemory: got error %v, want %s", err, want)
			}
			if m.Has(1) || !m.Has(0) {
				t.Errorf("got results of %d rows, %t of row 1 and %t of row 2, want the first and not the second", m.Len(),
					m.Has(0), m.Has(1))
			}
			if name == "working" && m.Len() != 3 {
				t.Errorf("got %d results, want the other 3", m.Len())
			}
		})
	}
}

// TestDoneAgain: a row that is already done and comes in a batch with others is worked on again, but keeps its first
// result, and the rows after it get theirs.
func TestDoneAgain(t *testing.T) {
	d := &doubling{numbers: numbers(3)}
	j := d.job("")
	j.Batches = func(iter.Seq[int]) iter.Seq[[]int] { return slices.Values([][]int{{0, 1, 2}}) }
	m := NewMemory[value]()
	if err := errors.Join(m.Add(Line[value]{Row: 0, Value: value{Double: 77}}), j.Run(t.Context(), m, 0, 3)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{77, 4, 6} {
		if l, _ := m.Line(i); l.Value.Double != want {
			t.Errorf("row %d: got %d, want %d", i, l.Value.Double, want)
		}
	}
}

// TestFailedInBatch: failures after successful rows of a batch count.
func TestFailedInBatch(t *testing.T) {
	bad := errors.New("bad")
	d := &doubling{numbers: numbers(4), fails: map[int]error{2: bad, 4: bad}}
	j := d.job("")
	j.Batches, j.MaxFailed = Chunks(4), 2
	if _, err := j.InMemory(t.Context()); fmt.Sprint(err) != "2 rows failed, and 2 end the run; row 4: bad" {
		t.Errorf("InMemory: got error %v, want a FailedError at row 4", err)
	}
}

// TestCause: a context that ended with a custom cause is an interruption like any other.
func TestCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &doubling{numbers: numbers(3), hook: func(int) { cancel(errors.New("a reason")) }}
	_, err := d.job("").InMemory(ctx)
	if !errors.Is(err, exit.ErrInterrupted) {
		t.Errorf("InMemory: got error %v, want an interruption", err)
	}
}

// TestLines: the JSON of lines, and values that they cannot have; a line that is read into again keeps nothing of the
// first time.
func TestLines(t *testing.T) {
	for _, v := range []any{"text", 5, []int{1, 2}} {
		if got, err := (Line[any]{Value: v}).MarshalJSON(); err == nil {
			t.Errorf("a value %v: got %s, want an error", v, got)
		}
	}
	var l Line[value]
	for _, c := range []struct {
		text string
		want Line[value]
	}{
		{`{"row":3,"of":"x","double":2,"half":0.5,"error":"e","unreadable":true}`,
			Line[value]{Row: 3, Content: "x", Value: value{2, 0.5}, Error: "e", Unreadable: true}},
		{`{"row":4,"of":"y","double":1}`, Line[value]{Row: 4, Content: "y", Value: value{Double: 1}}},
	} {
		if err := l.UnmarshalJSON([]byte(c.text)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, l); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, d)
		}
		if raw, err := l.MarshalJSON(); string(raw) != c.text || err != nil {
			t.Errorf("got %s, %v, want %s", raw, err, c.text)
		}
	}
}

// TestJournalAgain: a journal that is opened again has all its lines if there are no digests of rows, except for rows
// that are skipped since.
func TestJournalAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	d := &doubling{numbers: numbers(4)}
	j := d.job("")
	j.Content = nil
	for _, want := range []int{4, 4, 3} {
		if want == 3 {
			j.Skip = func(i int) bool { return i == 2 }
		}
		k, err := j.Resume(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if k.Len() != want || len(d.done) != 4 {
			t.Errorf("got %d results after %d rows were done, want %d and 4", k.Len(), len(d.done), want)
		}
		if want == 3 {
			if l, err := k.Line(2); l.Row != 2 || l.Value.Double != 0 || err != nil {
				t.Errorf("the line of a skipped row: got %+v, %v, want an empty one of row 2", l, err)
			}
		}
		k.Close()
	}
}
