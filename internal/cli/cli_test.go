package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"assay/internal/exit"

	"github.com/spf13/cobra"
)

type listed struct{}

func (listed) Error() string      { return "two problems" }
func (listed) Problems() []string { return []string{"a.yaml:3: x", "a.yaml:9: y"} }

func testApp() *App {
	a := &App{Root: func() *cobra.Command { return &cobra.Command{Use: "tool"} }}
	leaf := func(name string, run func(*cobra.Command) error) {
		a.Register(func() *cobra.Command {
			return &cobra.Command{Use: name, RunE: func(c *cobra.Command, _ []string) error { return run(c) }}
		})
	}
	leaf("ok", func(c *cobra.Command) error {
		p := NewProgress(c, "work", 2, "steps")
		p.Add(2, "loss 0.5")
		p.Close()
		return Print(c, map[string]int{"score": 7}, func(w io.Writer) { fmt.Fprintln(w, "score 7") })
	})
	leaf("noted", func(c *cobra.Command) error {
		Noter(c)("about to work")
		return Print(c, map[string]int{"score": 7}, func(w io.Writer) { fmt.Fprintln(w, "score 7") })
	})
	leaf("fail", func(*cobra.Command) error { return errors.New("no disk") })
	leaf("usage", func(*cobra.Command) error { return exit.Usagef("scorer.yaml: %w", listed{}) })
	leaf("joined", func(*cobra.Command) error { return exit.Usage(errors.Join(errors.New("a"), errors.New("b"))) })
	leaf("stopped", func(*cobra.Command) error { return fmt.Errorf("%w in run/step-3", exit.ErrInterrupted) })
	leaf("told", func(c *cobra.Command) error {
		return errors.Join(Print(c, []int{1}, func(io.Writer) {}), exit.Reported(errors.New("1 row failed")))
	})
	leaf("panic", func(*cobra.Command) error { panic("odd") })
	a.Register(func() *cobra.Command {
		c := &cobra.Command{Use: "many"}
		c.AddCommand(&cobra.Command{Use: "one", RunE: func(*cobra.Command, []string) error { return nil }})
		return c
	})
	a.Register(func() *cobra.Command {
		c := &cobra.Command{Use: "configured", RunE: func(*cobra.Command, []string) error { return nil }}
		c.Flags().String("config", "", "")
		return c
	})
	a.Register(func() *cobra.Command {
		c := &cobra.Command{Use: "need", RunE: func(*cobra.Command, []string) error { return nil }}
		c.Flags().String("scorer", "", "")
		c.MarkFlagRequired("scorer")
		return c
	})
	return a
}

func TestExitCodesAndOutput(t *testing.T) {
	tests := []struct {
		args           string
		code           int
		stdout, stderr string // parts; "" means empty
	}{
		{"ok", exit.Done, "score 7\n", "work: 2/2 in 0s loss 0.5\n"},
		{"ok --json", exit.Done, `{"score":7}`, ""},
		{"noted", exit.Done, "score 7\n", "about to work\n"},
		{"noted --json", exit.Done, `{"score":7}`, ""},
		{"fail", exit.Failed, "", "error: no disk\n"},
		{"fail --json", exit.Failed, `{"error":"no disk"}`, ""},
		{"usage", exit.Wrong, "", "error: scorer.yaml: two problems"},
		{"usage --json", exit.Wrong, `{"error":"scorer.yaml: two problems","problems":["a.yaml:3: x","a.yaml:9: y"]}`, ""},
		{"joined --json", exit.Wrong, `"problems":["a","b"]`, ""},
		{"stopped", exit.Interrupted, "", "state saved in run/step-3"},
		{"told --json", exit.Failed, "[1]\n", ""},
		{"panic", exit.Failed, "", "internal error, please report it: odd"},
		{"need", exit.Wrong, "", `required flag(s) "scorer" not set (see tool need --help)`},
		{"ok --nosuch", exit.Wrong, "", "unknown flag: --nosuch"},
		{"ok --nosuch --json", exit.Wrong, `{"error":"unknown flag: --nosuch`, ""},
		{"ok extra", exit.Wrong, "", `unknown command "extra" for "tool ok"`},
		{"okk", exit.Wrong, "", `unknown command "okk"`},
		{"ok --json=true --nosuch", exit.Wrong, `{"error":"unknown flag: --nosuch (see tool ok --help)"}`, ""},
		{"ok --json=false --nosuch", exit.Wrong, "", "unknown flag: --nosuch"},
		{"--help", exit.Done, "Usage:", ""},
		{"help ok", exit.Done, "Usage:\n  tool ok", ""},
		{"help okk", exit.Wrong, "", `error: unknown command "okk" for "tool": did you mean ok? (see tool --help)`},
		{"help ok no", exit.Wrong, "", `error: unknown command "no" for "tool ok" (see tool --help)`},
		{"", exit.Done, "Usage:\n  tool [command]\n", ""},
		{"--json", exit.Wrong, `{"error":"a subcommand is needed (see tool --help)"}`, ""},
		{"many", exit.Done, "Usage:\n  tool many [command]\n", ""},
		{"many two", exit.Wrong, "", `error: unknown command "two" for "tool many" (see tool many --help)`},
		{"many two --nosuch", exit.Wrong, "", `error: unknown command "two" for "tool many" (see tool many --help)`},
		{"many on --nosuch", exit.Wrong, "", `error: unknown command "on" for "tool many": did you mean one? (see`},
		{"configured run.yaml", exit.Wrong, "",
			`unknown command "run.yaml" for "tool configured": pass a configuration as --config run.yaml (see`},
		{"many --json", exit.Wrong, `{"error":"a subcommand is needed (see tool many --help)"}`, ""},
		{"--version", exit.Done, Version, ""},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := testApp().Run(context.Background(), strings.Fields(tt.args), &stdout, &stderr)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, o := range []struct{ what, got, want string }{{"stdout", stdout.String(), tt.stdout},
				{"stderr", stderr.String(), tt.stderr}} {
				if !strings.Contains(o.got, o.want) || o.want == "" && o.got != "" {
					t.Errorf("%s is %q, want %q", o.what, o.got, o.want)
				}
			}
		})
	}
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// TestFullDisk: a result that could not be printed, as text or as JSON, is a failure, reported once.
func TestFullDisk(t *testing.T) {
	for _, args := range []string{"ok", "ok --json", "told", "told --json", "--help", "--version"} {
		t.Run(args, func(t *testing.T) {
			var stderr strings.Builder
			code := testApp().Run(context.Background(), strings.Fields(args), full{}, &stderr)
			if args == "told" { // prints nothing as text
				if code != exit.Failed || strings.Contains(stderr.String(), "no space") {
					t.Errorf("%s: got exit code %d, stderr %q, want %d and nothing of a full disk", args, code, stderr.String(),
						exit.Failed)
				}
				return
			}
			if code != exit.Failed || strings.Count(stderr.String(), "no space left") != 1 {
				t.Errorf("%s: exit code %d, want %d: %s", args, code, exit.Failed, &stderr)
			}
		})
	}
}

// TestHelpParts: flags of a part are under its heading, wrapped, with plain type names and no empty defaults.
func TestHelpParts(t *testing.T) {
	a := &App{Root: func() *cobra.Command { return &cobra.Command{Use: "tool"} }}
	a.Register(func() *cobra.Command {
		c := &cobra.Command{Use: "ask", Short: "Ask", RunE: func(*cobra.Command, []string) error { return nil }}
		c.Flags().StringToString("columns", nil, "names")
		c.Flags().String("url", "", strings.Repeat("server ", 16)+"end")
		c.Flags().Bool("merge", false, "put together")
		c.Flags().Int("most", 8, "how many")
		c.Flags().String("into", "", "what is made")
		c.Flags().String("ended", "", "`DAY` of the end")
		Writes(c, nil, "into")
		Part(c, "Flags of the model", "url", "most")
		TakesText(c, "url")
		return c
	})
	var stdout, stderr strings.Builder
	if code := a.Run(context.Background(), []string{"ask", "--help"}, &stdout, &stderr); code != exit.Done {
		t.Fatalf("--help: got exit code %d, want %d: %s", code, exit.Done, stderr.String())
	}
	want := `Ask

Usage:
  tool ask [flags]

Flags:
      --columns NAME=VALUE,...   names
      --ended DAY                DAY of the end
  -h, --help                     help for ask
      --into FILE                what is made
      --merge                    put together

Flags of the model:
      --most N    how many (default 8)
      --url URL   ` + strings.Repeat("server ", 12) + "server\n" + strings.Repeat(" ", 18) +
		`server server server end

Global Flags:
      --json   print results and errors as JSON on stdout
`
	if got := stdout.String(); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestCancelledIsFailure(t *testing.T) {
	if c := exit.Code(exit.Usage(context.Canceled)); c != exit.Failed {
		t.Errorf("exit code %d, want %d: nothing was saved", c, exit.Failed)
	}
}

// TestFlagsThatCannotWork: flags without the flags that they require, and files and folders that cannot be written,
// are refused before a command starts.
func TestFlagsThatCannotWork(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"full/x", "file"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	ran := false
	a := &App{Root: func() *cobra.Command { return &cobra.Command{Use: "tool"} }}
	a.Register(func() *cobra.Command {
		c := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { ran = true; return nil }}
		for _, name := range []string{"judge", "model", "url", "server", "out", "heatmap", "folder"} {
			c.Flags().String(name, "", "")
		}
		c.Flags().StringSlice("tables", nil, "")
		Needs(c, "judge", "url")
		Needs(c, "url|server", "model")
		Writes(c, nil, "out")
		Writes(c, []string{".png"}, "heatmap")
		Makes(c, "folder")
		return c
	})
	for args, want := range map[string]string{
		"--url x":             "--url requires --judge",
		"--judge a --model x": "--model requires --url or --server",
		"--url x --judge a --model x --out file2 --heatmap y.PNG --folder new --folder new": "",
		"--out full":        "--out full: is a folder, want a file",
		"--out no/file":     "--out no/file: no folder no: create it first",
		"--out file/a":      "--out file/a: ",
		"--heatmap y.jpg":   "--heatmap y.jpg: want a name that ends in .png",
		"--folder full":     "--folder full exists already and is not empty",
		"--folder file":     "--folder file: a file has that name",
		"--out /proc/1/x/y": "no folder /proc/1/x",
		"--url x --judge a --model file --out ./file": "--out ./file is also the file of --model and would replace it",
		"--tables no,file --out file":                 "--out file is also the file of --tables",
		"--out new.png --heatmap ./new.png":           "is also the file of --",
		"--tables new --out new":                      "", // nothing would be lost
	} {
		t.Run(args, func(t *testing.T) {
			t.Chdir(dir)
			var stderr strings.Builder
			ran = false
			code := a.Run(context.Background(), append([]string{"do"}, strings.Fields(args)...), io.Discard, &stderr)
			if want == "" && code == exit.Done && ran {
				return
			}
			if want == "" || code != exit.Wrong || ran || !strings.Contains(stderr.String(), want) {
				t.Errorf("exit code %d, ran %v: %s, want %q", code, ran, &stderr, want)
			}
		})
	}
}

// TestControlCharacters: texts of tables and errors reach a terminal without escape sequences, and programs
// unchanged.
func TestControlCharacters(t *testing.T) {
	id := "a\x1b[2J\x1b]0;x\a\r\b\x7f\u009b1m\u202eb\u2066\x9b\xc3 é\u200d😀\t"
	shown := `a\x1b[2J\x1b]0;x\x07\x0d\x08\x7f\u009b1m\u202eb\u2066\x9b\xc3 é` + "\u200d😀\t"
	a := &App{Root: func() *cobra.Command { return &cobra.Command{Use: "tool"} }}
	a.Register(func() *cobra.Command {
		return &cobra.Command{Use: "show", RunE: func(c *cobra.Command, _ []string) error {
			Warner(c)(id)
			p := NewProgress(c, id, 1, "rows")
			p.Add(1, id)
			p.Close()
			err := Print(c, map[string]string{"id": id[:5]}, func(w io.Writer) {
				fmt.Fprintln(w, id)
				for _, b := range []byte("é\x1b€") { // byte by byte
					w.Write([]byte{b})
				}
				fmt.Fprintln(w)
			})
			return errors.Join(err, fmt.Errorf("id %s: no such file", id))
		}}
	})
	var stdout, stderr strings.Builder
	a.Run(t.Context(), []string{"show"}, &stdout, &stderr)
	if want := shown + "\né\\x1b€\n"; stdout.String() != want {
		t.Errorf("stdout: got %q, want %q", &stdout, want)
	}
	want := "warning: " + shown + "\n" + shown + ": 1/1 in 0s " + shown + "\nerror: id " + shown + ": no such file\n"
	if stderr.String() != want {
		t.Errorf("stderr: got %q, want %q", &stderr, want)
	}
	stdout.Reset()
	stderr.Reset()
	a.Run(t.Context(), []string{"show", "--json"}, &stdout, &stderr)
	var got struct{ ID string }
	if err := json.NewDecoder(strings.NewReader(stdout.String())).Decode(&got); err != nil || got.ID != id[:5] {
		t.Errorf("--json: %v, got %q in %s, want %q", err, got.ID, &stdout, id[:5])
	}
	if want := "warning: " + shown + "\n"; stderr.String() != want {
		t.Errorf("--json: stderr: got %q, want %q", &stderr, want)
	}
}
