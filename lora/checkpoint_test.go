package lora

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/exit"
)

// mergeFolders returns options with a backbone, a trained adapter for it, and an output folder.
func mergeFolders(t *testing.T) MergeOptions {
	t.Helper()
	root := t.TempDir()
	o := MergeOptions{Backbone: filepath.Join(root, "backbone"), Adapter: filepath.Join(root, "adapter"),
		Out: filepath.Join(root, "made", "out")}
	for _, dir := range []string{o.Backbone, o.Adapter} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	writeBackbone(t, o.Backbone, smallBackbone())
	put(t, o.Backbone, "config.json", `{"model_type": "small"}`)
	a := trained(t, func(c *Config) { c.ModulesToSave = []string{"language_model.norm"} })
	if err := a.Save(o.Adapter); err != nil {
		t.Fatal(err)
	}
	return o
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// smallBytes is the size of the small backbone's tensors.
func smallBytes() (n int64) {
	for _, d := range smallBackbone() {
		n += 4 * int64(d.Size())
	}
	return n
}

// TestMergeCheckpoint writes a full checkpoint: merged weights, companions and the files of Extra, and counts the
// weights.
func TestMergeCheckpoint(t *testing.T) {
	o := mergeFolders(t)
	var total int64
	var done atomic.Int64
	o.Total = func(n int64) {
		if total += n; done.Load() != 0 {
			t.Errorf("got %d bytes done before Total was called, want none", done.Load())
		}
	}
	o.Progress = func(n int64) { done.Add(n) }
	o.Extra = func(dir string) error {
		if readFile(t, dir, "config.json") == "" {
			t.Error("got no config.json before Extra is called, want it")
		}
		return os.WriteFile(filepath.Join(dir, "extra"), []byte("x"), 0o666)
	}
	r, err := MergeCheckpoint(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Weights != 3 || r.Bytes != smallBytes() || total != r.Bytes || done.Load() != r.Bytes {
		t.Errorf("got %+v, total %d, done %d, want 3 weights and %d bytes", r, total, done.Load(), smallBytes())
	}
	if got := readFile(t, o.Out, "config.json"); got != `{"model_type": "small"}` {
		t.Errorf("config.json: got %s, want the backbone's", got)
	}
	if got := readFile(t, o.Out, "extra"); got != "x" {
		t.Errorf("extra: got %q, want x", got)
	}
	a, err := Load(o.Adapter)
	if err != nil {
		t.Fatal(err)
	}
	want := merged(a, qProj, smallBackbone()[keyQ+".weight"])
	if diff := cmp.Diff(want, contents(t, openBackbone(t, o.Out))[keyQ+".weight"].Values); diff != "" {
		t.Errorf("q_proj (-want +got):\n%s", diff)
	}
}

// TestMergeOtherWeights: other weights are written under their new names, with or without an adapter.
func TestMergeOtherWeights(t *testing.T) {
	write := func(t *testing.T, o *MergeOptions) {
		t.Helper()
		small := map[string]*tensor.Dense{"drop": vector(1)}
		for name, d := range smallBackbone() {
			small["x."+name] = d
		}
		o.Weights = filepath.Join(t.TempDir(), "other.safetensors")
		if err := checkpoints.WriteFile(o.Weights, small, nil); err != nil {
			t.Fatal(err)
		}
		o.Name = func(stored string) (string, bool) { return strings.TrimPrefix(stored, "x."), stored != "drop" }
	}
	for name, want := range map[string]int{"adapter": 3, "none": 0} {
		t.Run(name, func(t *testing.T) {
			o := mergeFolders(t)
			write(t, &o)
			if name == "none" {
				o.Adapter = filepath.Join(o.Adapter, "nowhere")
			}
			r, err := MergeCheckpoint(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Weights != want || r.Bytes != smallBytes() {
				t.Errorf("got %+v, want %d weights and %d bytes", r, want, smallBytes())
			}
			got := contents(t, openBackbone(t, o.Out))
			if len(got) != len(smallBackbone()) || (got[keyQ+".weight"].Values[0] == 3) != (want == 0) {
				t.Errorf("got %v, want the small backbone's names, changed: %t", got, want > 0)
			}
		})
	}
	t.Run("a folder, unnamed", func(t *testing.T) {
		o := mergeFolders(t)
		o.Weights, o.Adapter = t.TempDir(), filepath.Join(o.Adapter, "nowhere")
		want := map[string]*tensor.Dense{"x.a": vector(1, 2)}
		writeBackbone(t, o.Weights, want)
		if _, err := MergeCheckpoint(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(flattened(want), contents(t, openBackbone(t, o.Out))); diff != "" {
			t.Errorf("weights (-want +got):\n%s", diff)
		}
	})
	t.Run("same name twice", func(t *testing.T) {
		o := mergeFolders(t)
		write(t, &o)
		o.Name = func(string) (string, bool) { return "one", true }
		_, err := MergeCheckpoint(context.Background(), o)
		holdsError(t, "MergeCheckpoint", err, `are both renamed to "one"`)
	})
	t.Run("no weights", func(t *testing.T) {
		o := mergeFolders(t)
		o.Weights = filepath.Join(o.Adapter, "nowhere")
		_, err := MergeCheckpoint(context.Background(), o)
		holdsError(t, "MergeCheckpoint", err, "weights: ")
	})
}

// TestMergeCheckpointFails: nothing is written if the merge fails, and usage errors are marked as such.
func TestMergeCheckpointFails(t *testing.T) {
	packed := `{"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false,
	 "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": false, "bnb_4bit_compute_dtype": "float16"}}`
	for name, test := range map[string]struct {
		change func(o *MergeOptions)
		want   string
		code   int
	}{
		"no adapter": {func(o *MergeOptions) { o.Adapter = o.Backbone }, "contains no adapter (adapter_config.json)",
			exit.Wrong},
		"bad adapter": {func(o *MergeOptions) { put(t, o.Adapter, ConfigFile, "{") }, ConfigFile + ": unexpected EOF",
			exit.Failed},
		"packed backbone": {func(o *MergeOptions) { put(t, o.Backbone, "config.json", packed) },
			"is packed (bitsandbytes in its config.json)", exit.Wrong},
		"unknown packing": {func(o *MergeOptions) {
			put(t, o.Backbone, "config.json", `{"quantization_config": {"quant_method": "magic"}}`)
		}, `"magic" is not supported`, exit.Failed},
		"no backbone": {func(o *MergeOptions) { o.Backbone += "x" }, "checkpoint directory", exit.Failed},
		"something else": {func(o *MergeOptions) { put(t, o.Out, "mine", "x") }, "exists already and is not empty",
			exit.Wrong},
		"other shapes": {func(o *MergeOptions) {
			small := smallBackbone()
			small[keyQ+".weight"] = matrix(3, 1, 1, 2, 3)
			writeBackbone(t, o.Backbone, small)
		}, "want (2, 1) for the backbone's weight [3, 1]", exit.Failed},
		"extra": {func(o *MergeOptions) { o.Extra = func(string) error { return errors.New("no more") } }, "no more",
			exit.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			o := mergeFolders(t)
			test.change(&o)
			_, err := MergeCheckpoint(context.Background(), o)
			holdsError(t, "MergeCheckpoint", err, test.want)
			if got := exit.Code(err); got != test.code {
				t.Errorf("got exit code %d of %v, want %d", got, err, test.code)
			}
			if _, err := os.Stat(filepath.Join(o.Out, "config.json")); err == nil {
				t.Errorf("got %s, want nothing there", o.Out)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		o := mergeFolders(t)
		ctx, cancel := context.WithCancel(context.Background())
		o.Total = func(int64) { cancel() }
		_, err := MergeCheckpoint(ctx, o)
		holdsError(t, "MergeCheckpoint", err, "interrupted, nothing was written to "+o.Out)
		if _, e := os.Stat(o.Out); !errors.Is(err, context.Canceled) || !errors.Is(e, fs.ErrNotExist) {
			t.Errorf("got error %v and %v of %s, want %v and nothing there", err, e, o.Out, context.Canceled)
		}
	})
}

// TestCheckOut: an empty folder may be filled, and a checkpoint replaced by force, unless it is being read.
func TestCheckOut(t *testing.T) {
	const holds = "which is being merged"
	for name, test := range map[string]struct {
		change func(root string, o *MergeOptions)
		want   string
	}{
		"nothing": {func(root string, o *MergeOptions) { o.Out = filepath.Join(root, "none") }, ""},
		"empty folder": {func(root string, o *MergeOptions) {
			o.Out = filepath.Join(root, "empty")
			if err := os.Mkdir(o.Out, 0o777); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"a file": {func(root string, o *MergeOptions) {
			put(t, root, "file", "")
			o.Out = filepath.Join(root, "file")
		}, "not a directory"},
		"full":   {func(string, *MergeOptions) {}, "is not empty: choose another --out, or give --force"},
		"forced": {func(_ string, o *MergeOptions) { o.Force = true }, ""},
		"forced, other file": {func(root string, o *MergeOptions) { o.Force, o.Out = true, filepath.Join(root, "a") },
			"is not a checkpoint"},
		"the backbone": {func(_ string, o *MergeOptions) { o.Force, o.Backbone = true, o.Out }, holds},
		"holds the adapter": {func(_ string, o *MergeOptions) { o.Force, o.Adapter = true, filepath.Join(o.Out, "in") },
			holds},
		"holds the weights": {func(_ string, o *MergeOptions) {
			o.Force, o.Weights = true, filepath.Join(o.Out, "config.json")
		}, holds},
		"holds them by a link": {func(root string, o *MergeOptions) {
			link := filepath.Join(root, "link")
			if err := os.Symlink(filepath.Join(o.Out, "in"), link); err != nil {
				t.Fatal(err)
			}
			o.Force, o.Adapter = true, link
		}, holds},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put(t, filepath.Join(root, "out"), "config.json", "{}")
			put(t, filepath.Join(root, "out", "in"), "x", "")
			put(t, filepath.Join(root, "b"), "config.json", "{}")
			put(t, filepath.Join(root, "a"), ConfigFile, "{}")
			o := MergeOptions{Out: filepath.Join(root, "out"), Backbone: filepath.Join(root, "b"),
				Adapter: filepath.Join(root, "a")}
			test.change(root, &o)
			holdsError(t, "checkOut", o.checkOut(), test.want)
		})
	}
}

// TestInside: whether a path is a folder or inside it.
func TestInside(t *testing.T) {
	for _, test := range []struct {
		path, folder string
		want         bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/a/b/../c", "/a/c", true}, {"/a", "/a/b", false},
		{"/ab", "/a", false}, {"/a/../b", "/a", false}, {"a/b", "a", true}, {".", "a", false}, {"a", ".", true},
	} {
		t.Run(test.path+" "+test.folder, func(t *testing.T) {
			if got := inside(test.path, test.folder); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// TestCheckSpace: enough space is not an error, even for folders that do not exist yet; the error for too little says
// how much.
func TestCheckSpace(t *testing.T) {
	dir := t.TempDir()
	for _, out := range []string{dir, filepath.Join(dir, "a", "b", "c")} {
		t.Run(fmt.Sprint(out == dir), func(t *testing.T) {
			holdsError(t, "a megabyte", checkSpace(out, 1<<20), "")
			holdsError(t, "no byte", checkSpace(out, 0), "")
			err := checkSpace(out, math.MaxInt64)
			const text = ": the merged weights take 9223372036.9 GB, "
			holdsError(t, "too much", err, dir+text)
			free := -1.0
			if _, after, ok := strings.Cut(fmt.Sprint(err), text); ok {
				fmt.Sscanf(after, "%f GB are free", &free)
			}
			if !(free >= 0 && free < 9223372036) {
				t.Errorf("got %v, want the free space in GB", err)
			}
		})
	}
}
