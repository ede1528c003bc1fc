package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"assay/internal/exit"
)

// TestGivenTwice: a flag that says what is scored refuses a second, different value, lists take many, and the last
// value of a setting counts.
func TestGivenTwice(t *testing.T) {
	a := &App{Root: func() *cobra.Command { return &cobra.Command{Use: "tool"} }}
	a.Register(func() *cobra.Command {
		c := &cobra.Command{Use: "pair"}
		f := c.Flags()
		edit, n := f.String("edit", "none", ""), f.Int("n", 1, "")
		images, layouts := f.StringArray("image", nil, ""), f.StringSlice("layouts", []string{"x"}, "")
		columns := f.StringToString("columns", nil, "")
		copied := f.Bool("copy", false, "")
		c.RunE = func(c *cobra.Command, _ []string) error {
			return Print(c, nil, func(w io.Writer) { fmt.Fprint(w, *edit, *n, *images, *layouts, *columns, *copied) })
		}
		return c
	})
	for _, c := range []struct {
		args, out, err string
	}{
		{"", "none1 [] [x] map[] false", ""},
		{"--edit a --n 2 --copy", "a2 [] [x] map[] true", ""},
		{"--edit a --edit a --copy --copy", "a1 [] [x] map[] true", ""},
		{"--image a --image b --layouts a --layouts b,c", "none1 [a b] [a b c] map[] false", ""},
		{"--columns a=x --columns b=y", "none1 [] [x] map[a:x b:y] false", ""},
		{"--columns a=x,a=x --columns a=x", "none1 [] [x] map[a:x] false", ""},
		{"--columns a=x,a=y", "", `a is given as "x" and as "y": give it once`},
		{"--columns a=x --columns b=y,a=z", "", `a is given as "x" and as "z"`},
		{"--columns a", "", "must be formatted as key=value"},
		{"--edit a --edit b", "", `"--edit" flag: already given as "a": give it once`},
		{"--edit=a --n 1 --edit b", "", `already given as "a"`},
		{"--n 1 --n 2", "none2 [] [x] map[] false", ""}, // a setting
		{"--copy --copy=false", "none1 [] [x] map[] false", ""},
		{"--n x", "", "invalid syntax"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := a.Run(context.Background(), append([]string{"pair"}, strings.Fields(c.args)...), &stdout, &stderr)
			said := stdout.String() + stderr.String()
			if !strings.Contains(said, c.err) || (c.err != "") != (code == exit.Wrong) {
				t.Errorf("%s: exit code %d, %s, want %q", c.args, code, said, c.err)
			}
			if c.err == "" && stdout.String() != c.out {
				t.Errorf("%s: got %s, want %s", c.args, stdout.String(), c.out)
			}
		})
	}
}
