package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

// plainInterval is the time between two lines of progress if stderr is not a terminal.
const plainInterval = 15 * time.Second

// Progress shows the progress of a command on stderr: a bar with speed and time left on a terminal, otherwise a plain
// line every few seconds, and nothing with --json. A nil Progress shows nothing. It is safe for concurrent use.
type Progress struct {
	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil: plain lines
	w     io.Writer
	what  string
	note  string
	total int64
	done  int64
	start time.Time
	next  time.Time
}

// NewProgress starts a progress display of total steps (-1: unknown). unit names a step, as in "samples".
func NewProgress(c *cobra.Command, what string, total int64, unit string) *Progress {
	if JSON(c) {
		return nil
	}
	now := time.Now()
	p := &Progress{w: c.ErrOrStderr(), what: what, total: total, start: now, next: now.Add(plainInterval)}
	if o, ok := p.w.(*output); ok && o.terminal() != nil {
		f := o.terminal()
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit),
			progressbar.OptionSetWidth(24), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionOnCompletion(func() { fmt.Fprintln(f) }))
	}
	return p
}

// Bar is a [Progress] for callbacks of the form func(done, total int). The display starts with the first call.
type Bar struct {
	Command    *cobra.Command
	What, Unit string
	Note       func(passed time.Duration) string // shown next to the bar; nil: nothing

	progress *Progress
	start    time.Time
	done     int
}

// Set shows done of total steps. total is -1 if it is unknown.
func (b *Bar) Set(done, total int) {
	note := ""
	if b.start.IsZero() {
		b.progress, b.start = NewProgress(b.Command, b.What, int64(total), b.Unit), time.Now()
	} else if b.Note != nil {
		note = b.Note(time.Since(b.start))
	}
	b.progress.Add(int64(done-b.done), note)
	b.done = done
}

// SetBytes shows bytes, in megabytes.
func (b *Bar) SetBytes(done, total int64) {
	const mega = 1_000_000
	b.Set(int((done+mega-1)/mega), int((total+mega-1)/mega))
}

// Done returns the number of steps in the last call of Set.
func (b *Bar) Done() int { return b.done }

// Close ends the display.
func (b *Bar) Close() { b.progress.Close() }

// Add counts n more steps as done. note (a loss, a file; may be empty) is shown next to them.
func (p *Progress) Add(n int64, note string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	p.note = note
	if p.bar != nil {
		if note != "" {
			text, _ := visible([]byte(p.what + " " + note))
			p.bar.Describe(string(text))
		}
		p.bar.Add64(n) // fails only when the bar is full already
		return
	}
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(plainInterval)
		p.line()
	}
}

// line prints the state as text. p.mu is held.
func (p *Progress) line() {
	of := ""
	if p.total >= 0 {
		of = fmt.Sprintf("/%d", p.total)
	}
	spent := time.Since(p.start)
	left := ""
	if p.done > 0 && p.total > p.done {
		rest := time.Duration(float64(spent) * float64(p.total-p.done) / float64(p.done))
		left = fmt.Sprintf(", %v left", rest.Round(time.Second))
	}
	note := p.note
	if note != "" {
		note = " " + note
	}
	fmt.Fprintf(p.w, "%s: %d%s in %v%s%s\n", p.what, p.done, of, spent.Round(time.Second), left, note)
}

// Close ends the display.
func (p *Progress) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		if !p.bar.IsFinished() {
			p.bar.Exit() // leaves the line as it is
		}
		return
	}
	p.line()
}

// Noter returns a function that shows on stderr what is about to happen, or nothing with --json, where the result has
// it.
func Noter(c *cobra.Command) func(text string) {
	if JSON(c) {
		return func(string) {}
	}
	return func(text string) { fmt.Fprintln(c.ErrOrStderr(), text) }
}

// Warner returns a function that prints a warning of the command.
func Warner(c *cobra.Command) func(text string) {
	return func(text string) { fmt.Fprintln(c.ErrOrStderr(), "warning:", text) }
}
