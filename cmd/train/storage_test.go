//go:build cloud

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/cli"
	"assay/internal/oracle"
	"assay/internal/remote/s3test"
)

// TestS3Pictures: training on pictures that a table names by their addresses on S3 makes the bytes that training on
// files makes, and a picture that is not there is said.
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
			if code, stdout, stderr := call(t, "--config", config); code != cli.Done {
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
	if code, stdout, stderr := call(t, "--config", config); code == cli.Done ||
		!strings.Contains(stdout+stderr, "s3://pictures/no folder/") {
		t.Errorf("pictures that are not there: exit code %d: %s%s", code, stdout, stderr)
	}
}

// rename has a table name its pictures otherwise.
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
