package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cases writes what the commands read, and lists them.
func (c *campaign) cases() ([]command, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dir := c.dir
	k := &kit{bin: c.bin, mpi: c.mpi, dir: dir, root: root, table: filepath.Join(dir, "edits.jsonl"), steps: c.steps,
		model: filepath.Join(root, "backbones", "tiny"), judge: startJudge()}
	if c.backbone != "" {
		if k.model, err = filepath.Abs(c.backbone); err != nil {
			return nil, err
		}
	}
	if k.pictures, err = filepath.Glob(filepath.Join(root, "testdata", "oracle", "images", "*.png")); err != nil {
		return nil, err
	}
	if len(k.pictures) < 8 {
		return nil, fmt.Errorf("%d pictures in %s: run it in the checkout", len(k.pictures), root)
	}
	k.pictures = spread(k.pictures, max(8, c.pictures))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	err = errors.Join(
		writeTable(k.table, k.pictures),
		writeTable(filepath.Join(dir, "few.jsonl"), k.pictures[:4]),
		writeQuestions(filepath.Join(dir, "questions.jsonl"), k.pictures[:6], "tiny", "words"),
		k.writeBench(),
		os.WriteFile(filepath.Join(dir, "question.txt"),
			[]byte("Rate the edit \"[INSTRUCTION]\" from 0 to 2. Answer with the digit alone."), 0o666),
	)
	if err != nil {
		return nil, err
	}
	return slices.Concat(k.trainCases(), k.judgeCases(), k.onceCases(), k.localCases(), k.tableCases()), nil
}

// spread takes so many of a list, evenly.
func spread(list []string, n int) (out []string) {
	n = min(n, len(list))
	for i := range n {
		out = append(out, list[i*len(list)/n])
	}
	return out
}

// trainCases train scorers.
func (k *kit) trainCases() (list []command) {
	config := func(mode string, steps int) string {
		return fmt.Sprintf("out: run\nbackbone: %s\nmode: %s\nsteps: %d\nbatch_size: 4\nmicro_batch: 2\nthreads: 1\n"+
			"head: {hidden: [8]}\ndata: {train: %s, validation: 0.25}\nvalidate: {every: %d}\n"+
			"checkpoint: {steps: 2, keep: 2}\ncache: {folder: store}\noptimizer: {lr: 1.0e-3}\n",
			k.model, mode, steps, filepath.Join(k.dir, "few.jsonl"), max(2, steps/3))
	}
	for _, mode := range []string{"lora", "full", "head"} {
		steps := k.steps
		if mode == "full" {
			steps = min(steps, 6) // each takes longer
		}
		list = append(list, command{
			name: "train, mode " + mode,
			args: func(out string) []string {
				file := filepath.Join(out, mode+".yaml") // of its own: two commands may share the folder
				return []string{k.program("train"), "--config", text(file, config(mode, steps))}
			},
			results: []string{"run/scorer", "run/best"},
		})
	}
	return append(list, k.ranks("train, two ranks", config("lora", min(k.steps, 8)))...)
}

// tableCases read tables.
func (k *kit) tableCases() []command {
	batch := func(out string, more ...string) []string {
		return append([]string{k.program("score"), "batch", "--scorer", k.scorer(), "--in", k.table, "--out",
			filepath.Join(out, "scores.jsonl"), "--threads", "1"}, more...)
	}
	oracle := filepath.Join(k.root, "testdata", "oracle")
	measure := func(out string, more ...string) []string {
		return append([]string{k.program("label"), "similarities", "--clip", filepath.Join(oracle, "clip", "model"), "--dino",
			filepath.Join(oracle, "dinov2", "model"), "--cache", storeOf(out), "--in", k.table, "--out",
			filepath.Join(out, "measured.jsonl"), "--threads", "1"}, more...)
	}
	return []command{{
		name:    "score batch",
		args:    func(out string) []string { return batch(out) },
		results: []string{"scores.jsonl"},
	}, {
		name:    "score batch --shard any/5",
		args:    func(out string) []string { return batch(out, "--shard", "any/5") },
		finish:  func(out string) []string { return batch(out, "--merge") },
		results: []string{"scores.jsonl"},
	}, {
		name:    "label similarities",
		args:    func(out string) []string { return measure(out) },
		results: []string{"measured.jsonl"},
		quick:   true,
	}, {
		name:    "label similarities --shard any/3",
		args:    func(out string) []string { return measure(out, "--shard", "any/3") },
		finish:  func(out string) []string { return measure(out, "--merge") },
		results: []string{"measured.jsonl"},
	}, {
		name: "label",
		args: func(out string) []string {
			return []string{k.program("label"), "--config", text(filepath.Join(out, "example.yaml"), k.example())}
		},
		results: []string{"labels/table.parquet"},
	}, {
		name:    "label, a table",
		args:    func(out string) []string { return []string{k.program("label"), "--config", k.labels(out)} },
		finish:  func(out string) []string { return []string{k.program("label"), "merge", "--config", k.labels(out)} },
		results: []string{"labels/table.parquet", "labels/report.json"},
	}}
}

// example is examples/label.yaml, whose paths start at its folder, as it is read from another one.
func (k *kit) example() string {
	example, err := os.ReadFile(filepath.Join(k.root, "examples", "label.yaml"))
	if err != nil {
		panic(err)
	}
	own := strings.ReplaceAll(string(example), "../build/example-label", "labels")
	own = strings.ReplaceAll(own, ": ../", ": "+k.root+"/")
	return strings.ReplaceAll(own, "path: sessions", "path: "+filepath.Join(k.root, "examples", "sessions"))
}

// labels writes what label is told about the table of edits.
func (k *kit) labels(out string) string {
	oracle := filepath.Join(k.root, "testdata", "oracle")
	clip, dino := filepath.Join(oracle, "clip", "model"), filepath.Join(oracle, "dinov2", "model")
	return text(filepath.Join(out, "label.yaml"), fmt.Sprintf("out: labels\nprofile: adiee-paper\n"+
		"sources: [{layout: table, name: edits, path: %s}]\nencoders: {clip: %s, dino: %s, device: cpu}\n"+
		"split: {validation: 0.2}\n", k.table, clip, dino))
}

// writeTable makes edits of pairs of pictures, each pair once.
func writeTable(path string, pictures []string) error {
	var text strings.Builder
	for i, source := range pictures {
		for j, edit := range pictures {
			if (i+j)%3 > 0 {
				continue
			}
			row := map[string]any{"id": fmt.Sprintf("%d-%d", i, j), "group": fmt.Sprint("g", i), "source": source,
				"edit": edit, "target": pictures[(j+1)%len(pictures)], "instruction": fmt.Sprint("make it picture ", j),
				"source_caption": fmt.Sprint("picture ", i), "target_caption": fmt.Sprint("picture ", j),
				"label": float64(j%3) / 2, "method": "aurora"}
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
