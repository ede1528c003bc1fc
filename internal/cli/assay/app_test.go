package assay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/cli/score"
	"assay/internal/cli/train"
	"assay/internal/exit"
	"assay/internal/version"
)

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, told strings.Builder
	code = App.Run(t.Context(), args, &out, &told)
	return code, out.String(), told.String()
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		args           string
		code           int
		stdout, stderr string // parts; "" means empty
	}{
		{"", exit.Done, "Available Commands:\n  cache", ""},
		{"sco", exit.Wrong, "", `unknown command "sco" for "assay": did you mean score?`},
		{"train run.yaml", exit.Wrong, "",
			`unknown command "run.yaml" for "assay train": pass a configuration as --config run.yaml (see assay train`},
		{"score pair --nosuch", exit.Wrong, "", "unknown flag: --nosuch (see assay score pair --help)"},
		{"score pair --edit x --instruction y --json", exit.Wrong, `"error":"--scorer is needed`, ""},
		{"help score pair", exit.Done, "  assay score pair --scorer DIR", ""},
		{"score help pair", exit.Done, "  assay score pair --scorer backbones/tiny-scorer", ""},
		{"score help pairr", exit.Wrong, "", `"pairr" for "assay score": did you mean pair? (see assay --help)`},
		{"label --help", exit.Done, "  assay label --config examples/label.yaml", ""},
		{"fetch --help", exit.Done, "  assay fetch Qwen/", ""},
		{"cache prune", exit.Wrong, "", "--older, --most or --damaged is needed"},
		{"train --version", exit.Done, "train version " + version.Version, ""},
		{"demo --serve --out x.html", exit.Wrong, "", "[out serve]"},
		{"demo --addr x", exit.Wrong, "", "--addr requires --serve"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := run(t, strings.Fields(tt.args)...)
			if code != tt.code {
				t.Errorf("got exit code %d, want %d", code, tt.code)
			}
			for _, o := range []struct{ what, got, want string }{{"stdout", stdout, tt.stdout}, {"stderr", stderr, tt.stderr}} {
				if !strings.Contains(o.got, o.want) || o.want == "" && o.got != "" {
					t.Errorf("got %s %q, want %q", o.what, o.got, o.want)
				}
			}
		})
	}
}

// TestNamesApart: renaming examples for assay does not change the subcommands of score.
func TestNamesApart(t *testing.T) {
	run(t, "score", "pair", "--help")
	var out strings.Builder
	score.App.Run(t.Context(), []string{"pair", "--help"}, &out, &out)
	if got := out.String(); strings.Contains(got, "assay score") || !strings.Contains(got, "Usage:\n  score pair ") {
		t.Errorf("got the help of score pair\n%s\nwant it to name score alone", got)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, stderr := run(t, "version", "--json")
	var got built
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exit.Done {
		t.Fatalf("got exit code %d, %v, %s%s, want 0 and JSON", code, err, stdout, stderr)
	}
	if got.Version != version.Version || got.Commit == "" || got.Runtime == "" {
		t.Errorf("got %+v, want version %s, a commit and a runtime", got, version.Version)
	}
}

// TestFindDemo: the files are found in every installation layout.
func TestFindDemo(t *testing.T) {
	for exe, want := range map[string]string{
		"bin/assay":       "share/assay/demo/tiny-scorer", // the wheel, the archive
		"lib/assay/assay": "share/assay/demo/tiny-scorer", // the Debian package
		"checkout":        "backbones/tiny-scorer",
	} {
		t.Run(exe, func(t *testing.T) {
			root := t.TempDir()
			if err := os.MkdirAll(filepath.Join(root, want), 0o755); err != nil {
				t.Fatal(err)
			}
			if exe == "checkout" {
				exe = "bin/assay"
			}
			got, err := findDemo(filepath.Join(root, exe))
			if err != nil || got.scorer != filepath.Join(root, want) {
				t.Errorf("got %s, %v, want %s", got.scorer, err, filepath.Join(root, want))
			}
		})
	}
	if _, err := findDemo(filepath.Join(t.TempDir(), "bin", "assay")); err == nil {
		t.Error("got no error without the files, want one")
	}
}

func TestDemo(t *testing.T) {
	files, err := findDemo("../../../bin/assay")
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := App.Tree().Find([]string{"demo"})
	if err != nil {
		t.Fatal(err)
	}
	c.SetContext(t.Context())
	var out strings.Builder
	c.SetOut(&out)
	page := filepath.Join(t.TempDir(), "demo.html")
	if err := demonstrate(c, files, page); err != nil {
		t.Fatal(err)
	}
	want := " 8.2052  coffee_blur.png, asked to \"blur the picture\"\n 0.0860  "
	if got := out.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q first", got, want)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(string(html), `src="data:image/png;base64,`), 3*len(demoEdits); got != want {
		t.Errorf("got %d pictures in the page, want %d", got, want)
	}
}

// TestEnd: a process of a training job leaves it together with the others under either name.
func TestEnd(t *testing.T) {
	if App.End == nil || train.App.End == nil {
		t.Errorf("got End of assay %v, of train %v, want what leaves the job", App.End != nil, train.App.End != nil)
	}
}
