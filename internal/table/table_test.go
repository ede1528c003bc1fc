package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/shards"
)

// value is the result of a row of the tests' job.
type value struct {
	Double int     `json:"double"`
	Half   float64 `json:"half,omitempty"`
}

// doubling doubles numbers, and records what it did.
type doubling struct {
	numbers []int
	fails   map[int]error // by number

	mu   sync.Mutex
	done []int
	hook func(number int) // called before a number is doubled; nil: not
}

var errGone = errors.New("the server is gone")

type answerError struct{ temporary, unreadable bool }

func (e *answerError) Error() string    { return "no answer" }
func (e *answerError) Temporary() bool  { return e.temporary }
func (e *answerError) Unreadable() bool { return e.unreadable }

// sized are inputs of a size.
type sized int

func (s sized) Size(edit.Inputs) int { return int(s) }

func prepareTen(int) (edit.Inputs, error) { return sized(10), nil }

func (d *doubling) job(out string) *Job[int, value] {
	return &Job[int, value]{
		Options: Options{Out: out},
		Rows:    len(d.numbers),
		Head:    map[string]string{"work": "double"},
		Read:    func(i int) (int, error) { return d.numbers[i], nil },
		Content: func(n int, err error) (string, error) { return Content("", err, fmt.Sprint(n)) },
		Ends:    func(err error) bool { return errors.Is(err, errGone) },
		Work: Single(func(ctx context.Context, t *Task[int]) (value, error) {
			n := t.Row
			d.mu.Lock()
			d.done = append(d.done, n)
			d.mu.Unlock()
			if d.hook != nil {
				d.hook(n)
			}
			return value{Double: 2 * n}, cmpOr(d.fails[n], ctx.Err())
		}),
	}
}

func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// numbers are 1 to n.
func numbers(n int) (list []int) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

// text returns a write that stores the lines it gets: one per row.
func text(rows int, to *string) func(Get[value]) error {
	return func(get Get[value]) error {
		var b strings.Builder
		for i := range rows {
			line, err := get(i)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%d: %d %s\n", line.Row, line.Value.Double, line.Error)
		}
		*to = b.String()
		return nil
	}
}

// whole returns the text of a job without interruption.
func whole(t *testing.T, d *doubling) (out string) {
	t.Helper()
	j := d.job(filepath.Join(t.TempDir(), "whole.jsonl"))
	if err := j.Do(context.Background(), text(j.Rows, &out)); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOrder: whatever finishes first, results are written in the order of the rows.
func TestOrder(t *testing.T) {
	for _, workers := range []int{0, 1, 7} {
		for _, batch := range []int{0, 1, 8} {
			t.Run(fmt.Sprintf("%d workers, batches of %d", workers, batch), func(t *testing.T) {
				d := &doubling{numbers: numbers(40), fails: map[int]error{12: errors.New("twelve")}}
				d.hook = func(n int) { time.Sleep(time.Duration(n%3) * time.Millisecond) }
				j := d.job(filepath.Join(t.TempDir(), "out.jsonl"))
				if j.Workers = workers; batch > 0 {
					j.Batches = Chunks(batch)
				}
				var last int
				j.Progress = func(done, total int) {
					if done < last || total != 40 {
						t.Errorf("Progress(%d, %d): got it after %d, want rising counts of 40", done, total, last)
					}
					last = done
				}
				var got string
				if err := j.Do(context.Background(), text(j.Rows, &got)); err != nil {
					t.Fatal(err)
				}
				if want := whole(t, d); got != want || strings.Count(got, "\n") != 40 || !strings.Contains(got, "11: 24 twelve\n") {
					t.Errorf("got %q, want %q", got, want)
				}
				if last != 40 {
					t.Errorf("the last progress is %d, want 40", last)
				}
				if files, _ := os.ReadDir(filepath.Dir(j.Out)); len(files) > 0 {
					t.Errorf("%d files are left, want none", len(files))
				}
			})
		}
	}
}

// TestResume: an interrupted run reports what is saved, and the next one does the rest and the rows that changed, no
// others.
func TestResume(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	d := &doubling{numbers: numbers(30)}
	ctx, cancel := context.WithCancel(context.Background())
	d.hook = func(n int) {
		if n == 18 {
			cancel()
		}
	}
	j := d.job(out)
	j.Batches = Chunks(4)
	err := j.Do(ctx, nil)
	var stopped *InterruptedError
	if !errors.As(err, &stopped) || !errors.Is(err, exit.ErrInterrupted) || !errors.Is(err, context.Canceled) {
		t.Fatalf("Do = %v, want an InterruptedError", err)
	}
	// 17 was done when ctx ended, 18 to 20 were interrupted.
	if stopped.Done != 17 || stopped.Rows != 30 || stopped.Journal != out+".progress" {
		t.Errorf("it is %+v, want 17 of 30 in %s.progress", stopped, out)
	}
	raw, err := os.ReadFile(stopped.Journal)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	if err := os.WriteFile(stopped.Journal, slices.Concat(bytes.Join(lines[:11], nil), lines[11][:9]), 0o666); err != nil {
		t.Fatal(err) // a crash left ten lines and a half
	}
	d.numbers[2], d.done, d.hook = 100, nil, nil
	var got string
	if err := d.job(out).Do(context.Background(), text(30, &got)); err != nil {
		t.Fatal(err)
	}
	if want := append([]int{100}, numbers(30)[10:]...); !slices.Equal(d.done, want) {
		t.Errorf("it did %v, want %v", d.done, want)
	}
	if want := whole(t, d); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	j = d.job(out)
	if err := os.WriteFile(out+".progress", raw, 0o666); err != nil {
		t.Fatal(err)
	}
	j.Head = "other work"
	if err := j.Do(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a journal of other work: %v, want an error that says so", err)
	}
}

// TestTemporary: temporary failures are in the output, and are retried by the next run.
func TestTemporary(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	d := &doubling{numbers: numbers(9), fails: map[int]error{
		3: &answerError{temporary: true}, 4: &answerError{unreadable: true}, 7: errGone}}
	j := d.job(out)
	err := j.Do(context.Background(), nil)
	var stopped *InterruptedError
	if !errors.As(err, &stopped) || stopped.Done != 6 || !errors.Is(err, errGone) || errors.Is(err, exit.ErrInterrupted) {
		t.Fatalf("Do = %v, want an InterruptedError after 6 rows because of %v", err, errGone)
	}
	delete(d.fails, 7)
	d.done = nil
	var got string
	var unreadable, temporary []int
	err = j.Do(context.Background(), func(get Get[value]) error {
		for i := range 9 {
			line, err := get(i)
			if err != nil {
				return err
			}
			if line.Unreadable {
				unreadable = append(unreadable, i)
			}
			if line.Temporary {
				temporary = append(temporary, i)
			}
		}
		return text(9, &got)(get)
	})
	if want := []int{3, 7, 8, 9}; err != nil || !slices.Equal(d.done, want) {
		t.Errorf("it did %v (%v), want %v", d.done, err, want)
	}
	if !slices.Equal(unreadable, []int{3}) || !slices.Equal(temporary, []int{2}) {
		t.Errorf("unreadable %v, temporary %v, want [3] and [2]", unreadable, temporary)
	}
	if !strings.Contains(got, "2: 6 no answer\n3: 8 no answer\n4: 10 \n") {
		t.Errorf("got %q, want %q in it", got, "2: 6 no answer\n3: 8 no answer\n4: 10 \n")
	}
}

// TestMaxFailed: rows may fail up to a limit, whichever run they failed in.
func TestMaxFailed(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	bad := errors.New("bad")
	d := &doubling{numbers: numbers(20), fails: map[int]error{2: bad, 5: bad, 11: bad}}
	j := d.job(out)
	for k := range 2 {
		j.MaxFailed = 3
		err := j.Do(context.Background(), nil)
		var failed *FailedError
		if !errors.As(err, &failed) || k == 0 && !errors.Is(err, bad) || failed.Failed != 3 || failed.Row != 10 {
			t.Errorf("Do = %v, want a FailedError of 3 rows at row 11", err)
		}
	}
	j.MaxFailed = 4
	var got string
	if err := j.Do(context.Background(), text(20, &got)); err != nil || strings.Count(got, "bad") != 3 {
		t.Errorf("Do = %v, got %q, want 3 bad rows", err, got)
	}
}

// TestShards: any number of shards merges to the output of a single run; rows that changed since are refused, unless
// Unchanged is set.
func TestShards(t *testing.T) {
	d := &doubling{numbers: numbers(25), fails: map[int]error{6: errors.New("six")}}
	want := whole(t, d)
	for _, count := range []int{1, 3} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.jsonl")
			merge := d.job(out)
			merge.Merge = true
			for k := count; k > 0; k-- {
				j := d.job(out)
				j.Options.Shard, j.Batches = shards.Ref{Index: k, Count: count}, Chunks(4)
				if k == 1 { // it is interrupted first
					ctx, cancel := context.WithCancel(context.Background())
					d.hook = func(n int) {
						if n == 5 {
							cancel()
						}
					}
					if _, err := j.Shard(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("Shard = %v, want it interrupted", err)
					}
					d.hook, d.done = nil, nil
					var missing *shards.IncompleteError
					if err := merge.Do(context.Background(), nil); !errors.As(err, &missing) {
						t.Errorf("merge = %v, want an IncompleteError", err)
					}
				}
				r, err := j.Shard(context.Background())
				if err != nil || len(r.Shards) != 1 {
					t.Fatalf("Shard %d = %+v, %v, want one shard done", k, r, err)
				}
				if k == 1 && (len(d.done) == 0 || d.done[0] != 5) {
					t.Errorf("the shard resumed with %v, want 5", d.done)
				}
			}
			var got string
			if err := merge.Do(context.Background(), text(25, &got)); err != nil || got != want {
				t.Errorf("merge = %v, got %q, want %q", err, got, want)
			}
			d.numbers[3] = 1000
			defer func() { d.numbers[3] = 4 }()
			if err := merge.Do(context.Background(), text(25, &got)); err == nil || !strings.Contains(err.Error(), "row 4") {
				t.Errorf("merge of a changed row = %v, want an error that names row 4", err)
			}
			merge.Unchanged = true
			if err := merge.Do(context.Background(), text(25, &got)); err != nil || got != want {
				t.Errorf("merge = %v, got %q, want %q", err, got, want)
			}
		})
	}
}

// TestTemporaryShard: a shard with temporarily failed rows is not done.
func TestTemporaryShard(t *testing.T) {
	d := &doubling{numbers: numbers(6), fails: map[int]error{2: &answerError{temporary: true}}}
	j := d.job(filepath.Join(t.TempDir(), "out.jsonl"))
	j.Options.Shard = shards.Ref{Index: 1, Count: 1}
	var passing *shards.TemporaryError
	if _, err := j.Shard(context.Background()); !errors.As(err, &passing) || passing.Row != 2 ||
		passing.Why != "no answer" {
		t.Errorf("Shard = %v, want a TemporaryError of row 2", err)
	}
	d.fails, d.done = nil, nil
	if r, err := j.Shard(context.Background()); err != nil || r.Rows != 6 || !slices.Equal(d.done, []int{2}) {
		t.Errorf("Shard = %+v, %v, it did %v, want only row 2", r, err, d.done)
	}
}

// TestSkip: skipped rows are neither done nor counted, even if the journal has them.
func TestSkip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	d := &doubling{numbers: numbers(10)}
	j := d.job("")
	k, err := j.Resume(context.Background(), path)
	if err != nil || k.Len() != 10 {
		t.Fatalf("Resume = %v, want 10 rows", err)
	}
	k.Close()
	os.Remove(path)
	d.done = nil
	j.Skip = func(i int) bool { return i%2 == 0 }
	j.Progress = func(done, total int) {
		if done > total || total != 5 {
			t.Errorf("Progress(%d, %d), want 5 in all", done, total)
		}
	}
	for range 2 {
		if k, err = j.Resume(context.Background(), path); err != nil || k.Len() != 5 || k.Has(0) || !k.Has(1) {
			t.Fatalf("Resume = %v, want 5 rows, 1 among them and 0 not", err)
		}
		k.Close()
	}
	if want := []int{2, 4, 6, 8, 10}; !slices.Equal(d.done, want) {
		t.Errorf("it did %v, want %v", d.done, want)
	}
}

// TestErrors: an error in reading, preparing or working belongs to its row; a batch of which no row succeeds ends the
// run.
func TestErrors(t *testing.T) {
	d := &doubling{numbers: numbers(40), fails: map[int]error{13: errors.New("out of memory")}}
	var batches [][]int
	job := func() *Job[int, value] {
		j := d.job("")
		j.Batches = Chunks(9)
		j.Read = func(i int) (int, error) {
			if i == 5 {
				return 0, errors.New("cannot be read")
			}
			return i + 1, nil
		}
		j.Prepare = func(n int) (edit.Inputs, error) {
			time.Sleep(time.Duration(n%3) * time.Millisecond) // so that later ones finish first
			if n == 8 {
				return nil, errors.New("cannot be prepared")
			}
			return sized(n), nil
		}
		j.Work = func(ctx context.Context, tasks []Task[int]) ([]value, []error, error) {
			var rows []int
			for _, task := range tasks {
				if rows = append(rows, task.Row); task.Inputs != sized(task.Row) {
					t.Errorf("the inputs of %d are %v, want what was prepared", task.Row, task.Inputs)
				}
			}
			batches = append(batches, rows)
			return edit.Each(ctx, rows, func(_ context.Context, rows []int) (values []value, err error) {
				for _, n := range rows {
					err = cmpOr(err, d.fails[n])
					values = append(values, value{Double: 2 * n})
				}
				return values, err
			})
		}
		return j
	}
	m, err := job().InMemory(context.Background())
	if err != nil || m.Len() != 40 {
		t.Fatalf("InMemory = %d results, %v, want 40", m.Len(), err)
	}
	want := map[int]string{5: "cannot be read", 7: "cannot be prepared", 12: "out of memory"}
	for i := range 40 {
		if l, _ := m.Line(i); l.Error != want[i] || l.Error == "" && l.Value.Double != 2*(i+1) {
			t.Errorf("row %d is %+v, want the error %q", i, l, want[i])
		}
	}
	if len(batches[0]) != 7 { // of nine, two failed before
		t.Errorf("the first batch is %v, want 7 rows", batches[0])
	}
	for n := range 40 {
		if n >= 10 {
			d.fails[n+1] = errors.New("out of memory")
		}
	}
	m, err = job().InMemory(context.Background())
	var batch *BatchError
	if !errors.As(err, &batch) || batch.Row != 18 || err.Error() != "out of memory" || m.Len() != 18 {
		t.Errorf("InMemory = %d results, %v; want 18 and a BatchError", m.Len(), err)
	}
}

// TestMaxSize: a batch is worked on in parts if the prepared inputs become too large, but joined rows stay together
// below twice the size.
func TestMaxSize(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	tests := []struct {
		name     string
		max      int
		joined   bool
		least    int
		maxParts int
	}{{"no bound", 0, false, 1, 1}, {"each core's", 1, false, 2, 64}, {"joined", 10 * cores, true, 1, 64}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &doubling{numbers: numbers(64 * cores)}
			j := d.job("")
			j.Batches, j.Prepare, j.MaxSize = Chunks(64*cores), prepareTen, tt.max
			if tt.joined {
				j.Joined = func(a, b int) bool { return true }
			}
			single, sizes := j.Work, []int(nil)
			j.Work = func(ctx context.Context, rows []Task[int]) ([]value, []error, error) {
				sizes = append(sizes, len(rows))
				return single(ctx, rows)
			}
			m, err := j.InMemory(context.Background())
			if err != nil || m.Len() != j.Rows || len(sizes) < tt.least || len(sizes) > tt.maxParts {
				t.Errorf("got %d results in batches of %v, %v, want %d in at least %d batches of at most %d parts", m.Len(), sizes,
					err, j.Rows, tt.least, tt.maxParts)
			}
			if tt.joined && sizes[0] != 2*cores {
				t.Errorf("the first batch has %d rows, want %d", sizes[0], 2*cores)
			}
		})
	}
}

// TestNothingIsReadBehind: after an error that ends the run no more rows are read.
func TestNothingIsReadBehind(t *testing.T) {
	d := &doubling{numbers: numbers(400)}
	var read atomic.Int64
	j := d.job("")
	j.Batches = Chunks(200)
	j.Read = func(i int) (int, error) {
		if read.Add(1); i == 10 {
			return 0, errGone
		}
		return i + 1, nil
	}
	m, err := j.InMemory(context.Background())
	n, most := int(read.Load()), 11+runtime.GOMAXPROCS(0)
	if !errors.Is(err, errGone) || n > most || m.Len() != n-1 {
		t.Errorf("%d rows were read, %d are done, %v; want at most %d", n, m.Len(), err, most)
	}
}

// TestUnknownContent: a row whose picture cannot be digested gets no result.
func TestUnknownContent(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "a.png"), 0o777); err != nil { // it exists, but has no bytes
		t.Fatal(err)
	}
	d := &doubling{numbers: numbers(2)}
	j := d.job("")
	j.Content = func(n int, err error) (string, error) {
		return Content(folder, err, data.Image{Path: []string{"absent.png", "a.png"}[n-1]})
	}
	m, err := j.InMemory(context.Background())
	good, _ := m.Line(0)
	bad, _ := m.Line(1)
	if err != nil || good.Error != "" || !strings.Contains(bad.Error, "a.png") {
		t.Errorf("lines %+v and %+v, %v; want an error only for the second", good, bad, err)
	}
}

// TestLine: a line is written as a flat JSON object, whatever the value is, and reads back the same.
func TestLine(t *testing.T) {
	type flat struct {
		Row        int      `json:"row"`
		Content    string   `json:"of"`
		Text       string   `json:"text,omitempty"`
		Score      *float64 `json:"score,omitempty"`
		Error      string   `json:"error,omitempty"`
		Unreadable bool     `json:"unreadable,omitempty"`
	}
	type inner struct {
		Text  string   `json:"text,omitempty"`
		Score *float64 `json:"score,omitempty"`
	}
	x := 1e-7
	for _, f := range []flat{{}, {3, "abc", "<a & b>", &x, "", false}, {4, "d", "", nil, "it's \"<bad>\"", true},
		{5, "\u2028", "ü", nil, "e", false}} {
		t.Run(fmt.Sprint(f.Row), func(t *testing.T) {
			l := Line[inner]{Row: f.Row, Content: f.Content, Value: inner{f.Text, f.Score}, Error: f.Error,
				Unreadable: f.Unreadable}
			for _, escape := range []bool{true, false} {
				var got, want bytes.Buffer
				for v, to := range map[any]*bytes.Buffer{f: &want, l: &got} {
					e := json.NewEncoder(to)
					e.SetEscapeHTML(escape)
					if err := e.Encode(v); err != nil {
						t.Fatal(err)
					}
				}
				if got.String() != want.String() {
					t.Errorf("got %s, want %s", got.String(), want.String())
				}
				var again Line[inner]
				if err := json.Unmarshal(got.Bytes(), &again); err != nil || !reflect.DeepEqual(again, l) {
					t.Errorf("read again it is %+v (%v), want %+v", again, err, l)
				}
			}
		})
	}
	if raw, err := json.Marshal(Line[int]{Value: 3}); err == nil {
		t.Errorf("a line of a value that is not an object is %s, want an error", raw)
	}
}
