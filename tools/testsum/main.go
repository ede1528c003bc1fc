// Command testsum runs go test with its arguments (-C DIR first, for another module). It prints the output of
// failures, a line per package, and the totals. With -short it also prints how many tests were left out, and which of
// the others took long.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"assay/internal/long"
)

// patience is the number of seconds after which a test is reported as slow. internal/long is for more than one second
// on an idle CPU, but here tests of other packages run at the same time.
const patience = 3

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	Test       string
	Output     string
	Elapsed    float64
	ImportPath string // of build output
}

type key struct{ pkg, test string }

func main() {
	args, dir := os.Args[1:], []string(nil)
	if len(args) > 1 && args[0] == "-C" { // must come first for go
		dir, args = args[:2], args[2:]
	}
	cmd := exec.Command("go", slices.Concat([]string{"test"}, dir, []string{"-json"}, args)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: go test:", err)
		os.Exit(1)
	}
	s := summarize(out, os.Stdout)
	err = cmd.Wait()
	if err != nil && s.failed == 0 {
		s.failed = 1 // not a test, but for example a package that does not build
	}
	s.print(os.Stdout, slices.Contains(os.Args, "-short") && os.Getenv(long.ShardEnv) == "")
	if s.failed > 0 {
		os.Exit(1)
	}
}

// summary counts tests, subtests included.
type summary struct {
	passed, failed, skipped int
	left                    int      // left out by internal/long; not counted as skipped
	slow                    []string // tests that took longer than patience
}

// print writes the totals, and slow tests of a short run.
func (s summary) print(w io.Writer, short bool) {
	if short {
		for _, t := range s.slow {
			fmt.Fprintf(w, "slow for the short form: %s\n", t)
		}
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped", s.passed, s.failed, s.skipped)
	if s.left > 0 {
		fmt.Fprintf(w, ", %d left out since they take long (make test-all runs them)", s.left)
	}
	fmt.Fprintln(w)
}

// summarize reads all events.
func summarize(r io.Reader, w io.Writer) (s summary) {
	outputs := map[key]*strings.Builder{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return s
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprint(w, string(line)) // not an event
			continue
		}
		e.Package = cmp.Or(e.Package, e.ImportPath)
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			if outputs[k] == nil {
				outputs[k] = new(strings.Builder)
			}
			outputs[k].WriteString(e.Output)
		case "pass", "fail", "skip", "build-fail":
			text := ""
			if b := outputs[k]; b != nil {
				text = b.String()
			}
			delete(outputs, k)
			switch {
			case e.Action == "fail" || e.Action == "build-fail":
				fmt.Fprint(w, text)
			case e.Test == "" && e.Action == "pass":
				fmt.Fprintf(w, "ok  %-32s %6.1f s\n", e.Package, e.Elapsed)
			}
			s.count(e, text)
		}
	}
}

// count counts a finished test, with its output.
func (s *summary) count(e event, text string) {
	switch {
	case e.Test == "":
		return
	case e.Action == "pass":
		s.passed++
	case e.Action == "fail":
		s.failed++
	case strings.Contains(text, long.Reason):
		s.left++
	default:
		s.skipped++
	}
	if e.Elapsed > patience && !strings.Contains(e.Test, "/") {
		s.slow = append(s.slow, fmt.Sprintf("%s of %s, %.1f s", e.Test, e.Package, e.Elapsed))
	}
}
