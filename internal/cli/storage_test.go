package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"assay/internal/remote"
)

// TestStorage: object storage URLs are refused where files are needed, and everywhere without the drivers.
func TestStorage(t *testing.T) {
	for line, want := range map[string]string{
		"copy --out s3://b/x":                  "--out s3://b/x: tool copy needs a local file or folder there",
		"copy --list a,gs://b/x":               "--list gs://b/x: ",
		"copy azblob://b/x":                    "the argument azblob://b/x: ",
		"copy --out x --url http://h/s3 s3:/x": "",
		"copy --out S3://b/x":                  "--out S3://b/x: tool copy needs a local file or folder",
		"copy --say s3://b/x":                  "",
		"copy --in s3://b/x":                   "--in s3://b/x: this program was built without object storage",
	} {
		t.Run(line, func(t *testing.T) {
			if remote.Built && strings.Contains(want, "without") {
				want = ""
			}
			a := &App{Root: func() *cobra.Command { return &cobra.Command{Use: "tool"} }}
			a.Register(func() *cobra.Command {
				c := &cobra.Command{Use: "copy", Args: cobra.ArbitraryArgs}
				c.RunE = func(*cobra.Command, []string) error { return nil }
				for _, name := range []string{"in", "out", "url", "say"} {
					c.Flags().String(name, "", "")
				}
				c.Flags().StringSlice("list", nil, "")
				TakesStorage(c, "in")
				TakesText(c, "say")
				return c
			})
			var out, errs bytes.Buffer
			code := a.Run(t.Context(), strings.Fields(line), &out, &errs)
			if want == "" && code != 0 || want != "" && (code != 2 || !strings.Contains(errs.String(), want)) {
				t.Errorf("%s: got exit code %d, %s, want %q", line, code, &errs, want)
			}
		})
	}
}
