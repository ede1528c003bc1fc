//go:build cloud

package train

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/exit"
	"assay/internal/oracle"
	"assay/internal/remote"
	"assay/internal/remote/s3test"
)

// TestS3Pictures: training on pictures that a table names by S3 URLs writes the same bytes as training on files, and
// a missing picture is reported.
func TestS3Pictures(t *testing.T) {
	client, _ := s3test.Start(t, "pictures")
	images := filepath.Join(oracle.Folders(t)[0], "images")
	files, err := filepath.Glob(filepath.Join(images, "*.png"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	s3test.Put(t, client, "pictures", "some folder", files...)
	for _, mode := range []string{"head", "lora"} {
		var weights [2][]byte
		config, out := writeRun(t, "mode: "+mode+"\nsteps: 3\nthreads: 1\n")
		for i := range weights {
			if i == 1 {
				if err := os.RemoveAll(out); err != nil {
					t.Fatal(err)
				}
				rename(t, filepath.Join(filepath.Dir(config), "table.jsonl"), images, "s3://pictures/some folder")
			}
			if code, stdout, stderr := call(t, "--config", config); code != exit.Done {
				t.Fatalf("mode %s: exit code %d: %s%s", mode, code, stdout, stderr)
			}
			for _, name := range []string{"head.safetensors", "adapter_model.safetensors"} {
				raw, err := os.ReadFile(filepath.Join(out, "scorer", name))
				if err != nil && mode == "lora" {
					t.Fatal(err)
				}
				weights[i] = append(weights[i], raw...)
			}
		}
		if !bytes.Equal(weights[0], weights[1]) || len(weights[0]) == 0 {
			t.Errorf("mode %s: other weights than those of files", mode)
		}
	}
	config, _ := writeRun(t, "steps: 2\n")
	table := filepath.Join(filepath.Dir(config), "table.jsonl")
	rename(t, table, images, "s3://pictures/no folder")
	if code, stdout, stderr := call(t, "--config", config); code == exit.Done ||
		!strings.Contains(stdout+stderr, "s3://pictures/no folder/") {
		t.Errorf("pictures that are not there: exit code %d: %s%s", code, stdout, stderr)
	}
}

// TestS3TrainOutage: rows that storage does not answer for are not bad rows. A run that may set bad rows aside ends,
// and does not train on the rest.
func TestS3TrainOutage(t *testing.T) {
	client, endpoint := s3test.Start(t, "outage")
	images := filepath.Join(oracle.Folders(t)[0], "images")
	files, err := filepath.Glob(filepath.Join(images, "*.png"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	s3test.Put(t, client, "outage", "some folder", files...)
	var asked, good atomic.Int64
	s3test.Between(t, endpoint, func(w http.ResponseWriter, r *http.Request, behind http.Handler) {
		if asked.Add(1) > good.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		behind.ServeHTTP(w, r)
	})
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	pause := remote.FirstPause
	remote.FirstPause = time.Millisecond
	defer func() { remote.FirstPause = pause }()
	config, out := writeRun(t, "mode: lora\nsteps: 3\nthreads: 1\n")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	lenient := strings.Replace(string(text), "data: {", "data: {skip: 1000, ", 1)
	if err := os.WriteFile(config, []byte(lenient), 0o666); err != nil || lenient == string(text) {
		t.Fatal(err, lenient)
	}
	rename(t, filepath.Join(filepath.Dir(config), "table.jsonl"), images, "s3://outage/some folder")
	for _, n := range []int64{1, 10} { // as the table is read, at once and after some rows
		asked.Store(0)
		good.Store(n)
		if code, stdout, stderr := call(t, "--config", config); code != exit.Failed ||
			!strings.Contains(stdout+stderr, "after 6 attempts") {
			t.Errorf("%d requests were answered: exit code %d: %s%s", n, code, stdout, stderr)
		}
		if _, err := os.Stat(filepath.Join(out, "scorer")); err == nil {
			t.Errorf("%d requests were answered: a scorer was made", n)
		}
	}
}

// rename changes the picture names in a table.
func rename(t *testing.T, table, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(table)
	if err == nil {
		err = os.WriteFile(table, []byte(strings.ReplaceAll(string(raw), from, to)), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
