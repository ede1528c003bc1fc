package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
	leaf("fail", func(*cobra.Command) error { return errors.New("no disk") })
	leaf("usage", func(*cobra.Command) error { return Usagef("scorer.yaml: %w", listed{}) })
	leaf("joined", func(*cobra.Command) error { return Usage(errors.Join(errors.New("a"), errors.New("b"))) })
	leaf("stopped", func(*cobra.Command) error { return fmt.Errorf("%w in run/step-3", ErrInterrupted) })
	leaf("told", func(c *cobra.Command) error {
		return errors.Join(Print(c, []int{1}, func(io.Writer) {}), Reported(errors.New("1 row failed")))
	})
	leaf("panic", func(*cobra.Command) error { panic("odd") })
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
		{"ok", Done, "score 7\n", "work: 2/2 in 0s loss 0.5\n"},
		{"ok --json", Done, `{"score":7}`, ""},
		{"fail", Failed, "", "error: no disk\n"},
		{"fail --json", Failed, `{"error":"no disk"}`, ""},
		{"usage", Wrong, "", "error: scorer.yaml: two problems"},
		{"usage --json", Wrong, `{"error":"scorer.yaml: two problems","problems":["a.yaml:3: x","a.yaml:9: y"]}`, ""},
		{"joined --json", Wrong, `"problems":["a","b"]`, ""},
		{"stopped", Interrupted, "", "state saved in run/step-3"},
		{"told --json", Failed, "[1]\n", ""},
		{"panic", Failed, "", "internal error, please report it: odd"},
		{"need", Wrong, "", `required flag(s) "scorer" not set (see tool --help)`},
		{"ok --nosuch", Wrong, "", "unknown flag: --nosuch"},
		{"ok --nosuch --json", Wrong, `{"error":"unknown flag: --nosuch`, ""},
		{"ok extra", Wrong, "", `unknown command "extra" for "tool ok"`},
		{"okk", Wrong, "", `unknown command "okk"`},
		{"--help", Done, "Usage:", ""},
		{"--version", Done, Version, ""},
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

func TestCancelledIsFailure(t *testing.T) {
	if c := exit.Code(Usage(context.Canceled)); c != Failed {
		t.Errorf("exit code %d, want %d: nothing was saved", c, Failed)
	}
}
