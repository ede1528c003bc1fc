package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// output is stdout or stderr. In output for people control characters are escaped, since names and texts of tables
// may contain terminal escape sequences. It remembers the first error: not every print is checked, and a result lost
// to a full disk must not pass as success.
type output struct {
	exact bool // for programs: everything is written unchanged

	mu   sync.Mutex
	to   io.Writer
	rest []byte // an incomplete character at the end
	err  error
}

// Write writes until something fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := p
	if !o.exact {
		text, o.rest = visible(append(o.rest, p...))
	}
	if o.err == nil {
		_, o.err = o.to.Write(text)
	}
	if o.err != nil {
		return 0, o.err
	}
	return len(p), nil
}

// failed returns the first error.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// terminal returns the terminal that is written to, or nil.
func (o *output) terminal() *os.File {
	if f, ok := o.to.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// visible escapes control characters and bidirectional controls, as \x1b. Line breaks and tabs stay. rest is an
// incomplete character at the end.
func visible(text []byte) (clean, rest []byte) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1 && !utf8.FullRune(text):
			return clean, text
		case r == utf8.RuneError && n == 1:
			clean = fmt.Appendf(clean, `\x%02x`, text[0])
		case r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r):
			clean = append(clean, text[:n]...)
		case r < utf8.RuneSelf:
			clean = fmt.Appendf(clean, `\x%02x`, r)
		default:
			clean = fmt.Appendf(clean, `\u%04x`, r)
		}
		text = text[n:]
	}
	return clean, nil
}
