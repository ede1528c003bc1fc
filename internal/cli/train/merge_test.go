package train

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/internal/testfile"
	"assay/model"
)

const llavanext = "../../../testdata/oracle/llavanext"

// runMerge runs train merge and returns its exit code and output.
func runMerge(ctx context.Context, args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	code := App.Run(ctx, append([]string{"merge"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// TestMergeScorer makes a scorer directory whose backbone is itself, and the same checkpoint without one.
func TestMergeScorer(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "merged")
	code, stdout, stderr := runMerge(t.Context(), "--scorer", llavanext+"/scorer_sequence", "--out", out, "--json")
	if code != exit.Done {
		t.Fatal(code, stderr)
	}
	var r mergeResult
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.Merged != 21 || r.Out != out || !r.Scorer {
		t.Errorf("%s: %v", stdout, err)
	}
	want := append(testfile.Names(t, llavanext+"/backbone"), model.HeadFile, model.ConfigFile)
	slices.Sort(want)
	if diff := cmp.Diff(want, testfile.Names(t, out)); diff != "" {
		t.Error(diff)
	}
	for _, file := range want {
		from := filepath.Join(llavanext, "backbone", file)
		if file == model.HeadFile || file == model.ConfigFile {
			from = filepath.Join(llavanext, "scorer_sequence", file)
		}
		a, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		if file == model.ConfigFile {
			a = bytes.Replace(a, []byte(`"../backbone"`), []byte("."), 1)
			b, _, _ = bytes.Cut(b, []byte("digests:"))
		}
		if got, want := bytes.Equal(a, b), file != checkpoints.SingleFile; got != want {
			t.Errorf("%s: same as before: %v\n%s", file, got, b[:min(len(b), 200)])
		}
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if code, _, stderr := runMerge(
		t.Context(),
		"--backbone",
		llavanext+"/backbone",
		"--adapter",
		llavanext+"/scorer_sequence",
		"--out",
		plain,
	); code != exit.Done {
		t.Fatal(code, stderr)
	}
	if diff := cmp.Diff(testfile.Names(t, llavanext+"/backbone"), testfile.Names(t, plain)); diff != "" {
		t.Error(diff)
	}
	a, _ := os.ReadFile(filepath.Join(out, checkpoints.SingleFile))
	b, _ := os.ReadFile(filepath.Join(plain, checkpoints.SingleFile))
	if !bytes.Equal(a, b) {
		t.Error("the two ways give other weights")
	}
}

func TestMergeRefusals(t *testing.T) {
	root := t.TempDir()
	copied, other := filepath.Join(root, "copied"), filepath.Join(root, "other")
	if err := os.CopyFS(copied, os.DirFS(llavanext+"/backbone")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(other, os.DirFS(llavanext+"/scorer")); err != nil { // not a checkpoint
		t.Fatal(err)
	}
	adapter := llavanext + "/scorer"
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for _, c := range []struct {
		ctx  context.Context
		args string
		code int
		want string
	}{
		{t.Context(), "--out x", exit.Wrong, "needs --out and either"},
		{t.Context(), "--scorer a --adapter b --out x", exit.Wrong, "needs --out and either"},
		{t.Context(), "--backbone b --out x", exit.Wrong, "needs --out and either"},
		{t.Context(), "--scorer " + root + "/none --out " + root + "/x", exit.Wrong, "expected a scorer directory"},
		{t.Context(), "--backbone " + copied + " --adapter " + copied + " --out " + root + "/x", exit.Wrong,
			"nothing to merge"},
		{t.Context(), "--backbone " + copied + " --adapter " + adapter + " --out " + other, exit.Wrong, "exists already"},
		{t.Context(), "--backbone " + copied + " --adapter " + adapter + " --force --out " + other, exit.Wrong,
			"does not remove it"},
		{t.Context(), "--backbone " + copied + " --adapter " + adapter + " --force --out " + copied, exit.Wrong,
			"which is being merged"},
		{stopped, "--backbone " + copied + " --adapter " + adapter + " --out " + root + "/x", exit.Failed,
			"nothing was written"},
	} {
		code, _, stderr := runMerge(c.ctx, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: %d %s; want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if diff := cmp.Diff([]string{"copied", "other"}, testfile.Names(t, root)); diff != "" {
		t.Error(diff)
	}
	// --force replaces an earlier result
	for range 2 {
		if code, _, stderr := runMerge(
			t.Context(),
			"--scorer",
			adapter,
			"--out",
			filepath.Join(root, "m"),
			"--force",
		); code != exit.Done {
			t.Fatal(stderr)
		}
	}
}
