// Command testsum runs go test with its arguments, prints the output of what failed, a line per package, and what was
// tested in all.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

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
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: go test:", err)
		os.Exit(1)
	}
	passed, failed, skipped := summarize(out, os.Stdout)
	err = cmd.Wait()
	if err != nil && failed == 0 {
		failed = 1 // something that is not a test: a package that does not build
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		os.Exit(1)
	}
}

// summarize reads events until their end and counts tests, subtests included.
func summarize(r io.Reader, w io.Writer) (passed, failed, skipped int) {
	outputs := map[key]*strings.Builder{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return passed, failed, skipped
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprint(w, string(line)) // not of test2json
			continue
		}
		if e.Package == "" {
			e.Package = e.ImportPath
		}
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
			switch {
			case e.Test == "":
			case e.Action == "pass":
				passed++
			case e.Action == "fail":
				failed++
			default:
				skipped++
			}
		}
	}
}
