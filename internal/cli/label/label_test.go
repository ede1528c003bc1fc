package label

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/labeling"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/internal/ptrace"
	"assay/internal/testfile"
)

// childEnv makes the test binary a plain `label`, so that it can be killed.
const childEnv = "ASSAY_TEST_LABEL"

func TestMain(m *testing.M) {
	ptrace.Become()
	if os.Getenv(childEnv) != "" {
		App.Main()
	}
	os.Exit(m.Run())
}

// label runs one command line in this process.
func label(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = App.Run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// From pictures and captions to the numbers of transformers, through the full command.
func TestSimilaritiesAgainstOracle(t *testing.T) {
	type pair struct {
		ID    int
		ClipI float64 `json:"clip_i"`
		ClipD float64 `json:"clip_d"`
		DinoI float64 `json:"dino_i"`
	}
	oracle.Each(t, func(t *testing.T, folder string) {
		config := testfile.Write(t, "label.yaml", fmt.Sprintf(`
out: out
sources:
  - layout: table
    name: pairs
    path: %[1]s/clip/pairs.json
    columns: {source: input, edit: edited, target: gt, instruction: caption_after,
      source_caption: caption_before, target_caption: caption_after}
    editor: magicbrush
profile: assay
encoders: {given: replace, clip: %[1]s/clip/model, dino: %[1]s/dinov2/model, device: cpu, threads: 1}
`, folder))
		if code, _, errs := label(t, "--config", config, "--json"); code != exit.Done {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		want := map[string]pair{}
		for _, model := range []string{"clip", "dinov2"} {
			for _, p := range oracle.Read[[]pair](t, filepath.Join(folder, model, "pairs.json")) {
				id := fmt.Sprintf("pairs/%d/magicbrush", p.ID)
				have := want[id]
				have.ClipI, have.ClipD, have.DinoI = have.ClipI+p.ClipI, have.ClipD+p.ClipD, have.DinoI+p.DinoI
				want[id] = have
			}
		}
		table, err := data.OpenTable(filepath.Join(filepath.Dir(config), "out", labeling.TableFile))
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		found := 0
		for row, err := range table.All() {
			if err != nil {
				t.Fatal(err)
			}
			p, ok := want[row.ID]
			if !ok {
				continue
			}
			found++
			for name, v := range map[string][2]float64{"clip_i": {*row.ClipI, p.ClipI}, "clip_d": {*row.ClipD, p.ClipD},
				"dino_i": {*row.DinoI, p.DinoI}} {
				if !(math.Abs(v[0]-v[1]) < 1e-5) {
					t.Errorf("%s: %s %v, want %v", row.ID, name, v[0], v[1])
				}
			}
		}
		if found != len(want) || found == 0 {
			t.Errorf("%d of %d pairs are in the table", found, len(want))
		}
	})
}

func TestUsage(t *testing.T) {
	folder := filepath.Join(packed.Unpack(t, "../../../data/readers/testdata/layouts.zip"), "folder")
	good := testfile.Write(t, "label.yaml",
		fmt.Sprintf("out: out\nprofile: adiee-released\nsources: [{layout: folder, path: %s}]\n", folder))
	wrong := testfile.Write(t, "wrong.yaml", "profile: both\nsource: []\n")
	latin := testfile.Write(t, "latin1.csv", "source,edit,instruction\na,b,gr\xf6\xdfer\n")
	unreadable := testfile.Write(t, "label.yaml", fmt.Sprintf("out: out\nsources: [{layout: table, path: %s}]\n", latin))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exit.Wrong, "--config is needed"},
		{[]string{"--config", wrong}, exit.Wrong, "unknown key (did you mean sources?)"},
		{[]string{"--config", "none.yaml"}, exit.Wrong, "none.yaml"},
		{[]string{"--config", unreadable}, exit.Wrong, `source "table": table: ` + latin + ": line 2: not UTF-8"},
		{[]string{"--config", unreadable, "--check"}, exit.Wrong, "not every data set can be labelled"},
		{[]string{"--config", good, "--check"}, exit.Done, ""},
		{[]string{"--config", good, "--check", "--check-rows", "0"}, exit.Wrong, "--check-rows"},
		{[]string{"--config", good, "--shard", "5/4"}, exit.Wrong, "--shard"},
		{[]string{"merge", "--config", good}, exit.Failed, "1 of 1 parts are not measured yet"},
		{[]string{"--config", good, "--shard", "1/2"}, exit.Done, ""},
		{[]string{"--config", good, "--shard", "2/2"}, exit.Done, ""},
		{[]string{"merge", "--config", good, "elsewhere"}, exit.Failed, "elsewhere is not the output folder of a shard"},
		{[]string{"merge", "--config", good}, exit.Done, ""},
	} {
		code, out, errs := label(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("label %v: exit code %d, want %d\n%s%s", c.args, code, c.code, out, errs)
		}
	}
	code, out, _ := label(t, "--config", good, "--json")
	var report labeling.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exit.Done || report.TableRows != 6 {
		t.Errorf("--json: %d %v %s", code, err, out)
	}
}

// i of --shard i/n counts from 0 or from 1.
func TestParseShard(t *testing.T) {
	for text, want := range map[string]string{"1/4": "1/4", "0/4": "4/4", "4/4": "4/4", "": "all", "5/4": "", "1": "",
		"-1/4": "", "1/0": "", "1/2/3": "", " 1/2": "", "0/0": "", "any/4": ""} {
		t.Run(text, func(t *testing.T) {
			ref, err := parseShard(text)
			if (err == nil) != (want != "") || err == nil && ref.String() != want {
				t.Errorf("got %v %v, want %q", ref, err, want)
			}
		})
	}
}

// --check prints what it found, as text and as JSON.
func TestCheck(t *testing.T) {
	photos, err := filepath.Abs("../../../examples/photos")
	if err != nil {
		t.Fatal(err)
	}
	table := testfile.Write(t, "rows.csv",
		"source,after,instruction,note\ncoffee.png,rocket.png,x,\ncoffee.png,none.png,y,\n")
	config := testfile.Write(
		t,
		"label.yaml",
		fmt.Sprintf("out: out\nsources: [{layout: table, path: %s, pictures: %s, columns: {edit: after}}]\n", table, photos),
	)
	code, out, errs := label(t, "--config", config, "--check")
	for _, want := range []string{"profile adiee-paper/1, CLIP-D raw", "2 samples, 2 read: 2 outputs", "1 bad",
		"none.png: no such file",
		"edit            column after (as configured)", "without a column: clip_d,", "columns that are not used: note",
		"pictures: png 3"} {
		if !strings.Contains(out, want) {
			t.Errorf("no word of %q in\n%s%s", want, out, errs)
		}
	}
	if code != exit.Wrong {
		t.Errorf("exit code %d", code)
	}
	code, out, _ = label(t, "--config", config, "--check", "--json")
	var report labeling.CheckReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exit.Wrong || report.OK ||
		report.Sources[0].Bad != 1 {
		t.Errorf("%d %v %s", code, err, out)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(config), "out")); err == nil {
		t.Error("something was written")
	}
}

// Every configuration below examples/ is correct except for missing data.
func TestExamples(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../../../examples", func(path string, _ fs.DirEntry, err error) error {
		if ok, _ := filepath.Match("label*.yaml", filepath.Base(path)); err != nil || !ok {
			return err
		}
		found++
		_, err = labeling.Load(path)
		for _, problem := range exit.Problems(err) {
			if !strings.HasSuffix(problem, "no such file or directory") {
				t.Error(problem)
			}
		}
		return nil
	})
	if err != nil || found < 3 {
		t.Errorf("%d configurations found: %v", found, err)
	}
}

// A run that is killed repeatedly, and interrupted in between, ends with the same table as an undisturbed run.
func TestKilled(t *testing.T) {
	long.Test(t)
	photos, err := filepath.Abs("../../../examples/photos")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	rows.WriteString("source,edit,target,method,instruction,clip_d,clip_i,dino_i\n")
	names := []string{"coffee", "chelsea", "rocket", "tissue", "retina"}
	for i := range 640 {
		fmt.Fprintf(&rows, "%s.png,%s.png,%s.png,aurora,edit %d,0.%d,0.9,0.%d\n", names[i%5], names[(i+1)%5], names[(i+2)%5],
			i, i%7, i%9)
	}
	table := testfile.Write(t, "rows.csv", rows.String())
	config := func() (string, string) {
		path := testfile.Write(
			t,
			"label.yaml",
			fmt.Sprintf(
				"out: out\nprofile: adiee-released\npictures: files\nsources: [{layout: table, path: %s, pictures: %s}]\n",
				table,
				photos,
			),
		)
		return path, filepath.Join(filepath.Dir(path), "out")
	}
	command := func(path string) *exec.Cmd {
		c := exec.Command(os.Args[0], "--config", path)
		c.Env = append(os.Environ(), childEnv+"=1")
		return c
	}
	path, out := config()
	start := time.Now()
	if msg, err := command(path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	whole := time.Since(start)
	want, err := os.ReadFile(filepath.Join(out, labeling.TableFile))
	if err != nil {
		t.Fatal(err)
	}

	path, out = config()
	stopped, done := 0, false
	for try := 1; !done; try++ {
		if try > 60 {
			t.Fatal("the run does not come to its end")
		}
		c := command(path)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		signal := []os.Signal{os.Kill, os.Interrupt}[try%2]
		timer := time.AfterFunc(whole/4+time.Duration(try)*whole/10, func() { c.Process.Signal(signal) })
		err := c.Wait()
		timer.Stop()
		switch code := c.ProcessState.ExitCode(); {
		case err == nil:
			done = true
		case code == -1 || code == exit.Interrupted:
			stopped++
			if _, err := os.Stat(filepath.Join(out, labeling.TableFile)); err == nil && code == exit.Interrupted {
				continue // stopped after the table, before the report
			}
		default:
			t.Fatalf("exit code %d", code)
		}
	}
	got, err := os.ReadFile(filepath.Join(out, labeling.TableFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("another table than that of a run that was left alone")
	}
	t.Logf("stopped %d times, %v when left alone", stopped, whole)
}
