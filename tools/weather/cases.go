package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cases writes what the commands read, and lists them.
func cases(bin, dir string) ([]command, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	table := filepath.Join(dir, "edits.jsonl")
	if err := writeTable(table, filepath.Join(root, "testdata", "oracle", "images")); err != nil {
		return nil, err
	}
	program := func(name string) string { return filepath.Join(bin, name) }
	var list []command
	for _, mode := range []string{"lora", "full", "head"} {
		config := filepath.Join(dir, mode+".yaml")
		text := fmt.Sprintf("backbone: %s\nmode: %s\nsteps: 16\nbatch_size: 4\nmicro_batch: 2\nthreads: 1\n"+
			"head: {hidden: [8]}\ndata: {train: %s, validation: 0.25}\nvalidate: {every: 5}\ncheckpoint: {steps: 2, keep: 2}\n"+
			"optimizer: {lr: 1.0e-3}\n", filepath.Join(root, "backbones", "tiny"), mode, table)
		if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
			return nil, err
		}
		list = append(list, command{
			name: "train, mode " + mode,
			args: func(out string) []string {
				own := filepath.Join(out, "run.yaml")
				if err := os.WriteFile(own, []byte("out: run\n"+text), 0o666); err != nil {
					panic(err)
				}
				return []string{program("train"), "--config", own}
			},
			results: []string{"run/scorer", "run/best"},
		})
	}
	scorer := filepath.Join(root, "backbones", "tiny-scorer")
	batch := func(out string, more ...string) []string {
		return append([]string{program("score"), "batch", "--scorer", scorer, "--in", table, "--out",
			filepath.Join(out, "scores.jsonl"), "--threads", "1"}, more...)
	}
	oracle := filepath.Join(root, "testdata", "oracle")
	more, err := moreCases(bin, dir, root, table)
	if err != nil {
		return nil, err
	}
	list = append(list, more...)
	return append(list, command{
		name:    "score batch",
		args:    func(out string) []string { return batch(out) },
		results: []string{"scores.jsonl"},
	}, command{
		name:    "score batch --shard any/5",
		args:    func(out string) []string { return batch(out, "--shard", "any/5") },
		finish:  func(out string) []string { return batch(out, "--merge") },
		results: []string{"scores.jsonl"},
	}, command{
		name: "label similarities",
		args: func(out string) []string {
			return []string{program("label"), "similarities", "--clip", filepath.Join(oracle, "clip", "model"), "--dino",
				filepath.Join(oracle, "dinov2", "model"), "--cache", filepath.Join(out, "store"), "--in", table, "--out",
				filepath.Join(out, "measured.jsonl"), "--threads", "1"}
		},
		results: []string{"measured.jsonl"},
		quick:   true,
	}, command{
		name: "label",
		args: func(out string) []string {
			text, err := os.ReadFile(filepath.Join(root, "examples", "label.yaml"))
			if err != nil {
				panic(err)
			}
			own := strings.ReplaceAll(string(text), "../build/example-label", "labels")
			own = strings.ReplaceAll(own, ": ../", ": "+root+"/")
			path := filepath.Join(out, "label.yaml")
			if err := os.WriteFile(path, []byte(own), 0o666); err != nil {
				panic(err)
			}
			return []string{program("label"), "--config", path}
		},
		results: []string{"labels/table.parquet"},
	}), nil
}

// writeTable makes edits of all pairs of pictures in a folder.
func writeTable(path, folder string) error {
	pictures, err := filepath.Glob(filepath.Join(folder, "*.png"))
	if err != nil {
		return err
	}
	var text strings.Builder
	for i, source := range pictures {
		for j, edit := range pictures {
			if (i+j)%3 > 0 {
				continue
			}
			row := map[string]any{"id": fmt.Sprintf("%d-%d", i, j), "group": fmt.Sprint("g", i), "source": source, "edit": edit,
				"target": pictures[(j+1)%len(pictures)], "instruction": fmt.Sprint("make it picture ", j),
				"source_caption": fmt.Sprint("picture ", i), "target_caption": fmt.Sprint("picture ", j),
				"label": float64(j%3) / 2}
			line, err := json.Marshal(row)
			if err != nil {
				return err
			}
			text.Write(append(line, '\n'))
		}
	}
	return os.WriteFile(path, []byte(text.String()), 0o666)
}

// digests are those of the files below a folder that must be the same. Cards of scorers name times.
func digests(root string, names []string) (map[string]string, error) {
	sums := map[string]string{}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.HasSuffix(path, ".md") {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			sum := sha256.Sum256(raw)
			sums[rel] = hex.EncodeToString(sum[:])
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// unlike lists the files that two runs have otherwise.
func unlike(want, got map[string]string) (out []string) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if want[name] != got[name] {
			out = append(out, name)
		}
	}
	return out
}
