package house

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/long"
)

// command is the parsed --help of a command or a subcommand.
type command struct {
	flags, subcommands map[string]bool
	examples           string
}

var (
	flagLine = regexp.MustCompile(`(?m)^ +(?:-(\w), |    )--([\w-]+)`)
	listed   = regexp.MustCompile(`(?m)^  ([\w-]+) `)
	variable = regexp.MustCompile(`^[A-Z_]+=`)
	inline   = regexp.MustCompile("`((?:train|score|label|assay|make|go|build/lab/\\w+|tools/[\\w/]+\\.sh) [^`]*)`")
	ourOwn   = regexp.MustCompile(`^(?:\$ )?(?:[A-Z_]+=\S* )*` +
		`(train|score|label|assay|make|go|(?:bin|build/lab|tools)/\S+) `)
	goTest    = regexp.MustCompile(`^-(?:run|fuzz|bench)$`)
	makeNames = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

// joined joins the lines of each paragraph.
var joined = strings.NewReplacer("\n\n", "\n\n", "\n", " ")

// miniature is the program in lab/ that pages and help texts use to make data.
const miniature = "build/lab/miniature"

// programs builds the commands to bin/ and miniature, which does nothing if they are up to date, and runs each with
// --help.
var programs = sync.OnceValues(func() (map[string]*command, error) {
	for _, args := range []string{"build -o bin/ ./cmd/...", "-C lab build -o ../build/lab/ ./miniature"} {
		build := exec.Command("go", strings.Fields(args)...)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w (is CGO_LDFLAGS set, as CONTRIBUTING.md says?)\n%.500s", args, err, out)
		}
	}
	known := map[string]*command{}
	todo := []string{"train", "score", "label", "assay", miniature}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		args := strings.Fields(name)
		program := filepath.Join(root, "bin", args[0])
		if args[0] == miniature {
			program = filepath.Join(root, miniature)
		}
		out, err := exec.Command(program, append(args[1:], "--help")...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s --help: %w", name, err)
		}
		help := string(out)
		_, usage, _ := strings.Cut(help, "\nUsage:\n")
		c := &command{flags: map[string]bool{}, subcommands: map[string]bool{}}
		for _, m := range flagLine.FindAllStringSubmatch(usage, -1) {
			c.flags["--"+m[2]] = true
			if m[1] != "" {
				c.flags["-"+m[1]] = true
			}
		}
		_, list, _ := strings.Cut(usage, "\nAvailable Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for _, m := range listed.FindAllStringSubmatch(list, -1) {
			if m[1] != "help" {
				c.subcommands[m[1]] = true
				todo = append(todo, name+" "+m[1])
			}
		}
		_, c.examples, _ = strings.Cut(usage, "\nExamples:\n")
		c.examples, _, _ = strings.Cut(c.examples, "\n\n")
		known[name] = c
	}
	return known, nil
})

// commands returns the result of programs.
func commands(t *testing.T) map[string]*command {
	t.Helper()
	known, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// wrong returns what is wrong with a command line: a command, subcommand, flag, target, package or test that does not
// exist; "" if nothing.
func wrong(t *testing.T, line string) string {
	args := words(strings.TrimPrefix(line, "$ "))
	for len(args) > 0 && variable.MatchString(args[0]) {
		args = args[1:]
	}
	if len(args) == 0 {
		return ""
	}
	name, args := strings.TrimPrefix(args[0], "bin/"), args[1:]
	switch {
	case name == "make":
		return wrongMake(t, args)
	case name == "go":
		return wrongGo(t, args)
	case strings.HasPrefix(name, "tools/"):
		script, err := os.ReadFile(filepath.Join(root, name))
		for _, a := range args {
			if err == nil && strings.HasPrefix(a, "--") && !bytes.Contains(script, []byte(a)) {
				return name + " has no option " + a
			}
		}
		return errorOrNone(err)
	}
	known := commands(t)
	c := known[name]
	if program, ok := strings.CutPrefix(name, "build/lab/"); ok && c == nil {
		return wrongGo(t, append([]string{"run", "-C", "lab", "./" + program}, args...))
	}
	if c == nil {
		return "no command " + name
	}
	stands := false // a placeholder stands for a subcommand
	for i, a := range args {
		flag, _, _ := strings.Cut(a, "=")
		isSub := known[name+" "+a] != nil
		switch {
		case a == "...": // arguments are omitted
		case strings.HasPrefix(a, "-"):
			if !c.flags[flag] && !(stands && anyHas(known, name, flag)) {
				return name + " has no flag " + a
			}
		case isSub:
			name += " " + a
			c = known[name]
		case len(c.subcommands) > 0 && (i == 0 || !strings.HasPrefix(args[i-1], "-")):
			if !placeholder.MatchString(a) {
				return name + " has no subcommand " + a
			}
			stands = true
		}
	}
	return ""
}

// anyHas reports whether any subcommand has a flag.
func anyHas(known map[string]*command, name, flag string) bool {
	for sub := range known[name].subcommands {
		if known[name+" "+sub].flags[flag] {
			return true
		}
	}
	return false
}

// placeholder matches an argument that stands for others, such as NAME or [DIR...].
var placeholder = regexp.MustCompile(`^[\[A-Z|.\]]+$`)

func errorOrNone(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// wrongMake finds targets and variables that are not in the Makefile.
func wrongMake(t *testing.T, args []string) string {
	makefile := string(read(t, "Makefile"))
	for _, a := range args {
		key, _, isVariable := strings.Cut(a, "=")
		if isVariable && !regexp.MustCompile(`\b`+key+`\b`).MatchString(makefile) {
			return "the Makefile has no variable " + key
		}
		found := isVariable
		for _, m := range makeNames.FindAllStringSubmatch(makefile, -1) {
			found = found || m[1] == a
		}
		if !found {
			return "the Makefile has no target " + a
		}
	}
	return ""
}

// wrongGo looks up the package of go test or go run, the names of tests, and the flags of a program.
func wrongGo(t *testing.T, args []string) string {
	if len(args) == 0 || args[0] != "test" && args[0] != "run" {
		return ""
	}
	dir := root
	if len(args) > 2 && args[1] == "-C" { // another module of the repository
		dir = filepath.Join(root, args[2])
		args = slices.Delete(slices.Clone(args), 1, 3)
	}
	var source strings.Builder
	for i, a := range args[1:] {
		switch {
		case args[0] == "run" && strings.HasPrefix(a, "bin/"): // a program's own arguments
			return ""
		case strings.HasPrefix(a, "./") && strings.HasSuffix(a, "/..."):
		case args[0] == "run" && source.Len() > 0 && !strings.HasPrefix(a, "-"): // a program's own argument
		case strings.HasPrefix(a, "./"):
			found, err := filepath.Glob(filepath.Join(dir, a, "*.go"))
			if err != nil || len(found) == 0 {
				return "no Go package " + a
			}
			for _, file := range found {
				text, err := os.ReadFile(file)
				if err != nil {
					return err.Error()
				}
				source.Write(text)
			}
		case args[0] == "test" && goTest.MatchString(args[i]) && a != ".":
			if !regexp.MustCompile(`func (Test|Fuzz|Benchmark)?` + strings.Trim(a, "^$")).MatchString(source.String()) {
				return "the package has no test " + a
			}
		case args[0] == "run" && strings.HasPrefix(a, "-"):
			if !strings.Contains(source.String(), `"`+strings.Trim(a, "-")+`"`) {
				return "the program has no flag " + a
			}
		}
	}
	return ""
}

// TestCommandsExist checks every command line of the documentation and of the examples in help texts: commands,
// subcommands, flags, targets of make, packages and tests.
func TestCommandsExist(t *testing.T) {
	seen := 0
	check := func(where, line string) {
		seen++
		if problem := wrong(t, line); problem != "" {
			t.Errorf("%s: %s: %s", where, line, problem)
		}
	}
	for _, page := range pages(t) {
		code, prose := blocks(string(read(t, page)))
		for _, b := range code {
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				if ourOwn.MatchString(line) {
					check(page, strings.TrimSpace(line))
				}
			}
		}
		for _, m := range inline.FindAllStringSubmatch(joined.Replace(prose), -1) {
			if path.Base(page) != "CHANGELOG.md" {
				check(page, m[1])
			}
		}
	}
	for name, c := range commands(t) {
		for line := range strings.Lines(strings.ReplaceAll(c.examples, "\\\n", " ")) {
			check(name+" --help", strings.TrimSpace(line))
		}
	}
	if seen < 100 {
		t.Errorf("got %d command lines, want at least 100", seen)
	}
}

// TestPagesRun runs the commands of each page, in order, in a folder that looks like the repository. A script in
// testdata/pages creates what a page requires. A block that cannot run says why: <!-- not run: reason -->.
func TestPagesRun(t *testing.T) {
	commands(t)
	for _, page := range pages(t) {
		code, _ := blocks(string(read(t, page)))
		var script strings.Builder
		for _, b := range code {
			if b.aside != "" {
				continue
			}
			runs := false
			for line := range strings.Lines(b.text) {
				m := ourOwn.FindStringSubmatch(line)
				runs = runs || m != nil && !builds(m[1])
			}
			if runs {
				fmt.Fprintf(&script, "echo '%s:%d' >&2\n%s\n", page, b.line, runnable(b.text))
			}
		}
		if script.Len() > 0 {
			t.Run(page, func(t *testing.T) {
				if page != "README.md" {
					long.Test(t)
				}
				t.Parallel()
				runIn(t, sandbox(t), given(t, page)+script.String())
			})
		}
	}
}

// TestHelpRuns runs the examples of the help texts in the same way. Examples that cannot run are listed with the
// reason.
func TestHelpRuns(t *testing.T) {
	cannot := map[string]bool{}
	for line := range strings.Lines(string(read(t, "internal/house/testdata/pages/help_not_run.txt"))) {
		example, reason, _ := strings.Cut(line, "  # not run: ")
		if strings.TrimSpace(reason) == "" {
			t.Errorf("help_not_run.txt: got no reason for %q, want one", line)
		}
		cannot[example] = true
	}
	seen := map[string]bool{}
	for name, c := range commands(t) {
		var script strings.Builder
		for line := range strings.Lines(strings.ReplaceAll(c.examples, "\\\n", " ")) {
			line = strings.TrimSpace(line)
			example := strings.Join(strings.Fields(line), " ")
			if !cannot[example] {
				script.WriteString("echo " + name + " >&2\n" + line + "\n")
			}
			seen[example] = true // a command of assay may have the same example
		}
		_, short, _ := strings.Cut(name, "assay ")
		known := commands(t)
		again := known[short] != nil || known["score "+short] != nil // such as assay score pair, assay fetch
		if script.Len() > 0 && !again {
			t.Run(name, func(t *testing.T) {
				long.Test(t)
				t.Parallel()
				runIn(t, sandbox(t), given(t, "help_"+strings.ReplaceAll(path.Base(name), " ", "_"))+script.String())
			})
		}
	}
	for example := range cannot {
		if seen[example] {
			continue
		}
		t.Errorf("help_not_run.txt: got %q, want an example of a help text", example)
	}
}

// runnable turns a block into a script, without prompts and without the output shown after them. It skips make, go
// and tools, which build the repository or take minutes.
func runnable(text string) string {
	prompts := strings.HasPrefix(text, "$ ")
	var script strings.Builder
	for line := range strings.Lines(text) {
		command, prompt := strings.CutPrefix(line, "$ ")
		m := ourOwn.FindStringSubmatch(command)
		if prompt == prompts && (m == nil || !builds(m[1])) {
			script.WriteString(command)
		}
	}
	return script.String()
}

// builds reports whether a command builds or tests the repository.
func builds(command string) bool {
	return command == "make" || command == "go" || strings.HasPrefix(command, "tools/")
}

// given returns the script that creates what a page or a help text requires: the common part, and its own.
func given(t *testing.T, page string) string {
	var script strings.Builder
	for _, name := range []string{"all", strings.ReplaceAll(strings.TrimSuffix(page, ".md"), "/", "_")} {
		text, err := os.ReadFile(filepath.Join("testdata", "pages", name+".sh"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		script.Write(text)
	}
	return script.String()
}

// sandbox creates a folder that looks like the repository, in which commands may write: it links the folders that are
// only read, and copies examples/, to which commands write.
func sandbox(t *testing.T) string {
	dir := t.TempDir()
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"backbones", "bin", "clients", "testdata", "build/lib", "build/lab"} {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(absolute, name), to); err != nil {
			t.Fatal(err)
		}
	}
	examples := filepath.Join(absolute, "examples")
	err = filepath.WalkDir(examples, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(file, absolute))
		if d.IsDir() {
			return os.Mkdir(to, 0o755)
		}
		if path.Ext(file) == ".png" {
			return os.Symlink(file, to)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// runIn runs a script in a folder. If the script fails, the test fails with its output.
func runIn(t *testing.T, dir, script string) {
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	c.Dir = dir
	pages, err := filepath.Abs(filepath.Join("testdata", "pages"))
	if err != nil {
		t.Fatal(err)
	}
	c.Env = append(os.Environ(),
		"PAGES="+pages,
		"PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"),
		"ASSAY_STORE="+filepath.Join(dir, "store"),
	)
	start := time.Now()
	out, err := c.CombinedOutput()
	t.Logf("%.1f s", time.Since(start).Seconds())
	if err != nil {
		t.Errorf("got error %v, want none\n%s", err, out)
	}
}
